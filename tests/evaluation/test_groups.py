"""Labels of groups: found by their column or in TREC qrels, and what other metrics make of them."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from marked import by_turns
from memory import evaluate

import sqlmetrics as sm

pytestmark = by_turns(0.9)

RUN = pa.table({"query_id": ["1"] * 4, "item_id": list("ADEB"), "score": [4.0, 3.0, 2.0, 1.0]})
QRELS = "1 1 A 1\n1 2 B 1\n1 2 D 1\n1 3 C 1\n1 1 B 0\n"
PRINTED = pytest.approx(0.7868, abs=1e-4)
"""What pyndeval prints of alpha-nDCG."""


def labels(name: str = "subtopic") -> pa.Table:
    rows = [line.split() for line in QRELS.splitlines()]
    query, group, item, grade = zip(*rows, strict=True)
    grades = [float(value) for value in grade]
    return pa.table({"query_id": query, name: group, "item_id": item, "grade": grades})


def test_the_qrels_of_a_diversity_task_have_groups(tmp_path: Path) -> None:
    qrels = tmp_path / "diversity.qrels"
    qrels.write_text(QRELS)
    result = evaluate(RUN, qrels, ["alpha_nDCG@5", "ndcg@5"])
    assert result["alpha_ndcg@5"] == PRINTED
    assert "using the iteration of the qrels, their second field, as the group" in str(result)
    with pytest.raises(sm.InputError, match=r"duplicate_labels=max_grade; for .*--group iteration"):
        evaluate(RUN, qrels, "ndcg@5")
    alone = evaluate(RUN, qrels, "ndcg@5", group="iteration", label_columns={"item": "item_id"})
    assert alone["ndcg@5"] == pytest.approx(result["ndcg@5"], abs=1e-12)


def test_a_column_is_taken_as_the_group_where_a_metric_needs_one() -> None:
    result = evaluate(RUN, labels("Nugget_ID"), "alpha_ndcg@5")
    assert result["alpha_ndcg@5"] == PRINTED
    assert "labels: using Nugget_ID as the group" in str(result)
    with pytest.raises(sm.InputError, match="same query: 1"):  # and nowhere else
        evaluate(RUN, labels("nugget"), "ndcg@5")
    with pytest.raises(sm.SpecError, match="needs the groups of labels: name their column"):
        evaluate(RUN, labels("kind"), "alpha_ndcg@5")
    two_groups = labels().append_column("intent", pa.array(list("abcde")))
    with pytest.raises(sm.SpecError, match="needs the groups of labels"):
        evaluate(RUN, two_groups, "alpha_ndcg@5")


def test_repeated_labels_are_told_of_columns_that_may_be_their_group(tmp_path: Path) -> None:
    """And only of these: not of one that is the group already, nor of any other."""
    refused = "choose duplicate_labels=max_grade"
    csv = tmp_path / "labels.csv"
    csv.write_text("query_id,item_id,subtopic,grade\n1,A,x,1\n1,A,y,1\n", encoding="utf-8")
    with pytest.raises(sm.InputError, match=r"group=subtopic \(--group subtopic\)$"):
        evaluate(RUN, csv, "ndcg@5")
    assert evaluate(RUN, csv, "ndcg@5", group="subtopic")["ndcg@5"] == 1
    two_groups = labels("intent").append_column("Nugget", pa.array(list("abcde")))
    with pytest.raises(sm.InputError, match=r"group=Nugget .*; for .*--group intent"):
        evaluate(RUN, two_groups, "ndcg@5")
    with pytest.raises(sm.InputError, match=f"{refused}$"):
        evaluate(RUN, labels("kind"), "ndcg@5")
    twice = pa.concat_tables([labels(), labels()])
    with pytest.raises(sm.InputError, match=f"{refused}$"):
        evaluate(RUN, twice, "ndcg@5", group="subtopic")


@pytest.mark.parametrize(
    ("rank", "looked_at"), [(2, {"p_ia", "evidence_recall"}), (3, {"evidence_recall"})]
)
def test_an_item_without_a_label_may_be_of_any_group(rank: int, looked_at: set[str]) -> None:
    """Sets take ranks of their own, so that no cutoff hides a row; B is labelled in two groups."""
    run = pa.table({"query_id": ["1"] * 4, "item_id": list("BACD"), "score": [4.0, 3.0, 2.0, 1.0]})
    judgments = [row for row in labels().to_pylist() if row["item_id"] != "BAC"[rank - 1]]
    for unjudged in ("nan", "skip"):
        result = evaluate(
            run, judgments, ["p_ia@2", "evidence_recall@2"], group="subtopic", unjudged=unjudged
        )
        values = {row["metric"]: row["value"] for row in result.to_dicts()}
        undefined = {name for name, value in values.items() if value is None or math.isnan(value)}
        assert undefined == looked_at


def test_a_row_of_labels_may_hold_the_items_of_a_group() -> None:
    rows = {"query_id": ["1"] * 3, "group": list("abc"), "item_id": [["A"], ["B", "D"], ["C"]]}
    assert evaluate(RUN, pa.table(rows), "alpha_ndcg@5")["alpha_ndcg@5"] == PRINTED


def test_other_metrics_take_an_items_best_grade() -> None:
    graded = pa.table({"query_id": ["1"] * 3, "item_id": list("AAB"), "grade": [0.0, 3.0, 1.0]})
    ungrouped = evaluate(RUN, graded, "ndcg@5", duplicate_labels="max_grade")
    grouped = evaluate(
        RUN, graded.append_column("intent", pa.array(list("xyx"))), "ndcg@5", group="intent"
    )
    assert grouped["ndcg@5"] == pytest.approx(ungrouped["ndcg@5"], abs=1e-12)


def test_groups_that_cannot_be() -> None:
    joined = RUN.append_column("grade", pa.array([1.0] * 4)).append_column(
        "group", pa.array(list("abcd"))
    )
    with pytest.raises(sm.SpecError, match="it stands in a table of labels of its own"):
        evaluate(joined, None, "alpha_ndcg@5")
    with pytest.raises(sm.SpecError, match="needs each item once"):
        evaluate(RUN, labels(), "alpha_ndcg@5", duplicate_rankings="count")
    with pytest.raises(sm.SpecError, match="cutoff must be at most 20: its ideal list"):
        evaluate(RUN, labels(), "alpha_ndcg@21")
    spec = sm.Spec(
        rankings={"relation": "r"},
        labels={"relation": "l", "columns": {"group": "subtopic"}},
        metrics=["alpha_ndcg@13"],
    )
    with pytest.raises(sm.SpecError, match=r"Apache Spark cannot plan .* cutoff of at most 12"):
        sm.compile(spec, dialect="spark")
