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

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.moves import weighted_positions
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_log import OPENSEARCH, ClickLabels, Clicks
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double, lines

# OpenSearch's own COEC: clicks over those expected at the topmost rank where an item was seen.
#
# As in CoecClickModel.java of opensearch-project/search-relevance, read in November 2026. It is
# another number than `coec`, which goes by the position of each impression:
#
# - all events with the action `click` count, also several of one request and those on items that
#   the request did not show; they count at their own position;
# - what is expected of a pair of a query and an item is its impressions times the click rate of the
#   topmost position that any of its events has;
# - positions count as they are logged; the rate of one without an impression is 0;
# - nothing is cleaned, deduplicated or attributed; 0 where nothing is expected; 3 decimals.


def coec_rates(tables: ClickTables) -> Iterator[Stage]:
    """The stages from the events of User Behavior Insights to `item_rates`."""
    names, label_settings = tables.names, tables.clicks.labels
    condition = names.where.get("events")
    window = (
        names.day_conditions(label_settings.window, names.moment("events"))
        if label_settings.window
        else []
    )
    last = (
        [f"{names.position} <= {label_settings.max_rank}"]
        if label_settings.max_rank is not None
        else []
    )
    conditions = [
        "action_name in ('click', 'impression')",
        *([f"({condition})"] if condition else []),
    ]
    view = {
        "about": "impressions and clicks as logged, each at its own position",
        "columns": [
            Column(f"cast({names.impressions['query']} as varchar)", "query_text"),
            Column(f"cast({names.impressions['item']} as varchar)", "item_id"),
            Column(names.position, "position"),
            Column("case when action_name = 'click' then 1 else 0 end", "is_click"),
        ],
        "relation": tables.relation("impressions"),
        "conditions": [*conditions, *window, *last],
    }
    yield Stage("opensearch_events", "clicks/table", view)
    # its loop over the ranks ends before maxRank: of that one it knows no rate
    last_rank = double(label_settings.max_rank) if label_settings.max_rank is not None else ""
    yield Stage("opensearch_ranks", "clicks/opensearch_ranks", {"last": last_rank})
    yield Stage(
        "opensearch_pairs", "clicks/opensearch_pairs", {"fewest": label_settings.min_impressions}
    )
    yield Stage("item_rates", "clicks/opensearch_rates", {})


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
        numerator: What is divided.
        denominator: By what.
        mean: The mean of the whole log that a prior takes; none if it is 1.
        added: Its columns that `item_positions` has not.
        stages: Those to the relation that has them, the last one, from the log's; none if
            `item_positions` has all.
    """

    numerator: str
    denominator: str
    mean: str = ""
    added: tuple[str, ...] = ()
    stages: Callable[[ClickTables], Iterator[Stage]] | None = None


def _weighted(tables: ClickTables) -> Iterator[Stage]:
    yield from tables.stages("item_positions")
    yield from weighted_positions(tables)


def _examined(tables: ClickTables) -> Iterator[Stage]:
    """What SDBN counts of a query's text and an item: no iteration, and no held-out part.

    Its attractiveness is clicks over impressions down to the last click, its satisfaction last
    clicks over clicks; their product, the relevance, is last clicks over the former impressions.
    """
    days, when = tables.learned or ("", [])
    view = {"of": tables.of, "impressions": tables.kept_stage, "days": days, "when": when}
    yield from tables.stages(tables.kept_stage, "answers", *(["request_queries"] if days else []))
    yield Stage("last_clicks", "clicks/last_clicks", view)
    yield Stage("examined_positions", "clicks/examined_positions", view)


OVER = {
    "ctr": Over("n_clicks", "n_impressions", "ctr"),
    "coec": Over("n_clicks", "expected_clicks"),
    "purchase_rate": Over("n_purchases", "n_impressions", "purchase_rate"),
    "ips": Over("weighted_clicks", "n_impressions", "ips", ("weighted_clicks",), _weighted),
    "coee": Over(
        "n_clicks", "expected_examinations", "coee", ("expected_examinations",), _weighted
    ),
    "sdbn": Over("n_last_clicks", "n_examined", "sdbn", ("n_examined", "n_last_clicks"), _examined),
}
"""The rates by name."""


SUBTRACTS = ("ctr", "coec", "purchase_rate")
"""The rates of which what a request did itself can be subtracted."""

POOL_NOTE = (
    "labels of pool query_item are learned from the requests that they judge, so metrics come "
    "out too high: set labels.window and evaluation to keep them apart, or see by how much with "
    "clicks compare-labels"
)


def labels_note(clicks: Clicks) -> tuple[str, ...]:
    """What a reader of pooled labels must know that judge the requests they come from."""
    return (POOL_NOTE,) if clicks.labels.pools and clicks.judges_itself else ()


def can_leave_own_out(label_settings: ClickLabels) -> bool:
    """Whether a request can be judged by what all others did, without its own."""
    judges_itself = label_settings.pools and label_settings.window is None
    return judges_itself and label_settings.rate in SUBTRACTS and not label_settings.quantiles


def labels(tables: ClickTables, pooled_table: str = "") -> str:
    """The labels as a `select`: query_id (a request), item_id, grade.

    Args:
        tables: The stages of the log.
        pooled_table: A table of pooled labels that is there already.
    """
    if not tables.clicks.labels.pools:
        return _answered(tables)
    if tables.leaves_own_out:
        return _of_others(tables)
    stages = (
        tables.stages("request_queries") if pooled_table else _stages(tables, "request_queries")
    )
    source = f"{pooled_table} as pooled" if pooled_table else "pooled"
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
    label_settings = tables.clicks.labels
    if not label_settings.pools:
        raise SpecError(
            "judgments are labels shared by all requests of a query; add to the spec: clicks: "
            f"{{labels: {{pool: query_item}}}}, given pool {label_settings.pool}; for labels of "
            "single requests use clicks labels"
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


def _stages(tables: ClickTables, *log_stages: str) -> list[Stage]:
    """The stages from impressions to one row a query's text and item, and others of the log."""
    label_settings = tables.clicks.labels
    if label_settings.rate == OPENSEARCH:
        counted, names = [*tables.stages(*log_stages), *coec_rates(tables)], [*COUNTED]
    else:
        counted = [*tables.stages(*log_stages), *_item_rates(tables)]
        names = [*COUNTED, *OVER[label_settings.rate].added]
    return [*counted, *_pooled(label_settings, names)]


