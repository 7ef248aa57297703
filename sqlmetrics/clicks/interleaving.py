"""Two systems' lists merged into one: whose items people click, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, overload

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.curve import PropensityCurve, propensities
from sqlmetrics.clicks.segment import ByGroup, Rows, by_group
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.intervals import check_confidence
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.click_columns import SourceColumns
from sqlmetrics.spec.click_log import TEAM_DRAFT, ClickInterleaving
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double, identifier, literal, verbatim
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.stats.nonparametric import sign_test
from sqlmetrics.tables.table import Table, printable, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Tabular

# The stages from an interleaved log to the credit that each of two systems has of a request.
#
# shown_places ─┬─> merged_requests ─┬─> depths ─┐
# merges ───────┴────────────────────┴───────────┴─> credits ─> user_credits ─> sums

LOOKS = {
    "of_system": "system_rank",
    "of_baseline": "baseline_rank",
    "if_system_first": "system_first",
    "if_baseline_first": "baseline_first",
}
"""How likely an item is looked at -> where it stands then."""


@dataclass(frozen=True)
class Merge:
    """How the lists of two systems became one.

    Attributes:
        system: The one that is looked at.
        baseline: The one that it is compared to.
        source: The stage `source_items`, their lists; None for team draft.
        direction: `asc` if these are ordered by rank, else `desc`.
        curve: The propensities, for debiased balanced interleaving; else None.
    """

    system: str
    baseline: str
    source: Stage | None = None
    direction: str = "desc"
    curve: PropensityCurve | None = None


def credit_sums(tables: ClickTables, merge: Merge, rows: Rows) -> str:
    """What the report is made of, as a `select` of one row.

    Args:
        tables: The log.
        merge: How it was interleaved.
        rows: Whose impressions.
    """
    stages = [
        *rows.stages(tables, "answers"),
        *_credits(tables, merge, rows),
        _stage("user_credits", cluster=_cluster(tables)),
    ]
    return with_stages(stages, print_template("clicks/interleaving/credit_sums", {}))


def _credits(tables: ClickTables, merge: Merge, rows: Rows) -> Iterator[Stage]:
    names = {"system": literal(merge.system), "baseline": literal(merge.baseline)}
    source, curve = merge.source, merge.curve
    has_teams = source is None
    yield _stage("shown_places", of=rows.of(tables), impressions=rows.name, has_teams=has_teams)
    if source is None:
        yield Stage("credits", "clicks/interleaving/team_credits", names)
        return
    yield source
    yield _stage("source_ranks", direction=merge.direction, **names)
    yield _stage("merges")
    yield _stage("merged_requests", is_debiased=curve is not None)
    if curve is None:
        yield Stage("credits", "clicks/interleaving/balanced_credits", {})
        return
    yield _stage("depths")
    yield propensities(curve)
    looks = {name: _look(name, curve) for name in LOOKS}
    view = {
        "looks": LOOKS,
        "looked_at": looks,
        "mean_look": _MEAN_LOOK.format(**looks),
    }
    yield Stage("credits", "clicks/interleaving/debiased_credits", view)


_MEAN_LOOK = """\
(
    (
        {if_system_first}
        + {if_baseline_first}
    ) / 2e0
)"""


def _look(name: str, curve: PropensityCurve) -> str:
    """How likely a position is looked at; below the last one known as there."""
    return f"coalesce({name}.propensity, {double(curve.rows[-1].propensity)})"


def _cluster(tables: ClickTables) -> str:
    """What is taken for independent: users, where the log names them."""
    if "user" not in tables.names.impressions:
        return "request_id"
    return "case when user_id = '' then request_id else user_id end"


def source_items(relation: Relation, columns: SourceColumns, conditions: list[str]) -> Stage:
    """The lists before the merge, one row per item."""
    view = {
        "about": "one row per item of a system's list, before the merge",
        "columns": [
            Column(f"cast({identifier(columns.query)} as varchar)", "request_id"),
            Column(f"cast({identifier(columns.system)} as varchar)", "system"),
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            Column(f"cast({identifier(columns.order)} as double)", "ordered_by"),
        ],
        "relation": relation,
        "conditions": conditions,
    }
    return Stage("source_items", "clicks/table", view)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/interleaving/{name}", view)


# Which of two interleaved systems people prefer: wins, win share, difference in clicks, tests.

DEBIASED = "debiased_balanced"

_NAMES = ("method", "system", "baseline")
_COUNTS = ("n_requests", "n_left_out", "wins", "losses", "ties")

UNFAIR = 0.001
"""The coin that says who begins is called unfair below this probability."""


@dataclass(frozen=True)
class InterleavingEstimate:
    """A number with Student's interval of it, users taken for independent.

    Attributes:
        value: The number.
        ci_low: The lower end; None with less than two users.
        ci_high: The upper end.
        p_value: The probability of a value as far from that of equal systems, or farther, if they
            are equal; None without an interval.
    """

    value: float
    ci_low: float | None
    ci_high: float | None
    p_value: float | None


@dataclass(frozen=True, repr=False)
class InterleavingOutcome(Tabular):
    """Which of two systems people prefer; it prints as a table.

    Attributes:
        method: How lists were merged, and clicks credited.
        system: The system that is looked at.
        baseline: The one that it is compared to.
        n_requests: Requests that were interleaved.
        n_clusters: Users, or requests where no user is known.
        n_left_out: Requests whose list is no such merge.
        wins: Requests that credit the system more.
        losses: Requests that credit the baseline more; all others are ties.
        win_share: Wins and half of the ties over requests; 0.5 if they are equal.
        difference: The system's credit less the baseline's, a request: by `debiased_balanced`
            the clicks that its lists would have more than those of the baseline.
        n_told: Requests that tell which system's item came first.
        n_began: Those in which the system's did.
        confidence: The coverage of the intervals.
    """

    method: str
    system: str
    baseline: str
    n_requests: int
    n_clusters: int
    n_left_out: int
    wins: int
    losses: int
    win_share: InterleavingEstimate
    difference: InterleavingEstimate
    n_told: int
    n_began: int
    confidence: float

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "outcome": {
            **dict.fromkeys(_NAMES, "string"),
            **dict.fromkeys(_COUNTS, "int64"),
            **dict.fromkeys(("win_share", "win_share_low", "win_share_high"), "double"),
            **dict.fromkeys(("difference", "ci_low", "ci_high", "p_value"), "double"),
            "sign_p_value": "double",
        }
    }

    @property
    def ties(self) -> int:
        """Requests that credit both alike, most often with nothing."""
        return self.n_requests - self.wins - self.losses

    @property
    def sign_test(self) -> float:
        """The p-value of wins against losses, each request taken for independent."""
        return sign_test(self.wins, self.losses)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict, for JSON."""
        share, difference = self.win_share, self.difference
        return [
            {
                **{name: getattr(self, name) for name in (*_NAMES, *_COUNTS)},
                "win_share": share.value,
                "win_share_low": share.ci_low,
                "win_share_high": share.ci_high,
                "difference": difference.value,
                "ci_low": difference.ci_low,
                "ci_high": difference.ci_high,
                "p_value": difference.p_value,
                "sign_p_value": self.sign_test,
            }
        ]

    def _blocks(self) -> Iterator[Block]:
        pair = f"{printable(self.system)} against {printable(self.baseline)}"
        users = "" if self.n_clusters == self.n_requests else f" of {self.n_clusters:,} users"
        yield wrapped(
            [
                f"{self.method}: {pair}",
                f"{self.n_requests:,} requests{users}",
                f"wins {self.wins:,}, losses {self.losses:,}, ties {self.ties:,}",
            ]
        )
        rows = [_row("win share", self.win_share), _row("difference", self.difference)]
        yield Table(["", "value", f"{100 * self.confidence:g} % interval", "p"], rows, 1)
        yield wrapped(self._below())

    def _below(self) -> Iterator[str]:
        yield f"sign test: p = {self.sign_test:.3g}"
        if self.n_left_out:
            yield (
                f"{self.n_left_out:,} requests are left out, since their lists are not a "
                "merge of these two"
            )
        if (p := sign_test(self.n_began, self.n_told - self.n_began)) < UNFAIR:
            yield (
                f"{printable(self.system)} began in {self.n_began:,} of {self.n_told:,} requests "
                f"that say who began: the coin is not fair (p = {p:.2g}), so do not trust the "
                "verdict"
            )


