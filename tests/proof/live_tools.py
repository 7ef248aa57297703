"""The tools that presets reproduce, asked live, on worlds that suit each."""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from conftest import peer
from peer_data import MEAN, TOY, Data
from tools import Labels, Lists, Tool

SEEDS = (1, 2, 3)
DOUBLE = 1e-9
DECIMALS5 = 5.1e-6
FLOAT32 = 2e-6  # a sum of 30 terms of 32 bits
Key = tuple[str, str]
"""Our text of a metric, and a query or MEAN."""
Pair = tuple[float | None, float]
"""Our value, and the tool's."""


@dataclass(frozen=True)
class Compared:
    """A preset, and the data on which its tool does what the preset says."""

    preset: str
    tool: str = ""
    tied: tuple[str, ...] | None = None
    """The metrics whose order of equal scores is the preset's; None if all are."""
    binary: bool = False
    lengths: tuple[int, int] = (1, 30)
    queries: int = 30
    tolerance: float = DOUBLE
    only: tuple[str, ...] = ("",)
    without: tuple[str, ...] = ()
    """Metrics that fail, or are wrong, on lists with nothing relevant or shorter than k."""
    findable: bool = False
    """Whether every list has something relevant to find, in it or not."""
    labelled: bool = False
    """Whether every item of a list has a label, 0 where it would have none."""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.preset, *self.only)))

    @property
    def adapter(self) -> Tool:
        """The module of the tool."""
        return import_module(f"tools.{self.tool or self.preset}_tool")

    def texts(self, *, ties: bool) -> list[str]:
        """The metrics that can be compared on data with or without equal scores."""
        prefixes = self.tied if ties and self.tied is not None else ("",)
        return [
            text
            for text in self.adapter.metrics
            if text.startswith(self.only)
            and text.startswith(prefixes)
            and not (self.without and text.startswith(self.without))
        ]

    def data(self, data: Data) -> Data:
        """The data as the tool knows it."""
        labels = data.labels
        if self.binary:
            labels = {q: {i: min(g, 1) for i, g in items.items()} for q, items in labels.items()}
        if self.labelled:
            labels = labels | {
                query: dict.fromkeys(scores, 0) | dict(labels.get(query, {}))
                for query, scores in data.lists.items()
            }
        lists = {
            query: scores
            for query, scores in data.lists.items()
            if len(scores) >= self.lengths[0]
            and (not self.findable or any(labels.get(query, {}).values()))
        }
        return Data(lists, {query: items for query, items in labels.items() if items})

    def world(self, seed: int, *, ties: bool) -> Data:
        """Random data, as the tool knows it; 0 is the toy."""
        if not seed:
            return self.data(TOY if ties else Data(TOY.untied().lists, TOY.labels))
        return self.data(world(seed, ties=ties, lengths=self.lengths, queries=self.queries))


NONE: tuple[str, ...] = ()
LIVE = (
    Compared("trec_eval_9", "pytrec_eval"),
    Compared("ir_measures"),
    Compared("msmarco"),
    Compared("ranx", lengths=(1, 15)),  # of longer lists its sort is not stable
    Compared("sklearn", lengths=(2, 30)),  # it refuses a list of one item
    Compared("torchmetrics", tied=("ndcg",), tolerance=FLOAT32),
    Compared("ignite", tied=("ndcg",), tolerance=FLOAT32),
    Compared("spark_mllib", queries=10),
    Compared("recommenders"),
    Compared("mind", tied=NONE, binary=True),
    Compared("replay"),
    Compared("rectools"),
    Compared("rectools_achievable"),
    Compared("recbole", tied=NONE),
    Compared("lenskit", without=("ap",)),
    Compared("lenskit", only=("ap",), findable=True),  # it divides by 0 otherwise
    Compared("evidently", tied=NONE, without=("ap",)),
    Compared("evidently", only=("ap",), tied=NONE, lengths=(5, 30)),  # see test_presets
    Compared("lightgbm"),
    Compared("xgboost"),
    Compared("xgboost_minus"),
    Compared("catboost"),
    Compared("llamaindex"),
    Compared("haystack"),
    Compared("ragas"),
    Compared("deepeval"),
    Compared("trulens"),
    Compared("phoenix", labelled=True),
    Compared("mlflow"),
    Compared("sentence_transformers"),
    Compared("pyvespa"),
    Compared("beir", tolerance=DECIMALS5),
    Compared("beir_custom", tolerance=DECIMALS5, without=("recall",)),
    Compared("beir_custom", only=("recall",), tolerance=DECIMALS5, findable=True),  # / 0 else
    Compared("mteb", tolerance=DECIMALS5),
    Compared("daisyrec"),
)
BY_PRESET = {compared.preset: compared for compared in reversed(LIVE)}
SLOW = ("ranx", "spark_mllib")  # a minute to compile; a minute of Spark jobs
ELSEWHERE = {"house": "proof/test_properties.py", "trec_eval": "proof/test_trec_data.py"}
"""Presets without a tool to ask here, and the tests that compare them."""


