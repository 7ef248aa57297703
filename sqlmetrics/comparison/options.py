"""What is asked of a comparison, beside what is asked of its evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlmetrics.spec.days import Days


@dataclass(frozen=True)
class Options:
    """What is asked of a comparison; see `compare`."""

    metrics: tuple[str, ...]
    days: Days | None
    systems: tuple[str, ...] = ()
    baseline: str | None = None
    test: str = "t"
    level: float = 0.95
    margin: float = 0.0
    by: tuple[str, ...] = ()
    cluster: str | None = None
    replicates: int = 1000
    seed: int = 1
    contributions: bool = False
    movers: int = 0

    def of_runs(self, names: tuple[str, ...]) -> Options:
        """The same of tables side by side, whose first one is the baseline."""
        systems = self.systems or names
        return replace(self, systems=systems, baseline=self.baseline or systems[0])

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that queries must have."""
        own = self.cluster if self.cluster not in (None, "query_id") else None
        return tuple(dict.fromkeys([*self.by, *([own] if own else [])]))
