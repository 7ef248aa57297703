"""reconcile names the tool that printed a number: 20 numbers of every tool that presets reproduce.

They are drawn anew from a seed: a metric of the tool's own, random lists with and without equal
scores, and as many decimals as people copy. CI asks the tools where they are installed; of presets
whose tool no pip brings, the numbers are those that sqlmetrics has for them.
"""

from __future__ import annotations

import math
import random
import time

import pytest
from live_tools import DOUBLE, LIVE, Compared, apart, marks, world
from marked import by_turns, sliced
from memory import database, evaluate
from slices import seed
from tool_numbers import N_NUMBERS, PRINTED, is_first, is_of, named, numbers, tables

import sqlmetrics as sm
from sqlmetrics.catalog.presets import PRESETS

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

MISSED = 0.05
SECONDS = 10  # of CPU; some 3, and half as much again beside other work


@pytest.mark.parametrize(
    "compared",
    [
        pytest.param(compared, marks=[*marks(compared.preset), pytest.mark.long], id=str(compared))
        for compared in LIVE
    ],
)
def test_a_tool_s_number_names_it_in_the_first_lines(compared: Compared) -> None:
    """Or one whose number is the same, of 95 % of the numbers; and no mistake before it."""
    missed = []
    for number, (text, value, printed, rankings, labels) in enumerate(numbers(compared)):
        start = time.process_time()
        departures = 1 if number % 4 else 2  # the default, which costs twice as much
        reconciled = sm.reconcile(rankings, labels, text, printed, departures=departures)
        assert time.process_time() - start < SECONDS
        if not is_first(
            [named(line, compared, text, value) for line in reconciled.candidates], reconciled
        ):
            missed.append((text, printed, str(reconciled)))
    assert len(missed) <= MISSED * N_NUMBERS, missed


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
        text = rng.choice([text for text in METRICS if is_of(preset, text)])
        lengths, queries = (1, rng.choice((5, 15, 30))), rng.choice((10, 30, 60))
        ties, world_seed = rng.random() < 0.5, rng.randrange(1, 10_000)
        data = world(world_seed, ties=ties, lengths=lengths, queries=queries)
        most = rng.choice((1, 3))
        labels = {
            q: {i: min(g, most) for i, g in grades.items()} for q, grades in data.labels.items()
        }
        rankings, truth = tables(data.lists, labels)
        value = evaluate(rankings, truth, text, preset=preset)[text]
        if value is None or math.isnan(value):
            continue  # it names nothing
        printed = f"{value:.{rng.choice(PRINTED)}f}"
        reconciled = sm.reconcile(
            rankings, truth, text, printed, departures=0, connection=database()
        )
        same = [
            not candidate.departures and apart(candidate.value, value) < DOUBLE
            for candidate in reconciled.candidates
        ]
        assert is_first(same, reconciled), (text, printed, str(reconciled))


@by_turns(1)
def test_a_tool_with_few_decimals_is_named_by_a_number_that_was_rounded_again() -> None:
    """A mean of 4 / 27 is .14815 for BEIR, and .1482 for who copies four digits of that."""
    lists = {f"q{number}": {"good" if number < 4 else "bad": 1.0} for number in range(27)}
    labels = {query: {"good": 1} for query in lists}
    reconciled = sm.reconcile(
        lists, labels, "recall@1", ".1482", departures=1, connection=database()
    )
    first, *rest = reconciled.candidates
    assert (first.presets, first.decimals) == (("beir", "beir_custom", "mteb"), 5)
    assert first.departures == {}
    assert "whose means have 5 decimals: the number was rounded twice" in first.words
    assert not rest
    plain = sm.reconcile(lists, labels, "recall@1", ".1481", departures=0, connection=database())
    assert {"beir", "ranx"} <= {*plain.candidates[0].presets}
    assert plain.candidates[0].decimals == 0
