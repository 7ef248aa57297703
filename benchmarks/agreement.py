"""Whether all contenders computed the same numbers: without that, times mean nothing.

One tolerance holds for all. pytrec_eval keeps scores as 32-bit floats, but those of
`data` lose nothing by it; what is left are sums taken in another order, about 1e-13.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contenders import METRICS
from benchmarks.measure import Run

TOLERANCE = 1e-9


class Disagreement(SystemExit):
    """The numbers differ; printed as it is, and the end of the benchmark."""


def check(runs: Sequence[Run]) -> None:
    """Compare every run with the first that has the metrics.

    Raises:
        Disagreement: With every number that is not the first one's, or not there.
    """
    rated = [run for run in runs if run.contender.has_metrics]
    differences = [line for run in rated[1:] for line in _differences(rated[0], run)]
    if differences:
        title = f"the contenders disagree by more than {TOLERANCE}; no time is printed"
        raise Disagreement("\n".join([title, *differences]))


def _differences(first: Run, other: Run) -> list[str]:
    lines = []
    for metric in METRICS:
        ours, theirs = first.means.get(metric), other.means.get(metric)
        if ours is None or theirs is None or not abs(ours - theirs) <= TOLERANCE:
            names = first.contender.name, other.contender.name
            lines.append(f"  {metric}: {names[0]} has {ours!r}, {names[1]} has {theirs!r}")
    return lines