@overload
def interleaving_outcome(
    log: CleanLog,
    *,
    curve: PropensityCurve | None = None,
    confidence: float = CONFIDENCE,
    by: None = None,
) -> InterleavingOutcome: ...


@overload
def interleaving_outcome(
    log: CleanLog, *, curve: PropensityCurve | None = None, confidence: float = CONFIDENCE, by: str
) -> ByGroup[InterleavingOutcome]: ...


def interleaving_outcome(
    log: CleanLog,
    *,
    curve: PropensityCurve | None = None,
    confidence: float = CONFIDENCE,
    by: str | None = None,
) -> InterleavingOutcome | ByGroup[InterleavingOutcome]:
    """Find which of two interleaved systems users prefer.

    Args:
        log: The cleaned log, of a spec with `interleaving`.
        curve: The propensities of positions, for `debiased_balanced`. Default: those of the spec,
            else harvested.
        confidence: The level of the intervals.
        by: A column of `segments`, such as the device: each of its values is evaluated by itself,
            with its own propensities. A value without a result is left out, with a note.

    Raises:
        SpecError: If the spec has no interleaving, its baseline does not exist, its propensities
            are by another column than `by`, or `by` is not a segment.
        InputError: If there are not exactly two systems, no request is interleaved, or the log
            cannot tell the propensities.
    """
    check_confidence(confidence)
    interleaving = log.tables.clicks.interleaving
    if interleaving is None:
        raise SpecError(
            "the spec does not say how lists were interleaved; add clicks: {interleaving: "
            "{method: team_draft}}, or balanced, or debiased_balanced"
        )
    curve = (curve or _curve(log, by)) if interleaving.method == DEBIASED else None
    source = _source(log, interleaving)
    system, baseline = _pair(log, interleaving, source)
    direction = "asc" if interleaving.rankings and interleaving.rankings.columns.rank else "desc"
    merge = Merge(system, baseline, source, direction, curve)

    def of_rows(rows: Rows) -> InterleavingOutcome:
        group_curve = curve.of_group(rows.value) if curve else None
        if curve and group_curve is None:
            raise InputError(f"the propensities of {printable(rows.value)} are unknown")
        group_merge = replace(merge, curve=group_curve)
        (sums,) = log.engine.records(credit_sums(log.tables, group_merge, rows))
        return _outcome(interleaving.method, group_merge, sums, confidence)

    stage_name = log.tables.evaluates
    return of_rows(Rows(stage_name)) if by is None else by_group(log, stage_name, by, of_rows)


