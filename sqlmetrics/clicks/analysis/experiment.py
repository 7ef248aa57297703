"""Is an online comparison sound? Sample ratio, users in several systems, what was shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened, source_relation
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.spec.click_columns import ClickRankings
from sqlmetrics.spec.source import RankedLists
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import identifier, literal, verbatim
from sqlmetrics.stats.nonparametric import chi_square_test
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Tabular, arrow_tables, kinds_of

if TYPE_CHECKING:
    import pyarrow as pa

# Shown lists beside the ranked ones: how alike they are, and why they differ.

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
    with Step(LISTS, _lists(log, source)).created_in(engine):
        names = {"lists": LISTS, "ranked_list": RANKED, "shown_list": SHOWN}
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
        "ranked_list": RANKED,
        "shown_list": SHOWN,
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
            "columns": names | {"rank": "list_rank", "system": "system"},
        },
        # every request counts: the first of each has a label
        labels={
            "relation": LISTS,
            "where": f"n_lists = 2 and system = '{RANKED}' and list_rank = 1",
            "columns": names | {"grade": "list_rank"},
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
    names = {"lists": LISTS, "ranked_list": RANKED, "shown_list": SHOWN, "k": k}
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


SERVED = "sqlmetrics_served"
"""The table of one row per request, with its user and system."""

EXAMPLES = 5
"""As many users in several systems are named."""

THRESHOLD = 0.001
"""Below this p-value the shares do not match the plan."""

Unit = Literal["users", "sessions", "requests"]
"""What was assigned to systems by lot."""


@dataclass(frozen=True, repr=False)
class SampleRatioMismatch(Tabular):
    """Whether the systems got the shares they should have; it prints as a table.

    Attributes:
        unit: What is counted: `users` or `requests`.
        counts: System -> how many it got.
        expected: System -> how many it should have got.
        chi_square: Pearson's chi-square.
        df: Its degrees of freedom.
        p_value: The probability of such a chi-square or a larger one if all is right.
        threshold: Below it there is a mismatch.
    """

    unit: Unit
    counts: Mapping[str, int]
    expected: Mapping[str, float]
    chi_square: float
    df: int
    p_value: float
    threshold: float

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "systems": {"system": "string", "n": "int64", "expected": "double"}
    }

    @property
    def is_mismatch(self) -> bool:
        """Whether the systems cannot be compared: the lot did not decide who got which."""
        return self.p_value < self.threshold

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a system: how many it got, and how many it should have got."""
        return [
            {"system": system, "n": n, "expected": self.expected[system]}
            for system, n in self.counts.items()
        ]

    def _blocks(self) -> Iterator[Block]:
        total = sum(self.counts.values())
        rows = [
            [
                *(printable(system), f"{n:,}", f"{n / total:.2%}"),
                *(f"{self.expected[system]:,.1f}", f"{self.expected[system] / total:.2%}"),
            ]
            for system, n in self.counts.items()
        ]
        names = ["system", self.unit, "share", "expected", "share"]
        verdict = (
            f"sample ratio mismatch: p is below {self.threshold:g}; do not compare these systems"
            if self.is_mismatch
            else f"no sample ratio mismatch: p is not below {self.threshold:g}"
        )
        statistics = f"chi-square {self.chi_square:.4g}, df {self.df}, p = {self.p_value:.3g}"
        yield (Table(names, rows, 1), statistics, verdict)


@dataclass(frozen=True, repr=False)
class MixedUsers(Tabular):
    """Users that were in several systems.

    Attributes:
        n_users: All users.
        n_crossed: Those that were in several systems.
        examples: Some of these -> their systems.
    """

    n_users: int
    n_crossed: int
    examples: Mapping[str, tuple[str, ...]]

    _schemas: ClassVar[Mapping[str, Kinds]] = {"examples": {"user": "string", "system": "string"}}

    @property
    def share(self) -> float:
        """The share of all users."""
        return self.n_crossed / self.n_users if self.n_users else 0.0

    def to_dicts(self) -> list[dict[str, str]]:
        """One dict an example: a user, and a system that it was in."""
        return [
            {"user": user, "system": system}
            for user, systems in self.examples.items()
            for system in systems
        ]

    def _blocks(self) -> Iterator[str]:
        head = (
            f"users in several systems: {self.n_crossed:,} of {self.n_users:,} ({self.share:.2%})"
        )
        rows = [
            f"    {printable(user)}: {', '.join(map(printable, systems))}"
            for user, systems in self.examples.items()
        ]
        yield "\n".join([head, *rows])


