"""Labelling sheets: what is asked for, and that no id and no label is ever lost on the way."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.annotation import csv_file, graded_sheet, sheet
from sqlmetrics.annotation.graded_sheet import ImportReport, add
from sqlmetrics.annotation.pool import Queue
from sqlmetrics.annotation.sample import draw
from sqlmetrics.engines.database import connect

pytestmark = by_turns(0.2)

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"query": "query_id", "item": "item_id", "grade": "grade"}
HOSTILE = [
    "007",
    "1e5",
    "a,b",
    'say "x"',
    "=1+1",
    "@SUM(A1)",
    "-1",
    "two\nlines",
    "cr\rreturn",
    "crlf\r\nend",
    " spaces ",
    "tab\tin",
    "semi;colon",
    "ünï€😀",
    "'quoted'",
    "NULL",
    "#hash",
    "\\back\\",
    "2026-01-31",
    "12345678901234567890",
]


def world(**overrides: object) -> sm.Spec:
    """Two systems, three queries, one label.

    q1: old a b, new b c; q2: old a; q3: new a. Label: q1 a.
    """
    rows = [
        ("old", "q1", "a", 2.0, 4.0),
        ("old", "q1", "b", 1.0, 4.0),
        ("old", "q2", "a", 1.0, 1.0),
        ("new", "q1", "b", 2.0, 4.0),
        ("new", "q1", "c", 1.0, 4.0),
        ("new", "q3", "a", 1.0, 1.0),
    ]
    names = ["model", "query_id", "item_id", "score", "w"]
    rankings = pa.table([list(column) for column in zip(*rows, strict=True)], names)
    labels = pa.table({"query_id": ["q1"], "item_id": ["a"], "grade": [1]})
    options = {
        "rankings": {"data": rankings, "columns": {"score": "score", "system": "model"}},
        "labels": {"data": labels},
        "metrics": ["ndcg@2"],
    }
    return sm.Spec(**options | overrides)


def rows_of(spec: sm.Spec, k: int = 2, **options: object) -> list[tuple[object, ...]]:
    with connect() as engine:
        return list(sheet.unjudged_sheet(spec, engine, k, **options).rows)


# what is asked for


def test_the_most_valuable_pairs_come_first() -> None:
    # discount(1) = 1, discount(2) = 1 / log2(3) = 0.63092975...
    # q1 b: rank 2 in old, 1 in new; q1 c: rank 2 in new; q2 a and q3 a: rank 1 in one
    assert rows_of(world()) == [
        ("q1", "b", "", "", 1, 2, 1.630929754),
        ("q2", "a", "", "", 1, 1, 1.0),
        ("q3", "a", "", "", 1, 1, 1.0),
        ("q1", "c", "", "", 2, 1, 0.630929754),
    ]


def test_k_limit_and_labelled_queries() -> None:
    assert [row[:2] for row in rows_of(world(), 1)] == [("q1", "b"), ("q2", "a"), ("q3", "a")]
    assert [row[:2] for row in rows_of(world(), queue=Queue(limit=2))] == [("q1", "b"), ("q2", "a")]
    only = rows_of(world(), labelled_queries=True)
    assert [row[:2] for row in only] == [("q1", "b"), ("q1", "c")]
    for wrong in ({"k": 0}, {"queue": Queue(limit=0)}):
        with pytest.raises(sm.SpecError, match="must be 1 or more, a whole number, given 0"):
            rows_of(world(), **wrong)


def test_the_value_is_weighted() -> None:
    columns = {"score": "score", "system": "model", "weight": "w"}
    rankings = {"data": world().rankings.data, "columns": columns}
    values = [row[-1] for row in rows_of(world(rankings=rankings))]
    assert values == [6.523719014, 2.523719014, 1.0, 1.0]


def test_the_value_takes_the_spec_s_discount_and_weights_of_the_queries() -> None:
    queries = pa.table({"query_id": ["q1", "q2"], "w": [10.0, 2.0]})
    spec = world(
        queries={"data": queries, "columns": {"weight": "w"}},
        conventions={"discount": "log2_max2"},
    )
    # ranks 1 and 2 weigh 1; q3 is not among the queries: its weight is not known
    with connect() as engine:
        unjudged = sheet.unjudged_sheet(spec, engine, 2, check=False)
    assert [(row[:2], row[-1]) for row in unjudged.rows] == [
        (("q1", "b"), 20.0),
        (("q1", "c"), 10.0),
        (("q2", "a"), 2.0),
        (("q3", "a"), 0.0),
    ]


def test_texts_and_titles() -> None:
    queries = pa.table({"qid": ["q1", "q2"], "q": ["=red shoes", None]})
    # an item of two titles, of which the first by the alphabet is shown
    items = pa.table({"sku": ["b", "b"], "name": ["b", 'a "b"\nc']})
    spec = world(
        queries={"data": queries, "columns": {"query": "qid", "text": "q"}},
        items={"data": items, "columns": {"item": "sku", "title": "name"}},
    )
    with connect() as engine:
        unjudged = sheet.unjudged_sheet(spec, engine, 2)
    rows = list(csv.DictReader(io.StringIO(str(unjudged), newline="")))
    assert [(row["query_text"], row["item_title"]) for row in rows] == [
        ("'=red shoes", 'a "b"\nc'),  # what is only looked at cannot become a formula
        ("", ""),
        ("", ""),
        ("'=red shoes", ""),
    ]


def test_condensed_lists_show_what_they_leave_out() -> None:
    assert rows_of(world(conventions={"unjudged": "condensed"})) == rows_of(world())


def test_labels_of_a_day_are_asked_for_by_the_day() -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    rankings = pa.table(
        {"ds": days, "query_id": ["q", "q"], "item_id": ["a", "a"], "score": [1.0, 1.0]}
    )
    labels = pa.table({"ds": days[:1], "query_id": ["q"], "item_id": ["a"], "grade": [1]})
    spec = sm.Spec(
        rankings={"data": rankings, "columns": {"score": "score", "date": "ds"}},
        labels={"data": labels, "columns": {"date": "ds"}},
        metrics=["mrr"],
    )
    with connect() as engine:
        unjudged = sheet.unjudged_sheet(spec, engine, 1)
    assert unjudged.names[0] == "metric_date"
    assert [row[:3] for row in unjudged.rows] == [(days[1], "q", "a")]
    # labels without a day hold for both: there is nothing to ask
    timeless = sm.Spec(rankings=spec.rankings, labels={"data": labels}, metrics=["mrr"])
    assert rows_of(timeless, 1) == []


def test_the_sql_is_readable() -> None:
    weighted = {"score": "score", "system": "model", "weight": "w"}
    spec = world(rankings={"data": world().rankings.data, "columns": weighted})
    with connect() as engine:
        few = Queue(limit=3)
        sql = sheet.unjudged_sheet(spec, engine, 2, queue=few, labelled_queries=True).executed_sql
        shares = Queue("move-to-front", 3, 2, {"old": 0.5, "new": 2}, 2.5)
        turns = sheet.unjudged_sheet(spec, engine, 2, queue=shares).executed_sql
        sample_sql = draw(spec, engine, 3, by=["model"], traffic=True).executed_sql
    assert "\npool as (\n" in sql
    assert "\nunits as (\n" in sample_sql
    assert sql.endswith("limit 3")
    for text in (sql, turns, sample_sql):
        assert max(map(len, text.splitlines())) <= 88
        assert not re.search(r"\n\n\n| \n", text)
        for order in re.findall(r"order by ([^\n]+)", text):
            assert order.count(" asc") + order.count(" desc") == order.count(",") + 1


# there and back


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with rankings of every hostile id, and one label."""
    pairs = [(q, i) for q in HOSTILE for i in HOSTILE]
    query, item = ([pair[index] for pair in pairs] for index in (0, 1))
    scores = [float(n) for n in range(len(pairs))]
    pq.write_table(
        pa.table({"query_id": query, "item_id": item, "score": scores}), tmp_path / "r.parquet"
    )
    _spec(tmp_path, "labels.csv")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\n007,007,1\n")
    pq.write_table(
        pa.table({"query_id": ["007"], "item_id": ["007"], "grade": [1], "who": ["me"]}),
        tmp_path / "labels.parquet",
    )
    return tmp_path