def _item_rates(tables: ClickTables) -> Iterator[Stage]:
    """Those after the log's own, to the rates."""
    label_settings = tables.clicks.labels
    over, counted = OVER[label_settings.rate], tables.of["item_positions"]
    stages = [*over.stages(tables)] if over.stages else tables.stages("item_positions")
    yield from stages
    if over.stages:
        counted = f"{stages[-1].name} as item_positions"
    yield _stage("positions", counted=counted)
    view = {"counted": counted, "added": over.added, "fewest": label_settings.min_impressions}
    yield _stage("item_counts", **view)
    overall = label_settings.prior > 0 and over.mean != ""
    if overall:
        yield _stage("overall", counted=counted, over=over)
    count_columns = map(_plain, (*COUNTED, *over.added))
    yield _stage(
        "item_rates",
        columns=[*count_columns, _rate(label_settings)],
        overall=overall,
        counts="item_counts",
    )


def _pooled(label_settings: ClickLabels, names: Iterable[str]) -> Iterator[Stage]:
    """Those from the rates to the grades."""
    if label_settings.quantiles:
        yield _stage("rate_quantiles")
    source = "rate_quantiles" if label_settings.quantiles else "item_rates"
    yield _stage(
        "pooled", columns=[*map(_plain, [*names, "rate"]), _grade(label_settings)], rates=source
    )


def _of_others(tables: ClickTables) -> str:
    """The pooled labels of each request, learned from all requests but itself."""
    label_settings = tables.clicks.labels
    over, stage_name = OVER[label_settings.rate], tables.kept_stage
    overall = label_settings.prior > 0 and over.mean != ""
    counted = [stage for stage in _item_rates(tables) if stage.name != "item_rates"]
    own_view = {"of": tables.of, "impressions": stage_name, "clicks": "n_clicks"}
    when = _evaluated(tables)
    other_view = {"of": tables.of, "when": when, "fewest": label_settings.min_impressions}
    columns = [*map(_plain, ("request_id", "item_id")), _rate(label_settings)]
    stages = [
        *tables.stages("request_queries", stage_name, "answers"),
        *counted,
        _stage("own_counts", **own_view),
        _stage("other_counts", **other_view),
        Stage(
            "other_rates",
            "clicks/item_rates",
            {"columns": columns, "overall": overall, "counts": "other_counts"},
        ),
    ]
    unique = {stage.name: stage for stage in stages}
    grade = Column("request_id", "query_id"), _plain("item_id"), _grade(label_settings)
    select = f"select\n    {lines(grade)}\nfrom other_rates\nwhere rate is not null"
    return with_stages(unique.values(), select)


def _evaluated(tables: ClickTables) -> list[str]:
    """What requests meet that are of the days that are evaluated."""
    days = tables.clicks.evaluation
    return tables.names.day_conditions(days, "request_queries.started_at") if days else []


def _rate(label_settings: ClickLabels) -> Column:
    """The rate; NULL where it is nothing over nothing."""
    over = OVER[label_settings.rate]
    numerator, denominator = over.numerator, over.denominator
    if label_settings.prior:
        prior = double(label_settings.prior)
        numerator = (
            f"({numerator} + {prior} * overall.{over.mean})"
            if over.mean
            else f"({numerator} + {prior})"
        )
        denominator = f"{denominator} + {prior}"
    top, bottom = f"{numerator} * 1e0", f"nullif({denominator}, 0) * 1e12 + 0.5e0"
    text = f"floor({top} / {bottom}) / 1e12"
    if len(text) > 72:
        text = f"floor(\n    {top}\n        / {bottom}\n) / 1e12"
    return Column(text, "rate")


def _grade(label_settings: ClickLabels) -> Column:
    """The rate itself, or how many cuts it reaches, or how many shares of the pairs it beats."""
    reached = [f"rate >= {double(cut)}" for cut in label_settings.cuts]
    reached += [f"quantile >= {double(share)}" for share in label_settings.quantiles]
    steps = [f"case when {condition} then 1 else 0 end" for condition in reached]
    return Column("\n    + ".join(steps) or "rate", "grade")


def _plain(name: str) -> Column:
    return Column(name, name)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/{name}", view)