def _curve(log: CleanLog, by: str | None) -> PropensityCurve:
    """The propensities, alike for all requests, or for those of a group."""
    clicks = log.tables.clicks
    propensity_settings = clicks.propensity
    if propensity_settings.by not in (None, by):
        raise SpecError(
            f"the propensities differ by {propensity_settings.by}, but {DEBIASED} needs one curve "
            f"for all requests; set by={propensity_settings.by} (--by {propensity_settings.by}) "
            "to compute each value by itself"
        )
    if by is None or propensity_settings.given:
        return log.estimate_propensities().curve
    group_clicks = clicks.model_copy(
        update={"propensity": propensity_settings.model_copy(update={"by": by})}
    )
    return (
        replace(log, tables=replace(log.tables, clicks=group_clicks)).estimate_propensities().curve
    )


def _source(log: CleanLog, interleaving: ClickInterleaving) -> Stage | None:
    """The lists before the merge; None for team draft."""
    if interleaving.rankings is None:
        return None
    relation = source_relation(interleaving.rankings, "clicks_interleaving", log.engine)
    where = interleaving.rankings.where
    return source_items(relation, interleaving.rankings.columns, [verbatim(where)] if where else [])


def _pair(log: CleanLog, interleaving: ClickInterleaving, source: Stage | None) -> tuple[str, str]:
    """The system and its baseline, by the names of those that there are.

    Raises:
        InputError: If there are not two.
        SpecError: If the baseline is none of them.
    """
    stage_name = log.tables.evaluates
    if source is None:
        table, column = log.tables.of[stage_name], "picked_by"
        stages = log.tables.stages(stage_name)
    else:
        table, column, stages = "source_items", "system", [source]
    select = f"select distinct {column}\nfrom {table}\nwhere {column} is not null"
    systems = sorted(str(name) for (name,) in log.engine.rows(with_stages(stages, select)))
    if interleaving.baseline is not None and systems and interleaving.baseline not in systems:
        raise SpecError(unknown("baseline", interleaving.baseline, systems))
    if len(systems) != 2:
        where = (
            "columns.team names"
            if interleaving.method == TEAM_DRAFT
            else "interleaving.rankings has"
        )
        examples = ", ".join(systems[:5]) or "none"
        raise InputError(
            f"interleaving compares two systems, but {where} {len(systems)}: {examples}"
        )
    baseline = interleaving.baseline or usual_baseline(systems)[0]
    return next(name for name in systems if name != baseline), baseline


