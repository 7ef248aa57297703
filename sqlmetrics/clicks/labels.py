"""What becomes a label: the answers of a request, or those of all requests of its query.

left ─┬─> request_queries ─────────────────────────────────────────────┬─> labels
      └─> item_positions ─┬─> positions ─┬─> item_counts ─> item_rates ─> pooled
                          └─> overall ───┘

Rates that are corrected for positions read weighted_positions in the place of item_positions:
the rows of positions whose propensities are known, with these. SDBN reads examined_positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlmetrics.clicks import opensearch_coec
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.last_clicks import examined_positions
from sqlmetrics.clicks.propensity.weights import weighted_positions
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_labels import OPENSEARCH, ClickLabels
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double, lines

POOLED = "sqlmetrics_pooled_labels"
"""The table of pooled labels that is kept while a log is evaluated."""

COUNTED = (
    "query_text",
    "item_id",
    "n_impressions",
    "n_clicks",
    "n_purchases",
    "expected_clicks",
)


@dataclass(frozen=True)
class Over:
    """A rate: something over something.

    Attributes:
        done: What is divided.
        shown: By what.
        mean: The mean of the whole log that a prior takes; none if it is 1.
        added: Its columns that `item_positions` has not.
        stages: Those to the relation that has them, the last one, from the log's; none if
            `item_positions` has all.
    """

    done: str
    shown: str
    mean: str = ""
    added: tuple[str, ...] = ()
    stages: Callable[[ClickTables], Iterator[Stage]] | None = None


def _weighted(tables: ClickTables) -> Iterator[Stage]:
    yield from tables.stages("item_positions")
    yield from weighted_positions(tables)


OVER = {
    "ctr": Over("n_clicks", "n_impressions", "ctr"),
    "coec": Over("n_clicks", "expected_clicks"),
    "purchase_rate": Over("n_purchases", "n_impressions", "purchase_rate"),
    "ips": Over("weighted_clicks", "n_impressions", "ips", ("weighted_clicks",), _weighted),
    "coee": Over(
        "n_clicks", "expected_examinations", "coee", ("expected_examinations",), _weighted
    ),
    "sdbn": Over(
        "n_last_clicks", "n_examined", "sdbn", ("n_examined", "n_last_clicks"), examined_positions
    ),
}
"""The rates by name."""


SUBTRACTS = ("ctr", "coec", "purchase_rate")
"""The rates of which what a request did itself can be subtracted."""

POOL_NOTE = (
    "labels of pool query_item are learned from the requests that they judge, so metrics come out "
    "too high: labels.window and evaluation keep them apart, clicks --compare-labels says by how "
    "much"
)


def labels_note(clicks: Clicks) -> tuple[str, ...]:
    """What a reader of pooled labels must know that judge the requests they come from."""
    return (POOL_NOTE,) if clicks.labels.pools and clicks.judges_itself else ()


def can_leave_own_out(asked: ClickLabels) -> bool:
    """Whether a request can be judged by what all others did, without its own."""
    own = asked.pools and asked.window is None
    return own and asked.rate in SUBTRACTS and not asked.quantiles


def labels(tables: ClickTables, kept: str = "") -> str:
    """The labels as a `select`: query_id (a request), item_id, grade.

    Args:
        tables: The stages of the log.
        kept: A table of pooled labels that is there already.
    """
    if not tables.clicks.labels.pools:
        return _answered(tables)
    if tables.leaves_own_out:
        return _of_others(tables)
    stages = tables.stages("request_queries") if kept else _stages(tables, "request_queries")
    source = f"{kept} as pooled" if kept else "pooled"
    view = {
        "of": tables.of,
        "pooled": source,
        "days": tables.clicks.evaluation or "",
        "when": _evaluated(tables),
    }
    return with_stages(stages, print_template("clicks/of_query", view))


def pooled(tables: ClickTables) -> str:
    """The pooled labels themselves as a `select`, one row per query's text and item.

    Raises:
        SpecError: If the labels are not pooled.
    """
    asked = tables.clicks.labels
    if not asked.pools:
        raise SpecError(
            "judgments are labels that all requests of a query share; add to the spec: "
            f"clicks: {{labels: {{pool: query_item}}}}, given pool {asked.pool}; those of single "
            "requests are clicks --show labels"
        )
    return with_stages(_stages(tables), "select *\nfrom pooled")


def standing(tables: ClickTables) -> str:
    """How many impressions are there to learn from, with a text, and clicked, as a `select`."""
    stages = tables.stages("item_positions")
    return with_stages(stages, print_template("clicks/standing", {"of": tables.of}))


def _answered(tables: ClickTables) -> str:
    """The labels of requests that are their own answers."""
    days = tables.clicks.evaluation
    when = ["answers.grade > 0", *_evaluated(tables)]
    view = {"of": tables.of, "days": days or "", "when": when}
    select = print_template("clicks/grades", view)
    return with_stages(tables.stages("request_queries"), select) if days else select


def _stages(tables: ClickTables, *more: str) -> list[Stage]:
    """The stages from impressions to one row a query's text and item, and others of the log."""
    asked = tables.clicks.labels
    if asked.rate == OPENSEARCH:
        counted, names = [*tables.stages(*more), *opensearch_coec.rates(tables)], [*COUNTED]
    else:
        counted = [*tables.stages(*more), *_item_rates(tables)]
        names = [*COUNTED, *OVER[asked.rate].added]
    return [*counted, *_pooled(asked, names)]


