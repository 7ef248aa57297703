"""How many numbers of other databases have the same bits as DuckDB's, on the doctor's hard data.

    python -m benchmarks.bits sqlite postgres --case "preset house" --case "days, segments"

DuckDB adds floats exactly; others add them as they come, and have logarithms of their own.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.data import FOLDER

CASES = ("preset house", "days, segments of queries", "weights of queries")


def numbers(case: Any, database: Any) -> Iterator[tuple[tuple[Any, ...], float | None]]:
    """Every value of a query and every mean of a case: where it stands, and the number.

    The place has the options, which some databases lack (SQLite has no 32-bit floats).
    """
    from sqlmetrics.evaluation.execution import run
    from sqlmetrics.evaluation.inputs.open import opened

    result = run(case.spec, opened(case.spec, database), database)
    columns = [measure.column for measure in result.measures]
    title = f"{case.name} {case.spec.options}"
    for row in result.per_query().to_pylist():
        key = [f"{value}" for name, value in row.items() if name not in columns]
        for column in columns:
            yield ("queries", title, *key, column), row.get(column)
    for row in result.to_dicts():
        key = [f"{row.get(name)}" for name in ("metric_date", "system", "segment_name")]
        name = f"{row['segment_value']} {row['metric']}@{row['k']}"
        yield ("means", title, *key, name), row["value"]


def all_numbers(database: Any, names: Sequence[str]) -> dict[tuple[Any, ...], float | None]:
    """The numbers of all cases that have one of these texts in their names."""
    from sqlmetrics.proof.doctor import cases, tables

    with database.scratch() as schema:
        for name, table in tables(1000).items():
            database.load(f"{schema}.{name}", table)
        chosen = cases(
            database.translation.dialect, schema, lambda case: any(name in case for name in names)
        )
        return dict(pair for case in chosen for pair in numbers(case, database))


def shares(
    engine_numbers: dict[tuple[Any, ...], float | None], duckdb: dict[tuple[Any, ...], float | None]
) -> Iterator[str]:
    """Of values of queries and of means: how many, the shares of equal bits and of 12 digits."""
    for kind in ("queries", "means"):
        keys = [key for key in engine_numbers.keys() & duckdb.keys() if key[0] == kind]
        pairs = [(engine_numbers[key], duckdb[key]) for key in keys]
        counts = Counter(
            {
                "bits": sum(repr(other) == repr(number) for other, number in pairs),
                "digits": sum(printed(other) == printed(number) for other, number in pairs),
            }
        )
        yield f"{len(pairs):>9,}"
        yield from (f"{counts[name] / max(len(pairs), 1):>9.3%}" for name in ("bits", "digits"))


def printed(number: float | None) -> str:
    """The number with 12 digits."""
    return f"{number:.12g}" if isinstance(number, float) else f"{number}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each database."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engines", nargs="+", help="names of the tests' engines, such as sqlite")
    parser.add_argument("--case", action="append", help=f"a part of a case's name: {CASES}")
    choices = parser.parse_args(arguments)
    sys.path.insert(0, str(FOLDER.parent.parent / "tests"))
    from engines.starting import Servers

    from sqlmetrics.engines.database import Database, connect

    names = choices.case or CASES
    with connect("duckdb:///:memory:") as duckdb:
        expected = all_numbers(duckdb, names)
    print(f"{'':20} {'values':>9} {'bits':>9} {'digits':>9} {'means':>9} {'bits':>9} {'digits':>9}")
    with Servers() as servers:
        for name in choices.engines:
            with Database(servers.open(name)) as database:
                answers = all_numbers(database, names)
            print(f"{name:20}", *shares(answers, expected), flush=True)


if __name__ == "__main__":
    main()
