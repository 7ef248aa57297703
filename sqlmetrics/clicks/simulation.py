"""Click logs made up: the world they come from, how people click in it, and its SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil, log, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.output_files import check_output, opening, output_folder
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import double, literal
from sqlmetrics.tables.table import Table
from sqlmetrics.tables.tabular import Kinds, Row, Tabular

# Click models: which results a user looks at.

STOP = "0.2e0 + 0.2e0 * result.grade"
"""How likely the cascade's user is content after a click."""


APPEAL = "attraction"
"""How likely a result is clicked that is looked at."""


@dataclass(frozen=True)
class ClickModel:
    """Which results a user looks at and clicks, as SQL.

    Attributes:
        depth: The last position that is looked at, from what is known of a request.
        examined: Whether a result is looked at.
        propensity: How likely a position is looked at, NULL if that hangs on the list.
        looked_at: About how many of so many results are, at most.
        appeal: How likely one is clicked that is looked at.
    """

    depth: str
    examined: str
    propensity: str
    looked_at: Callable[[int], float]
    appeal: str = APPEAL


MODELS: Mapping[str, ClickModel] = MappingProxyType(
    {
        "position": ClickModel(
            depth="len(lists.results)",
            examined="chance('look', draw, position) < 1e0 / position",
            propensity="1e0 / position",
            looked_at=lambda results: 1 + log(results),
        ),
        # The first click that would content the user is the last result looked at: what
        # would be clicked further down changes nothing, so no row waits for another.
        "cascade": ClickModel(
            depth=f"""coalesce(
        list_min(
            [
                result.position
                for result in lists.results
                if chance('click', draw, result.position) < result.attraction
                and chance('stop', draw, result.position) < {STOP}
            ]
        ),
        len(lists.results)
    )""",
            examined="position <= depth",
            propensity="cast(null as double)",
            looked_at=lambda results: min(results, 10),
        ),
    }
)


def click_model(name: str, cascade: float = 0.0, trust: float = 0.0) -> ClickModel:
    """A model of these, or `position` with people who do otherwise.

    Args:
        name: One of MODELS.
        cascade: Which share of the requests is read as a cascade.
        trust: How likely a result at position 1 is clicked that is looked at and does not
            attract; at position k a k-th of it. A cascade has none.
    """
    model = MODELS[name]
    reads_down = f"chance('reader', draw) < {double(cascade)}"
    if cascade:
        cascade_model = MODELS["cascade"]
        model = ClickModel(
            depth=f"case\n        when {reads_down} then {cascade_model.depth}\n"
            f"        else {model.depth}\n    end",
            examined=f"position <= depth and ({reads_down} or {model.examined})",
            propensity=model.propensity,
            looked_at=cascade_model.looked_at,
        )
    if trust:
        added = f"(1e0 - attraction) * {double(trust)} / position"
        extra_appeal = f"case when {reads_down} then 0e0 else {added} end" if cascade else added
        model = replace(model, appeal=f"{APPEAL} + {extra_appeal}")
    return model


# What a simulated log shall be like, checked.

CROWDED = 200
"""Events of a user in an hour that only bots have."""

BURST = 300
"""Results that a bot asks for in its hour, at least."""


LIKELIEST = 0.75
"""The chance of the likeliest click, without trust."""

MOST_PLANTED = 0.25
"""Late, early, orphan and hurried events in shares of the clicks: the likeliest click leaves
so much for them."""

COUNTS = {"requests": 1, "results": 1, "days": 1, "queries": 2, "users": 2}
"""Arguments that count something -> their least value."""

SHARES = (
    "bots",
    "duplicates",
    "late",
    "early",
    "orphans",
    "hurried",
    "zero_results",
    "test_traffic",
    "cascade",
    "trust",
    "randomised",
)
"""Arguments that are a share of something."""


