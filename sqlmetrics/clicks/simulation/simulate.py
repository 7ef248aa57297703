"""Click logs with a known truth, of any size, written by DuckDB.

Every number in a log is a hash of the seed and of what it is about, so that rows need
nothing of each other: they stream from a count into Parquet, in memory that grows with the
queries and hardly with the requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sqlmetrics.clicks.simulation.script import TABLES, statements
from sqlmetrics.clicks.simulation.settings import Settings
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.output_files import output_folder, refuse_existing
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import Table
from sqlmetrics.tables.tabular import Kinds, Row, Tabular

REASONS = ("bot", "duplicate", "early", "hurried", "late", "orphan", "test")
"""Why an event is dirty."""


@dataclass(frozen=True, repr=False)
class SimulatedLog(Tabular):
    """What was written; it prints as tables.

    Attributes:
        folder: Where.
        files: Table -> its Parquet file.
        rows: Table -> its rows.
        planted: Reason -> events that are dirty for it.
    """

    folder: Path
    files: Mapping[str, Path]
    rows: Mapping[str, int]
    planted: Mapping[str, int]

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "files": {"table": "string", "file": "string", "rows": "int64"},
        "planted": {"reason": "string", "events": "int64"},
    }

    def to_dicts(self) -> dict[str, list[Row]]:
        """What was written, and what is dirty of it, as lists of dicts: `files` and `planted`."""
        return {
            "files": [
                {"table": table, "file": str(self.files[table]), "rows": rows}
                for table, rows in self.rows.items()
            ],
            "planted": [{"reason": reason, "events": n} for reason, n in self.planted.items()],
        }

    def _blocks(self) -> Iterator[Table]:
        files = [[str(self.files[name]), f"{rows:,}"] for name, rows in self.rows.items()]
        yield Table(["file", "rows"], files, 1)
        dirt = [[reason, f"{events:,}"] for reason, events in self.planted.items()]
        yield Table(["planted", "events"], dirt, 1)


def simulate(
    folder: str | Path,
    *,
    requests: int = 10_000,
    results: int = 10,
    model: str = "position",
    seed: int = 1,
    days: int = 7,
    queries: int = 500,
    users: int | None = None,
    systems: Sequence[str] = ("old", "new"),
    bots: float = 0.01,
    duplicates: float = 0.02,
    late: float = 0.02,
    early: float = 0.01,
    orphans: float = 0.01,
    hurried: float = 0.02,
    zero_results: float = 0.02,
    test_traffic: float = 0.005,
    cascade: float = 0.0,
    trust: float = 0.0,
    randomised: float = 0.0,
    overwrite: bool = False,
) -> SimulatedLog:
    """Write a simulated click log of a shop search, and the truth behind it.

    The same arguments give the same bytes, with the same version of DuckDB. Faults are added to the
    actions of users: another share of faults leaves all clean events unchanged. (But bots and
    testers are some of the users and requests.)

    Args:
        folder: The folder, created if it does not exist.
        requests: The number of requests by people; requests by bots are added.
        results: The number of results per request.
        model: The click model: `position` or `cascade`.
        seed: The random seed.
        days: The number of days.
        queries: The number of distinct queries; memory grows with it.
        users: The number of users, bots included. Default: 2,000, or 1 per 100 requests if that is
            more.
        systems: The rankers, from the worst to the best.
        bots: The share of users who are bots; at least one user unless it is 0.
        duplicates: The share of clean events that are duplicated.
        late: Events after the attribution window, as a share of the clicks.
        early: Events before their impression, as a share of the clicks.
        orphans: Events on items without an impression, as a share of the clicks.
        hurried: The share of clicks that are left within 5 seconds.
        zero_results: The share of requests without results.
        test_traffic: The share of requests by testers.
        cascade: The share of requests whose users read like a cascade, with the model `position`.
        trust: The probability of a click on the first result when it is examined and not
            attractive, with the model `position`; at position k it is divided by k.
        randomised: The share of requests in random order; adds the column `is_randomised`.
        overwrite: Whether to replace files of these names that are not a simulated log, too.

    Raises:
        SpecError: If an argument is out of range, or a file that no simulation wrote is in the way.
        EngineError: If the folder cannot be written to.
    """
    world = Settings(
        requests=requests,
        results=results,
        model=model,
        seed=seed,
        days=days,
        queries=queries,
        users=max(2_000, requests // 100) if users is None else users,
        systems=(systems,) if isinstance(systems, str) else tuple(systems),
        bots=bots,
        duplicates=duplicates,
        late=late,
        early=early,
        orphans=orphans,
        hurried=hurried,
        zero_results=zero_results,
        test_traffic=test_traffic,
        cascade=cascade,
        trust=trust,
        randomised=randomised,
    )
    target = Path(folder)
    files = {name: target / f"{name}.parquet" for name in TABLES}
    is_log = all(file.exists() for file in files.values())
    if not (overwrite or is_log):
        refuse_existing(files.values())
    with connect() as engine:
        with output_folder(target, overwrite=overwrite, is_ours=lambda *_: is_log) as new_folder:
            for statement in statements(
                world, {name: new_folder / f.name for name, f in files.items()}
            ):
                engine.execute(statement)
        return _written(target, files, engine)


def _written(folder: Path, files: Mapping[str, Path], engine: Database) -> SimulatedLog:
    rows = {
        name: engine.rows(f"select count(*) from {literal(str(file))}")[0][0]
        for name, file in files.items()
    }
    reasons = f"select reason, count(*) from {literal(str(files['planted']))} group by reason"
    count_by_reason = dict(engine.rows(reasons))
    planted = {reason: count_by_reason.get(reason, 0) for reason in REASONS}
    return SimulatedLog(folder, files, rows, planted)
