"""Files as people have them: spreadsheets' CSV, folders of Parquet, texts for dates and numbers."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines.starting import Servers
from test_cli import sqlmetrics

import sqlmetrics as sm

LABELS = "query_id,item_id,grade\nq,b,1\nr,d,2\n"
LISTS = [("q", "a", "2.5"), ("q", "b", "1.5"), ("r", "c", "10"), ("r", "d", "9.75")]


def separated(
    mark: str,
    decimal: str = ".",
    blank: str = "",
    end: str = "\n",
    more: tuple[str, str] | None = None,
) -> str:
    """The rankings as a file of values with something between them."""
    rows: list[tuple[str, ...]] = [("query_id", "item_id", "score"), *LISTS]
    if more is not None:
        rows = [(*row, more[number > 0]) for number, row in enumerate(rows)]
    joint = f"{blank.rstrip()}{mark}{blank}"
    return end.join(joint.join(row).replace(".", decimal) for row in rows) + end


SPREADSHEETS: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "commas": (".csv", separated(",").encode(), {}),
    "a German locale": (".csv", separated(";", ",").encode(), {"decimal": ","}),
    "Excel's mark": (
        ".csv",
        ("\ufeff" + separated(";", ",", "", "\r\n")).encode(),
        {"decimal": ","},
    ),
    "tabs": (".csv", separated("\t").encode(), {}),
    "bars": (".csv", separated("|").encode(), {}),
    "blanks behind commas": (".csv", separated(",", ".", " ").encode(), {}),
    "a tsv": (".tsv", separated("\t").encode(), {}),
    "a tsv of commas": (".tsv", separated(",").encode(), {}),
    "another mark": (".csv", separated("~").encode(), {"separator": "~"}),
    "a tab by its name": (".csv", separated("\t").encode(), {"separator": "tab"}),
    "marks in a name": (".csv", separated(",", more=("a;b;c;d", "x")).encode(), {}),
}
"""What it is -> how the file is called, its bytes, and what is said of it."""


@pytest.mark.parametrize("case", SPREADSHEETS)
def test_the_header_line_shows_what_is_between_values(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In evaluate, in the text of compile, and where the file is copied into another database."""
    monkeypatch.chdir(tmp_path)
    suffix, content, told = SPREADSHEETS[case]
    Path(f"runs{suffix}").write_bytes(content)
    Path("labels.csv").write_text(LABELS)
    labels = "labels.csv"
    if "separator" in told:  # which holds for both
        labels = "labels.parquet"
        duckdb.sql("from read_csv('labels.csv', all_varchar = true)").write_parquet(labels)
    for connection in (None, "sqlite://"):
        result = sm.evaluate(f"runs{suffix}", labels, ["mrr"], connection=connection, **told)
        assert result["mrr"] == 0.5
    spec = sm.Spec(
        rankings={"file": f"runs{suffix}", **told},
        labels={"file": labels},
        metrics=["mrr"],
    )
    rows = duckdb.sql(sm.compile(spec, per_query=True)).fetchall()
    assert [row[-1] for row in sorted(rows)] == [0.5, 0.5]


def test_a_spec_says_how_its_files_are_written(tmp_path: Path) -> None:
    """The verbs that take a spec read a spreadsheet's CSV; the SQL says how."""
    (tmp_path / "runs.csv").write_bytes(("\ufeff" + separated(";", ",", " ")).encode())
    (tmp_path / "labels.csv").write_text(LABELS.replace(",1", ',"0,5"').replace(",2", ',"1"'))
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv, separator: ;, decimal: ','}\n"
        "labels: {file: labels.csv, decimal: ','}\nmetrics: [mrr, dcg@2]\n"
        "output: {relation: numbers}\n"
    )
    text = sqlmetrics("compile", "s.yml", folder=tmp_path).stdout
    assert "delim = ';'" in text
    assert "delim = ','" in text
    assert "-- numbers with a decimal comma" in text
    assert "-- the blanks around values are left out" in text
    sqlmetrics("validate", "s.yml", folder=tmp_path)
    sqlmetrics("verify", "s.yml", folder=tmp_path)
    sqlmetrics("sheet", "s.yml", folder=tmp_path)
    sqlmetrics("run", "s.yml", "--db", "w.duckdb", folder=tmp_path)
    with duckdb.connect(str(tmp_path / "w.duckdb")) as made:
        values = dict(made.sql("select metric, value from numbers").fetchall())
    assert values["dcg"] == pytest.approx(((2**0.5 - 1) + (2**1 - 1)) / 2 * 0.6309297535714575)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a decimal comma": (separated(";", ","), {}, r"score is no number in 3 rows[\s\S]*--decimal ,"),
    "thousands": (separated(";", ",") + "r;e;1.000\n", {"decimal": ","}, '"1.000"'),
    "two values too many": (separated(",", ","), {}, "split at ',' it has rows with more or fewer"),
    "no separator": ("query_id item_id score\nq a 1\n", {}, "unknown column 'query_id'"),
    "two characters": (separated(","), {"separator": "::"}, "must be one character"),
    "no decimal mark": (separated(","), {"decimal": ";"}, "must be '.' or ','"),
}