@dataclass(frozen=True)
class Settings:
    """What is asked for, checked; the arguments of `simulate`."""

    requests: int
    results: int
    model: str
    seed: int
    days: int
    queries: int
    users: int
    systems: tuple[str, ...]
    bots: float
    duplicates: float
    late: float
    early: float
    orphans: float
    hurried: float
    zero_results: float
    test_traffic: float
    cascade: float
    trust: float
    randomised: float

    def __post_init__(self) -> None:
        if problems := list(self._problems()) or list(self._impossible()):
            raise SpecError(problems)

    @property
    def n_bots(self) -> int:
        """Users who are bots."""
        return max(1, round(self.bots * self.users)) if self.bots else 0

    @property
    def burst(self) -> int:
        """Requests of a bot: with one result in twenty left out, well above CROWDED clicks."""
        return max(30, ceil(BURST / self.results)) if self.bots else 0

    @property
    def total(self) -> int:
        """Requests of people and of bots."""
        return self.requests + self.n_bots * self.burst

    @property
    def fates(self) -> dict[str, float]:
        """What can become of a result beside a click -> how often, in shares of the clicks."""
        return {
            "late": self.late,
            "early": self.early,
            "orphan": self.orphans,
            "hurried": self.hurried,
        }

    def _problems(self) -> Iterator[str]:
        if self.model not in MODELS:
            yield unknown("click model", self.model, MODELS)
        yield from self._out_of_range()
        if not self.systems or len(set(self.systems)) < len(self.systems):
            yield f"systems must be one or more names, each once, given {list(self.systems)!r}"

    def _out_of_range(self) -> Iterator[str]:
        if not isinstance(self.seed, int):
            yield f"seed must be a whole number, given {self.seed!r}"
        for name, least in COUNTS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                yield f"{name} must be a whole number, {least} or more, given {value!r}"
        for name in SHARES:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                yield f"{name} must be a share from 0 to 1, given {value!r}"

    def _impossible(self) -> Iterator[str]:
        """What no log can have, though each argument is in its range."""
        planted = sum(self.fates.values())
        if planted > MOST_PLANTED:
            yield (
                f"late, early, orphans and hurried come to {planted:.4g} of the clicks; give at "
                f"most {MOST_PLANTED}"
            )
        likeliest = LIKELIEST + (1 - LIKELIEST) * self.trust
        if self.trust and likeliest * (1 + planted) > 1:
            most = (1 / (1 + planted) - LIKELIEST) / (1 - LIKELIEST)
            yield (
                f"trust {self.trust:.4g} leaves too few unclicked results to plant {planted:.4g} "
                "of the clicks as late, early, orphans and hurried; give a trust of at most "
                f"{most:.2g}"
            )
        if self.model == "cascade" and (self.cascade or self.trust):
            argument = "cascade" if self.cascade else "trust"
            yield f"{argument} only applies to the model position"
        if self.n_bots >= self.users:
            yield f"bots are {self.n_bots:,} of {self.users:,} users; leave one for people"
        elif self._busiest() > CROWDED / 2:
            yield (
                f"{self.requests:,} requests in {self.days:,} days are too many for "
                f"{self.users:,} users, who would look like bots; give more users or days"
            )

    def _busiest(self) -> float:
        """About how many events the busiest person has in an hour."""
        rate = self.requests / ((self.users - self.n_bots) * self.days * 24)
        looked_at = click_model(self.model, self.cascade).looked_at(self.results)
        # six standard deviations above the mean; 0.4 events a result that is looked at
        return (rate + 6 * sqrt(rate) + 3) * looked_at * 0.4


# A world -> the SQL that writes its files.

START = "2026-01-05 00:00:00"
"""When the first request is made: a Monday."""

VERSIONS = 4
"""In how many ways a system ranks a query, from one request to another."""

GRADES = (0.60, 0.20, 0.13, 0.07)
"""Which share of the items of a query has grade 0, 1, 2 and 3."""

ATTRACTION, STEP, SPREAD = 0.05, 0.20, 0.10
"""A click on an examined item: for grade 0, more for each grade, and how far items differ."""

CART, PURCHASE = "0.04e0 + 0.08e0 * grade", "0.3e0 + 0.1e0 * grade"
"""How likely an add_to_cart is after a click, and a purchase after that."""

NOISE = (1.5, 0.5)
"""The standard deviation of the first and of the last ranker's guesses, in grades."""

BURST_MINUTES = 40
"""How long the burst of a bot takes; its last clicks follow in the same hour."""

STAGES = (
    "blocks",
    "request_numbers",
    "request_draws",
    "requests",
    "listed_items",
    "impressions",
    "fates",
    "actions",
    "kinds",
    "event_times",
    "events",
)
"""What an event is made of, in this order."""

_REQUEST_COLUMNS = ("system", "user_id", "country", "device", "is_test")
TABLES: Mapping[str, tuple[str, tuple[str, ...], str]] = MappingProxyType(
    {
        "requests": (
            "requests",
            ("request_id", "query", *_REQUEST_COLUMNS, "requested_at", "n_results"),
            "",
        ),
        "impressions": (
            "impressions",
            ("request_id", "query", "item_id", "position", *_REQUEST_COLUMNS, "shown_at"),
            "",
        ),
        "events": (
            "events",
            ("event_id", "request_id", "item_id", "user_id", "action", "dwell", "happened_at"),
            "",
        ),
        "planted": ("events", ("event_id", "reason"), "reason is not null"),
        "propensities": ("propensities", ("position", "propensity"), ""),
        "relevance": ("candidates", ("query", "item_id", "grade", "attraction"), ""),
    }
)
"""A file -> the stage or table it is read from, its columns, and which rows."""


