"""What correcting click rates for positions brings, and what it costs, before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.moves import stage
from sqlmetrics.clicks.propensity.weights import weighted_positions
from sqlmetrics.engines.database import Database
from sqlmetrics.sql.stage import print_template, with_stages

PAGE = "docs/position-bias.md"

ALIKE = 0.01
"""With less bias all items are looked at alike."""


@dataclass(frozen=True)
class Correction:
    """What dividing clicks by propensities does to the rates of a log.

    Bias and noise are standard deviations between pairs of a query and an item, in units of the
    mean rate. Where the noise that is added is not smaller than the bias that is taken out, the
    raw rate is as near to the truth as the corrected one, or nearer.

    Attributes:
        n_clicks: The clicks at positions whose propensities are known.
        effective_clicks: So many clicks of equal weight are as precise: the square of the sum of
            weights over the sum of their squares.
        clipped: The share of the clicks' weight that max_weight cuts off, 0 to 1.
        bias: How much raw rates differ by where items stood alone.
        noise: How much more noise corrected rates have than raw ones.
    """

    n_clicks: float
    effective_clicks: float
    clipped: float
    bias: float
    noise: float

    @property
    def helps(self) -> bool:
        """Whether it takes out more bias than it adds noise."""
        return self.bias > self.noise

    def __str__(self) -> str:
        share = self.effective_clicks / self.n_clicks
        return (
            f"{self.n_clicks:,.0f} clicks weigh as {self.effective_clicks:,.0f} equal ones "
            f"({share:.0%}); {self.clipped:.1%} of the weight is clipped; correction takes out a "
            f"bias of {self.bias:.0%} of the mean rate, and adds noise of {self.noise:.0%}"
        )

    def warning(self) -> str:
        """What a reader must know before corrected rates are used; empty if nothing."""
        if self.helps:
            return ""
        if self.bias < ALIKE:
            return (
                "there is nothing to correct: how often items were looked at differs by "
                f"{self.bias:.1%} of the mean rate alone; rate: ctr is as good; see {PAGE}"
            )
        return (
            f"correction adds more noise ({self.noise:.0%} of the mean rate) than the bias it "
            f"takes out ({self.bias:.0%}): where the ranker is good, rate: ctr ranks items "
            f"better; see {PAGE}"
        )


def correction(tables: ClickTables, engine: Database) -> Correction | None:
    """What correction does to the rates of the spec, or to `ips` if these need none.

    Args:
        tables: The stages of the log, with its propensities.
        engine: Where they are.

    Returns:
        None if there is no click at a position whose propensity is known.
    """
    of_examinations = tables.clicks.labels.rate == "coee"
    stages = [*tables.stages("item_positions"), *weighted_positions(tables)]
    select = print_template("clicks/propensity/click_weights", {})
    clicks, weighted, squared, unclipped = _numbers(engine, with_stages(stages, select))
    if not clicks:
        return None
    stages.append(stage("pair_rates", {"over_examinations": of_examinations}))
    select = print_template("clicks/propensity/correction", {})
    n, examined, examined_squared, raw, raw_noise, corrected, noise = _numbers(
        engine, with_stages(stages, select)
    )
    bias = sqrt(max(examined_squared * n / examined**2 - 1, 0.0)) if n else 0.0
    added = noise * n / corrected**2 - raw_noise * n / raw**2 if n and raw and corrected else 0.0
    return Correction(
        clicks,
        weighted**2 / squared,
        max(1 - weighted / unclipped, 0.0),
        bias,
        sqrt(max(added, 0.0)),
    )


def _numbers(engine: Database, select: str) -> list[float]:
    (row,) = engine.rows(select)
    return [float(number or 0) for number in row]
