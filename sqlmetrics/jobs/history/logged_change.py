"""A change of the tables that evaluates nothing, and is a run in the log nevertheless."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.exchange import Exchange, Exchanged, TableRows
from sqlmetrics.jobs.new_rows import NewRows
from sqlmetrics.jobs.provenance import Provenance
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal


@dataclass(frozen=True)
class LoggedChange:
    """Rows in the place of those of some days.

    Attributes:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        outcome: What the run log calls it.
        provenance: What the run log says of whoever does it.
        run_id: The run.
        started: When it began, in UTC.
    """

    spec: Spec
    engine: Database
    outcome: str
    provenance: Provenance
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _begun: float = field(default_factory=time.monotonic, repr=False)

    def carry_out(
        self,
        rows: Mapping[str, TableRows],
        ends: Ends,
        check: Callable[[], None],
        *,
        end: Sequence[str] | None = None,
        restores: str = "",
        is_kept: bool = True,
    ) -> Exchanged:
        """Replace the rows, all in one transaction where there are any.

        Args:
            rows: Table -> its new rows.
            ends: Of the days.
            check: What is looked at first, as the only writer.
            end: What is done in the end; by default the spec's views are made.
            restores: The run that is taken back.
            is_kept: Whether the archives get what is replaced.
        """
        new, engine = self._new_rows, self.engine

        def log(counts: Mapping[str, int], notes: Sequence[str]) -> str:
            entries = {table: str(n) for table, n in counts.items()}
            entries |= {"seconds": f"{time.monotonic() - self._begun:.3f}e0"}
            entries |= {"outcome": literal(self.outcome), **self.provenance.log_entries()}
            entries |= {"engine": literal(f"{engine.name} {engine.version}")}
            entries |= {"restores": literal(restores)} if restores else {}
            return new.log(
                ends, **entries, **({"message": literal("; ".join(notes))} if notes else {})
            )

        engine.driver.name_session(f"{self.spec.title} {self.run_id[:8]}")
        run = (new.run_id, new.now) if is_kept else None
        exchange = Exchange(self.spec, new.at, rows, ends, self.run_id[:8], run=run)
        return exchange.carry_out(engine, log, check, end)

    @cached_property
    def _new_rows(self) -> NewRows:
        translation = self.engine.translation
        now = literal(self.started.replace(tzinfo=None).isoformat(" "))
        moment = translation.expression(translation.dialect.times.moment, now)
        return NewRows(self.spec, translation, literal(self.run_id), moment, folder=Path())
