"""How a plan is carried out: in how much memory, in buckets, going on where it was stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.failure import DENIED, StatementError
from sqlmetrics.engines.output_files import check_output, opening, output_file, writing_to
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.checks import checks, prescan
from sqlmetrics.evaluation.checks.absence import check_fused_runs, sampled, share_of
from sqlmetrics.evaluation.checks.kept import check_kept
from sqlmetrics.evaluation.intervals import check_confidence, note, with_intervals
from sqlmetrics.evaluation.report.notes import caveats, low_grades, notes
from sqlmetrics.evaluation.report.result import Result, summary_rows, with_dates
from sqlmetrics.evaluation.statistics import buckets, statistics_of
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import Script, make_script, query_text
from sqlmetrics.plan.strategy import SHOWN, TableStatistics
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import KEPT
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.tabular import Row

Progress = Callable[[int, int, int], None]
"""Is told after each bucket how many of how many are done, and about how many rows; of one bucket
on DuckDB every second how many percent of 100, and 0."""

PAUSE = 1.0
"""So many seconds are between two looks at how far a statement is."""


@dataclass(frozen=True)
class Execution:
    """How an evaluation is carried out; its numbers are the same.

    Attributes:
        plan: The physical plan, None for the fastest.
        memory: How much the database may take, like `4GB`; None for its own limit.
        checkpoint: A folder for what is done, so that a run that was stopped goes on.
        profile: A file for DuckDB's own profile of the statement that does the work; of
            several, the one of the first bucket, or with a checkpoint the last.
        progress: Is told how far it is.
        overwrite: Whether the profile takes the place of a file that is none, too.
    """

    plan: str | None = None
    memory: str | None = None
    checkpoint: str | Path | None = None
    profile: str | Path | None = None
    progress: Progress | None = None
    overwrite: bool = False

    @contextmanager
    def limited(self, engine: Database) -> Iterator[None]:
        """With the memory that was given.

        Raises:
            SpecError: If it is no size, or the database cannot be told one.
        """
        with nullcontext() if self.memory is None else engine.limited(self.memory):
            yield

    @contextmanager
    def carried_out(
        self, parts: Sequence[Plan], engine: Database, *, per_query: bool
    ) -> Iterator[Script]:
        """The statements of a plan, while what they keep is kept, if a table may be made.

        Args:
            parts: The plan for each bucket of queries.
            engine: Where the tables are.
            per_query: Whether the per-query table is wanted.
        """
        name = engine.free_name(KEPT)
        files = self._files(parts)
        script = make_script(parts, name, per_query=per_query, files=files)
        with ExitStack() as stack:
            for n_done, (file, copy) in enumerate(zip(files, script.copies, strict=True), 1):
                self._copy(engine, file, copy)
                self._tell(n_done, parts)
            if script.keep:
                try:
                    followed = self._followed(engine, parts)
                    with nullcontext() if files else self._profiled(engine), followed:
                        stack.enter_context(engine.temporary(script.keep, script.drop))
                except StatementError as error:
                    if error.reason != DENIED:
                        raise
                    whole_plan = parts[0].by(parts[0].strategy)
                    script = make_script([whole_plan], table="", per_query=per_query)
            for n_done, statement in enumerate(script.other_buckets, 1):
                self._tell(n_done, parts)
                engine.execute(statement)
            self._tell(len(parts), parts)
            yield script
        for file in files:
            file.unlink()
        with suppress(OSError):  # others may have theirs in it
            Path(self.checkpoint or "").rmdir()

    @contextmanager
    def _profiled(self, engine: Database) -> Iterator[None]:
        if self.profile is None:
            yield
            return
        check_output(self.profile, opening("json"), overwrite=self.overwrite)
        with (
            output_file(self.profile, overwrite=self.overwrite) as output,
            engine.profiled(str(output)),
        ):
            yield

    @contextmanager
    def _followed(self, engine: Database, parts: Sequence[Plan]) -> Iterator[None]:
        """Tell how far the one statement is that does all the work."""
        share, progress = engine.driver.share_done, self.progress
        if progress is None or share is None or len(parts) > 1:
            yield
            return
        has_ended = Event()

        def follow() -> None:
            while not has_ended.wait(PAUSE):
                if share_done := share():
                    progress(round(100 * share_done), 100, 0)

        follower = Thread(target=follow, name="sqlmetrics-progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            has_ended.set()
            follower.join()

    def _tell(self, n_done: int, parts: Sequence[Plan]) -> None:
        if self.progress and len(parts) > 1:
            rows = sum(part.shape.bucket.rows for part in parts[:n_done])
            self.progress(n_done, len(parts), rows)

    def _files(self, parts: Sequence[Plan]) -> list[Path]:
        """Where each part is kept: a part of other data, or another one, has another name."""
        if self.checkpoint is None:
            return []
        data = _state(parts[0])
        texts = (query_text(part, per_query=True) for part in parts)
        names = (hashlib.sha256((text + data).encode()).hexdigest()[:16] for text in texts)
        with writing_to(self.checkpoint) as folder:
            return [folder / f"{name}.parquet" for name in names]

    def _copy(self, engine: Database, file: Path, statement: str) -> None:
        """Write a part, unless it is there; it is seen only when it is complete."""
        if file.exists():
            return
        with self._profiled(engine):
            engine.execute(statement)
        os.replace(f"{file}.part", file)


USUALLY = Execution()


def _state(plan: Plan) -> str:
    """What tells if the files of a plan are still the same: their sizes and times.

    Raises:
        SpecError: If its tables are no files.
    """
    lines = []
    for table, relation in plan.shape.tables.items():
        file = Path(relation.location)
        if relation.is_sql or not file.is_file():
            reason = f"the {table} are not a single file"
            raise SpecError(f"a checkpoint needs to know whether its tables change: {reason}")
        state = file.stat()
        lines.append(f"{file.resolve()} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(lines)


# The line itself: spec -> plan -> SQL -> engine -> result.


def run(
    spec: Spec,
    tables: Tables,
    engine: Database,
    *,
    check: bool | float = True,
    per_query: bool = True,
    execution: Execution = USUALLY,
    confidence: float | None = None,
) -> Result:
    """Evaluate a spec on an engine: plan it, check the input, run the script."""
    check_confidence(confidence)
    plan = make_plan(spec, tables, moments=confidence is not None)
    with (
        execution.limited(engine),
        engine.reading(),
        executing(plan, engine, check=check, per_query=per_query, execution=execution) as script,
    ):
        return result_of(
            plan, script, engine, check=check, per_query=per_query, confidence=confidence
        )


def result_of(
    plan: Plan,
    script: Script,
    engine: Database,
    *,
    check: bool | float,
    per_query: bool = False,
    confidence: float | None = None,
) -> Result:
    """The result of a script, while what it keeps is there."""
    records = engine.records(script.summary)
    rows = engine.table(script.per_query) if per_query else None
    numbers = [
        (row["system"], row["metric"], row["k"], row["value"])
        for row in records
        if row["segment_name"] == ALL
    ]
    result_notes = [*plan.shape.at.notes, *notes(plan, script, engine, numbers, check=check)]
    result_notes += caveats(plan.spec, plan.measures, records)
    result_notes += _low_grades(plan, engine, records)
    summary = summary_rows(records, plan.measures, plan.spec.definition_hash)
    if confidence is not None:
        summary = with_intervals(summary, confidence)
        result_notes.append(note(plan, confidence))
    return Result(
        spec=plan.spec,
        measures=plan.measures,
        executed_sql=engine.translation.self_contained(script.text(engine.translation.text)),
        notes=tuple(result_notes),
        list_keys=plan.shape.keys,
        _rows=summary,
        _per_query=None if rows is None else with_dates(rows),
        _plan=plan,
        _lazy=_lazy_frames(plan, engine),
    )


def _lazy_frames(plan: Plan, engine: Database) -> dict[bool, Callable[[], Any]]:
    """Whether of queries -> what makes a DataFrame of the numbers, where Spark computes them."""

    def text(*, per_query: bool) -> str:
        return engine.translation.text(query_text(plan, per_query=per_query))

    frames = {
        per_query: engine.driver.lazy(partial(text, per_query=per_query))
        for per_query in (False, True)
    }
    return {per_query: frame for per_query, frame in frames.items() if frame}


def _low_grades(plan: Plan, engine: Database, rows: Sequence[Row]) -> Iterator[str]:
    """That no label is relevant to some metrics; looked for where these found nothing at all."""
    values = {(row["metric"], int(row["k"] or 0)): row["value"] for row in rows if row["value"]}
    blind = [
        component
        for measure in plan.measures
        # of a formula nobody knows which of its metrics found something
        if measure.metric.arithmetic or (measure.name, measure.k or 0) not in values
        for component in measure.components
    ]
    if any("rel" in measure.metric.parameters for measure in blind):
        labels = plan.shape.names["labels"]
        select = f"select max(grade) from {labels}"
        highest = engine.rows(with_stages(plan.inputs, select))[0][0]
        yield from low_grades(blind, plan.spec, float(highest or 0))


@contextmanager
def executing(
    plan: Plan, engine: Database, *, check: bool | float, per_query: bool, execution: Execution
) -> Iterator[Script]:
    """The script of an evaluation while what it keeps is there; its input is checked."""
    share = share_of(check)
    if 0 < share < 1:
        checks.check_sample(plan, sampled(plan, share), engine)
        check = False
    elif not check:
        check_fused_runs(plan, engine)
    suspects = prescan.suspects(plan, engine) if check else ""
    presumed = plan.choose(TableStatistics(), execution.plan, suspects)
    is_told = presumed.name == SHOWN  # the log was cleaned of what is looked for
    looks = check and not presumed.suspects
    if check:
        presumed_tables = ("rankings", "labels") if is_told else () if looks else ("rankings",)
        checks.check_inputs(plan, engine, presumed=presumed_tables)
    measured = TableStatistics() if is_told else statistics_of(plan, engine)
    whole_plan = plan.by(plan.choose(measured, execution.plan, suspects))
    parts = [
        plan.by(whole_plan.strategy, bucket) for bucket in buckets(whole_plan, engine, measured)
    ]
    on_the_way = bool(whole_plan.strategy.suspects)
    if check and not (looks or on_the_way):
        checks.check_inputs(plan, engine, presumed=("labels",))  # which were looked at already
    with execution.carried_out(parts, engine, per_query=per_query) as script:
        if on_the_way:
            checks.confirm(plan, len(parts), script, engine)
        check_kept(plan, script, engine)
        yield script
