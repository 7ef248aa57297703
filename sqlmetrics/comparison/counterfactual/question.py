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


def estimates_asked(rankings: Any, options: Options) -> tuple[EstimatedMetric, ...]:
    """The estimates that a comparison is of; none if it is of metrics of lists.

    Of a spec with `clicks.counterfactual` they are all of its own, unless metrics are named.

    Args:
        rankings: A spec, or rankings.
        options: What is asked.

    Raises:
        SpecError: If both kinds are named, or nothing is said of what was not shown.
    """
    estimate_texts = [text for text in options.metrics if is_estimated(text)]
    if options.metrics and not estimate_texts:
        return ()
    clicks = rankings.clicks if isinstance(rankings, Spec) else None
    if clicks is None or clicks.counterfactual is None:
        if estimate_texts:
            raise SpecError(
                f"{estimate_texts[0]} is estimated for rankings that were not shown; give a spec "
                "with clicks: {counterfactual: {rankings: {file: new.parquet}}}"
            )
        return ()
    if len(estimate_texts) < len(options.metrics):
        list_metric = next(text for text in options.metrics if text not in estimate_texts)
        raise SpecError(
            f"{list_metric} needs lists that were shown, {estimate_texts[0]} lists that were not; "
            "compare them in two runs"
        )
    return tuple(dict.fromkeys(map(estimated_metric, estimate_texts))) or clicks.estimated


def check_fits(options: Options, *, stored: bool) -> None:
    """Raise SpecError for what estimates are not compared by.

    Args:
        options: What is asked.
        stored: Whether the baseline is an earlier run.
    """
    is_asked_by_name = {
        f"test {options.test}": options.test != "t",
        "a cluster": bool(options.cluster),
        "a covariate": options.has_covariate,
        "baseline_values": stored,
        "contributions": options.contributions,
        "movers": options.movers.count > 0,
    }
    wrong = [name for name, is_asked in is_asked_by_name.items() if is_asked]
    if wrong:
        raise SpecError(
            "estimates for lists that were not shown are ratios of sums over users (or requests, "
            "if users are unknown), so only the test t compares them; leave out "
            f"{' and '.join(wrong)}"
        )
    if options.dates and options.paired:
        raise SpecError("a request belongs to one day; leave out paired, or dates")


def segments_asked(tables: ClickTables, options: Options) -> list[str]:
    """The segments that are compared too.

    Raises:
        SpecError: If the log has one of them not.
    """
    existing = segments_of(tables, options.by)
    lacks = [name for name in options.by if name not in existing]
    if lacks:
        segments = tables.clicks.columns.segments if tables.clicks.columns else ()
        raise SpecError(
            f"{unknown('segment', lacks[0], segments)}; name its column in columns.segments of "
            "the log"
        )
    return [*existing]


def question_of(clicks: Clicks, metrics: Sequence[EstimatedMetric]) -> Counterfactual:
    """The question of the spec, of these metrics and estimators."""
    counterfactual = clicks.counterfactual
    if counterfactual is None:
        raise SpecError("the spec has no rankings that were not shown")
    overrides = {
        "metrics": tuple(dict.fromkeys(str(metric.measure) for metric in metrics)),
        "estimators": tuple(dict.fromkeys(metric.estimator for metric in metrics)),
    }
    settings = {name: getattr(counterfactual, name) for name in counterfactual.model_fields_set}
    try:
        question = Counterfactual(**settings | overrides)
    except ValidationError as error:
        message = "; ".join(
            problem["msg"].removeprefix("Value error, ") for problem in error.errors()
        )
        raise SpecError(message) from None
    if lacks := clicks.lacks(question):
        raise SpecError(lacks)
    if question.title == SHOWN and not (question.rankings and question.rankings.columns.system):
        raise SpecError(
            f"{SHOWN} is the name of what the log showed; rename the other system in "
            "clicks.counterfactual.system"
        )
    return question


def reads_shown(options: Options) -> bool:
    """Whether what was shown may be a side."""
    baseline = options.baseline or next(iter(options.systems), None)
    return not (options.dates or baseline) or SHOWN in (*options.systems, options.baseline)
