"""A click log whose tables are there: cleaned once, then counted and evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlmetrics.clicks import cleaning_report, log_checks, named_values, ubi
from sqlmetrics.clicks.assembly import click_tables_of
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS, doubts_of_log, null_systems
from sqlmetrics.clicks.labels import labels, labels_note, pooled
from sqlmetrics.clicks.log_checks import Unread
from sqlmetrics.clicks.log_rows import ATTRIBUTED, DEDUPLICATED, EXCLUDED, IRREGULAR, LOGGED
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.clicks.steps import CHOOSING, cleaning, lists, rankings, shown_ranks
from sqlmetrics.clicks.ubi import Kinds
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.temporary import TABLE, VIEW, Step, check_keeps, keeping
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.problem import refusal
from sqlmetrics.evaluation.checks.scores import EXACT
from sqlmetrics.evaluation.execution import Progress
from sqlmetrics.evaluation.inputs import formats
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.plan.tables import ShownLists
from sqlmetrics.spec.click_log import LABELS, RANKINGS, RANKS, Clicks
from sqlmetrics.spec.named_values import NamedValue, measured_actions
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import literal

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.clicks.propensity.estimate import OnRound, PropensityEstimate

COUNTED, ADDED_UP, EVALUATED = 1, 2, 3
"""Steps after the tables of a log were made."""


@dataclass(frozen=True)
class CleanLog:
    """A click log while its tables are there.

    Attributes:
        tables: Its stages.
        engine: Where they are.
        progress: Is told after each step.
        unread: Times that cannot be read.
        is_dry: Whether no row is there.
        value_notes: What the spec names and the log lacks, and whether requests are some.
        unused: Action that nothing names -> how many events have it.
    """

    tables: ClickTables
    engine: Database
    progress: Progress | None = None
    unread: tuple[Unread, ...] = ()
    is_dry: bool = False
    value_notes: tuple[str, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)

    def system_of_none(self, title: str) -> str:
        """What requests without a system are called: as the log, unless others have one."""
        columns = self.tables.clicks.columns
        return "NULL" if columns and columns.system else title

    def tell(self, step: int) -> None:
        """Tell that a step is done; they are counted from the first after the tables."""
        if self.progress:
            n_tables = len(self.tables.kept)
            self.progress(n_tables + step, n_tables + EVALUATED, 0)

    def counts(self) -> dict[tuple[str, str | None], int]:
        """(`impressions` or an action, why it was left out or None) -> rows."""
        tables = self.tables
        counted, unseen = tables.counted_actions, tables.clicks.cleaning.unseen is not None
        view = {
            "of": tables.of,
            "deduplicated": DEDUPLICATED,
            "attributed_events": ATTRIBUTED,
            "only_measured": ", ".join(map(literal, tables.only_measured)),
            "counts": counted,
            "left_out": tables.rows.left_out,
            "unseen": unseen,
        }
        excluded = EXCLUDED if tables.leaves_out else ""
        of_requests = {"of": tables.of, "excluded": excluded, "counts": tables.rows.counts}
        stages = [
            *(tables.stages(tables.kept_stage) if unseen else []),
            Stage("request_totals", "clicks/request_totals", of_requests),
            *[Stage("answer_totals", "clicks/answer_totals", view)] * bool(counted),
        ]
        rows = self.engine.rows(with_stages(stages, print_template("clicks/totals", view)))
        counts = {(kind, reason): n for kind, reason, n in rows if n}
        later = ("repeated", "same position", "below the last click")
        removed = sum(counts.get((IMPRESSIONS, reason), 0) for reason in later)
        counts[IMPRESSIONS, None] = counts.get((IMPRESSIONS, None), 0) - removed
        return counts

    def findings(self) -> dict[str, int]:
        """What is odd about the log, and how often; nothing is left out for it."""
        tables = self.tables
        first = tables.names.first_position
        logged = ["impressions_as_logged"] if first == "each" else []
        view = {
            "of": tables.of,
            "deduplicated": DEDUPLICATED,
            "impressions": "".join(logged),
            "moved": 0 if first == "each" else int(first) - 1,
            "requests": tables.requests is not None,
            "request": tables.names.requests.get("request", ""),
            "relation": tables.requests,
            "conditions": tables.read.where("requests", all_requests=True),
        }
        select = print_template("clicks/findings", view)
        rows = self.engine.rows(with_stages(tables.stages(*logged), select))
        count_by_finding = {
            f"{finding} {detail}" if detail is not None else finding: n
            for finding, detail, n in rows
            if n
        }
        return dict(sorted((count_by_finding | self._odd()).items()))

    def _odd(self) -> dict[str, int]:
        """Times that cannot be read, and lists that no event tells."""
        odd = {
            f"times of {unread.table} that cannot be read, like {unread.example!r}": unread.count
            for unread in self.unread
        }
        if self.tables.clicks.lists_from == "hit_ids":
            source = self.tables.of["user_impressions"]
            counted = f"select count(distinct request_id) as n from {source}"
            stages = self.tables.stages("user_impressions")
            ((n_lists,),) = self.engine.rows(with_stages(stages, counted))
            odd[f"lists taken from {ubi.HITS}"] = n_lists
        return odd

    @contextmanager
    def views(self) -> Iterator[ShownLists | None]:
        """With rankings and labels as an evaluation reads them.

        Yields:
            What the log tells of the ranks, if it does so of most lists.

        Raises:
            NoDataError: If an evaluation fails since the log has no row of these days yet.
            InputError: If it fails for lack of lists or labels, with what became of the log.
        """
        if self.is_dry:
            self._check_systems()
        shown_lists = self._shown_lists()
        ranks = [Step(shown_lists.ranks, shown_ranks(self.tables), VIEW)] if shown_lists else []
        with keeping(self.engine, [*lists(self._labelled), *ranks]):
            try:
                yield shown_lists
            except InputError as error:
                self._tell_absence(error)
                raise

    def check_segments(self, by: Sequence[str]) -> None:
        """Raise InputError for a segment of which the rows of a request have several values.

        Online metrics count each request in one; lists are checked where they are evaluated.

        Args:
            by: The segments that are asked for.
        """
        log_checks.check_segments(self.tables, by, self.engine)

    def absence(self) -> InputError:
        """The error that says why there is nothing to evaluate."""
        return refusal([cleaning_report.of_lists(self.tables, self.engine, self.counts())])

    def _shown_lists(self) -> ShownLists | None:
        """What the log tells of the ranks; None where most requests are to be looked at again."""
        tables = self.tables
        if tables.names.at.changes or tables.clicks.labels.pools or not tables.counts_requests:
            return None
        ((n_requests, n_others, last),) = self.engine.rows(
            f"select count(*), (select count(*) from {IRREGULAR}), max(last_position) from {LOGGED}"
        )
        if n_others * 2 > n_requests or (last or 0) >= EXACT:
            return None
        columns = tables.clicks.columns
        return ShownLists(RANKS, IRREGULAR, columns.segments if columns else ())

    def _tell_absence(self, error: InputError) -> None:
        """Raise an error for an evaluation that failed since there is no list, label or system."""
        for name, explain in (
            (RANKINGS, cleaning_report.of_lists),
            (LABELS, cleaning_report.of_labels),
        ):
            if not self.engine.rows(f"select 1 as row_exists from {name} limit 1"):
                raise refusal([explain(self.tables, self.engine, self.counts())]) from error
        if "system is NULL" in str(error):
            self._check_systems()

    def _check_systems(self) -> None:
        """Raise InputError, in the log's own names, if impressions have no system."""
        if problem := null_systems(self.tables, self.engine):
            raise InputError(problem)

    @cached_property
    def propensities(self) -> PropensityEstimate | None:
        """How often positions are looked at, where labels are corrected for that.

        Raises:
            InputError: If the log cannot tell.
        """
        corrects = self.tables.clicks.labels.corrects and not self.is_dry
        return self._estimate(self.tables) if corrects else None

    @property
    def label_notes(self) -> tuple[str, ...]:
        """What a reader of labels must know: missing values, the correction, whose they are."""
        corrected = self.propensities.notes() if self.propensities else ()
        return (*self.value_notes, *corrected, *labels_note(self.tables.clicks))

    @property
    def _labelled(self) -> ClickTables:
        """The stages with what labels need to know; of a log without rows, nothing is estimated."""
        clicks = self.tables.clicks
        if not clicks.labels.corrects:
            return self.tables
        estimate = self.propensities
        curve = estimate.curve if estimate else PropensityCurve.of(clicks.propensity)
        return replace(self.tables, propensities=curve or PropensityCurve.flat(clicks.propensity))

    def estimate_propensities(self, progress: OnRound | None = None) -> PropensityEstimate:
        """How often positions are looked at; by harvesting where no method is said.

        They are learned from the requests of `labels.window`; without one of those that are not
        evaluated, or of all.

        Args:
            progress: Is told each round of expectation maximisation: its number, the
                log-likelihood and how much the propensities changed.

        Raises:
            InputError: If the log cannot tell them, with the numbers that say so.
        """
        clicks = self.tables.clicks
        if clicks.labels.corrects and self.propensities is not None:
            return self.propensities
        propensity_settings = clicks.propensity
        if not propensity_settings.is_known:
            propensity_settings = propensity_settings.model_copy(update={"method": "harvest"})
        clicks = clicks.model_copy(update={"propensity": propensity_settings})
        return self._estimate(replace(self.tables, clicks=clicks), progress)

    def _estimate(self, tables: ClickTables, progress: OnRound | None = None) -> PropensityEstimate:
        """By the methods themselves, whose modules are many: most labels are not corrected."""
        from sqlmetrics.clicks.propensity.estimate import estimate

        return estimate(tables, self.engine, progress)

    def rankings(self) -> str:
        """What was shown: rows (query_id, item_id, score ...)."""
        return rankings(self.tables)

    def labels(self) -> str:
        """What became a label: rows (query_id, item_id, grade)."""
        return labels(self._labelled)

    def request_labels(self) -> pa.Table:
        """The labels by which requests are judged, to look at or to use as labels elsewhere.

        Returns:
            One row per request and labelled item: query_id (the request), item_id, grade,
            query_text, metric_date if days are apart, system and segments if the log has them,
            position (from 1), by request and position.

        Raises:
            NoDataError: If the log has no row of these days yet.
            InputError: If there is no label, with what became of the log.
        """
        names = self.tables.names
        columns = ["query_id", "item_id", "grade", "query_text"]
        columns += ["metric_date"] * self.tables.clicks.daily
        columns += ["system"] * ("system" in names.impressions)
        view = {"columns": [*columns, *names.segments], "labels": LABELS, "rankings": RANKINGS}
        with self.views():
            label_table = self.engine.table(print_template("clicks/request_labels", view))
        if not label_table.num_rows:
            raise refusal([cleaning_report.of_labels(self.tables, self.engine, self.counts())])
        return label_table

    def judgments(self, *, some: bool = False) -> pa.Table:
        """The pooled labels by themselves, to look at or to export.

        Args:
            some: Whether it is an error if there is none, which then says why.

        Returns:
            One row per query's text and item: query_text, item_id, n_impressions, n_clicks,
            n_purchases, expected_clicks, rate, grade.

        Raises:
            SpecError: If the labels are not pooled.
            InputError: If there is none, and `some` are wanted.
        """
        judgment_table = self.engine.table(
            f"{pooled(self._labelled)}\norder by query_text, item_id"
        )
        if some and not judgment_table.num_rows:
            raise InputError(cleaning_report.of_judgments(self.tables, self.engine))
        return judgment_table


