"""Streaming metrics in the training loops of PyTorch, Paddle and Keras, by their own packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sqlmetrics as sm
from sqlmetrics.evaluation.streaming.frameworks import INSTALL

pytestmark = [
    pytest.mark.long,
    # of the frameworks: about a compiler, and about what NumPy 2 asks of PyTorch's tensors
    pytest.mark.filterwarnings("ignore:No ccache found:UserWarning"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
SCORES = np.array([[0.9, 0.1, 0.5, 0.3], [0.2, 0.8, 0.6, 0.4], [0.1, 0.2, 0.3, 0.4]], np.float32)
GRADES = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], np.float32)
METRICS = ["ndcg@2", "hit@1"]


@pytest.fixture
def package(request: pytest.FixtureRequest) -> Any:
    """A framework, or a skip that says how to get it."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        return __import__(request.param)
    except ImportError:
        if os.environ.get("REQUIRE_ENGINES") == "1":
            raise
        pytest.skip(f"{request.param} is not installed: pip install {INSTALL[request.param]}")


def batches() -> Iterator[tuple[Any, Any]]:
    """Two batches."""
    yield SCORES[:2], GRADES[:2]
    yield SCORES[2:], GRADES[2:]


@pytest.mark.parametrize("package", ["torchmetrics"], indirect=True)
def test_torchmetrics_prints_the_same(package: Any) -> None:
    """Of its documentation's example, and of random batches without ties, per metric."""
    import torch

    preds = torch.tensor([0.2, 0.3, 0.5, 0.1, 0.3, 0.5, 0.2])
    target = torch.tensor([False, False, True, False, True, False, True])
    indexes = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    chance = np.random.default_rng(7)
    # Above 0: torchmetrics takes what has a score of 0 or less for irrelevant.
    scores = torch.tensor((chance.permutation(2000) + 1).reshape(100, 20) / 2000.0)
    grades = torch.tensor(chance.integers(0, 2, (100, 20)))
    pairs = {
        "mrr": package.retrieval.RetrievalMRR(),
        "ap": package.retrieval.RetrievalMAP(),
        "ndcg@5": package.retrieval.RetrievalNormalizedDCG(top_k=5),
        "precision@2": package.retrieval.RetrievalPrecision(top_k=2),
        "recall@2": package.retrieval.RetrievalRecall(top_k=2),
        "hit@2": package.retrieval.RetrievalHitRate(top_k=2),
    }
    for name, theirs in pairs.items():
        ours = sm.StreamingMetric(name, preset="torchmetrics").to_torchmetrics()
        assert isinstance(ours, package.Metric)
        for metric in (ours, theirs):
            metric.update(preds, target, indexes=indexes)
        assert float(ours.compute()) == pytest.approx(float(theirs.compute()), abs=1e-6), name
        for start in range(0, 100, 30):
            some, labels = scores[start : start + 30], grades[start : start + 30]
            at = torch.arange(start, start + len(some)).repeat_interleave(20) + 10
            ours.update(some, labels)
            theirs.update(some.flatten(), labels.flatten(), indexes=at)
        assert float(ours.compute()) == pytest.approx(float(theirs.compute()), abs=1e-6), name


@pytest.mark.parametrize("package", ["torchmetrics"], indirect=True)
def test_torchmetrics_forward_gives_the_batch_and_keeps_it(package: Any) -> None:
    import torch

    ours = sm.StreamingMetric(METRICS).to_torchmetrics()
    values = [ours(torch.tensor(a), torch.tensor(b)) for a, b in batches()]
    assert [float(value["hit@1"]) for value in values] == [0.0, 1.0]
    assert float(ours.compute()["hit@1"]) == pytest.approx(1 / 3)
    ours.reset()
    with pytest.warns(UserWarning, match="called before the ``update``"):
        assert torch.isnan(ours.compute()["hit@1"])


def worker(rank: int, port: int) -> None:
    """One of two processes: each has a batch, both have the numbers of both."""
    import torch
    import torch.distributed as workers

    address = f"tcp://127.0.0.1:{port}"
    workers.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    ours = sm.StreamingMetric("hit@1").to_torchmetrics()
    scores, grades = list(batches())[rank]
    ours.update(torch.tensor(scores), torch.tensor(grades))
    assert abs(float(ours.compute()) - 1 / 3) < 1e-12
    workers.destroy_process_group()


@pytest.mark.parametrize("package", ["torchmetrics"], indirect=True)
def test_workers_of_torch_are_merged(package: Any) -> None:
    import socket

    import torch.multiprocessing as processes

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.spawn(worker, (port,), nprocs=2)


@pytest.mark.parametrize("package", ["paddle"], indirect=True)
def test_paddle_takes_it_as_its_own(package: Any) -> None:
    ours = sm.StreamingMetric(METRICS).to_paddle()
    assert isinstance(ours, package.metric.Metric)
    for scores, grades in batches():
        ours.update(package.to_tensor(scores), package.to_tensor(grades))
    assert ours.name() == METRICS
    assert ours.accumulate()[1] == pytest.approx(1 / 3)
    ours.reset()


@pytest.mark.parametrize("package", ["paddle"], indirect=True)
def test_paddle_prints_the_same(package: Any) -> None:
    """Accuracy of the k best classes, of its documentation's example, is hit@k."""
    scores = [
        [0.1, 0.2, 0.3, 0.4],
        [0.1, 0.4, 0.3, 0.2],
        [0.1, 0.2, 0.4, 0.3],
        [0.1, 0.2, 0.3, 0.4],
    ]
    theirs = package.metric.Accuracy(topk=(1, 2))
    classes = package.to_tensor([[0], [1], [2], [3]])
    theirs.update(theirs.compute(package.to_tensor(scores), classes))
    ours = sm.StreamingMetric(["hit@1", "hit@2"]).to_paddle()
    ours.update(package.to_tensor(scores), package.nn.functional.one_hot(classes.flatten(), 4))
    assert ours.accumulate() == pytest.approx(theirs.accumulate())
    assert ours.accumulate()[0] == 0.75


@pytest.mark.parametrize("package", ["keras"], indirect=True)
def test_keras_takes_it_as_its_own(package: Any) -> None:
    ours = sm.StreamingMetric("hit@1").to_keras()
    assert isinstance(ours, package.metrics.Metric)
    for scores, grades in batches():
        ours.update_state(grades, scores)
    assert ours.result() == pytest.approx(1 / 3)
    ours.reset_state()
    ours.update_state(GRADES, SCORES, sample_weight=np.array([1, 1, 2]))
    assert ours.result() == pytest.approx(0.5)
    model = package.Sequential([package.layers.Dense(4)])
    model.compile(loss="mse", metrics=[sm.StreamingMetric("hit@1").to_keras()], run_eagerly=True)
    results = model.evaluate(SCORES, GRADES, batch_size=2, verbose=0)
    assert 0 <= results[1] <= 1


@pytest.mark.parametrize("name", INSTALL)
def test_a_framework_that_is_not_there_says_how_to_get_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    for module in ("torch", "paddle.metric"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(sm.SpecError, match=f"to get it: pip install {INSTALL[name]}"):
        getattr(sm.StreamingMetric("hit@1"), f"to_{name}")()
