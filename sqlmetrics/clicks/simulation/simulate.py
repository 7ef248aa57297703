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
    """Write the requests, impressions and events of a shop's search, and the truth about them.

    The same arguments give the same bytes, with the same version of DuckDB. Dirt comes on
    top of what people do: another share of it leaves all clean events as they are. (But bots
    and testers are some of the users and of the requests.)

    Args:
        folder: Where the files go; it is made if it is not there.
        requests: Requests of people; those of bots come on top.
        results: Results of a request.
        model: How people look at results: `position` or `cascade`.
        seed: Another seed gives another log.
        days: Over how many days the requests are spread.
        queries: Distinct queries. The memory that is needed grows with them.
        users: Bots among them. Default: 2,000, or one a hundred requests where that is more.
        systems: The rankers, from the worst to the best.
        bots: Which share of the users are bots; one at least unless it is 0.
        duplicates: Share of the clean events that are there twice.
        late: Events after the attribution window, in shares of the clicks.
        early: Events before the result was shown, likewise.
        orphans: Events on items that were not shown, likewise.
        hurried: Clicks that were left within 5 seconds, likewise.
        zero_results: Which share of the requests finds nothing.
        test_traffic: Which share of the requests is made by testers.
        cascade: Which share of the requests is read as a cascade, where the model is `position`.
        trust: How likely a result at position 1 is clicked that is looked at and does not
            attract, likewise; at position k a k-th of it.
        randomised: Which share of the requests shows its results in random order; it has a
            column `is_randomised`.
        overwrite: Whether to write over files of these names that are no simulated log.

    Raises:
        SpecError: If an argument is out of its range, or such a file is there.
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