def marks(preset: str) -> list[pytest.MarkDecorator]:
    """Its tests share what was computed (--dist loadgroup); the slow ones are for `-m long`."""
    group = pytest.mark.xdist_group(preset)
    return [group, pytest.mark.long] if preset in SLOW else [group]


@cache
def world(seed: int, *, ties: bool, lengths: tuple[int, int], queries: int) -> Data:
    """Random lists; scores above 0, and numbers that 32 bits can tell apart."""
    rng = random.Random(seed)
    lists: Lists = {}
    labels: Labels = {}
    for number in range(queries):
        length = rng.randint(*lengths)
        pool = [f"{rng.choice('aZ-é漢😀')}{item}" for item in range(length + 6)]
        rng.shuffle(pool)
        scores = rng.choices(range(1, 5), k=length) if ties else rng.sample(range(1, 400), length)
        lists[f"q{number}"] = dict(zip(pool, map(float, scores), strict=False))
        labelled = rng.sample(pool, rng.randint(1, len(pool)))
        grades = rng.choices((0, 1, 2, 3), (4, 3, 2, 1), k=len(labelled))
        labels[f"q{number}"] = dict(zip(labelled, grades, strict=True))
    some = queries // 8
    for irrelevant in rng.sample(list(lists), some):
        labels[irrelevant] = dict.fromkeys(labels[irrelevant], 0)
    for missing in rng.sample(list(lists), some):
        del lists[missing]
    for unlabelled in rng.sample(list(lists), some):
        del labels[unlabelled]
    return Data(lists, labels)


def pairs(compared: Compared, data: Data, texts: list[str]) -> dict[Key, Pair]:
    """Our value and the tool's, for every query that the tool counts and of the mean."""
    tool = compared.adapter
    ours = data.ours(texts, compared.preset) if texts else {}
    theirs: dict[Key, float] = {}
    for text in texts:
        by_query = tool.per_query(data.lists, data.labels, text)
        theirs |= {(text, query): value for query, value in by_query.items()}
        theirs[text, MEAN] = tool.mean(data.lists, data.labels, text)
    return {key: (ours.get(key), value) for key, value in theirs.items()}


@cache
def world_pairs(compared: Compared, seed: int, *, ties: bool) -> Mapping[Key, Pair]:
    """What both say of a random world, or of the toy."""
    return pairs(compared, compared.world(seed, ties=ties), compared.texts(ties=ties))


def apart(ours: float | None, theirs: float) -> float:
    """How far two values are apart; NaN is NaN, and nothing is infinitely far from a number."""
    if ours is None:
        return math.inf
    if math.isnan(theirs):
        return 0.0 if math.isnan(ours) else math.inf
    return abs(ours - theirs)


CASES = tomllib.loads((Path(__file__).parents[1] / "tools" / "worked.toml").read_text())["case"]


def stated(case: Mapping[str, Any]) -> dict[Key, Pair]:
    """Our value of all that a case states, and what it states."""
    lists = {
        query: {item: -float(position) for position, item in enumerate(items)}
        for query, items in case["rankings"].items()
    }
    labels = dict(case.get("labels", {}))
    for query in case.get("grades", {}).get("queries", ()):
        labels[query] = {f"d{number}": number % 3 for number in range(1, 21)}
    values = {(text, MEAN): value for text, value in case.get("means", {}).items()}
    for text, by_query in case.get("values", {}).items():
        values |= {(text, query): value for query, value in by_query.items()}
    ours = Data(lists, labels).ours({text for text, _ in values}, case["preset"])
    return {key: (ours.get(key), value) for key, value in values.items()}


def ranx_number(lists: Lists, labels: Labels, name: str) -> dict[str, float]:
    """What ranx says of each query."""
    ranx = peer("ranx")
    run = ranx.Run({query: {**items} for query, items in lists.items()})
    ranx.evaluate(ranx.Qrels(labels), run, [name])
    return {query: float(value) for query, value in run.scores[name].items()}


def tool(preset: str) -> Tool:
    return BY_PRESET[preset].adapter
