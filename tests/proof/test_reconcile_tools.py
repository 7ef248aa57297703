"""reconcile names the tool that printed a number: 20 numbers of every tool that presets reproduce.

They are drawn anew from a seed: a metric of the tool's own, random lists with and without equal
scores, and as many decimals as people copy. CI asks the tools where they are installed; of presets
whose tool no pip brings, the numbers are those that sqlmetrics has for them.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from live_tools import DOUBLE, LIVE, NONE, Compared, apart, marks, world
from marked import by_turns, sliced
from memory import database, evaluate
from slices import seed
from tools import Labels, Lists

import sqlmetrics as sm
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.proof.reconcile.result import Candidate

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

EACH = 20
MISSED = 0.05
LINES = 3
SECONDS = 5
PRINTED = (4, 5)
"""How many decimals people copy."""


@pytest.mark.parametrize(
    "compared",
    [pytest.param(one, marks=[*marks(one.preset), pytest.mark.long], id=str(one)) for one in LIVE],
)
def test_a_tool_s_number_names_it_in_the_first_lines(compared: Compared) -> None:
    """Or one whose number is the same, of 95 % of the numbers; and no mistake before it."""
    missed = []
    for place, (asked, value, printed, rankings, labels) in enumerate(numbers(compared)):
        start = time.process_time()
        departures = 1 if place % 4 else 2  # the default, which costs twice as much
        found = sm.reconcile(rankings, labels, asked, printed, departures=departures)
        assert time.process_time() - start < SECONDS
        if not is_first([named(line, compared, asked, value) for line in found.candidates], found):
            missed.append((asked, printed, str(found)))
    assert len(missed) <= MISSED * EACH, missed


def is_first(named: list[bool], found: sm.Reconciliation) -> bool:
    """Whether one of the first lines is named, and none before it is a mistake alone."""
    place = named.index(True) if True in named else LINES
    return place < LINES and all(line.presets for line in found.candidates[:place])


def named(line: Candidate, compared: Compared, asked: str, value: float) -> bool:
    """Whether a line names the tool with what its metric's text says, or a tool that is equal."""
    said = set(re.findall(r"(\w+)=", asked))
    is_it = compared.preset in line.presets and set(line.departures) <= said
    return is_it or (not line.departures and apart(line.value, value) <= compared.tolerance)


def numbers(compared: Compared) -> Iterator[tuple[str, float, str, pa.Table, pa.Table]]:
    """What the tool prints: the metric, the number, its digits, and the tables it is of."""
    rng = random.Random(f"{seed()} {compared}")
    for _ in range(EACH):
        ties = compared.tied != NONE and rng.random() < 0.5
        texts = [text for text in compared.texts(ties=ties) if _is_of(compared.preset, text)]
        text = rng.choice(texts)
        data = compared.world(rng.randrange(1, 10_000), ties=ties)
        value = compared.adapter.mean(data.lists, data.labels, text)
        printed = f"{value:.{rng.choice(PRINTED)}f}"
        yield text, value, printed, *tables(data.lists, data.labels)


def _is_of(preset: str, text: str) -> bool:
    metric = parse(text)
    return PRESETS[preset].has(metric.metric.name, metric.k)


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


# --- Without the tools ----------------------------------------------------------------------------

METRICS = [
    *("ndcg", "ndcg@3", "ndcg@10", "ap", "ap@3", "ap@10", "mrr", "mrr@3", "mrr@10", "f1@3"),
    *("recall@1", "recall@10", "precision@1", "precision@10", "hit@1", "hit@3"),
]


@by_turns(2)
@pytest.mark.parametrize("preset", sliced("numbers of presets", 0.1, PRESETS))
def test_a_preset_s_number_names_it_in_the_first_lines(preset: str) -> None:
    """On lists of many lengths, of few and of many queries, with grades and without."""
    rng = random.Random(f"{seed()} {preset}")
    for _ in range(2):
        text = rng.choice([text for text in METRICS if _is_of(preset, text)])
        lengths, queries = (1, rng.choice((5, 15, 30))), rng.choice((10, 30, 60))
        ties, world_seed = rng.random() < 0.5, rng.randrange(1, 10_000)
        data = world(world_seed, ties=ties, lengths=lengths, queries=queries)
        most = rng.choice((1, 3))
        labels = {q: {i: min(g, most) for i, g in own.items()} for q, own in data.labels.items()}
        rankings, truth = tables(data.lists, labels)
        value = evaluate(rankings, truth, text, preset=preset)[text]
        if value is None or math.isnan(value):
            continue  # it names nothing
        printed = f"{value:.{rng.choice(PRINTED)}f}"
        found = sm.reconcile(rankings, truth, text, printed, departures=0, connection=database())
        same = [not one.departures and apart(one.value, value) < DOUBLE for one in found.candidates]
        assert is_first(same, found), (text, printed, str(found))


@by_turns(1)
def test_a_tool_with_few_decimals_is_named_by_a_number_that_was_rounded_again() -> None:
    """A mean of 4 / 27 is .14815 for BEIR, and .1482 for who copies four digits of that."""
    lists = {f"q{number}": {"good" if number < 4 else "bad": 1.0} for number in range(27)}
    labels = {query: {"good": 1} for query in lists}
    found = sm.reconcile(lists, labels, "recall@1", ".1482", departures=1, connection=database())
    first, *others = found.candidates
    assert (first.presets, first.decimals) == (("beir", "beir_custom", "mteb"), 5)
    assert first.departures == {}
    assert "whose means have 5 decimals: the number was rounded twice" in first.words
    assert not others
    plain = sm.reconcile(lists, labels, "recall@1", ".1481", departures=0, connection=database())
    assert {"beir", "ranx"} <= {*plain.candidates[0].presets}
    assert plain.candidates[0].decimals == 0
