"""Which model of how people click fits a log: what they learn, and how well they predict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any, overload

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS
from sqlmetrics.clicks.propensity.curve import PropensityCurve, propensities
from sqlmetrics.clicks.segment import ByGroup, Rows, by_group
from sqlmetrics.errors import InputError
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double
from sqlmetrics.tables.table import Table, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_tables, kinds_of

# Which requests models learn from, and which they are held against.

SHARE = 5
"""The last of so many parts of the days is held out."""

LOTS = ("0", "1", "2")
"""Without times, requests are held out whose id's MD5 starts with one of these of 16 digits."""


@dataclass(frozen=True)
class HeldOut:
    """The requests that a model is held against.

    Attributes:
        rows: The impressions that are left.
        held_out: What such a request meets, as SQL over the impressions of one.
        learned: What a request meets that is learned from; empty for all others.
        words: Which these are, for a person.
    """

    rows: Rows
    held_out: str
    words: str
    learned: str = ""


def held_out(log: CleanLog, rows: Rows | None = None) -> HeldOut:
    """The requests to hold out: those of `evaluation`, else of the last fifth of the days.

    One day at least; of a log of one day, or without times, 3 in 16 requests by the MD5 of their
    ids, the same ones on every database. What is learned from are those of `labels.window`, or
    all others. The days are those of the whole log, whichever rows are asked for.

    Args:
        log: The log.
        rows: Whose impressions; default: all.
    """
    clicks, tables = log.tables.clicks, log.tables
    rows = rows or Rows(tables.kept_stage)
    stage_name = rows.name
    if clicks.evaluation:
        began, window = f"min({stage_name}.shown_at)", clicks.labels.window
        learned = " and ".join(tables.names.day_conditions(window, began)) if window else ""
        words = f"requests {clicks.evaluation}"
        return HeldOut(
            rows,
            " and ".join(tables.names.day_conditions(clicks.evaluation, began)),
            words,
            learned,
        )
    days = _days(log, tables.kept_stage) if "time" in tables.names.impressions else []
    if len(days) > 1:
        last = max(len(days) // SHARE, 1)
        start = datetime.fromtimestamp(0, UTC) + timedelta(days[-last])
        late = Days(start=start.date())
        words = f"requests {late}, {last} of {len(days)} days"
        return HeldOut(
            rows,
            " and ".join(tables.names.day_conditions(late, f"min({stage_name}.shown_at)")),
            words,
        )
    translation = tables.names.at
    lot = translation.expression(translation.dialect.hashed, f"{stage_name}.request_id")
    lots = ", ".join(f"'{digit}'" for digit in LOTS)
    words = f"{len(LOTS)} in 16 requests, by their ids"
    return HeldOut(rows, f"substr({lot}, 1, 1) in ({lots})", words)


def _days(log: CleanLog, stage_name: str) -> list[int]:
    """The days on which requests began, counted from 1970."""
    number = log.tables.names.day_number("started_at")
    view = {"of": log.tables.of, "impressions": stage_name, "day_number": number}
    select = print_template("clicks/models/days", view)
    rows = log.engine.rows(with_stages(log.tables.stages(stage_name), select))
    return sorted(int(day) for (day,) in rows if day is not None)


# The query that learns click models, and holds them against other requests; no iteration.
#
# shown_items ─┬─> learned_counts ─┬─> means ──────────┐
#              │                   └─> item_chances ───┤
#              ├─> position_rates ─────────────────────┤
#              └───────────────────────────────────────┴─> held_out_items ─> looked_at ─┐
#                                                        fits <─ after_clicks <─────────┘

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

    numerator: str
    denominator: str


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
    numerator, denominator = (
        f"coalesce(sum({column}), 0e0)" for column in (rate.numerator, rate.denominator)
    )
    return Column(f"({numerator} + 0.5e0)\n    / ({denominator} + 1e0)", name)


def _smoothed(name: str, rate: Rate, weight: str) -> Column:
    """The rate of an item, with its prior."""
    numerator, denominator = (
        f"({rate.numerator} + {weight} * means.{name})",
        f"({rate.denominator} + {weight})",
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


# How well click models predict held-out requests, and what follows from the best one.

LONGEST = 30
"""As many positions are printed."""

MISSING = "position_based is not among them: "

NEAR = 0.01
"""A model whose perplexity above 1 is less than so much larger than that of the best fits alike."""

FOLLOWS: Mapping[str, str] = {
    "position_based": "a click depends only on the position and the item: correct labels and "
    "metrics with propensities of positions",
    "sdbn": "clicks above decide how far users look, which propensities of positions cannot "
    "show; learn labels with clicks.labels.rate: sdbn",
    "cascade": "users stop at the first click, which propensities of positions cannot show; learn "
    "labels with clicks.labels.rate: sdbn",
    "ctr": "the click rate of an item predicts as well as any model of positions: leave it "
    "uncorrected",
    "position_ctr": "no model predicts more than the position does: items are shown too rarely to "
    "learn from, or clicks do not tell them apart",
}
"""Model -> what to do where it fits best."""


@dataclass(frozen=True)
class PositionFit:
    """How well a model predicts the clicks at one position.

    Attributes:
        position: From 1.
        n_shown: Held-out impressions there.
        n_clicked: Those that were clicked.
        log_likelihood: The mean logarithm of the chance that the model gave to what happened
            there, after what was clicked above; at most 0.
        perplexity: 2 to the mean number of bits that the model lacks to know what happened,
            without a look at the clicks above: 1 if it knew, 2 if it guessed like a coin.
    """

    position: int
    n_shown: int
    n_clicked: int
    log_likelihood: float
    perplexity: float


@dataclass(frozen=True)
class ModelFit:
    """How well a model predicts held-out requests.

    Attributes:
        model: Its name.
        by_position: Position by position.
    """

    model: str
    by_position: tuple[PositionFit, ...]

    @property
    def log_likelihood(self) -> float:
        """The mean over impressions; at most 0, higher is better."""
        n_impressions = sum(position.n_shown for position in self.by_position)
        return (
            sum(position.log_likelihood * position.n_shown for position in self.by_position)
            / n_impressions
        )

    @property
    def perplexity(self) -> float:
        """The mean over positions, each with the same weight; from 1, lower is better."""
        return sum(position.perplexity for position in self.by_position) / len(self.by_position)


@dataclass(frozen=True, repr=False)
class ModelFits(Tabular):
    """How well click models fit a log; it prints as tables, the best model first.

    Attributes:
        fits: By perplexity, the best first.
        held_out: Which requests they were held against, for a person.
        notes: What was left out, and why.
    """

    fits: tuple[ModelFit, ...]
    held_out: str
    notes: tuple[str, ...] = ()

    def __getitem__(self, model: str) -> ModelFit:
        return next(fit for fit in self.fits if fit.model == model)

    @property
    def best(self) -> ModelFit:
        """The model with the lowest perplexity."""
        return self.fits[0]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a model, for JSON: model, log_likelihood, perplexity."""
        return [
            {"model": fit.model, "log_likelihood": fit.log_likelihood, "perplexity": fit.perplexity}
            for fit in self.fits
        ]

    def _arrow_tables(self) -> ArrowTables:
        models = {"model": "string", "log_likelihood": "double", "perplexity": "double"}
        positions = (
            {"model": fit.model, **vars(position)}
            for fit in self.fits
            for position in fit.by_position
        )
        rows = {"models": self.to_dicts(), "positions": positions}
        kinds = {"models": models, "positions": {"model": "string", **kinds_of(PositionFit)}}
        return arrow_tables(rows, kinds)

    def _blocks(self) -> Iterator[Block]:
        n_impressions = sum(position.n_shown for position in self.best.by_position)
        yield f"held out: {self.held_out}; {n_impressions:,} impressions"
        rows = [[f.model, f"{f.log_likelihood:.4f}", f"{f.perplexity:.4f}"] for f in self.fits]
        yield Table(["model", "log-likelihood", "perplexity"], rows, 1)
        cells = [_line(number, self.fits) for number in range(len(self.best.by_position))]
        names = ["position", "shown", "clicked", *(fit.model for fit in self.fits)]
        n_more = len(cells) - LONGEST
        yield (
            "perplexity by position",
            Table(names, cells[:LONGEST], 0),
            f"... {n_more:,} more positions" if n_more > 0 else "",
        )
        yield wrapped(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"best: {self.best.model}: {FOLLOWS[self.best.model]}"
        if near := [fit.model for fit in self.fits[1:] if self._is_near(fit)]:
            yield f"hardly worse: {', '.join(near)}; a larger log may separate them"
        likeliest = max(self.fits, key=lambda fit: fit.log_likelihood)
        if likeliest is not self.best and likeliest.log_likelihood > self.best.log_likelihood:
            yield (
                f"{likeliest.model} is best by log-likelihood, which uses the clicks above: users "
                "do not all click by one model"
            )
        yield from self.notes

    def _is_near(self, fit: ModelFit) -> bool:
        return fit.perplexity - 1 < (self.best.perplexity - 1) * (1 + NEAR)


@overload
def click_models(
    log: CleanLog,
    *,
    curve: PropensityCurve | None = None,
    prior: Prior | None = None,
    by: None = None,
) -> ModelFits: ...


@overload
def click_models(
    log: CleanLog, *, curve: PropensityCurve | None = None, prior: Prior | None = None, by: str
) -> ByGroup[ModelFits]: ...


def click_models(
    log: CleanLog,
    *,
    curve: PropensityCurve | None = None,
    prior: Prior | None = None,
    by: str | None = None,
) -> ModelFits | ByGroup[ModelFits]:
    """Compare how well click models, learned on one part of a log, predict the other part.

    Args:
        log: The cleaned log.
        curve: The propensities of the position-based model. Default: those of the spec, else
            harvested; a log that cannot tell them has no such model. Positions below the last known
            one get its propensity.
        prior: What is added to the counts of an item. Default: ten impressions with the mean rate
            of all items.
        by: A column of `segments`, such as the device: models are learned and tested for each of
            its values alone. A value that cannot be learned is left out, with a note.

    Raises:
        SpecError: If `by` is not a segment.
        InputError: If no request is left to learn from or to test on, no learned request has a
            click, or the log cannot tell the propensities that the spec asks for.
    """
    curve, note = (curve, "") if curve else _curve(log, by)
    if by is None:
        return _fits(log, Rows(log.tables.kept_stage), curve, note, prior)

    def of_group(rows: Rows) -> ModelFits:
        group_curve = curve.of_group(rows.value) if curve else None
        return _fits(
            log,
            rows,
            group_curve,
            note or ("" if group_curve else MISSING + "no propensity"),
            prior,
        )

    return by_group(log, log.tables.kept_stage, by, of_group)


def _fits(
    log: CleanLog, group_rows: Rows, curve: PropensityCurve | None, note: str, prior: Prior | None
) -> ModelFits:
    """The same of some requests."""
    parts = held_out(log, group_rows)
    rows = log.engine.records(fits(log.tables, parts, curve, prior or Prior()))
    _check(log, parts, rows)
    rows.sort(key=lambda row: int(row["position"]))
    model_fits = [ModelFit(name, tuple(_positions(name, rows))) for name in learnable_models(curve)]
    model_fits.sort(key=lambda fit: (fit.perplexity, list(MODELS).index(fit.model)))
    return ModelFits(tuple(model_fits), parts.words, (note,) if note else ())


def _curve(log: CleanLog, by: str | None) -> tuple[PropensityCurve | None, str]:
    """The propensities; or why there are none."""
    clicks = log.tables.clicks
    if clicks.propensity.by not in (None, by):
        differ = f"its propensities differ by {clicks.propensity.by}"
        return None, f"{MISSING}{differ}; ask for each value by itself: by {clicks.propensity.by}"
    if clicks.columns is not None and clicks.columns.query is None and not clicks.propensity.given:
        return None, f"{MISSING}propensities are learned by the text of a query"
    group_update = {} if clicks.propensity.given else {"by": by}
    propensity_settings = clicks.propensity.model_copy(update={"replicates": 0, **group_update})
    quick = replace(
        log.tables, clicks=clicks.model_copy(update={"propensity": propensity_settings})
    )
    try:
        return replace(log, tables=quick).estimate_propensities().curve, ""
    except InputError as error:
        if propensity_settings.is_known:
            raise
        return None, f"{MISSING}{str(error).splitlines()[0]}"


def _check(log: CleanLog, parts: HeldOut, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError if there is nothing to learn from, or to be held against."""
    if not rows and not log.counts().get((IMPRESSIONS, None)):
        raise log.absence()
    if not rows:
        raise InputError(
            f"no request is held out ({parts.words}): models learn from some requests and are "
            "tested on others; give a longer log"
        )
    if not rows[0]["n_learned"]:
        raise InputError(
            "no click is left to learn from: models learn from the requests that are not held "
            f"out ({parts.words}); give a longer log"
        )


def _positions(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[PositionFit]:
    for row in rows:
        n_shown = int(row["n_shown"])
        chance = float(row[f"{name}_chance_ln"]) / n_shown
        conditional = row.get(f"{name}_given_ln")
        yield PositionFit(
            int(row["position"]),
            n_shown,
            int(row["n_clicked"]),
            chance if conditional is None else float(conditional) / n_shown,
            exp(-chance),
        )


def _line(number: int, model_fits: Sequence[ModelFit]) -> list[str]:
    """What the models say of one position."""
    position = model_fits[0].by_position[number]
    counts = [str(position.position), f"{position.n_shown:,}", f"{position.n_clicked:,}"]
    return counts + [f"{fit.by_position[number].perplexity:.4f}" for fit in model_fits]
