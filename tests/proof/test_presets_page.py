"""The page of what was compared, `docs/presets/README.md`, has the numbers of this run.

`UPDATE_GOLDEN=1 pytest -n 0 -m "long or not long" tests/proof/test_presets_page.py` writes it,
where the tools are installed; without them the rows of a tool stay as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from live_tools import (
    BY_PRESET,
    CASES,
    ELSEWHERE,
    LIVE,
    NONE,
    SEEDS,
    Key,
    Pair,
    apart,
    marks,
    stated,
    world_pairs,
)
from marked import by_turns, sliced
from slices import kept

from sqlmetrics.catalog.presets import PRESETS

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

PAGE = Path(__file__).resolve().parents[2] / "docs" / "presets" / "README.md"
BORDERS = ("<!-- generated: compared -->\n", "<!-- end -->")
HEAD = ["preset", "compared with", "metric", "k", "values", "largest difference"]
WORKED = "values that it states"
"""What stands in the second column where a tool is not asked itself."""

LOOKED_AT = kept("live on the page", BY_PRESET, 0.25)
"""The presets whose tools are asked all that is on the page, each time; the others by slices."""
LONG = [pytest.mark.long]

Row = list[str]
"""The cells of a row, as `HEAD` names them."""


def live(preset: str) -> list[Row]:
    """What a tool says, compared."""
    ours = [compared for compared in LIVE if compared.preset == preset]
    samples = [
        world_pairs(compared, seed, ties=ties)
        for compared in ours
        for ties in ((False, True) if compared.tied != NONE else (False,))
        for seed in (0, *SEEDS)
    ]
    return list(rows(preset, ours[0].adapter.version(), samples))


def worked(preset: str) -> list[Row]:
    """What its tests, documents and scripts state, compared."""
    cases = [stated(case) for case in CASES if case["preset"] == preset]
    return list(rows(preset, WORKED, cases))


def elsewhere(preset: str) -> list[Row]:
    """Where else a preset is compared."""
    return [[preset, f"`tests/{ELSEWHERE[preset]}`", "see its page", "-", "-", "-"]]


def rows(preset: str, kind: str, samples: Iterable[Mapping[Key, Pair]]) -> Iterator[Row]:
    """One row per metric: its cutoffs, how many values, and how far the furthest two are apart."""
    cutoffs: dict[str, dict[str, None]] = {}
    differences: dict[str, list[float]] = {}
    for (text, _), pair in (item for sample in samples for item in sample.items()):
        name, _, k = text.partition("@")
        cutoffs.setdefault(name, {})[k] = None
        differences.setdefault(name, []).append(apart(*pair))
    for name, distances in differences.items():
        largest = max(distances)
        ranks = sorted(cutoffs[name], key=lambda k: int(k or 0))
        yield [
            preset,
            kind,
            name,
            ", ".join(k or "none" for k in ranks),
            str(len(distances)),
            f"{largest:.0e}" if largest else "0",
        ]


def on_the_page() -> list[Row]:
    """The rows of the page."""
    table = PAGE.read_text(encoding="utf-8").split(BORDERS[0])[1].split(BORDERS[1])[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return [[re.sub(r"\[(.*)\]\(.*\)", r"\1", first), *rest] for first, *rest in cells]


def write(table: list[Row]) -> None:
    """The page with these rows."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BORDERS[0])
    after = rest.split(BORDERS[1])[1]
    linked = ([f"[{preset}]({preset}.md)", *cells] for preset, *cells in table)
    lines = [f"| {' | '.join(cells)} |\n" for cells in (HEAD, ["---"] * len(HEAD), *linked)]
    PAGE.write_text(before + BORDERS[0] + "".join(lines) + BORDERS[1] + after, encoding="utf-8")


def check(fresh: list[Row], preset: str, *, is_live: bool) -> None:
    """The page has these rows, but for versions and last bits; or it is given them.

    Args:
        fresh: The rows of this run.
        preset: Whose rows they are.
        is_live: Whether the tool itself computed the values.
    """

    def of_this(row: Row) -> bool:
        return row[0] == preset and is_live == (row[1] != WORKED)

    if os.environ.get("UPDATE_GOLDEN") == "1" and "PYTEST_XDIST_WORKER" not in os.environ:
        table = [row for row in on_the_page() if not of_this(row)] + fresh
        order = list(PRESETS)
        write(sorted(table, key=lambda row: (order.index(row[0]), row[1] == WORKED)))
    current = [row for row in on_the_page() if of_this(row)]
    assert [row[2:5] for row in current] == [row[2:5] for row in fresh]


@pytest.mark.parametrize(
    "preset",
    [
        pytest.param(preset, marks=[*marks(preset), *([] if preset in LOOKED_AT else LONG)])
        for preset in BY_PRESET
    ],
)
def test_the_page_has_what_was_compared_live(preset: str) -> None:
    check(live(preset), preset, is_live=True)


@by_turns(2.1)
@pytest.mark.parametrize("preset", sliced("page", 0.3, sorted({case["preset"] for case in CASES})))
def test_the_page_has_what_was_compared_with_worked_values(preset: str) -> None:
    check(worked(preset), preset, is_live=False)


@pytest.mark.parametrize("preset", ELSEWHERE)
def test_the_page_says_where_else(preset: str) -> None:
    check(elsewhere(preset), preset, is_live=True)


def test_the_page_has_every_preset_and_every_metric_of_its_tool() -> None:
    names_of_page = {preset: "" for preset, *_ in on_the_page()}
    assert list(names_of_page) == list(PRESETS)
    names = {(row[0], row[2]) for row in on_the_page()}
    for compared in LIVE:
        texts = compared.texts(ties=False)
        assert {(compared.preset, text.partition("@")[0]) for text in texts} <= names


def test_no_difference_on_the_page_is_large() -> None:
    largest = {
        (row[0], row[2]): float(row[5])
        for row in on_the_page()
        if row[1] != WORKED and row[5] != "-"
    }
    assert [
        key for key, difference in largest.items() if difference > BY_PRESET[key[0]].tolerance
    ] == []