@dataclass(frozen=True, repr=False)
class Soundness(Tabular):
    """Whether the online comparison of a log is sound; it prints as tables.

    Attributes:
        mismatch: Of the systems' shares; None if there is one system, and no shares are given.
        crossed: Of users; None without a column of users or with one system.
        likeness: Of what was shown to what was ranked; None without ranked lists.
    """

    mismatch: SampleRatioMismatch | None
    crossed: MixedUsers | None
    shown_vs_ranked: ListComparison | None

    def to_dicts(self) -> dict[str, Any]:
        """All of it but the table of requests, for JSON; null for what is not there."""
        mismatch_values = self.mismatch and {
            **vars(self.mismatch),
            "is_mismatch": self.mismatch.is_mismatch,
        }
        return {
            "mismatch": mismatch_values,
            "crossed": self.crossed and {**vars(self.crossed), "share": self.crossed.share},
            "likeness": self.shown_vs_ranked and self.shown_vs_ranked.to_dicts(),
        }

    @property
    def _parts(self) -> dict[str, Tabular]:
        """Table -> what has it, of what was looked at."""
        parts = {
            "systems": self.mismatch,
            "examples": self.crossed,
            "reasons": self.shown_vs_ranked,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _arrow_tables(self) -> ArrowTables:
        return {name: part.to_arrow for name, part in self._parts.items()}

    def _blocks(self) -> Iterator[Block]:
        if not self._parts:
            yield "the log has one system and no ranked lists, so there is no experiment to check"
        for part in self._parts.values():
            yield from part.blocks()


def soundness(
    log: CleanLog,
    *,
    title: str = "log",
    shares: Mapping[str, float] | None = None,
    unit: Unit | None = None,
    threshold: float = THRESHOLD,
    ranked: RankedLists | Mapping[str, Any] | None = None,
    k: int = 10,
) -> Soundness:
    """Check whether the systems of a log can be compared.

    A user of several systems counts for each of them. Requests without results count if the log has
    a table of requests.

    Args:
        log: The cleaned log.
        title: The name of the system if the log has none.
        shares: System -> its planned share, or weight. Default: equal shares.
        unit: What was randomly assigned to systems. Default: users, or requests if there is no user
            column.
        threshold: The p-value below which the shares do not match the plan.
        ranked: The ranked lists, to be compared with the shown ones; see `likeness`.
        k: The number of places to compare.

    Raises:
        SpecError: If there are no users to count, or the shares do not fit the systems.
    """
    has_users = "user" in log.tables.names.impressions
    if unit == "users" and not has_users:
        raise SpecError("the log has no column of users; set unit: requests to count its requests")
    unit = unit or ("users" if has_users else "requests")
    with Step(SERVED, _served(log, title)).created_in(log.engine):
        assigned = log.engine.rows(print_template("clicks/assigned", {"served": SERVED}))
        n = {system: int(users if unit == "users" else all) for system, all, users in assigned}
        several = len(n) > 1
        ratio_mismatch = (
            mismatch(n, shares, unit=unit, threshold=threshold) if several or shares else None
        )
        crossed = _crossed(log.engine) if has_users and several else None
    alike = None if ranked is None else shown_vs_ranked(log, ranked, k=k)
    return Soundness(ratio_mismatch, crossed, alike)


def mismatch(
    counts: Mapping[str, int],
    shares: Mapping[str, float] | None = None,
    *,
    unit: Unit = "users",
    threshold: float = THRESHOLD,
) -> SampleRatioMismatch:
    """The test for a sample ratio mismatch: Pearson's chi-square of counts against shares.

    Args:
        counts: System -> how many it got.
        shares: System -> the share, or weight, it should have got; by default all the same.
        unit: What is counted.
        threshold: Below this p-value there is a mismatch.

    Raises:
        SpecError: If there are less than two systems, nothing is counted, or the shares are not
            those of the systems.

    >>> mismatch({"a": 821_588, "b": 815_482}).is_mismatch
    True
    """
    weights = _weights(counts, shares)
    got = {system: counts.get(system, 0) for system in weights}
    total, weight = sum(got.values()), sum(weights.values())
    if len(got) < 2 or not total:
        raise SpecError(f"the test needs two systems with {unit}, given {dict(counts)}")
    expected = {system: total * share / weight for system, share in weights.items()}
    chi_square = sum((n - expected[system]) ** 2 / expected[system] for system, n in got.items())
    df = len(got) - 1
    p_value = chi_square_test(chi_square, df)
    return SampleRatioMismatch(unit, got, expected, chi_square, df, p_value, threshold)


def _weights(counts: Mapping[str, int], shares: Mapping[str, float] | None) -> dict[str, float]:
    """System -> its weight, for all systems that are there or should be."""
    if shares is None:
        return dict.fromkeys(counts, 1.0)
    for system in counts:
        if system not in shares:
            raise SpecError(unknown("system in the log", system, shares))
    if wrong := {system: share for system, share in shares.items() if not 0 < share < float("inf")}:
        raise SpecError(f"shares must be above 0; given {wrong}")
    return {system: float(share) for system, share in shares.items()}


def _served(log: CleanLog, title: str) -> str:
    """The select of one row per request."""
    tables = log.tables
    request_stages = ("requests",) if tables.requests is not None else ()
    stages = tables.stages(*request_stages, "clean_impressions")
    view = {
        "of": tables.of,
        "system": f"coalesce(system, {literal(log.system_of_none(title))})",
        "requests": tables.requests is not None,
    }
    return with_stages([*stages, Stage("served", "clicks/served", view)], _ALL)


_ALL = "select\n    request_id,\n    user_id,\n    system\nfrom served"

_CROSSED = """\
select
    count(*) as n_users,
    sum(case when n_systems > 1 then 1 else 0 end) as n_crossed
from users"""


def _crossed(engine: Database) -> MixedUsers:
    view = {"served": SERVED, "limit": EXAMPLES}
    users = Stage("users", "clicks/users", view)
    ((n_users, n_crossed),) = engine.rows(with_stages([users], _CROSSED))
    examples: dict[str, tuple[str, ...]] = {}
    for user, system in engine.rows(with_stages([users], print_template("clicks/crossed", view))):
        examples[user] = (*examples.get(user, ()), system)
    return MixedUsers(int(n_users), int(n_crossed or 0), examples)
