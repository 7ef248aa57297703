"""What a simulated log shall be like, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt

from sqlmetrics.clicks.simulation.model import MODELS, click_model
from sqlmetrics.errors import SpecError, unknown

CROWDED = 200
"""Events of a user in an hour that only bots have."""

BURST = 300
"""Results that a bot asks for in its hour, at least."""


LIKELIEST = 0.75
"""The chance of the likeliest click, without trust."""

MOST_PLANTED = 0.25
"""Late, early, orphan and hurried events in shares of the clicks: the likeliest click leaves
so much for them."""

COUNTS = {"requests": 1, "results": 1, "days": 1, "queries": 2, "users": 2}
"""Arguments that count something -> their least value."""

SHARES = (
    "bots",
    "duplicates",
    "late",
    "early",
    "orphans",
    "hurried",
    "zero_results",
    "test_traffic",
    "cascade",
    "trust",
    "randomised",
)
"""Arguments that are a share of something."""


@dataclass(frozen=True)
class Settings:
    """What is asked for, checked; the arguments of `simulate`."""

    requests: int
    results: int
    model: str
    seed: int
    days: int
    queries: int
    users: int
    systems: tuple[str, ...]
    bots: float
    duplicates: float
    late: float
    early: float
    orphans: float
    hurried: float
    zero_results: float
    test_traffic: float
    cascade: float
    trust: float
    randomised: float

    def __post_init__(self) -> None:
        if problems := list(self._problems()) or list(self._impossible()):
            raise SpecError(problems)

    @property
    def n_bots(self) -> int:
        """Users who are bots."""
        return max(1, round(self.bots * self.users)) if self.bots else 0

    @property
    def burst(self) -> int:
        """Requests of a bot: with one result in twenty left out, well above CROWDED clicks."""
        return max(30, ceil(BURST / self.results)) if self.bots else 0

    @property
    def total(self) -> int:
        """Requests of people and of bots."""
        return self.requests + self.n_bots * self.burst

    @property
    def fates(self) -> dict[str, float]:
        """What can become of a result beside a click -> how often, in shares of the clicks."""
        return {
            "late": self.late,
            "early": self.early,
            "orphan": self.orphans,
            "hurried": self.hurried,
        }

    def _problems(self) -> Iterator[str]:
        if self.model not in MODELS:
            yield unknown("click model", self.model, MODELS)
        yield from self._out_of_range()
        if not self.systems or len(set(self.systems)) < len(self.systems):
            yield f"systems must be one or more names, each once, given {list(self.systems)!r}"

    def _out_of_range(self) -> Iterator[str]:
        if not isinstance(self.seed, int):
            yield f"seed must be a whole number, given {self.seed!r}"
        for name, least in COUNTS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                yield f"{name} must be a whole number, {least} or more, given {value!r}"
        for name in SHARES:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                yield f"{name} must be a share from 0 to 1, given {value!r}"

    def _impossible(self) -> Iterator[str]:
        """What no log can have, though each argument is in its range."""
        planted = sum(self.fates.values())
        if planted > MOST_PLANTED:
            yield (
                f"late, early, orphans and hurried come to {planted:.4g} of the clicks; give at "
                f"most {MOST_PLANTED}"
            )
        likeliest = LIKELIEST + (1 - LIKELIEST) * self.trust
        if self.trust and likeliest * (1 + planted) > 1:
            most = (1 / (1 + planted) - LIKELIEST) / (1 - LIKELIEST)
            yield (
                f"trust {self.trust:.4g} leaves too few unclicked results to plant {planted:.4g} "
                "of the clicks as late, early, orphans and hurried; give a trust of at most "
                f"{most:.2g}"
            )
        if self.model == "cascade" and (self.cascade or self.trust):
            argument = "cascade" if self.cascade else "trust"
            yield f"{argument} only applies to the model position"
        if self.n_bots >= self.users:
            yield f"bots are {self.n_bots:,} of {self.users:,} users; leave one for people"
        elif self._busiest() > CROWDED / 2:
            yield (
                f"{self.requests:,} requests in {self.days:,} days are too many for "
                f"{self.users:,} users, who would look like bots; give more users or days"
            )

    def _busiest(self) -> float:
        """About how many events the busiest person has in an hour."""
        rate = self.requests / ((self.users - self.n_bots) * self.days * 24)
        looked_at = click_model(self.model, self.cascade).looked_at(self.results)
        # six standard deviations above the mean; 0.4 events a result that is looked at
        return (rate + 6 * sqrt(rate) + 3) * looked_at * 0.4
