"""What a comparison asks of what was not shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from sqlmetrics.catalog.counterfactual import EstimatedMetric, estimated_metric, is_estimated
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.terms import SHOWN, segments_of
from sqlmetrics.comparison.options import Options
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import Counterfactual
from sqlmetrics.spec.spec import Spec


def estimates_asked(given: Any, asks: Options) -> tuple[EstimatedMetric, ...]:
    """The estimates that a comparison is of; none if it is of metrics of lists.

    Of a spec with `clicks.counterfactual` they are all of its own, unless metrics are named.

    Args:
        given: A spec, or rankings.
        asks: What is asked.

    Raises:
        SpecError: If both kinds are named, or nothing is said of what was not shown.
    """
    named = [text for text in asks.metrics if is_estimated(text)]
    if asks.metrics and not named:
        return ()
    clicks = given.clicks if isinstance(given, Spec) else None
    if clicks is None or clicks.counterfactual is None:
        if named:
            raise SpecError(
                f"{named[0]} is estimated of rankings that were not shown: give a spec with "
                "clicks: {counterfactual: {rankings: {file: new.parquet}}}"
            )
        return ()
    if len(named) < len(asks.metrics):
        other = next(text for text in asks.metrics if text not in named)
        raise SpecError(
            f"{other} is of lists that were shown, {named[0]} of lists that were not: compare them "
            "one after the other"
        )
    return tuple(dict.fromkeys(map(estimated_metric, named))) or clicks.estimated


def check_fits(asks: Options, *, stored: bool) -> None:
    """Raise SpecError for what estimates are not compared by.

    Args:
        asks: What is asked.
        stored: Whether the baseline is an earlier run.
    """
    told = {
        f"test {asks.test}": asks.test != "t",
        "a cluster": bool(asks.cluster),
        "a covariate": asks.has_covariate,
        "baseline_values": stored,
        "contributions": asks.contributions,
        "movers": asks.movers.count > 0,
    }
    wrong = [name for name, is_asked in told.items() if is_asked]
    if wrong:
        raise SpecError(
            f"estimates of what was not shown are ratios of sums over users, or requests where "
            f"users are not known: they are compared by the test t alone; leave out "
            f"{' and '.join(wrong)}"
        )
    if asks.dates and asks.paired:
        raise SpecError("a request is of one day: leave out paired, or dates")


def segments_asked(tables: ClickTables, asks: Options) -> list[str]:
    """The segments that are compared too.

    Raises:
        SpecError: If the log has one of them not.
    """
    there = segments_of(tables, asks.by)
    lacks = [name for name in asks.by if name not in there]
    if lacks:
        own = tables.clicks.columns.segments if tables.clicks.columns else ()
        raise SpecError(
            f"{unknown('segment', lacks[0], own)}: name its column in columns.segments of the log"
        )
    return [*there]


def question_of(clicks: Clicks, metrics: Sequence[EstimatedMetric]) -> Counterfactual:
    """The question of the spec, of these metrics and estimators."""
    asked = clicks.counterfactual
    if asked is None:
        raise SpecError("nothing is asked of rankings that were not shown")
    named = {
        "metrics": tuple(dict.fromkeys(str(one.measure) for one in metrics)),
        "estimators": tuple(dict.fromkeys(one.estimator for one in metrics)),
    }
    own = {name: getattr(asked, name) for name in asked.model_fields_set}
    try:
        found = Counterfactual(**own | named)
    except ValidationError as error:
        told = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
        raise SpecError(told) from None
    if lacks := clicks.lacks(found):
        raise SpecError(lacks)
    if found.title == SHOWN and not (found.rankings and found.rankings.columns.system):
        raise SpecError(
            f"what the log showed is called {SHOWN} here: call the other otherwise, "
            "clicks.counterfactual.system"
        )
    return found


def reads_shown(asks: Options) -> bool:
    """Whether what was shown may be a side."""
    given = asks.baseline or next(iter(asks.systems), None)
    return not (asks.dates or given) or SHOWN in (*asks.systems, asks.baseline)