@contextmanager
def clean(
    clicks: Clicks, connection: Any = None, *, progress: Progress | None = None
) -> Iterator[CleanLog]:
    """Clean a click log, for as long as the `with` block lasts.

    Its tables are temporary and are dropped at the end of the block.

    Args:
        clicks: The click log and how to clean it, the key `clicks` of a spec.
        connection: The database that holds its tables; see `evaluate`.
        progress: Called after each step with the number of finished steps, the number of steps, and
            0.

    Raises:
        SpecError: If a column is missing, or the database cannot keep tables.
        InputError: If the log cannot be read.
    """
    with connect(connection) as engine, cleaned_log(clicks, engine, progress) as log:
        yield log


@contextmanager
def cleaned_log(
    clicks: Clicks,
    engine: Database,
    progress: Progress | None = None,
    *,
    names: Iterable[NamedValue] = (),
    only_days: bool = False,
    dry: bool = False,
) -> Iterator[CleanLog]:
    """A log, cleaned, while the block lasts; of the days that count alone, or no row, if dry.

    Args:
        clicks: What was said of it.
        engine: Where it is.
        progress: Is told after each step.
        names: What the spec names beside it, and the log should have.
        only_days: Whether only requests of the days that count are read.
        dry: Whether no row is read but for what is named.
    """
    names = [*names]
    with engine.keeping_rows(), engine.driver.scanning():
        tables, kinds = log_tables(clicks, engine, only_days=only_days)
        tables = replace(tables, measured=measured_actions(names))
        log_checks.check_units(tables, engine)
        log = CleanLog(tables, engine, progress, is_dry=dry)
        limit = "\nlimit 0" if dry else ""
        todo = [replace(step, select=step.select + limit) for step in cleaning(tables)]
        choosing = sum(step.name in CHOOSING for step in todo)
        step_numbers = iter(range(1 - len(tables.kept), 1))

        def on_step(step: Step) -> None:
            if step.kind == TABLE:
                log.tell(next(step_numbers))

        with keeping(engine, todo[:choosing], on_step):
            looked = named_values.check(tables, names, engine, dry=dry)
            log = replace(log, value_notes=looked.notes, unused=looked.unused)
            if not dry:
                log = replace(log, unread=log_checks.check_values(tables, kinds, engine))
            with keeping(engine, todo[choosing:], on_step):
                if not dry:
                    log = replace(
                        log, value_notes=(*log.value_notes, *doubts_of_log(tables, engine))
                    )
                yield log


