"""reconcile names the tool that printed a number: 300 numbers of the tools that presets reproduce.

They are drawn anew from a seed: a tool, a metric of its own, random lists with and without equal
scores, and as many decimals as people copy. CI asks the tools where they are installed.
"""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from test_presets import LIVE, NONE, Compared, apart, marks
from tools import Labels, Lists

import sqlmetrics as sm
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.proof.reconcile.result import Candidate

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

EACH = math.ceil(300 / len(LIVE))
LINES = 3
SECONDS = 5


@pytest.mark.parametrize(
    "compared",
    [pytest.param(one, marks=[*marks(one.preset), pytest.mark.long], id=str(one)) for one in LIVE],
)
def test_a_tool_s_number_names_it_in_the_first_lines(compared: Compared) -> None:
    """Or one whose number is the same; of ten numbers, one may be missed."""
    missed = []
    for asked, value, printed, rankings, labels in numbers(compared):
        start = time.process_time()
        found = sm.reconcile(rankings, labels, asked, printed, departures=1)
        assert time.process_time() - start < SECONDS
        if not any(named(one, compared, asked, value) for one in found.candidates[:LINES]):
            missed.append((asked, printed, str(found)))
    assert len(missed) <= EACH / 20 + 0.5, missed


def named(line: Candidate, compared: Compared, asked: str, value: float) -> bool:
    """Whether a line names the tool with what its metric's text says, or a tool that is equal."""
    said = set(re.findall(r"(\w+)=", asked))
    is_it = compared.preset in line.presets and set(line.departures) <= said
    return is_it or (not line.departures and apart(line.value, value) <= compared.tolerance)


def numbers(compared: Compared) -> Iterator[tuple[str, float, str, pa.Table, pa.Table]]:
    """What the tool prints: the metric, the number, its digits, and the tables it is of."""
    seed = os.environ.get("SQLMETRICS_SEED", "")
    rng = random.Random(f"{seed} {compared}")
    for _ in range(EACH):
        ties = compared.tied != NONE and rng.random() < 0.5
        texts = [text for text in compared.texts(ties=ties) if _is_of(compared.preset, text)]
        text = rng.choice(texts)
        data = compared.world(rng.randrange(1, 10_000), ties=ties)
        value = compared.adapter.mean(data.lists, data.labels, text)
        printed = f"{value:.{rng.choice((4, 5))}f}"
        yield text, value, printed, *tables(data.lists, data.labels)


def _is_of(preset: str, text: str) -> bool:
    return PRESETS[preset].has(text.partition("@")[0].partition("(")[0])


def tables(lists: Lists, labels: Labels) -> Iterator[pa.Table]:
    """The lists and the labels as tables."""
    columns: list[tuple[str, Lists | Labels]] = [("score", lists), ("grade", labels)]
    for column, found in columns:
        rows = [
            {"query_id": query, "item_id": item, column: float(number)}
            for query, items in found.items()
            for item, number in items.items()
        ]
        yield pa.Table.from_pylist(rows)
