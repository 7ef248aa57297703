"""The faces that PyTorch's, Paddle's and Keras's training loops expect of a metric."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.evaluation.streaming.metric import StreamingMetric

INSTALL = {"torchmetrics": "torchmetrics", "paddle": "paddlepaddle", "keras": "keras"}
"""Framework -> what pip calls it."""


def framework(name: str, metric: StreamingMetric) -> Any:
    """A metric as one of a framework.

    Raises:
        SpecError: If the framework is not installed.
    """
    try:
        return MAKERS[name](metric)
    except ImportError as error:
        raise SpecError(f"{error}; to get it: pip install {INSTALL[name]}") from None


def _only(values: Mapping[str, Any]) -> Any:
    """The value if there is one, else all of them."""
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def _torchmetrics(metric: StreamingMetric) -> Any:
    import torch
    import torchmetrics

    class RankingMetric(torchmetrics.Metric):  # type: ignore[misc]
        """Ranking metrics, by sqlmetrics."""

        full_state_update = False

        def __init__(self, metric: StreamingMetric) -> None:
            super().__init__()
            self.metric = metric

        def update(self, preds: Any, target: Any, indexes: Any = None) -> None:
            self.metric.update(preds, target, indexes)

        def compute(self) -> Any:
            combined = _of_all_workers(self.metric)
            values = {
                name: torch.tensor(value, dtype=torch.float64, device=self.device)
                for name, value in combined.compute().items()
            }
            return _only(values)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """The value of this batch, which is taken in, too."""
            self.update(*args, **kwargs)
            batch = RankingMetric(_empty(self.metric))
            batch.metric.update(*args, **kwargs)
            return _only({n: torch.tensor(v) for n, v in batch.metric.compute().items()})

        def reset(self) -> None:
            super().reset()
            self.metric.reset()

    return RankingMetric(metric)


def _of_all_workers(metric: StreamingMetric) -> StreamingMetric:
    """The metric of all processes of `torch.distributed` together."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return metric
    gathered: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, metric)
    return _empty(metric).merge(*gathered)


def _empty(metric: StreamingMetric) -> StreamingMetric:
    """A metric of the same texts and conventions that was given nothing."""
    empty = copy.copy(metric)
    empty.reset()
    return empty


def _paddle(metric: StreamingMetric) -> Any:
    from paddle.metric import Metric

    class RankingMetric(Metric):  # type: ignore[misc]
        """Ranking metrics, by sqlmetrics."""

        def __init__(self) -> None:
            super().__init__()
            self.metric = metric

        def update(self, preds: Any, target: Any, indexes: Any = None, *_: Any) -> Any:
            metric.update(preds, target, indexes)

        def accumulate(self) -> Any:
            values = list(metric.compute().values())
            return values[0] if len(values) == 1 else values

        def reset(self) -> None:
            metric.reset()

        def name(self) -> Any:
            return metric.metrics[0] if len(metric.metrics) == 1 else list(metric.metrics)

    return RankingMetric()


def _keras(metric: StreamingMetric) -> Any:
    import keras

    class RankingMetric(keras.metrics.Metric):  # type: ignore[misc]
        """Ranking metrics, by sqlmetrics."""

        def __init__(self) -> None:
            super().__init__(name="ranking")
            self.metric = metric

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            arrays = [keras.ops.convert_to_numpy(tensor) for tensor in (y_pred, y_true)]
            weight = None if sample_weight is None else keras.ops.convert_to_numpy(sample_weight)
            metric.update(*arrays, weight=weight)

        def result(self) -> Any:
            return _only(metric.compute())

        def reset_state(self) -> None:
            metric.reset()

    return RankingMetric()


MAKERS: Mapping[str, Callable[[StreamingMetric], Any]] = {
    "torchmetrics": _torchmetrics,
    "paddle": _paddle,
    "keras": _keras,
}
"""Framework -> what makes the metric of it."""
