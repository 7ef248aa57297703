"""How far a dialect can be trusted: on which engine its text was executed, and how it went.

`executed/<name>.json` is written by the tests (`UPDATE_GOLDEN=1 pytest -m long
tests/engines/test_conformance.py`), one file per engine that gave every number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path

from sqlmetrics.sql.dialect import Dialect

FOLDER = Path(__file__).parent / "executed"


@dataclass(frozen=True)
class Conformance:
    """A run of cases on an engine, of which none failed.

    Attributes:
        engine: The product.
        version: Its version.
        cases: How many evaluations there were.
        compared: How many of their numbers were compared with the reference.
        largest: The largest difference.
        day: When that was; empty if nobody wrote it down.
        commit: Of which commit.
        left_out: How many cases did not run.
    """

    engine: str
    version: str
    cases: int
    compared: int
    largest: float
    day: str = ""
    commit: str = ""
    left_out: int = 0

    def __str__(self) -> str:
        return f"{self.engine} {self.version}"


@dataclass(frozen=True)
class Trust:
    """How far a dialect can be trusted.

    Attributes:
        level: `executed`, `executed in part`, `executed on a similar engine` or `parsed only`.
        run: What was executed, if anything was.
    """

    level: str
    run: Conformance | None = None

    def __str__(self) -> str:
        if self.run is None:
            return "parsed only; it was executed on no engine"
        cases = f"{self.run.cases} of {self.run.cases + self.run.left_out} cases "
        relative = " as a relative" if self.level == "executed on a similar engine" else ""
        return f"{cases if self.run.left_out else ''}executed on {self.run}{relative}"


def trust(dialect: Dialect) -> Trust:
    """How far a dialect can be trusted.

    >>> from sqlmetrics.sql.dialects import DIALECTS
    >>> trust(DIALECTS["trino"]).level
    'executed in part'
    """
    for name, level in (
        (dialect.name, "executed"),
        (dialect.relative, "executed on a similar engine"),
    ):
        if name in _records():
            run = _records()[name]
            return Trust("executed in part" if run.left_out else level, run)
    return Trust("parsed only")


@cache
def _records() -> dict[str, Conformance]:
    files = sorted(FOLDER.glob("*.json"))
    return {file.stem: Conformance(**json.loads(file.read_text("utf-8"))) for file in files}


def keep(name: str, run: Conformance, commit: str) -> None:
    """Write down a run of today in which nothing failed."""
    run = replace(run, day=date.today().isoformat(), commit=commit)
    text = json.dumps(vars(run), indent=2, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