def _spec(folder: Path, labels: str) -> Path:
    path = folder / f"{labels}.yml"
    path.write_text(
        "rankings: {file: r.parquet, columns: {score: score}}\n"
        f"labels: {{file: {labels}}}\nmetrics: [ndcg@50]\n"
    )
    return path


def grade(path: Path, grades: list[str]) -> list[dict[str, str]]:
    """Fill in a sheet as a careful person would: the grades in turn, all else as it is."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for i, row in enumerate(rows):
        row["grade"] = grades[i % len(grades)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.mark.parametrize("labels", ["labels.csv", "labels.parquet"])
def test_hostile_ids_come_back_exactly(hostile: Path, labels: str) -> None:
    spec = _spec(hostile, labels).name
    line = ["sheet", spec, "-k", "50", "--out", "sheet.csv", "--excel"]
    notes = sqlmetrics(*line, folder=hostile).stderr
    n = len(HOSTILE) ** 2
    assert f"{n - 1} rows to grade" in notes
    assert "rows have an id that begins with =" in notes
    rows = grade(hostile / "sheet.csv", ["0", "2", "", "1.5"] if labels[-1] == "v" else ["3", ""])
    grades = {(r["query_id"], r["item_id"]): r["grade"] for r in rows}
    assert set(grades) == {(q, i) for q in HOSTILE for i in HOSTILE} - {("007", "007")}
    out = sqlmetrics("sheet-import", "sheet.csv", "--labels", labels, folder=hostile).stdout
    graded_ones = {key: float(text) for key, text in grades.items() if text}
    empty = n - 1 - len(graded_ones)
    assert out == (
        f"{labels}: 1 labels before, {len(graded_ones)} added, 0 known already, "
        f"{empty} not graded yet; {len(graded_ones) + 1} labels now\n"
    )
    # what the evaluation reads is what was graded: only what was left empty is asked again
    sqlmetrics("sheet", spec, "-k", "50", "--out", "again.csv", folder=hostile)
    again = csv_file.read(hostile / "again.csv")
    pairs = {row[:2] for row in again.rows}
    assert pairs == {key for key, text in grades.items() if not text}
    names = ("query_id", "item_id", "grade")
    if labels == "labels.parquet":
        table = pq.read_table(hostile / labels)
        assert table["who"].to_pylist() == ["me"] + [None] * len(graded_ones)
        label_rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    else:
        with (hostile / labels).open(newline="", encoding="utf-8") as file:
            label_rows = [tuple(row[name] for name in names) for row in csv.DictReader(file)]
    assert {(q, i): float(g) for q, i, g in label_rows} == graded_ones | {("007", "007"): 1.0}


def test_a_sheet_as_excel_saves_it(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_bytes("\ufeffquery_id;item_id;grade\r\nq;ä;2\r\n;;\r\n".encode())
    graded = graded_sheet.read(tmp_path / "sheet.csv")
    assert (graded.grades, graded.n_ungraded) == ({("q", "ä"): 2.0}, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query_id,item_id,grad\nq,a,1\n", "unknown column 'grad'; did you mean 'grade'?"),
        ("query_id,grade\nq,1\n", "the column item_id is missing"),
        ("query_id,item_id,grade\nq,a,good\nq,b,-1\nq,c,nan\nq,d,1e999\n", "4 of 4 rows"),
        ('query_id,item_id,grade\nq,a,"2,5"\n', "a grade is not a number of 0 or more"),
        ("query_id,item_id,grade\nq,a,1\nq,a,1\n", "a query and item appear twice: 1 of 2 rows"),
        ("query_id,item_id,grade\nq,a,1\nq,a,\n", "a query and item appear twice"),
        ("query_id,item_id,grade\n,a,1\n", "an id is empty"),
        ("query_id,item_id,grade\nq,a\n", "line 2 has 2 fields, but its header has 3"),
        ("query_id,item_id,grade,grade\nq,a,1,2\n", "two columns called 'grade'"),
        ('query_id,item_id,grade\nq,"a,1\n', "line 2: "),
        ("", "has no header line"),
    ],
)
def test_a_wrong_sheet_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "sheet.csv").write_text(text, newline="")
    labels = tmp_path / "labels.csv"
    labels.write_text("query_id,item_id,grade\nq,z,1\n")
    with pytest.raises(sm.InputError, match=re.escape(message)):
        add(str(tmp_path / "sheet.csv"), str(labels), COLUMNS)
    assert labels.read_text() == "query_id,item_id,grade\nq,z,1\n"


def test_not_utf8_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_bytes("query_id,item_id,grade\nä,b,1\n".encode("cp1252"))
    with pytest.raises(sm.InputError, match=r"is not UTF-8 .byte 23.; save it as 'CSV UTF-8'"):
        graded_sheet.read(tmp_path / "sheet.csv")
    with pytest.raises(sm.InputError, match=r"cannot read .*No such file"):
        graded_sheet.read(tmp_path / "nowhere.csv")


def test_ids_that_a_spreadsheet_changed_are_found(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    key = csv_file.fingerprint("q", "007")
    path.write_text(f"query_id,item_id,grade,row_key\nq,007,1,{key}\n")
    assert graded_sheet.read(path).grades == {("q", "007"): 1.0}
    path.write_text(f"query_id,item_id,grade,row_key\nq,7,1,{key}\n")
    with pytest.raises(
        sm.InputError, match="some ids differ from those that were exported: 1 of 1 rows"
    ):
        graded_sheet.read(path)


# adding


def _sheet(folder: Path, *rows: str) -> str:
    path = folder / "sheet.csv"
    path.write_text("\n".join(["query_id,item_id,grade", *rows]) + "\n")
    return str(path)


OLD = b'\xef\xbb\xbfwho,query_id,item_id,grade\r\nme,"q,1",a,1\r\nyou,q2,a,2.50'
"""A mark, another order and column, quotes, CRLF, no end of the last line."""


def test_old_bytes_stay_as_they_are(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(OLD)
    labels.chmod(0o640)
    report = add(_sheet(tmp_path, '"q,1",a,1', "q2,a,2.5", "q3,b,3", "q3,c,"), str(labels), COLUMNS)
    assert report == ImportReport(n_before=2, n_added=1, n_known=2, n_kept=0, n_ungraded=1)
    assert labels.read_bytes() == OLD + b"\r\n,q3,b,3\r\n"
    assert stat.S_IMODE(labels.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "sheet.csv"]
    # once more: nothing is new, nothing changes
    before = labels.stat().st_mtime_ns
    assert add(_sheet(tmp_path, "q3,b,3"), str(labels), COLUMNS).n_known == 1
    assert labels.stat().st_mtime_ns == before


def test_conflicts_are_told_and_can_be_kept(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(OLD)
    path = _sheet(tmp_path, "q2,a,0", "q3,b,1")
    with pytest.raises(
        sm.InputError, match="labels that have another grade in the sheet: 1"
    ) as refused:
        add(path, str(labels), COLUMNS)
    assert "2.5" in str(refused.value)
    assert labels.read_bytes() == OLD
    report = add(path, str(labels), COLUMNS, conflicts="keep")
    assert (report.n_added, report.n_kept) == (1, 1)
    assert labels.read_bytes().startswith(OLD)


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    schema = pa.schema(
        [("grade", pa.int8()), ("query_id", pa.int64()), ("item_id", pa.large_string())],
        metadata={"made": "by us"},
    )
    labels = tmp_path / "labels.parquet"
    pq.write_table(pa.table([[1], [5], ["a"]], schema=schema), labels)
    add(_sheet(tmp_path, "5,b,3", "6,a,0"), str(labels), COLUMNS)
    table = pq.read_table(labels)
    assert table.schema.equals(schema)
    assert table.schema.metadata[b"made"] == b"by us"
    assert table.to_pydict() == {
        "grade": [1, 3, 0],
        "query_id": [5, 5, 6],
        "item_id": ["a", "b", "a"],
    }
    before = labels.read_bytes()
    for row, message in (
        ("5,c,2.5", "'2.5' does not fit the column grade, which is int8"),
        ("007,a,1", "'007' does not fit the column query_id, which is int64"),
        ("x,a,1", "'x' does not fit the column query_id"),
    ):
        with pytest.raises(sm.InputError, match=message):
            add(_sheet(tmp_path, row), str(labels), COLUMNS)
        assert labels.read_bytes() == before


def test_labels_of_days(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("ds,query_id,item_id,grade\n2026-01-01,q,a,1\n")
    path = tmp_path / "sheet.csv"
    path.write_text("metric_date,query_id,item_id,grade\n2026-01-01,q,a,1\n2026-01-02,q,a,2\n")
    with pytest.raises(sm.SpecError, match="with --date"):
        add(str(path), str(labels), COLUMNS)
    assert add(str(path), str(labels), COLUMNS | {"date": "ds"}).n_added == 1
    assert labels.read_text().splitlines()[-1] == "2026-01-02,q,a,2"


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_new_labels(tmp_path: Path, name: str) -> None:
    labels = tmp_path / name
    path = _sheet(tmp_path, "q,a,1", "q,b,0.5")
    with pytest.raises(sm.SpecError, match=r"there is no file .*; add --new to create it"):
        add(path, str(labels), COLUMNS)
    assert add(path, str(labels), COLUMNS, new=True).n_added == 2
    with pytest.raises(sm.SpecError, match="already exists; leave out --new"):
        add(path, str(labels), COLUMNS, new=True)
    result = sm.evaluate(
        pa.table({"query_id": ["q"], "item_id": ["b"], "score": [1.0]}), str(labels), ["cg@1"]
    )
    assert result["cg@1"] == 0.5


def test_nothing_is_lost_if_the_last_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(OLD)
    path = _sheet(tmp_path, "q9,a,1")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(sm.EngineError, match=r"cannot write .*No space left on device"):
                add(path, str(labels), COLUMNS)
        assert labels.read_bytes() == OLD
        assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "sheet.csv"]


def test_nothing_is_lost_if_somebody_else_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(OLD)
    theirs = OLD + b"\r\nthem,q7,a,1\r\n"
    sync = os.fsync

    def meanwhile(handle: int) -> None:
        sync(handle)
        labels.write_bytes(theirs)

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(sm.InputError, match="was changed during the import; import again"):
        add(_sheet(tmp_path, "q9,a,1"), str(labels), COLUMNS)
    assert labels.read_bytes() == theirs


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "labels.csv"
    real.write_bytes(OLD)
    link = tmp_path / "labels.csv"
    link.symlink_to(real)
    add(_sheet(tmp_path, "q9,a,1"), str(link), COLUMNS)
    assert link.is_symlink()
    assert real.read_bytes().startswith(OLD)


# the command line


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder that docs/labelling.md works in."""
    rankings = world().rankings.data
    pq.write_table(rankings, tmp_path / "rankings.parquet")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq1,a,1\n")
    (tmp_path / "queries.csv").write_text(
        "query_id,text,country,traffic\nq1,red shoes,de,70\nq2,socks,de,20\nq3,hat,fr,10\n"
    )
    (tmp_path / "items.csv").write_text("item_id,title\na,Shoe\nb,Sock\n")
    page = (ROOT / "docs" / "labelling.md").read_text(encoding="utf-8")
    spec = re.search(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "search.yml").write_text(spec[1])
    (tmp_path / "titles.yml").write_text(spec[1].replace("title: title", "title: titel"))
    return tmp_path


