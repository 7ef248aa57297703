"""How a plan is carried out: in how much memory, in buckets, going on where it was stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.failure import DENIED, StatementError
from sqlmetrics.engines.output_files import check_output, opening, output_file, writing_to
from sqlmetrics.errors import SpecError
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.dialects import KEPT

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
    ) -> Iterator[sql.Script]:
        """The statements of a plan, while what they keep is kept, if a table may be made.

        Args:
            parts: The plan for each bucket of queries.
            engine: Where the tables are.
            per_query: Whether the per-query table is wanted.
        """
        name = engine.free_name(KEPT)
        files = self._files(parts)
        script = sql.script(parts, name, per_query=per_query, files=files)
        with ExitStack() as stack:
            for n_done, (file, copy) in enumerate(zip(files, script.copies, strict=True), 1):
                self._copy(engine, file, copy)
                self._tell(n_done, parts)
            if script.keep:
                try:
                    followed = self._followed(engine, parts)
                    with nullcontext() if files else self._profiled(engine), followed:
                        stack.enter_context(engine.made(script.keep, script.drop))
                except StatementError as error:
                    if error.reason != DENIED:
                        raise
                    whole_plan = parts[0].by(parts[0].strategy)
                    script = sql.script([whole_plan], table="", per_query=per_query)
            for n_done, statement in enumerate(script.more, 1):
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
        texts = (sql.query(part, per_query=True) for part in parts)
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
        file = Path(relation.place)
        if relation.is_sql or not file.is_file():
            reason = f"the {table} are not a single file"
            raise SpecError(f"a checkpoint needs to know whether its tables change: {reason}")
        state = file.stat()
        lines.append(f"{file.resolve()} {state.st_size} {state.st_mtime_ns}")
    return "\n".join(lines)