def _outcome(
    method: str, merge: Merge, sums: Mapping[str, Any], confidence: float
) -> InterleavingOutcome:
    n = int(sums["n_requests"])
    if not n:
        raise InputError(
            f"no request is interleaved: in none of {int(sums['n_left_out']):,} requests is the "
            f"shown list a {method} merge of {merge.system} and {merge.baseline}"
        )
    wins, losses = int(sums["n_wins"]), int(sums["n_losses"])

    def of_users(value: float, *squares: str) -> InterleavingEstimate:
        x2, xw = (sums[name] for name in squares)
        ratio = ratio_of_sums(value, sums["n_clusters"], w=n, x2=x2, xw=xw, w2=sums["sum_w2"])
        return _tested(ratio, confidence)

    credit = (float(sums["credit"]) - float(sums["baseline_credit"])) / n
    return InterleavingOutcome(
        method,
        merge.system,
        merge.baseline,
        n,
        int(sums["n_clusters"]),
        int(sums["n_left_out"]),
        wins,
        losses,
        _halved(of_users((wins - losses) / n, "sum_s2", "sum_sw")),
        of_users(credit, "sum_x2", "sum_xw"),
        int(sums["n_told"]),
        int(sums["n_system_began"] or 0),
        confidence,
    )


def _tested(ratio: Estimate, confidence: float) -> InterleavingEstimate:
    """With Student's interval, and its test against 0."""
    p_value = ratio.p_value()
    if ratio.standard_error == 0:
        p_value = 1.0 if ratio.value == 0 else 0.0
    low, high = ratio.interval(confidence)
    return InterleavingEstimate(ratio.value, low, high, p_value)


def _halved(lead: InterleavingEstimate) -> InterleavingEstimate:
    """A lead of wins over losses, from -1 to 1, as a share of wins, from 0 to 1."""
    low, high = (None if end is None else (1 + end) / 2 for end in (lead.ci_low, lead.ci_high))
    return InterleavingEstimate((1 + lead.value) / 2, low, high, lead.p_value)


def _row(name: str, estimate: InterleavingEstimate) -> Sequence[str]:
    if estimate.ci_low is None or estimate.ci_high is None or estimate.p_value is None:
        return [name, f"{estimate.value:.4f}", "-", "-"]
    return [
        name,
        f"{estimate.value:.4f}",
        f"{estimate.ci_low:.4f} to {estimate.ci_high:.4f}",
        f"{estimate.p_value:.3g}",
    ]