@by_turns(0.7)
def test_the_commands_of_the_docs_run(shop: Path) -> None:
    page = (ROOT / "docs" / "labelling.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^\$ sqlmetrics (.*)$", page, re.MULTILINE)
    assert {line.split()[0] for line in lines} == {"sheet", "sheet-import", "sample", "estimate"}
    for line in lines:
        sqlmetrics(*line.split(), folder=shop)
        match = re.search(r"--out (\S+sheet\.csv|sheet\.csv)", line)
        if match:
            grade(shop / match[1], ["2", "0"])
    labels = (shop / "labels.csv").read_text().splitlines()
    assert labels[:2] == ["query_id,item_id,grade", "q1,a,1"]
    assert len(labels) == 6


def test_the_sheet_in_the_docs_is_what_is_printed(shop: Path) -> None:
    page = (ROOT / "docs" / "labelling.md").read_text(encoding="utf-8")
    example = re.search(r"^```csv\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert sqlmetrics("sheet", "search.yml", "-k", "10", folder=shop).stdout == example[1]


def test_the_sql_alone(shop: Path) -> None:
    out = sqlmetrics("sheet", "search.yml", "--sql", folder=shop).stdout
    assert out.startswith("with\n\n-- one row per query: its text\nquery_texts as (\n")
    out = sqlmetrics("sample", "search.yml", "--size", "3", "--sql", folder=shop).stdout
    assert "md5('1|' || query_id) as lot" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sheet", "no.yml"], "cannot read the spec"),
        (["sheet", "search.yml", "-k", "0"], "k must be 1 or more"),
        (["sheet", "search.yml", "--sample", "no.csv"], "cannot read 'no.csv'"),
        (["sheet-import", "label.csv", "--labels", "labels.csv"], "did you mean 'labels.csv'?"),
        (
            ["sheet", "search.yml", "--sample", "sample.csv", "--limit", "2"],
            "--limit: the sheet of",
        ),
        (["sheet", "search.yml", "--sample", "pairs.csv", "-k", "3"], "has pairs of the top 2;"),
        (["sheet", "search.yml", "--out", "no/sheet.csv"], "cannot write"),
        (["sheet-import", "no.csv", "--labels", "labels.csv"], "cannot read 'no.csv'"),
        (["sheet-import", "labels.csv", "--labels", "no.csv"], "add --new to create it"),
        (["sheet-import", "labels.csv", "--labels", "labels.xlsx"], ".csv, .parquet, .pq"),
        (["sheet-import", "labels.csv"], "Missing option '--labels'"),
        (
            ["sheet-import", "labels.csv", "--labels", "labels.csv", "--item", "itemid"],
            "unknown column 'itemid'; did you mean 'item_id'?",
        ),
        (
            ["sample", "search.yml", "--size", "1", "--traffic"],
            "the sample needs 3 queries or more",
        ),
        (["sample", "search.yml", "--size", "3", "--by", "contry"], "unknown column 'contry'"),
        (["sheet", "titles.yml"], "items: unknown column 'titel'; did you mean 'title'?"),
        (["estimate", "search.yml", "labels.csv"], "unknown column"),
        (
            ["estimate", "search.yml", "sample.csv", "-m", "dcg@3"],
            "2 of 3 sampled queries have no label",
        ),
        (["estimate", "search.yml", "sample.csv", "--by", "x"], "unknown stratum column 'x'"),
        (["estimate", "search.yml", "sample.csv", "--level", "95"], "level must be above 0"),
    ],
)
def test_errors_are_one_message_and_a_code(shop: Path, arguments: list[str], message: str) -> None:
    line = ["sample", "search.yml", "--size", "3", "--out", "sample.csv"]
    sqlmetrics(*line, folder=shop)
    sqlmetrics(*line[:-1], "pairs.csv", "--unit", "pair", "-k", "2", folder=shop)
    completed = sqlmetrics(*arguments, folder=shop, expect=3 if message == "cannot write" else 2)
    assert message in completed.stderr
    assert completed.stdout == ""