SHUFFLED = ("requests", "impressions")
"""The files that say which requests were in random order, if some are."""


def statements(world: Settings, files: Mapping[str, Path]) -> Iterator[str]:
    """The SQL that writes the files, in order."""
    view = _view(world)
    # rows keep their order, and files their bytes, whatever the machine
    yield "set threads = 1"
    for name in ("chance", "candidates", "lists"):
        yield print_template(f"clicks/simulation/{name}", view)
    for name, (stage, columns, where) in TABLES.items():
        added = ("is_randomised",) if world.randomised and name in SHUFFLED else ()
        chosen = {"stage": stage, "columns": (*columns, *added), "where": where}
        select = print_template("clicks/simulation/columns", chosen)
        if names := _before(stage):
            stages = [
                Stage(stage_name, f"clicks/simulation/{stage_name}", view) for stage_name in names
            ]
            select = with_stages(stages, select)
        yield print_template("clicks/simulation/copy", {"select": select, "file": str(files[name])})


def _before(stage: str) -> tuple[str, ...]:
    """The stages up to this one; none for a table."""
    if stage in STAGES:
        return STAGES[: STAGES.index(stage) + 1]
    return (stage,) if stage == "propensities" else ()


def _view(world: Settings) -> dict[str, Any]:
    """What the templates print."""
    model = click_model(world.model, world.cascade, world.trust)
    return {
        **{name: getattr(world, name) for name in ("seed", *COUNTS)},
        **{name: double(getattr(world, name)) for name in SHARES},
        **_items(world),
        **_arrivals(world),
        "depth": model.depth,
        "examined": model.examined,
        "appeal": model.appeal,
        "is_randomised": world.randomised > 0,
        "propensity": model.propensity,
        "fates": _fates(world),
        "cart": CART,
        "purchase": PURCHASE,
    }


def _items(world: Settings) -> dict[str, Any]:
    """What there is to find, and how well it is ranked."""
    candidates = 2 * world.results
    return {
        "candidates": candidates,
        "pairs": world.queries * candidates,
        "grades": list(enumerate(double(round(x, 9)) for x in accumulate(GRADES[:-1]))),
        "best": len(GRADES) - 1,
        "least": double(ATTRACTION),
        "step": double(STEP),
        "spread": double(SPREAD),
        "versions": VERSIONS,
        "rankers": _rankers(len(world.systems)),
        "systems": [literal(name) for name in world.systems],
    }


def _arrivals(world: Settings) -> dict[str, Any]:
    """Who comes when: people evenly, bots in bursts among them."""
    return {
        "start": START,
        "bots": world.n_bots,
        "burst": world.burst,
        "total": world.total,
        "block": world.total // max(world.n_bots, 1),
        "people": world.users - world.n_bots,
        "spacing": double(world.days * 24 * 3_600_000 / world.requests),
        "burst_minutes": BURST_MINUTES,
        "burst_spacing": double(BURST_MINUTES * 60_000 / max(world.burst, 1)),
    }


def _rankers(systems: int) -> list[str]:
    """A bucket of users and how noisy its ranker is, from the worst to the best."""
    first, last = NOISE
    step = (first - last) / max(systems - 1, 1)
    return [f"({i}, {double(round(first - i * step, 9))})" for i in range(systems)]


def _fates(world: Settings) -> list[tuple[str, str]]:
    """Where the luck of a planted event ends, in multiples of the luck of a click."""
    ends = accumulate(world.fates.values(), initial=1.0)
    next(ends)
    return [(fate, double(round(end, 9))) for fate, end in zip(world.fates, ends, strict=True)]


# Click logs with a known truth, of any size, written by DuckDB.
#
# Every number in a log is a hash of the seed and of what it is about, so that rows need
# nothing of each other: they stream from a count into Parquet, in memory that grows with the
# queries and hardly with the requests.

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
    if target.is_file():
        raise SpecError(f"{str(folder)!r} is a file; give the name of a folder")
    for file in files.values():
        check_output(file, opening("parquet"), overwrite=overwrite)
    with connect() as engine:
        with output_folder(target, overwrite=overwrite) as new_folder:
            for statement in statements(
                world, {name: new_folder / f.name for name, f in files.items()}
            ):
                engine.execute(statement)
        return _log_of(target, files, engine)


def _log_of(folder: Path, files: Mapping[str, Path], engine: Database) -> SimulatedLog:
    rows = {
        name: engine.rows(f"select count(*) from {literal(str(file))}")[0][0]
        for name, file in files.items()
    }
    reasons = f"select reason, count(*) from {literal(str(files['planted']))} group by reason"
    count_by_reason = dict(engine.rows(reasons))
    planted = {reason: count_by_reason.get(reason, 0) for reason in REASONS}
    return SimulatedLog(folder, files, rows, planted)
