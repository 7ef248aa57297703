"""How well click models predict held-out requests, and what follows from the best one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, overload

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS
from sqlmetrics.clicks.models.held_out import HeldOut, held_out
from sqlmetrics.clicks.models.query import MODELS, Prior, fits, learnable_models
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.clicks.segment import ByGroup, Rows, by_group
from sqlmetrics.errors import InputError
from sqlmetrics.tables.table import Table, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_tables, kinds_of

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
        yield wrapped(self._said())

    def _said(self) -> Iterator[str]:
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
        return _fits(log, Rows(log.tables.left), curve, note, prior)

    def of_group(rows: Rows) -> ModelFits:
        group_curve = curve.of_group(rows.value) if curve else None
        return _fits(
            log,
            rows,
            group_curve,
            note or ("" if group_curve else MISSING + "no propensity"),
            prior,
        )

    return by_group(log, log.tables.left, by, of_group)


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