def test_estimates_by_hand(shop: Path) -> None:
    # all three queries are drawn, so the estimate is the mean itself
    sqlmetrics(
        "sample", "search.yml", "--size", "3", "--by", "country", "--out", "s.csv", folder=shop
    )
    sqlmetrics("sheet", "search.yml", "--sample", "s.csv", "--out", "sheet.csv", folder=shop)
    rows = grade(shop / "sheet.csv", ["1"])
    assert [(r["query_id"], r["item_id"]) for r in rows] == [
        ("q1", "a"),
        ("q1", "b"),
        ("q1", "c"),
        ("q2", "a"),
        ("q3", "a"),
    ]
    assert "best_rank" not in rows[0]  # nothing hints at a grade
    sqlmetrics("sheet-import", "sheet.csv", "--labels", "new.csv", "--new", folder=shop)
    line = [
        "estimate",
        "search.yml",
        "s.csv",
        "--labels",
        "new.csv",
        "-m",
        "dcg@10",
        "--by",
        "country",
        "-o",
        "csv",
    ]
    out = sqlmetrics(*line, folder=shop).stdout
    rows_by_key = {
        (r["system"], r["segment_value"], r["mean_over"]): r
        for r in csv.DictReader(io.StringIO(out))
        if r["metric"] == "dcg@10"
    }
    two = 1 + 0.6309297535714575
    expected = {
        ("old", "all", "queries"): (two + 1 + 0) / 3,
        ("new", "all", "queries"): (two + 0 + 1) / 3,
        ("old", "all", "traffic"): (70 * two + 20 * 1) / 100,
        ("new", "fr", "traffic"): 1.0,
        ("old", "fr", "queries"): 0.0,
    }
    for key, value in expected.items():
        assert float(rows_by_key[key]["value"]) == pytest.approx(value, rel=1e-12)
        assert float(rows_by_key[key]["ci_low"]) == pytest.approx(value, rel=1e-12)


def test_a_query_left_ungraded(shop: Path) -> None:
    sqlmetrics("sample", "search.yml", "--size", "3", "--out", "s.csv", folder=shop)
    (shop / "new.csv").write_text("query_id,item_id,grade\nq1,a,1\nq2,a,0\n")
    line = ["estimate", "search.yml", "s.csv", "--labels", "new.csv", "-m", "dcg@10"]
    assert (
        "1 of 3 sampled queries have no label, like 'q3'"
        in sqlmetrics(*line, folder=shop, expect=2).stderr
    )
    completed = sqlmetrics(*line, "--ungraded", "drop", folder=shop)
    assert "note: 1 of 3 sampled queries have no label and are left out" in completed.stderr
    assert "in the top 10 of the sampled lists have no label" in completed.stderr
    assert (
        "interval: the range that covers the true value with probability 0.95" in completed.stdout
    )
