"""What a number hides is said beneath it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sqlmetrics as sm


def world(depth: int) -> tuple[pa.Table, pa.Table]:
    """Ten relevant items a query, of which the best few are shown, in the best order."""
    run = {"query_id": ["q"] * depth, "item_id": [str(i) for i in range(depth)]}
    truth = {"query_id": ["q"] * 10, "item_id": [str(i) for i in range(10)]}
    return (
        pa.table(run | {"score": [float(-i) for i in range(depth)]}),
        pa.table(truth | {"grade": [1] * 10}),
    )


def test_a_good_order_of_bad_candidates_is_told() -> None:
    result = sm.evaluate(*world(2), "candidates@10")
    assert list(map(str, result.measures)) == [
        "ndcg@10",
        "ndcg(ideal=shown_at_k)@10",
        "dcg@10",
        "recall@10",
    ]
    assert result["ndcg(ideal=shown_at_k)@10"] == 1
    assert result["recall@10"] == pytest.approx(0.2)
    (note,) = result.notes
    assert note == (
        "rankings: ndcg(ideal=shown_at_k)@10 is 1.0000, but ndcg@10 0.3590 and recall@10 0.2000: "
        "the shown items are in a good order, but most good items are not shown"
    )
    assert f"note: {note}" in repr(result)


def test_good_candidates_are_no_news() -> None:
    assert sm.evaluate(*world(9), "candidates@10").notes == ()


def test_a_bad_order_hides_nothing() -> None:
    _, truth = world(2)
    bad = pa.table(
        {
            "query_id": ["q"] * 9,
            "item_id": list("abcdefgh0"),
            "score": [float(-i) for i in range(9)],
        }
    )
    assert sm.evaluate(bad, truth, "candidates@10").notes == ()


def test_the_order_of_the_shown_items_alone_is_said_to_be_that() -> None:
    (note,) = sm.evaluate(*world(2), "ndcg@10", preset="evidently").notes
    assert note == (
        "ndcg@10 only measures the order of the shown items; add candidates@10 to see it beside "
        "ndcg, dcg and recall"
    )


def test_under_a_preset_of_shown_items_the_group_still_has_both() -> None:
    result = sm.evaluate(*world(2), "candidates@10", preset="evidently")
    assert result["ndcg(ideal=labels_at_k)@10"] == pytest.approx(0.3589, abs=1e-4)
    assert result["ndcg@10"] == 1
    assert result["recall(recall_denominator=r)@10"] == 0.2
    assert "most good items are not shown" in result.notes[0]


@pytest.mark.parametrize("preset", ["sasrec", "bert4rec", "paddlerec"])
def test_sampled_candidates_are_said_to_be_that(preset: str) -> None:
    (note,) = sm.evaluate(*world(2), "hit@10", preset=preset).notes
    assert "cannot be compared" in note
    assert f"note: {note}" in repr(sm.evaluate(*world(2), "hit@10", preset=preset))
