"""Shown lists beside the ranked ones: how alike they are, and why they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import opened, source_relation
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import run
from sqlmetrics.spec.click_columns import ClickRankings
from sqlmetrics.spec.source import RankedLists
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import identifier, verbatim
from sqlmetrics.tables.table import Table
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_tables, kinds_of

LISTS = "sqlmetrics_lists"
"""The table of both lists, one row per item of a list."""

RANKED, SHOWN = "ranked", "shown"
"""What the two lists of a request are called, as systems."""

REASONS: Mapping[str, str] = {
    "skipped": "ranked but not shown, although the list goes on: filters, stock",
    "cut": "ranked in the first k, but below the end of the shown list: page size, filters",
    "injected": "shown but not in the ranked list",
    "turned": "in both lists, but in a different order",
}
"""Why a shown list is not the ranked one -> what is counted."""

COUNTED: Mapping[str, str] = {
    "skipped": "ranked_at <= depth and shown_at is null",
    "cut": "ranked_at > depth and ranked_at <= {k} and shown_at is null",
    "injected": "shown_at <= depth and ranked_at is null",
}
"""Reason -> what an item meets that is counted for it."""


@dataclass(frozen=True)
class Reason:
    """One reason why shown lists are not the ranked ones.

    Attributes:
        name: One of `REASONS`.
        n_items: How many items.
        n_requests: In how many requests.
    """

    name: str
    n_items: int
    n_requests: int


@dataclass(frozen=True, repr=False)
class ListComparison(Tabular):
    """How alike shown and ranked lists are; it prints as a table.

    Attributes:
        k: So many places are looked at; fewer where fewer items were shown.
        n_requests: Requests that have both lists.
        n_only_ranked: Requests that were ranked and not shown.
        n_only_shown: Requests that were shown, and have no ranked list.
        overlap: The mean of the metric overlap@k, with the ranked lists as the baseline.
        rbo: Likewise of rbo, over whole lists.
        n_differ: Requests whose shown items are not the first ranked ones in their order.
            That a shown list only ends early is no difference.
        reasons: One a reason, with 0 where there is none.
        requests: One row per request: request_id, overlap_at_k, rbo. None if it was not asked for.
    """

    k: int
    n_requests: int
    n_only_ranked: int
    n_only_shown: int
    overlap: float
    rbo: float
    n_differ: int
    reasons: tuple[Reason, ...]
    requests: pa.Table | None

    @property
    def share(self) -> float:
        """The share of requests that differ."""
        return self.n_differ / self.n_requests

    def to_dicts(self) -> dict[str, Any]:
        """All of it but the requests, for JSON."""
        fields = {name: value for name, value in vars(self).items() if name != "requests"}
        return fields | {
            "share": self.share,
            "reasons": [dict(vars(reason)) for reason in self.reasons],
        }

    def _arrow_tables(self) -> ArrowTables:
        tables = arrow_tables({"reasons": map(vars, self.reasons)}, {"reasons": kinds_of(Reason)})
        requests = self.requests
        return {**tables, **({} if requests is None else {"requests": lambda: requests})}

    def _blocks(self) -> Iterator[Block]:
        heading = f"shown and ranked lists: {self.n_requests:,} requests have both"
        alone = [
            f"{n:,} only {name}"
            for name, n in ((RANKED, self.n_only_ranked), (SHOWN, self.n_only_shown))
            if n
        ]
        rows = [
            [reason.name, f"{reason.n_items:,}", f"{reason.n_requests:,}", REASONS[reason.name]]
            for reason in self.reasons
        ]
        yield (
            ", ".join([heading, *alone]),
            f"overlap@{self.k} {self.overlap:.4f}, rbo {self.rbo:.4f}; "
            f"requests that differ: {self.n_differ:,} ({self.share:.1%})",
        )
        yield Table(["reason", "items", "requests", ""], rows)


def shown_vs_ranked(
    log: CleanLog, ranked: RankedLists | Mapping[str, Any], *, k: int = 10, per_request: bool = True
) -> ListComparison:
    """Compare the shown lists with the ranked ones, for the requests that have both.

    overlap@k and rbo are the metrics of these names. Choose a k up to the usual number of shown
    items: overlap@k also counts the places below the end of a short list.

    Args:
        log: The cleaned log.
        ranked: The ranked lists: rows (request, item, rank or score), as under `rankings` in a
            spec; the request column is `query`, by default request_id. Items with equal scores are
            ordered by id.
        k: The number of places to compare.
        per_request: Whether to fetch the table with one row per request.

    Raises:
        SpecError: If k is below 1, or no request has both lists.
        InputError: If an item appears twice in a ranked list, or has no rank or score.
    """
    if k < 1:
        raise SpecError(f"k must be 1 or more, given {k}")
    source = ranked if isinstance(ranked, RankedLists) else ClickRankings(**ranked)
    engine = log.engine
    with Step(LISTS, _lists(log, source)).there(engine):
        names = {"lists": LISTS, "ranked": RANKED, "shown": SHOWN}
        ((n_all, *met),) = engine.rows(print_template("clicks/met", names))
        n_both, n_only_ranked, n_only_shown = (int(n or 0) for n in met)
        if not n_both:
            raise SpecError(
                f"no request has both lists: of {n_all:,}, {n_only_ranked:,} have only a ranked "
                f"list and {n_only_shown:,} only a shown one; check that both tables have the "
                "same request ids"
            )
        spec = _spec(k)
        result = run(spec, opened(spec, engine), engine, per_query=per_request)
        (counts,) = engine.rows(_reasons(k))
    return ListComparison(
        k,
        n_both,
        n_only_ranked,
        n_only_shown,
        *_means(result),
        n_differ=int(counts[-1]),
        reasons=tuple(
            Reason(reason, int(counts[2 * i]), int(counts[2 * i + 1]))
            for i, reason in enumerate(REASONS)
        ),
        requests=_requests(result) if per_request else None,
    )


def _lists(log: CleanLog, source: RankedLists) -> str:
    """The select of both lists of all requests."""
    columns = source.columns
    view = {
        "about": "one row per ranked item",
        "columns": [
            Column(f"cast({identifier(columns.query)} as varchar)", "request_id"),
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            Column(f"cast({identifier(columns.order)} as double)", "ordered_by"),
        ],
        "relation": source_relation(source, "clicks_ranked", log.engine),
        "conditions": [verbatim(source.where)] if source.where else [],
    }
    names = {
        "of": log.tables.of,
        "ranked": RANKED,
        "shown": SHOWN,
        "direction": "asc" if columns.rank else "desc",
    }
    stages = [
        Stage("ranked_items", "clicks/table", view),
        *log.tables.stages("clean_impressions"),
        Stage("listed", "clicks/listed", names),
    ]
    return with_stages(stages, print_template("clicks/lists", {}))


def _spec(k: int) -> Spec:
    """The evaluation of the shown lists, with the ranked ones as their baseline."""
    names = {"query": "request_id"}
    return Spec(
        rankings={
            "relation": LISTS,
            "where": "n_lists = 2",
            "columns": names | {"rank": "place", "system": "system"},
        },
        # every request counts: the first of each has a label
        labels={
            "relation": LISTS,
            "where": f"n_lists = 2 and system = '{RANKED}' and place = 1",
            "columns": names | {"grade": "place"},
        },
        metrics=[f"overlap@{k}", "rbo"],
        baseline=RANKED,
    )


def _means(result: Result) -> tuple[float, float]:
    value_by_metric = {
        row["metric"]: row["value"] for row in result.to_dicts() if row["system"] == SHOWN
    }
    return value_by_metric["overlap"], value_by_metric["rbo"]


def _requests(result: Result) -> pa.Table:
    """One row per request, of the shown lists."""
    import pyarrow.compute as pc

    rows = result.per_query().filter(pc.field("system") == SHOWN).drop_columns(["system"])
    return rows.rename_columns(["request_id", *rows.column_names[1:]])


def _reasons(k: int) -> str:
    names = {"lists": LISTS, "ranked": RANKED, "shown": SHOWN, "k": k}
    counts = [
        Column(f"sum(case when {condition.format(k=k)} then 1 else 0 end)", f"n_{reason}")
        for reason, condition in COUNTED.items()
    ]
    stages = [
        Stage(name, f"clicks/{name}", names | {"counts": counts})
        for name in ("item_ranks", "compared", "reordered", "differing")
    ]
    columns = [
        column
        for reason in REASONS
        for column in (
            Column(f"sum(n_{reason})", f"n_items_{reason}"),
            Column(f"sum(case when n_{reason} > 0 then 1 else 0 end)", f"n_requests_{reason}"),
        )
    ]
    differs = "sum(case when n_skipped + n_injected + n_turned > 0 then 1 else 0 end)"
    view = {"columns": [*columns, Column(differs, "n_differ")]}
    return with_stages(stages, print_template("clicks/reasons", view))
