"""A click log is cleaned, counted, and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks import absence, actions, column_checks, hive_files, ubi, values
from sqlmetrics.clicks.assembly import tables_of
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS, steps, totals
from sqlmetrics.clicks.counterfactual.daily import estimate_rows
from sqlmetrics.clicks.labels import labels, pooled
from sqlmetrics.clicks.log_rows import ATTRIBUTED, DEDUPLICATED, EXCLUDED, IRREGULAR, LOGGED
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.clicks.propensity.estimate import PropensityEstimate, estimate
from sqlmetrics.clicks.rankings import rankings, shown_ranks
from sqlmetrics.clicks.result import ClickResult, interval_note, long
from sqlmetrics.clicks.steps import CHOOSING, cleaning, lists, online_step
from sqlmetrics.clicks.ubi import Kinds
from sqlmetrics.clicks.values import Unread
from sqlmetrics.clicks.wide_log import wide_log
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.temporary import TABLE, VIEW, Step, check_keeps, keeping
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.checks.problem import refusal
from sqlmetrics.evaluation.checks.scores import EXACT
from sqlmetrics.evaluation.execution import Progress
from sqlmetrics.evaluation.inputs.open import opened, source_relation
from sqlmetrics.evaluation.intervals import check_confidence
from sqlmetrics.evaluation.report.result import with_dates
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.tables import ShownLists
from sqlmetrics.spec.click_log import LABELS, RANKINGS, RANKS, Clicks
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import print_template, with_stages


def evaluate_clicks(
    log: Any,
    connection: Any = None,
    *,
    metrics: str | Sequence[str] = (),
    by: Sequence[str] = (),
    check: bool = True,
    per_query: bool = True,
    confidence: float | None = None,
    progress: Progress | None = None,
    unshown: bool = False,
) -> ClickResult:
    """Clean a click log, and compute its online metrics and those of its labels.

    Args:
        log: A spec with `clicks`; or a wide log, one row per item that was shown, whose columns
            are taken for their roles by their names: a file, a table's name, a DataFrame.
        connection: Where its relations are; see `evaluate`.
        metrics: For a wide log: those of lists and online ones; default: the usual ones.
        by: For a wide log: columns whose values are segments.
        check: Whether to look for mistakes in what is left of the log.
        per_query: Whether to fetch the table of one row per request.
        confidence: The coverage of `ci_low` and `ci_high`, above 0 and below 1: of online metrics
            the delta method's interval of a ratio over requests, which takes requests for
            independent; of the others as `evaluate` has it. Default: no intervals.
        progress: Is told after each step how many of how many are done, and 0.
        unshown: Whether what the spec asks of rankings that were not shown (`counterfactual`) is
            estimated too, day by day where the log is evaluated so.

    Raises:
        SpecError: If the spec has no clicks, or the log has not what a metric needs.
        NoDataError: If the log has no row of the days that are evaluated yet.
        InputError: If the log cannot be read, a column that it needs has another name, or nothing
            is left of it.

    >>> log = {"request_id": [1, 1], "sku": ["a", "b"], "position": [1, 2], "clicked": [0, 1]}
    >>> evaluate_clicks(pa.table(log), metrics=["mrr", "ctr@1"]).offline["mrr"]
    0.5
    """
    if not isinstance(log, Spec):
        with connect(connection) as engine:
            spec, said = wide_log(log, engine, metrics, by)
            result = evaluate_clicks(
                spec,
                engine,
                check=check,
                per_query=per_query,
                confidence=confidence,
                progress=progress,
            )
            return replace(result, notes=(said, *result.notes))
    if metrics or by:
        raise SpecError("a spec says its metrics and segments: leave out metrics and by")
    spec = log
    if spec.clicks is None:
        raise SpecError("the spec has no clicks; evaluate takes rankings and labels")
    check_confidence(confidence)
    with connect(connection) as engine, cleaned_log(spec.clicks, engine, progress) as clean:
        result = counted(clean, spec, confidence)
        if check and spec.online and not spec.metrics and not result.online().num_rows:
            raise clean.absence()
        if unshown:
            estimated, told = estimate_rows(clean, spec, confidence, some=check)
            notes = (*result.notes, *told)
            result = replace(result, estimates=tuple(estimated), notes=notes)
        if spec.metrics:
            with clean.views() as shown:
                tables = replace(opened(spec, engine), shown_lists=shown)
                offline = run(
                    spec,
                    tables,
                    engine,
                    check=check,
                    per_query=per_query,
                    confidence=confidence,
                )
            result = replace(result, offline=offline)
        clean.tell(EVALUATED)
    return result


def counted(clean: CleanLog, spec: Spec, confidence: float | None) -> ClickResult:
    """What the cleaning left out and found, and the online metrics; no list is evaluated.

    Args:
        clean: The log.
        spec: What is asked of it.
        confidence: The coverage of intervals; None for none.
    """
    asked = [online(text) for text in spec.online]
    sums = online_step(clean.tables, spec, moments=confidence is not None)
    counts, findings = clean.counts(), clean.findings()
    clean.tell(COUNTED)
    rows = tuple(online_rows(clean, spec, confidence, sums))
    clean.tell(ADDED_UP)
    told = (interval_note(confidence),) if confidence is not None and asked else ()
    done = tuple(steps(counts))
    known = clean.propensities if spec.metrics else None
    return ClickResult(spec, done, totals(counts), findings, None, rows, told, known)


def online_rows(
    clean: CleanLog, spec: Spec, confidence: float | None, sums: Sequence[Step] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of the online metrics that a spec asks for.

    Args:
        clean: The log.
        spec: What is asked of it.
        confidence: The coverage of intervals; None for none.
        sums: The steps that sum them, if they are there.
    """
    asked = [online(text) for text in spec.online]
    for step in sums or online_step(clean.tables, spec, moments=confidence is not None):
        rows = with_dates(clean.engine.table(step.select)).to_pylist()
        yield from long(rows, asked, spec, confidence)


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
    """

    tables: ClickTables
    engine: Database
    progress: Progress | None = None
    unread: tuple[Unread, ...] = ()
    is_dry: bool = False

    def tell(self, step: int) -> None:
        """Tell that a step is done; they are counted from the first after the tables."""
        if self.progress:
            made = len(self.tables.kept)
            self.progress(made + step, made + EVALUATED, 0)

    def counts(self) -> dict[tuple[str, str | None], int]:
        """(`impressions` or an action, why it was left out or None) -> rows."""
        tables = self.tables
        told = {
            "of": tables.of,
            "excluded": EXCLUDED if tables.leaves_out else "",
            "deduplicated": DEDUPLICATED,
            "attributed_events": ATTRIBUTED,
            "counts": tables.counted_actions,
            "left_out": tables.rows.left_out,
            "unseen": tables.clicks.cleaning.unseen is not None,
        }
        stages = tables.stages(tables.left) if told["unseen"] else []
        rows = self.engine.rows(with_stages(stages, print_template("clicks/totals", told)))
        counts = {(what, why): n for what, why, n in rows if n}
        later = ("repeated", "same position", "below the last click")
        removed = sum(counts.get((IMPRESSIONS, why), 0) for why in later)
        counts[IMPRESSIONS, None] = counts.get((IMPRESSIONS, None), 0) - removed
        return counts

    def findings(self) -> dict[str, int]:
        """What is odd about the log, and how often; nothing is left out for it."""
        tables = self.tables
        first = tables.names.first_position
        logged = ["impressions_as_logged"] if first == "each" else []
        told = {
            "of": tables.of,
            "deduplicated": DEDUPLICATED,
            "impressions": "".join(logged),
            "moved": 0 if first == "each" else int(first) - 1,
            "requests": tables.requests is not None,
            "request": tables.names.requests.get("request", ""),
            "relation": tables.requests,
        }
        select = print_template("clicks/findings", told)
        rows = self.engine.rows(with_stages(tables.stages(*logged), select))
        named = {
            f"{what} {place}" if place is not None else what: n for what, place, n in rows if n
        }
        return dict(sorted((named | self._odd()).items()))

    def _odd(self) -> dict[str, int]:
        """Times that cannot be read, and lists that no event tells."""
        odd = {
            f"times of {one.table} that cannot be read, like {one.example!r}": one.count
            for one in self.unread
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
        told = self._shown_lists()
        ranks = [Step(told.ranks, shown_ranks(self.tables), VIEW)] if told else []
        with keeping(self.engine, [*lists(self._labelled), *ranks]):
            try:
                yield told
            except InputError as error:
                self._tell_absence(error)
                raise

    def absence(self) -> InputError:
        """The error that says why there is nothing to evaluate."""
        return refusal([absence.of_lists(self.tables, self.engine, self.counts())])

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
        """Raise an error for an evaluation that failed since there is no list, or no label."""
        for name, why in ((RANKINGS, absence.of_lists), (LABELS, absence.of_labels)):
            if not self.engine.rows(f"select 1 as is_there from {name} limit 1"):
                raise refusal([why(self.tables, self.engine, self.counts())]) from error

    @cached_property
    def propensities(self) -> PropensityEstimate | None:
        """How often positions are looked at, where labels are corrected for that.

        Raises:
            InputError: If the log cannot tell.
        """
        corrects = self.tables.clicks.labels.corrects and not self.is_dry
        return estimate(self.tables, self.engine) if corrects else None

    @property
    def _labelled(self) -> ClickTables:
        """The stages with what labels need to know; of a log without rows, nothing is estimated."""
        asked = self.tables.clicks
        if not asked.labels.corrects:
            return self.tables
        found = self.propensities
        given = found.curve if found else PropensityCurve.of(asked.propensity)
        return replace(self.tables, propensities=given or PropensityCurve.flat(asked.propensity))

    def estimate_propensities(self, progress: Progress | None = None) -> PropensityEstimate:
        """How often positions are looked at; by harvesting where no method is said.

        They are learned from the requests of `labels.window`; without one of those that are not
        evaluated, or of all.

        Args:
            progress: Is told after each round of expectation maximisation.

        Raises:
            InputError: If the log cannot tell them, with the numbers that say so.
        """
        clicks = self.tables.clicks
        if clicks.labels.corrects and self.propensities is not None:
            return self.propensities
        asked = clicks.propensity
        if not asked.is_known:
            asked = asked.model_copy(update={"method": "harvest"})
        clicks = clicks.model_copy(update={"propensity": asked})
        return estimate(replace(self.tables, clicks=clicks), self.engine, progress)

    def rankings(self) -> str:
        """What was shown: rows (query_id, item_id, score ...)."""
        return rankings(self.tables)

    def labels(self) -> str:
        """What became a label: rows (query_id, item_id, grade)."""
        return labels(self._labelled)

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
        found = self.engine.table(f"{pooled(self._labelled)}\norder by query_text, item_id")
        if some and not found.num_rows:
            raise InputError(absence.of_judgments(self.tables, self.engine))
        return found


@contextmanager
def clean(
    clicks: Clicks, connection: Any = None, *, progress: Progress | None = None
) -> Iterator[CleanLog]:
    """A click log, cleaned, for as long as the `with` block lasts.

    Its tables are temporary; on leaving the block nothing of them stays.

    Args:
        clicks: What the log is, and how it is cleaned; `spec.clicks` too.
        connection: Where its tables are; see `evaluate`.
        progress: Is told after each step how many of how many are done, and 0.

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
    only_days: bool = False,
    dry: bool = False,
) -> Iterator[CleanLog]:
    """A log, cleaned, while the block lasts; of the days that count alone, or no row, if dry."""
    tables, kinds = log_tables(clicks, engine, only_days=only_days)
    log = CleanLog(tables, engine, progress, is_dry=dry)
    limit = "\nlimit 0" if dry else ""
    todo = [replace(step, select=step.select + limit) for step in cleaning(tables)]
    choosing = sum(step.name in CHOOSING for step in todo)
    left = iter(range(1 - len(tables.kept), 1))

    def told(step: Step) -> None:
        if step.kind == TABLE:
            log.tell(next(left))

    with keeping(engine, todo[:choosing], told):
        if not dry:
            log = replace(log, unread=values.check(tables, kinds, engine))
            actions.check(tables, engine)
        with keeping(engine, todo[choosing:], told):
            yield log


@contextmanager
def ready(spec: Spec, engine: Database, *, dry: bool = False) -> Iterator[None]:
    """What a spec's evaluation reads, while the block lasts: of a click log, it is made first."""
    if spec.clicks is None:
        yield
        return
    with cleaned_log(spec.clicks, engine, dry=dry) as log, log.views():
        online_step(log.tables, spec)
        yield


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
    kinds = column_checks.check(clicks, relations, engine)
    clicks = ubi.settled(clicks, relations, kinds, engine)
    tables = tables_of(clicks, relations, engine.translation, kinds, only_days=only_days)
    if files := hive_files.near(tables, relations, kinds, engine):
        some = tables_of(clicks, relations | files, engine.translation, kinds, only_days=only_days)
        given = {table: some.relation(table) for table in ("impressions", "events", "requests")}
        tables = replace(tables, near={name: one for name, one in given.items() if one})
    estimates = clicks.labels.corrects and clicks.propensity.is_estimated
    return replace(tables, keeps_positions=estimates), kinds