def log_tables(
    clicks: Clicks, engine: Database, *, only_days: bool = False
) -> tuple[ClickTables, Kinds]:
    """The stages of a log, and the types of the columns of its sources.

    Raises:
        SpecError: If the database cannot keep tables.
        InputError: If a table cannot be read, or lacks a column.
    """
    check_keeps(engine.translation)
    relations = {
        name: source_relation(source, f"clicks_{name}", engine)
        for name, source in clicks.sources.items()
    }
    kinds = log_checks.check_columns(clicks, relations, engine)
    clicks = ubi.settled(clicks, relations, kinds, engine)
    tables = click_tables_of(clicks, relations, engine.translation, kinds, only_days=only_days)
    if files := _near_files(tables, relations, engine):
        near_tables = click_tables_of(
            clicks, relations | files, engine.translation, kinds, only_days=only_days
        )
        near_relations = {
            table: near_tables.relation(table) for table in ("impressions", "events", "requests")
        }
        tables = replace(
            tables, near={name: relation for name, relation in near_relations.items() if relation}
        )
    estimates = clicks.labels.corrects and clicks.propensity.is_estimated
    return replace(tables, keeps_positions=estimates, is_fast=True), kinds


def _near_files(
    tables: ClickTables, relations: Mapping[str, Relation], engine: Database
) -> dict[str, Relation]:
    """The sources of which fewer files do: those that may have rows of the days that are read."""
    near_relations = {}
    for source, relation in relations.items():
        column = tables.clicks.day_column(source)
        if column and tables.days:
            table = "impressions" if source == "log" else source
            days = tables.read.stored_on(table, formats.DAY)
            near_relations[source] = formats.near(relation, column, days, engine)
    return {source: relation for source, relation in near_relations.items() if relation.files}
