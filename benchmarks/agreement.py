"""Whether all contenders computed the same numbers: without that, times mean nothing.

One tolerance holds for all. pytrec_eval keeps scores as 32-bit floats, but those of
`data` lose nothing by it; what is left are sums taken in another order, about 1e-13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.measure import Run

TOLERANCE = 1e-9


class Disagreement(SystemExit):
    """The numbers differ; printed as it is, and the end of the benchmark."""


def check(runs: Sequence[Run]) -> None:
    """Compare every run with the first that has a metric.

    Raises:
        Disagreement: With every number that is not the first one's, or not there.
    """
    rated = [run for run in runs if run.contender.has_metrics]
    wanted = agreed(rated)
    differences = [line for run in rated for line in _differences(wanted, run)]
    if differences:
        title = f"the contenders disagree by more than {TOLERANCE}; no time is printed"
        raise Disagreement("\n".join([title, *differences]))


def agreed(rated: Sequence[Run]) -> dict[str, float]:
    """What the first that has a metric says of it."""
    return {metric: mean for run in reversed(rated) for metric, mean in run.means.items()}


def _differences(wanted: Mapping[str, float], run: Run) -> list[str]:
    lines = []
    for metric in run.contender.metrics:
        first, mean = wanted.get(metric), run.means.get(metric)
        if first is None or mean is None or not abs(first - mean) <= TOLERANCE:
            name = run.contender.name
            lines.append(f"  {metric}: the first has {first!r}, {name} has {mean!r}")
    return lines
