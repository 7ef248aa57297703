"""The query that learns click models, and holds them against other requests; no iteration.

shown_items ─┬─> learned_counts ─┬─> means ──────────┐
             │                   └─> item_chances ───┤
             ├─> position_rates ─────────────────────┤
             └───────────────────────────────────────┴─> held_out_items ─> looked_at ─┐
                                                       fits <─ after_clicks <─────────┘
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.models.held_out import HeldOut
from sqlmetrics.clicks.propensity.curve import PropensityCurve, propensities
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double

SMALLEST = 1e-6
"""No chance of what happened is smaller: a click that a model rules out costs ln(1e-6)."""

LOWEST = -600.0
"""The logarithm below which a product of chances is not carried on; PostgreSQL has no exp(-746)."""


@dataclass(frozen=True)
class Prior:
    """What is added to what is known of an item.

    Attributes:
        weight: As many more impressions (clicks, for satisfaction).
        mean: The rate that they have; None for that of all items together.
    """

    weight: float = 10.0
    mean: float | None = None


@dataclass(frozen=True)
class Rate:
    """What is learned of a query's text and an item: something over something."""

    done: str
    shown: str


@dataclass(frozen=True)
class Model:
    """A model of how people click.

    Attributes:
        rates: What it learns of an item -> from which counts.
        chance: Of a click, whatever was clicked above.
        given: Of a click, after what was clicked above; empty if that does not matter.
    """

    rates: Mapping[str, Rate]
    chance: str
    given: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """`chance`, and `given` if that is another."""
        return ("chance", "given") if self.given else ("chance",)


MODELS: Mapping[str, Model] = {
    "position_based": Model(
        {"position_attractiveness": Rate("n_clicks", "n_looked_at")},
        "position_attractiveness * propensity",
    ),
    "sdbn": Model(
        {
            "sdbn_attractiveness": Rate("n_clicks", "n_down_to_last"),
            "satisfaction": Rate("n_last_clicks", "n_clicks"),
        },
        "sdbn_attractiveness * sdbn_looked_at",
        "sdbn_attractiveness * sdbn_after_clicks",
    ),
    "cascade": Model(
        {"cascade_attractiveness": Rate("n_first_clicks", "n_down_to_first")},
        "cascade_attractiveness * cascade_looked_at",
        "cascade_attractiveness\n    * case when position > first_click then 0 else 1 end",
    ),
    "ctr": Model({"ctr": Rate("n_clicks", "n_shown")}, "ctr"),
    "position_ctr": Model({}, "position_ctr"),
}
"""The models by name; the last two are what they have to beat: the click rate of the item alone,
and that of the position alone."""


def learnable_models(curve: PropensityCurve | None) -> dict[str, Model]:
    """The models that can be learned: without propensities, all but the position-based one."""
    return {name: model for name, model in MODELS.items() if curve or name != "position_based"}


def fits(tables: ClickTables, parts: HeldOut, curve: PropensityCurve | None, prior: Prior) -> str:
    """How well the models fit, as a `select`: one row per position of the held-out requests.

    Its columns: position, n_shown, n_clicked, n_learned (clicks that are learned from), and of
    each model NAME_chance_ln and, if that is another, NAME_given_ln: the sums of the logarithms
    of the chances of what happened, without and with knowing what was clicked above.
    """
    stages = [*parts.rows.stages(tables, "answers"), *_stages(tables, parts, curve, prior)]
    return with_stages(stages, print_template("clicks/models/fits_and_learned", {}))


def _stages(
    tables: ClickTables, parts: HeldOut, curve: PropensityCurve | None, prior: Prior
) -> Iterator[Stage]:
    models = learnable_models(curve)
    rates = {name: rate for model in models.values() for name, rate in model.rates.items()}
    rows = {"of": parts.rows.of(tables), "impressions": parts.rows.name}
    shared_view = {**rows, "has_propensities": bool(curve)}
    last = double(curve.rows[-1].propensity) if curve else ""
    yield _stage("request_parts", held_out=parts.held_out, learned=parts.learned, **shared_view)
    yield _stage("shown_items", **shared_view)
    if curve:
        yield propensities(curve)
    total = tables.names.at.sum
    yield _stage("learned_counts", last_propensity=last, sum=total, **shared_view)
    exact = tables.names.at.exact
    means = [
        replace(column, sql=exact(column.sql))
        for column in (_mean(name, rate, prior) for name, rate in rates.items())
    ]
    yield _stage("means", columns=[*means, Column("sum(n_clicks)", "n_learned")])
    weight = double(prior.weight)
    clicked = f"(sum(shown_items.is_clicked) + {weight} * max(means.ctr))"
    yield _stage("position_rates", rate=f"{clicked}\n        / (count(*) + {weight})")
    yield _stage(
        "item_chances", columns=[_smoothed(name, rate, weight) for name, rate in rates.items()]
    )
    learned = [Column(f"coalesce(item_chances.{name}, means.{name})", name) for name in rates]
    learned.append(Column("coalesce(position_rates.position_ctr, means.ctr)", "position_ctr"))
    if curve:
        learned.append(Column(f"coalesce(propensities.propensity, {last})", "propensity"))
    yield _stage("held_out_items", columns=learned, **shared_view)
    yield _stage("looked_at")
    yield _stage("after_clicks", lowest=double(LOWEST))
    kinds = {
        f"{name}_{kind}": getattr(model, kind)
        for name, model in models.items()
        for kind in model.kinds
    }
    yield _stage(
        "fits",
        chances=[Column(sql, name) for name, sql in kinds.items()],
        columns=[Column(exact(_logarithms(name)), f"{name}_ln") for name in kinds],
    )


def _mean(name: str, rate: Rate, prior: Prior) -> Column:
    """The rate of all items together, and of half a click on one impression; never 0 or 1."""
    if prior.mean is not None:
        return Column(f"max({double(prior.mean)})", name)
    numerator, denominator = (f"coalesce(sum({column}), 0e0)" for column in (rate.done, rate.shown))
    return Column(f"({numerator} + 0.5e0)\n    / ({denominator} + 1e0)", name)


def _smoothed(name: str, rate: Rate, weight: str) -> Column:
    """The rate of an item, with its prior."""
    numerator, denominator = (
        f"({rate.done} + {weight} * means.{name})",
        f"({rate.shown} + {weight})",
    )
    share = f"{numerator}\n    / {denominator}"
    if name != "position_attractiveness":
        return Column(share, name)
    # clicks over propensities may be above 1
    most = double(1 - SMALLEST)
    below = f"{numerator}\n            < {denominator} * {most}"
    share = share.replace("\n", "\n        ")
    return Column(f"case\n    when {below}\n        then {share}\n    else {most}\nend", name)


def _logarithms(chance: str) -> str:
    """The sum of the logarithms of the chances of what happened."""
    return (
        f"sum(ln(case\n"
        f"    when is_clicked = 1 and {chance} > {double(SMALLEST)}\n        then {chance}\n"
        f"    when is_clicked = 0 and {chance} < {double(1 - SMALLEST)}\n"
        f"        then 1e0 - {chance}\n"
        f"    else {double(SMALLEST)}\nend))"
    )


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/models/{name}", view)