def _item_rates(tables: ClickTables) -> Iterator[Stage]:
    """Those after the log's own, to the rates."""
    asked = tables.clicks.labels
    over, counted = OVER[asked.rate], tables.of["item_positions"]
    stages = [*over.stages(tables)] if over.stages else tables.stages("item_positions")
    yield from stages
    if over.stages:
        counted = f"{stages[-1].name} as item_positions"
    yield _stage("positions", counted=counted)
    view = {"counted": counted, "added": over.added, "fewest": asked.min_impressions}
    yield _stage("item_counts", **view)
    overall = asked.prior > 0 and over.mean != ""
    if overall:
        yield _stage("overall", counted=counted, over=over)
    own = map(_plain, (*COUNTED, *over.added))
    yield _stage("item_rates", columns=[*own, _rate(asked)], overall=overall, counts="item_counts")


def _pooled(asked: ClickLabels, names: Iterable[str]) -> Iterator[Stage]:
    """Those from the rates to the grades."""
    if asked.quantiles:
        yield _stage("rate_quantiles")
    source = "rate_quantiles" if asked.quantiles else "item_rates"
    yield _stage("pooled", columns=[*map(_plain, [*names, "rate"]), _grade(asked)], rates=source)


def _of_others(tables: ClickTables) -> str:
    """The pooled labels of each request, learned from all requests but itself."""
    asked = tables.clicks.labels
    over, left = OVER[asked.rate], tables.left
    overall = asked.prior > 0 and over.mean != ""
    counted = [one for one in _item_rates(tables) if one.name != "item_rates"]
    own = {"of": tables.of, "impressions": left, "clicks": "n_clicks"}
    when = _evaluated(tables)
    kept = {"of": tables.of, "when": when, "fewest": asked.min_impressions}
    columns = [*map(_plain, ("request_id", "item_id")), _rate(asked)]
    stages = [
        *tables.stages("request_queries", left, "answers"),
        *counted,
        _stage("own_counts", **own),
        _stage("other_counts", **kept),
        Stage(
            "other_rates",
            "clicks/item_rates",
            {"columns": columns, "overall": overall, "counts": "other_counts"},
        ),
    ]
    unique = {one.name: one for one in stages}
    grade = Column("request_id", "query_id"), _plain("item_id"), _grade(asked)
    select = f"select\n    {lines(grade)}\nfrom other_rates\nwhere rate is not null"
    return with_stages(unique.values(), select)


def _evaluated(tables: ClickTables) -> list[str]:
    """What requests meet that are of the days that are evaluated."""
    days = tables.clicks.evaluation
    return tables.names.holds(days, "request_queries.started_at") if days else []


def _rate(asked: ClickLabels) -> Column:
    """The rate; NULL where it is nothing over nothing."""
    over = OVER[asked.rate]
    done, shown = over.done, over.shown
    if asked.prior:
        prior = double(asked.prior)
        done = f"({done} + {prior} * overall.{over.mean})" if over.mean else f"({done} + {prior})"
        shown = f"{shown} + {prior}"
    top, bottom = f"{done} * 1e0", f"nullif({shown}, 0) * 1e12 + 0.5e0"
    text = f"floor({top} / {bottom}) / 1e12"
    if len(text) > 72:
        text = f"floor(\n    {top}\n        / {bottom}\n) / 1e12"
    return Column(text, "rate")


def _grade(asked: ClickLabels) -> Column:
    """The rate itself, or how many cuts it reaches, or how many shares of the pairs it beats."""
    reached = [f"rate >= {double(cut)}" for cut in asked.cuts]
    reached += [f"quantile >= {double(share)}" for share in asked.quantiles]
    steps = [f"case when {one} then 1 else 0 end" for one in reached]
    return Column("\n    + ".join(steps) or "rate", "grade")


def _plain(name: str) -> Column:
    return Column(name, name)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/{name}", view)