@pytest.mark.parametrize("connection", [None, "sqlite://"])
def test_what_cannot_be_read_is_told_with_the_option_to_give(
    connection: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = {"q": {"b": 1}}
    for content, told, said in WRONG.values():
        Path("runs.csv").write_text(content)
        with pytest.raises((sm.InputError, sm.SpecError), match=said):
            sm.evaluate("runs.csv", labels, "mrr", connection=connection, **told)
    with pytest.raises(sm.SpecError, match=r"only of files \.csv"):
        sm.Spec(rankings={"file": "a.parquet", "decimal": ","}, labels={"file": "b"}, metrics="mrr")


FOREIGN = {
    "shop.duckdb": (b"\0" * 8 + b"DUCK" + b"\0" * 99, "open it with --db shop.duckdb"),
    "shop.db": (b"SQLite format 3\0" + b"\1" * 99, "--connection sqlite:///shop.db"),
    "runs.xlsx": (b"PK\x03\x04" + b"\0" * 99, "is a spreadsheet"),
    "runs.feather": (b"ARROW1\0\0" + b"\0" * 99, "is Arrow or Feather"),
    "runs.csv": ("\ufeffquery_id".encode("utf-16"), "UTF-16: save it as 'CSV UTF-8'"),
    "runs": (b"PAR1" + b"\0" * 99, "let its name end in .parquet"),
    "runs.bin": (b"q\0\0\1" * 99, "is no text"),
}


def test_a_database_or_spreadsheet_given_as_rows_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (content, said) in FOREIGN.items():
        Path(name).write_bytes(content)
        with pytest.raises(sm.InputError, match=said) as refused:
            sm.evaluate(name, {"q": {"a": 1}}, "mrr")
        assert str(refused.value).isprintable()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a folder of Parquet files a day, and specs that name it."""
    rows = (
        "from (values ('q','a',2,'2026-01-01'),('q','b',1,'2026-01-01'),('q','b',1,'2026-01-02'))"
    )
    duckdb.sql(
        f"copy (select * {rows} t(query_id, item_id, score, ds)) "
        f"to '{tmp_path}/lake' (format parquet, partition_by (ds))"
    )
    duckdb.sql("select 'q' as query_id, 'b' as item_id, 1 as grade").write_parquet(
        f"{tmp_path}/labels.parquet"
    )
    return tmp_path


def test_a_folder_of_parquet_is_a_source_of_a_spec(lake: Path) -> None:
    spec = (
        "rankings: {file: 'FILE', columns: {date: ds}}\nlabels: {file: labels.parquet}\n"
        "metrics: [mrr]\noutput: {relation: numbers}\nchecks: [{metric: mrr, min: 0.1}]\n"
    )
    texts = set()
    for file in ("lake", "lake/"):
        (lake / "s.yml").write_text(spec.replace("FILE", file))
        texts.add(sqlmetrics("compile", "s.yml", folder=lake).stdout)
    assert len(texts) == 1
    for verb in ("validate", "verify", "sheet"):
        sqlmetrics(verb, "s.yml", folder=lake)
    sqlmetrics("run", "s.yml", "--db", "w.duckdb", folder=lake)
    sqlmetrics("check", "s.yml", "--db", "w.duckdb", folder=lake)
    with duckdb.connect(str(lake / "w.duckdb")) as made:
        rows = made.sql("select value from numbers order by metric_date").fetchall()
    assert rows == [(0.5,), (1.0,)]
    for file, place in (("away/", "away/**/*.parquet"), ("lake/ds=*", "lake/ds=*/**/*.parquet")):
        (lake / "s.yml").write_text(spec.replace("FILE", file))
        assert f"'{place}'" in sqlmetrics("compile", "s.yml", folder=lake).stdout
    line = ["evaluate", "lake", "labels.parquet", "-m", "mrr", "--date", "ds", "-o", "json"]
    told = sqlmetrics(*line, folder=lake).stdout
    assert {row["system"] for row in json.loads(told)} == {"lake"}


DAYS = {
    "2026-01-02": True,
    "2026-01-02 10:00:00": True,
    "2026-01-02T10:00:00.5Z": True,
    "02.01.2026": False,
    "1/2/2026": False,
    "20260102": False,
    "2026-02-30": False,
    "": False,
}
"""Texts of days -> whether every engine can read them, and reads them alike."""


@pytest.mark.parametrize("name", ["duckdb", "sqlite", "postgres"])
def test_days_that_are_texts_are_read_alike_or_refused(
    name: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tables, and in a CSV beside them; no engine guesses which number is the month."""
    monkeypatch.chdir(tmp_path)
    with servers.open(name) as engine, engine.scratch() as place:
        texts = list(DAYS)
        data = {"query_id": list("qrstuvwx"), "item_id": ["a"] * 8, "score": [1] * 8, "ds": texts}
        engine.load(f"{place}.runs", pa.table(data))
        good, bad = ([one for one in texts if DAYS[one] is kind] for kind in (True, False))
        labels = {"q": {"a": 1}}
        Path("runs.csv").write_text("query_id,item_id,score,ds\nq,a,1,2026-01-02\nr,a,x,2.1.26\n")
        with pytest.raises(sm.InputError, match="is no"):
            sm.evaluate("runs.csv", labels, "mrr", date="ds", connection=engine)
        where = " or ".join(f"ds = '{text}'" for text in good)
        result = sm.evaluate(
            f"{place}.runs", labels, "mrr", date="ds", where=where, connection=engine
        )
        assert [row["metric_date"] for row in result.to_dicts()] == [date(2026, 1, 2)]
        with pytest.raises(sm.InputError, match="ds is no date") as refused:
            sm.evaluate(f"{place}.runs", labels, "mrr", date="ds", connection=engine)
        assert refused.value.details[0].count == len(bad)
        with pytest.raises(sm.InputError, match="number"):
            sm.evaluate(f"{place}.runs", labels, "mrr", score="ds", connection=engine)


def test_the_name_of_a_file_says_its_format(tmp_path: Path) -> None:
    """For every verb that has --out; what contradicts or is not there is refused."""
    (tmp_path / "runs.csv").write_text(separated(","))
    (tmp_path / "labels.csv").write_text(LABELS)
    line = ["evaluate", "runs.csv", "labels.csv", "-m", "mrr", "--out"]
    for name in ("x.csv", "x.json", "x.jsonl", "x.md", "x.pq", "x.txt", "x"):
        assert sqlmetrics(*line, name, folder=tmp_path).stdout == ""
    texts = {name: (tmp_path / f"x.{name}").read_text() for name in ("csv", "json", "jsonl", "md")}
    assert texts["csv"].startswith("metric_date,") or texts["csv"].startswith("spec,")
    assert json.loads(texts["json"]) == [json.loads(one) for one in texts["jsonl"].splitlines()]
    assert texts["md"].startswith("| system |")
    assert pq.read_table(tmp_path / "x.pq")["value"].to_pylist() == [0.5]
    assert (tmp_path / "x.txt").read_text() == (tmp_path / "x").read_text()
    assert (tmp_path / "x").read_text().startswith("system ")
    for more, said in (
        (["x.parquet", "-o", "table"], "contradict"),
        (["x.json", "-o", "csv"], "contradict"),
        (["x.xlsx"], "xlsx is not written here; there is table, json, csv, markdown, parquet"),
    ):
        assert said in sqlmetrics(*line, *more, folder=tmp_path, expect=2).stderr
    sqlmetrics(*line, "y.json", "-o", "json", folder=tmp_path)
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv}\nlabels: {file: labels.csv}\nmetrics: [mrr]\n"
    )
    sqlmetrics("sample", "s.yml", "--size", "2", "--out", "sample.csv", folder=tmp_path)
    for verb in (["sheet", "s.yml"], ["sample", "s.yml", "--size", "2"]):
        done = sqlmetrics(*verb, "--out", "x.parquet", folder=tmp_path, expect=2)
        assert "parquet is not written here; there is csv" in done.stderr
    sqlmetrics("estimate", "s.yml", "sample.csv", "--out", "e.csv", folder=tmp_path)
    assert (tmp_path / "e.csv").read_text().startswith("system,")
