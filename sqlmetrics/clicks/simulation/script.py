"""A world -> the SQL that writes its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlmetrics.clicks.simulation.model import click_model
from sqlmetrics.clicks.simulation.settings import COUNTS, SHARES, Settings
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import double, literal

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

_SHOWN = ("system", "user_id", "country", "device", "is_test")
TABLES: Mapping[str, tuple[str, tuple[str, ...], str]] = MappingProxyType(
    {
        "requests": ("requests", ("request_id", "query", *_SHOWN, "requested_at", "n_results"), ""),
        "impressions": (
            "impressions",
            ("request_id", "query", "item_id", "position", *_SHOWN, "shown_at"),
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
