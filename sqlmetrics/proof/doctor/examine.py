"""The examination of a database: every case against the reference, in a schema of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SqlmetricsError
from sqlmetrics.evaluation.checks.checks import check
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.plan import plan
from sqlmetrics.proof.doctor.cases import Case, Refusal, cases, refusals
from sqlmetrics.proof.doctor.data import tables
from sqlmetrics.proof.verify import compare, evaluated_by_reference
from sqlmetrics.sql.conformance import Conformance
from sqlmetrics.tables.table import Table
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular, kinds_of

TOLERANCE = 1e-9
"""What engines may be apart: they sum in different orders, and have their own logarithms."""


@dataclass(frozen=True)
class Finding:
    """What came of one case.

    Attributes:
        case: Its name.
        compared: How many per-query values and means were compared with the reference.
        largest: The largest |a - b| / max(1, |b|); infinite if one side has no value.
        where: The metric and place of that difference, or what failed; empty if all is well.
    """

    case: str
    compared: int
    largest: float
    where: str


@dataclass(frozen=True, repr=False)
class Report(Tabular):
    """What was found out about a database; it prints as text.

    Attributes:
        engine: The product.
        version: Its version.
        findings: One a case.
        seconds: How long it took.
    """

    engine: str
    version: str
    findings: tuple[Finding, ...]
    seconds: float

    _schemas: ClassVar[Mapping[str, Kinds]] = {"findings": kinds_of(Finding)}

    @property
    def failures(self) -> list[Finding]:
        """The cases that gave another number, or none."""
        return [finding for finding in self.findings if finding.where]

    @property
    def compared(self) -> int:
        """How many numbers were compared."""
        return sum(finding.compared for finding in self.findings)

    @property
    def largest(self) -> float:
        """The largest difference of the cases that are well."""
        return max((finding.largest for finding in self.findings if not finding.where), default=0.0)

    def to_dicts(self) -> list[Row]:
        """One dict a case."""
        return [dict(vars(finding)) for finding in self.findings]

    def _blocks(self) -> Iterator[Block]:
        failed = [
            [finding.case, f"{finding.largest:.1e}", finding.where] for finding in self.failures
        ]
        if failed:
            yield Table(["case", "difference", "problem"], failed)
        verdict = f"{len(failed)} of them failed" if failed else "all passed"
        yield (
            f"{self.engine} {self.version}: {len(self.findings)} cases, {verdict}\n"
            f"{self.compared:,} numbers compared with the reference, largest difference "
            f"{self.largest:.1e} (allowed: {TOLERANCE:.0e}); {self.seconds:.0f} s"
        )


def examine(
    engine: Database,
    *,
    only: Callable[[str], bool] | None = None,
    on_progress: Callable[[str], object] = str,
    longest: int = 1000,
) -> Report:
    """Let a database compute hard cases, and compare every number with the reference.

    Makes a schema of its own, loads a small data set, and drops the schema at the end, also
    after a failure.

    Args:
        engine: An open database, whose user may create a schema and tables.
        only: Tells by its name whether a case is wanted; default: all are.
        on_progress: Is given the name of each case before it runs.
        longest: How long the longest list is, for databases that are no fast ones.

    Raises:
        EngineError: If the schema or its tables cannot be made.
    """
    start = time.perf_counter()
    with engine.scratch() as schema:
        for name, table in tables(longest).items():
            engine.load(f"{schema}.{name}", table)
        findings = []
        for case in _wanted(engine, schema, only or bool):
            on_progress(case.name)
            findings.append(_found(case, engine))
    return Report(engine.name, engine.version, tuple(findings), time.perf_counter() - start)


def _wanted(engine: Database, schema: str, only: Callable[[str], bool]) -> Iterator[Case | Refusal]:
    yield from cases(engine.translation.dialect, schema, only)
    yield from (refusal for refusal in refusals(schema) if only(refusal.name))


def _found(case: Case | Refusal, engine: Database) -> Finding:
    try:
        return _compared(case, engine) if isinstance(case, Case) else _refused(case, engine)
    except SqlmetricsError as error:
        return Finding(case.name, 0, math.inf, " ".join(str(error).split()))


def _compared(case: Case, engine: Database) -> Finding:
    opened_tables = opened(case.spec, engine)
    result = run(case.spec, opened_tables, engine)
    proof = evaluated_by_reference(plan(case.spec, opened_tables), engine)
    agreements = list(compare(result, proof))
    worst = max(agreements, key=lambda agreement: agreement.largest)
    where = "" if worst.largest <= TOLERANCE else f"{worst.measure}: {worst.where}"
    return Finding(
        case.name, sum(agreement.compared for agreement in agreements), worst.largest, where
    )


def _refused(case: Refusal, engine: Database) -> Finding:
    try:
        check(plan(case.spec, opened(case.spec, engine)), engine)
    except InputError as error:
        if case.words in str(error):
            return Finding(case.name, 0, 0.0, "")
        return Finding(case.name, 0, math.inf, f"the error does not say {case.words!r}: {error}")
    return Finding(case.name, 0, math.inf, f"no error that says {case.words!r}")


def executed(report: Report) -> Conformance:
    """What is kept of a report in which nothing failed."""
    cases, largest = len(report.findings), float(f"{report.largest:.1e}")
    return Conformance(report.engine, report.version, cases, report.compared, largest)
