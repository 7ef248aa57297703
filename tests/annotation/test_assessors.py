"""Sheets by assessor: who gets which rows, and the grades' way through agree and combine."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from datetime import date
from itertools import combinations
from pathlib import Path

import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.annotation import graded_sheet
from sqlmetrics.annotation.sheet import Assessors, Sheet

NAMES = ("query_id", "item_id", "query_text", "item_title", "best_rank", "n_lists", "value")
PEOPLE = ("ann", "bob", "cy")


def sheet(sizes: dict[str, int], *, day: bool = False) -> Sheet:
    """A sheet with so many items of each query."""
    first = (date(2026, 1, 1),) if day else ()
    rows = [
        (*first, query, f"i{item}", "", "", item + 1, 1, 1.0)
        for query, size in sizes.items()
        for item in reversed(range(size))
    ]
    return Sheet((*["metric_date"] * day, *NAMES), tuple(rows), "select 1", ("whole",))


def test_a_query_goes_to_one_person_by_hand() -> None:
    # 5 to ann, 4 to bob, 2 to cy, who has the fewest, and the last 1 again to cy
    dealt = Assessors(PEOPLE).dealt(sheet({"q1": 1, "q2": 4, "q3": 5, "it's": 2}))
    assert dealt.names == ("assessor", "query_id", "item_id", "query_text", "item_title")
    wanted = [("ann", "q3")] * 5 + [("bob", "q2")] * 4 + [("cy", "it's")] * 2 + [("cy", "q1")]
    assert [row[:2] for row in dealt.rows] == wanted
    assert [row[2] for row in dealt.rows[:5]] == ["i0", "i1", "i2", "i3", "i4"]
    assert dealt.notes == ("whole", "rows by assessor: ann 5, bob 4, cy 3")


@pytest.mark.parametrize("day", [False, True])
@pytest.mark.parametrize(("overlap", "n_twice"), [(0.1, 12), (0.105, 13), (1.0, 120), (0.0, 0)])
def test_a_share_of_the_pairs_goes_to_two(overlap: float, n_twice: int, day: bool) -> None:
    sizes = {f"q{number}": number % 5 + 2 for number in range(30)}
    dealt = Assessors(PEOPLE, overlap).dealt(sheet(sizes, day=day))
    graders = defaultdict(list)
    for name, *row in dealt.rows:
        graders[tuple(row[: 2 + day])].append(name)
    assert len(graders) == sum(sizes.values()) == 120
    twice = [frozenset(names) for names in graders.values() if len(names) > 1]
    assert len(twice) == n_twice == len(dealt.rows) - 120
    assert {len(names) for names in twice} <= {2}
    n_rows = Counter(row[0] for row in dealt.rows)
    assert max(n_rows.values()) - min(n_rows.values()) <= max(sizes.values())
    shared = Counter(twice)
    counts = [shared[frozenset(pair)] for pair in combinations(PEOPLE, 2)]
    assert max(counts) - min(counts) <= max(2, 0.1 * n_twice)
    alone = {key[day]: names[0] for key, names in graders.items() if len(names) == 1}
    for key, names in graders.items():
        assert alone.get(key[day], names[0]) in names, "all of a query's pairs have one in common"


RUNS = {
    system: [(query, item) for query in range(9) for item in range(start, start + 4)]
    for start, system in enumerate(("bm25", "dense"))
}


@pytest.fixture
def track(tmp_path: Path) -> Path:
    for name, pairs in RUNS.items():
        lines = [f"q{query} Q0 =d{item} 1 {9 - item} {name}\n" for query, item in pairs]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    return tmp_path


def graded(path: Path, shift: int = 0) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["grade"] = str((int(row["item_id"][2:]) + shift) % 3)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


SHEET = ("sheet", "bm25.run", "dense.run", "--order", "depth")


@by_turns(3)
def test_sheets_to_agreement_to_labels_to_a_leaderboard(track: Path) -> None:
    line = (*SHEET, "--assessors", "ann, bob,cy", "--overlap", "0.2")
    completed = sqlmetrics(*line, "--out", "sheets/", "--excel", folder=track)
    assert "note: rows by assessor: ann 19, bob 17, cy 18; 9 pairs twice" in completed.stderr
    paths = [f"sheets/{name}.csv" for name in PEOPLE]
    for number, path in enumerate(paths):
        graded(track / path, shift=number == 2)
    refused = sqlmetrics(*line, "--out", "sheets", folder=track, expect=2)
    assert "it is a sheet with 19 grades" in refused.stderr
    completed = sqlmetrics("sheet-import", *paths, "--labels", "judged.csv", "--new", folder=track)
    assert "0 labels before, 54 added" in completed.stdout
    table = sm.agree(str(track / "judged.csv"), judge="assessor")
    rows = [row for row in table.coefficients if row["coefficient"] == "agreement"]
    shares = {(row["judge"], row["other_judge"]): row["value"] for row in rows}
    # ann and bob say the same; cy says one more, or 0 where they say 2
    by_two = {("ann", "bob"): 1.0, ("ann", "cy"): 0.0, ("bob", "cy"): 0.0}
    assert shares == by_two | {("all", "all"): 1 / 3}
    combined = ("combine", "judged.csv", "--method", "first", "--out", "one.qrels")
    sqlmetrics(*combined, folder=track)
    lines = (track / "one.qrels").read_text().splitlines()
    assert len(lines) == 45
    assert lines[0] == "q0 0 =d0 1"  # of cy, who says one more
    board = sqlmetrics("leaderboard", *SHEET[1:3], "one.qrels", "-m", "judged@4", folder=track)
    assert board.stdout.count("1.0000") == 2
    # a sheet in one file; again the same grades, and then a new column is not there
    sqlmetrics(*line, "--out", "all.csv", folder=track)
    graded(track / "all.csv")
    kept = ("--conflicts", "keep")
    completed = sqlmetrics("sheet-import", "all.csv", "--labels", "judged.csv", *kept, folder=track)
    assert "0 added, 36 known already, 18 kept" in completed.stdout
    for labels in ("two.qrels", "one.qrels"):
        new = ["--new"] if labels == "two.qrels" else []
        completed = sqlmetrics(
            "sheet-import", "all.csv", "--labels", labels, *new, folder=track, expect=2
        )
        assert f"'{labels}': pairs that two assessors graded: 9 of 45" in completed.stderr
        assert "combine makes one label of them" in completed.stderr
    # without an overlap grades go straight into qrels
    sqlmetrics(*line[:-1], "0", "--out", "single.csv", folder=track)
    graded(track / "single.csv")
    completed = sqlmetrics(
        "sheet-import", "single.csv", "--labels", "two.qrels", "--new", folder=track
    )
    assert "45 added" in completed.stdout


def test_sheets_that_do_not_go_together(tmp_path: Path) -> None:
    texts = {
        "a": "query_id,item_id,grade\nq,x,1\nq,y,\n",
        "b": "query_id,item_id,grade\nq,z,1\nq,x,1\n",
        "c": "assessor,query_id,item_id,grade\nann,q,x,1\n,q,y,1\n",
        "d": "assessor,query_id,item_id,grade\nann,q,x,1\nbob,q,x,2\nann,q,x,2\n",
        "e": "assessor,query_id,item_id,grade\nann,q,x,1\nbob,q,x,2\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    problems = {
        "ab": "/b' and '.*/a' both grade q, x; keep one of the rows",
        "c": "an id is empty: 1 of 2 rows",
        "d": "a query and item appear twice: 1 of 3 rows",
        "ea": "/a' has the ids query_id, item_id, but '.*/e' has query_id, item_id, assessor",
    }
    for names, problem in problems.items():
        with pytest.raises(sm.InputError, match=problem):
            graded_sheet.read_all([str(tmp_path / name) for name in names])
    graded_twice = graded_sheet.read_all([str(tmp_path / "e")])
    assert graded_twice.grades == {("q", "x", "ann"): 1.0, ("q", "x", "bob"): 2.0}


@pytest.mark.parametrize(
    ("names", "overlap", "message"),
    [
        (("ann", "bob", "Ann"), 0, "each assessor must be named once, in upper or lower case"),
        (("ann", "../bob"), 0, "an assessor is the name of a file, too"),
        (("ann",), 0.1, "overlap needs two assessors or more; name them with --assessors"),
        ((), 0.1, "overlap needs two assessors or more"),
        (("ann", "bob"), 10, "overlap must be a share from 0 to 1, like 0.1, given 10"),
        (("ann", "bob"), float("nan"), "overlap must be a share from 0 to 1"),
    ],
)
def test_people_that_cannot_be(names: tuple[str, ...], overlap: float, message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        Assessors(names, overlap).check()
