"""An item that a list holds twice: what the tools do with it, asked live, and which option is that.

Presets refuse repeats unless their tool has one rule for all its metrics; `duplicate_rankings`
then chooses. A preset's page says which choice is its tool's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import peer
from live_tools import BY_PRESET, DOUBLE, apart, marks
from marked import by_turns
from peer_data import Data
from tools import Labels, Repeat

import sqlmetrics as sm

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

PAGES = Path(__file__).resolve().parents[2] / "docs" / "presets"
ALL = ("",)
REPEATS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sklearn": {"count": ALL},
    "lightgbm": {"count": ALL},
    "catboost": {"count": ALL},
    "ignite": {"count": ALL},
    "torchmetrics": {"count": ALL},
    "mind": {"count": ALL},
    "evidently": {"count": ALL},
    "daisyrec": {"count": ALL},
    "lenskit": {"count": ALL},
    "pyvespa": {"count": ALL},
    "haystack": {"first": ALL},
    "llamaindex": {"count": ("ndcg", "ap", "mrr", "hit"), "first": ("recall",)},
    "recommenders": {"count": ("precision", "recall", "ap")},
    "replay": {"count": ("ndcg", "ap", "mrr", "hit"), "first": ("recall", "precision")},
    "rectools": {"count": ("ndcg", "precision@", "mrr", "hit")},
}
"""Preset -> choice of duplicate_rankings -> how the metrics begin of which it is the rule."""


def repeated(seed: int, shortest: int) -> Data:
    """Lists of up to 1,000 rows, many of them of items that stand above already."""
    rng = random.Random(seed)
    lists: dict[str, dict[str, float]] = {}
    labels: Labels = {}
    for number, length in enumerate((1, 2, 3, 5, 9, 14, 28, 28, 90, 1000)):
        rows = max(length, shortest)
        pool = [f"i{item}" for item in range(rows + 4)]
        rng.shuffle(pool)
        ids = rng.choices(pool[: max(1, rows * 2 // 3)], k=rows)
        scores = sorted(rng.sample(range(1, 4000), rows), reverse=True)
        lists[f"q{number}"] = {
            Repeat(item): float(score) for item, score in zip(ids, scores, strict=True)
        }
        labelled = rng.sample(pool, rng.randint(2, min(len(pool), 40)))
        grades = rng.choices((0, 1, 2, 3), (2, 3, 2, 1), k=len(labelled))
        labels = {**labels, f"q{number}": dict(zip(labelled, grades, strict=True))}
        labels[f"q{number}"] |= {rng.choice(ids): rng.choice((1, 2))}
    return Data(lists, labels | {"missing": {"i1": 1}})


@pytest.mark.parametrize(
    ("preset", "policy"),
    [
        pytest.param(preset, policy, marks=[*marks(preset), pytest.mark.long])
        for preset, policies in REPEATS.items()
        for policy in policies
    ],
)
def test_repeats_count_as_the_tool_counts_them(preset: str, policy: str) -> None:
    compared = BY_PRESET[preset]
    tool, n_values = compared.adapter, 0
    prefixes = REPEATS[preset][policy]
    texts = [text for text in compared.texts(ties=False) if text.startswith(prefixes)]
    for seed in (1, 2):
        data = compared.data(repeated(seed, compared.lengths[0]))
        ours = data.ours(texts, preset, duplicate_rankings=policy)
        for text in texts:
            theirs = tool.per_query(data.lists, data.labels, text)
            n_values += len(theirs)
            wrong = {
                query: (ours.get((text, query)), value)
                for query, value in theirs.items()
                if not apart(ours.get((text, query)), value) <= max(compared.tolerance, DOUBLE)
            }
            assert not wrong, text
    assert n_values > 50


def test_the_page_of_a_preset_says_what_its_tool_does_with_repeats() -> None:
    table = (PAGES / "README.md").read_text(encoding="utf-8").partition("twice in a list\n")[2]
    for preset, policies in REPEATS.items():
        assert f"| [{preset}]({preset}.md) |" in table
        page = (PAGES / f"{preset}.md").read_text(encoding="utf-8")
        assert all(f"`-c duplicate_rankings={policy}`" in page for policy in policies), preset


ROWS = [("a", 5.0), ("b", 4.0), ("a", 3.0), ("c", 1.0)]


@pytest.mark.parametrize("preset", ["ir_measures", "msmarco"])
def test_the_last_row_of_an_item_counts(preset: str) -> None:
    """So that b is first: the first relevant item of a, b, a, c is at rank 2."""
    tool = peer("ir_measures")
    measure = tool.RR @ 10 if preset == "msmarco" else tool.RR
    provider = tool.providers.registry["msmarco" if preset == "msmarco" else "pytrec_eval"]
    run = [tool.ScoredDoc("q", item, score) for item, score in ROWS]
    labels = [tool.Qrel("q", item, 1) for item in "ac"]
    assert [row.value for row in provider.iter_calc([measure], labels, run)] == [0.5]
    assert "keeps its last row alone" in (PAGES / f"{preset}.md").read_text(encoding="utf-8")


@by_turns(0.8)
def test_a_preset_refuses_repeats() -> None:
    rows = [{"query_id": "q", "item_id": item, "score": score} for item, score in ROWS]
    for preset in (*REPEATS, "ir_measures", "msmarco", "ranx", "trec_eval", "trec_eval_9"):
        with pytest.raises(sm.InputError, match="more than once"):
            sm.evaluate(rows, {"q": {"a": 1}}, "ndcg@10", preset=preset)
