"""Files as people have them: spreadsheets' CSV, folders of Parquet, texts for dates and numbers."""

from __future__ import annotations

import bz2
import json
import lzma
import subprocess
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, first, long

import sqlmetrics as sm
from sqlmetrics.annotation import graded_sheet

pytestmark = by_turns(0.3)

LABELS = "query_id,item_id,grade\nq,b,1\nr,d,2\n"
LISTS = [("q", "a", "2.5"), ("q", "b", "1.5"), ("r", "c", "10"), ("r", "d", "9.75")]


def separated(
    mark: str,
    decimal: str = ".",
    blank: str = "",
    end: str = "\n",
    extra_column: tuple[str, str] | None = None,
) -> str:
    """The rankings as a file of values with something between them."""
    rows: list[tuple[str, ...]] = [("query_id", "item_id", "score"), *LISTS]
    if extra_column is not None:
        rows = [(*row, extra_column[number > 0]) for number, row in enumerate(rows)]
    joint = f"{blank.rstrip()}{mark}{blank}"
    return end.join(joint.join(row).replace(".", decimal) for row in rows) + end


SPREADSHEETS: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "a German locale": (".csv", separated(";", ",").encode(), {}),
    "Excel's mark": (
        ".csv",
        ("\ufeff" + separated(";", ",", "", "\r\n")).encode(),
        {"decimal": ","},
    ),
    "blanks behind commas": (".csv", separated(",", ".", " ").encode(), {}),
    "commas": (".csv", separated(",").encode(), {}),
    "tabs": (".csv", separated("\t").encode(), {}),
    "bars": (".csv", separated("|").encode(), {}),
    "a tsv": (".tsv", separated("\t").encode(), {}),
    "a tsv of commas": (".tsv", separated(",").encode(), {}),
    "another mark": (".csv", separated("~").encode(), {"separator": "~"}),
    "a tab by its name": (".csv", separated("\t").encode(), {"separator": "tab"}),
    "marks in a name": (".csv", separated(",", extra_column=("a;b;c;d", "x")).encode(), {}),
}
"""What it is -> how the file is called, its bytes, and what is said of it."""


@pytest.mark.parametrize("case", first(3, SPREADSHEETS))
def test_the_header_line_shows_what_is_between_values(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In evaluate, in the text of compile, and where the file is copied into another database."""
    monkeypatch.chdir(tmp_path)
    suffix, content, options = SPREADSHEETS[case]
    Path(f"runs{suffix}").write_bytes(content)
    Path("labels.csv").write_text(LABELS)
    labels = "labels.csv"
    if "separator" in options:  # which holds for both
        labels = "labels.parquet"
        duckdb.sql("from read_csv('labels.csv', all_varchar = true)").write_parquet(labels)
    for connection in (None, "sqlite://"):
        result = sm.evaluate(f"runs{suffix}", labels, ["mrr"], connection=connection, **options)
        assert result["mrr"] == 0.5
    spec = sm.Spec(
        rankings={"file": f"runs{suffix}", **options},
        labels={"file": labels},
        metrics=["mrr"],
    )
    rows = duckdb.sql(sm.compile(spec, per_query=True)).fetchall()
    assert [row[-1] for row in sorted(rows)] == [0.5, 0.5]


@by_turns(0.6)
def test_a_spec_says_how_its_files_are_written(tmp_path: Path) -> None:
    """The verbs that take a spec read a spreadsheet's CSV; the SQL says how."""
    (tmp_path / "runs.csv").write_bytes(("\ufeff" + separated(";", ",", " ")).encode())
    (tmp_path / "labels.csv").write_text(LABELS.replace(",1", ',"0,5"').replace(",2", ',"1"'))
    (tmp_path / "items.csv").write_text("item_id;price\na;1,5\nb;2\nc;0,25\nd;3\n")
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv, separator: ;, decimal: ','}\n"
        "labels: {file: labels.csv, decimal: ','}\nitems: {file: items.csv}\n"
        "metrics: [mrr, dcg@2, sum(price)@1]\n"
        "output: {relation: numbers}\n"
    )
    text = sqlmetrics("compile", "s.yml", folder=tmp_path).stdout
    assert "delim = ';'" in text
    assert "delim = ','" in text
    assert "-- numbers with a decimal comma" in text
    assert "-- blanks around names and values are removed" in text
    sqlmetrics("validate", "s.yml", folder=tmp_path)
    sqlmetrics("verify", "s.yml", folder=tmp_path)
    sqlmetrics("sheet", "s.yml", folder=tmp_path)
    sqlmetrics("run", "s.yml", "--db", "w.duckdb", folder=tmp_path)
    with duckdb.connect(str(tmp_path / "w.duckdb")) as database:
        values = dict(database.sql("select metric, value from numbers").fetchall())
    assert values["sum(price)"] == 0.875
    assert values["dcg"] == pytest.approx(((2**0.5 - 1) + (2**1 - 1)) / 2 * 0.6309297535714575)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "commas and points": (
        separated(";", ",") + "r;e;1.5\n",
        {},
        r"score is not a number in 3 rows[\s\S]*--decimal ,",
    ),
    "perhaps thousands": (
        "query_id;item_id;score\nq;a;1,000\nq;b;2,500\n",
        {},
        r"score is not a number in 2 rows[\s\S]*--decimal ,",
    ),
    "thousands": (separated(";", ",") + "r;e;1.000\n", {"decimal": ","}, '"1.000"'),
    "two values too many": (separated(",", ","), {}, "split at ',' some rows have more or fewer"),
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
    for content, options, message in WRONG.values():
        Path("runs.csv").write_text(content)
        with pytest.raises((sm.InputError, sm.SpecError), match=message):
            sm.evaluate("runs.csv", labels, "mrr", connection=connection, **options)
    with pytest.raises(sm.SpecError, match=r"only for files \.csv"):
        sm.Spec(rankings={"file": "a.parquet", "decimal": ","}, labels={"file": "b"}, metrics="mrr")


FOREIGN = {
    "shop.duckdb": (b"\0" * 8 + b"DUCK" + b"\0" * 99, "read it with --db shop.duckdb"),
    "shop.db": (b"SQLite format 3\0" + b"\1" * 99, "--connection sqlite:///shop.db"),
    "runs.xlsx": (b"PK\x03\x04" + b"\0" * 99, "is a spreadsheet"),
    "runs.feather": (b"ARROW1\0\0" + b"\0" * 99, "is Arrow or Feather"),
    "runs.csv": ("\ufeffquery_id".encode("utf-16"), "UTF-16: save it as 'CSV UTF-8'"),
    "runs": (b"PAR1" + b"\0" * 99, "rename it to end in .parquet"),
    "runs.bin": (b"q\0\0\1" * 99, "is not a text file"),
}


def test_a_database_or_spreadsheet_given_as_rows_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (content, message) in FOREIGN.items():
        Path(name).write_bytes(content)
        with pytest.raises(sm.InputError, match=message) as refused:
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


@by_turns(1)
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
    with duckdb.connect(str(lake / "w.duckdb")) as database:
        rows = database.sql("select value from numbers order by metric_date").fetchall()
    assert rows == [(0.5,), (1.0,)]
    for file, pattern in (("away/", "away/**/*.parquet"), ("lake/ds=*", "lake/ds=*/**/*.parquet")):
        (lake / "s.yml").write_text(spec.replace("FILE", file))
        assert f"'{pattern}'" in sqlmetrics("compile", "s.yml", folder=lake).stdout
    line = ["evaluate", "lake", "labels.parquet", "-m", "mrr", "--date", "ds", "-o", "json"]
    output = sqlmetrics(*line, folder=lake).stdout
    assert {row["system"] for row in json.loads(output)} == {"lake"}


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


@pytest.mark.parametrize("name", ["duckdb", "sqlite", long("postgres")])
def test_days_that_are_texts_are_read_alike_or_refused(
    name: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tables, and in a CSV beside them; no engine guesses which number is the month."""
    monkeypatch.chdir(tmp_path)
    with servers.open(name) as engine, engine.scratch() as schema:
        texts = list(DAYS)
        data = {"query_id": list("qrstuvwx"), "item_id": ["a"] * 8, "score": [1] * 8, "ds": texts}
        engine.load(f"{schema}.runs", pa.table(data))
        good, bad = ([text for text in texts if DAYS[text] is kind] for kind in (True, False))
        labels = {"q": {"a": 1}}
        Path("runs.csv").write_text("query_id,item_id,score,ds\nq,a,1,2026-01-02\nr,a,x,2.1.26\n")
        with pytest.raises(sm.InputError, match="is no"):
            sm.evaluate("runs.csv", labels, "mrr", date="ds", connection=engine)
        where = " or ".join(f"ds = '{text}'" for text in good)
        result = sm.evaluate(
            f"{schema}.runs", labels, "mrr", date="ds", where=where, connection=engine
        )
        assert [row["metric_date"] for row in result.to_dicts()] == [date(2026, 1, 2)]
        with pytest.raises(sm.InputError, match="ds is not a date") as refused:
            sm.evaluate(f"{schema}.runs", labels, "mrr", date="ds", connection=engine)
        assert refused.value.details[0].count == len(bad)
        with pytest.raises(sm.InputError, match="number"):
            sm.evaluate(f"{schema}.runs", labels, "mrr", score="ds", connection=engine)


@by_turns(0.9)
def test_the_name_of_a_file_says_its_format(tmp_path: Path) -> None:
    """For every verb that has --out; what contradicts or is not there is refused."""
    (tmp_path / "runs.csv").write_text(separated(","))
    (tmp_path / "labels.csv").write_text(LABELS)
    line = ["evaluate", "runs.csv", "labels.csv", "-m", "mrr", "--out"]
    for name in ("x.csv", "x.json", "x.jsonl", "x.md", "x.html", "x.pq", "x.txt", "x"):
        assert sqlmetrics(*line, name, folder=tmp_path).stdout == ""
    texts = {name: (tmp_path / f"x.{name}").read_text() for name in ("csv", "json", "jsonl", "md")}
    assert texts["csv"].startswith("metric_date,") or texts["csv"].startswith("spec,")
    assert json.loads(texts["json"]) == [json.loads(row) for row in texts["jsonl"].splitlines()]
    assert texts["md"].startswith("| system |")
    assert (tmp_path / "x.html").read_text().startswith("<table><thead><tr><th>system</th>")
    assert pq.read_table(tmp_path / "x.pq")["value"].to_pylist() == [0.5]
    assert (tmp_path / "x.txt").read_text() == (tmp_path / "x").read_text()
    assert (tmp_path / "x").read_text().startswith("system ")
    for arguments, message in (
        (["x.parquet", "-o", "table"], "contradict"),
        (["x.json", "-o", "csv"], "contradict"),
        (
            ["x.xlsx"],
            "xlsx is not written here; there is table, json, csv, markdown, html, parquet",
        ),
    ):
        assert message in sqlmetrics(*line, *arguments, folder=tmp_path, expect=2).stderr
    sqlmetrics(*line, "y.json", "-o", "json", folder=tmp_path)
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv}\nlabels: {file: labels.csv}\nmetrics: [mrr]\n"
    )
    sqlmetrics("sample", "s.yml", "--size", "2", "--out", "sample.csv", folder=tmp_path)
    for verb in (["sheet", "s.yml"], ["sample", "s.yml", "--size", "2"]):
        result = sqlmetrics(*verb, "--out", "x.parquet", folder=tmp_path, expect=2)
        assert "parquet is not written here; there is csv" in result.stderr
    sqlmetrics("estimate", "s.yml", "sample.csv", "--out", "e.csv", folder=tmp_path)
    assert (tmp_path / "e.csv").read_text().startswith("system,")


def completed(monkeypatch: pytest.MonkeyPatch, folder: Path, shell: str, line: str) -> list[str]:
    """What a shell is told of the last word of a line."""
    words = ["sqlmetrics", *line.split(" ")]
    with monkeypatch.context() as patch:
        patch.setenv("_SQLMETRICS_COMPLETE", f"{shell}_complete")
        patch.setenv("COMP_WORDS", " ".join(words) if shell != "fish" else " ".join(words[:-1]))
        patch.setenv("COMP_CWORD", str(len(words) - 1) if shell != "fish" else words[-1])
        return sqlmetrics(folder=folder).stdout.split("\n")


COMPLETED = {
    "eva": "evaluate",
    "evaluate a b --sep": "--separator",
    "evaluate a b -m ndc": "ndcg@10",
    "evaluate a b --preset trec_eval_": "trec_eval_9",
    "evaluate a b -c tie": "ties=",
    "evaluate a b -c ties=id_d": "ties=id_desc",
    "clicks s.yml -m aband": "abandonment",
    "compile s.yml --dialect big": "bigquery",
    "explain recal": "recall@10",
    "list pre": "presets",
}
"""A line -> what its last word becomes."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_verbs_options_and_names(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line, word in COMPLETED.items():
        completions = completed(monkeypatch, tmp_path, shell, line)
        assert any(word in completion for completion in completions), (line, completions)
    with monkeypatch.context() as patch:
        patch.setenv("_SQLMETRICS_COMPLETE", f"{shell}_source")
        assert "_SQLMETRICS_COMPLETE" in sqlmetrics(folder=tmp_path).stdout


def test_names_that_are_looked_for_in_the_wrong_place_are_told_where(tmp_path: Path) -> None:
    for line, message in (
        ("explain ctrr", "ctr"),
        ("evaluate a.csv b.csv -m ctr@5", "sqlmetrics clicks SPEC -m ctr"),
        ("doctor --case preset.trec_eval", "did you mean 'preset trec_eval'"),
    ):
        (tmp_path / "a.csv").write_text(separated(","))
        (tmp_path / "b.csv").write_text(LABELS)
        assert message in sqlmetrics(*line.split(), folder=tmp_path, expect=2).stderr
    assert "\\b" not in sqlmetrics("explain", "--help", folder=tmp_path).stdout
    names = sqlmetrics("doctor", "--list-cases", folder=tmp_path).stdout.splitlines()
    assert "preset trec_eval" in names
    some = sqlmetrics("doctor", "--list-cases", "--case", "refuses", folder=tmp_path).stdout
    assert some.splitlines() == [name for name in names if name.startswith("refuses")]
    exact = sqlmetrics("doctor", "--list-cases", "--case", "preset TREC_eval", folder=tmp_path)
    assert exact.stdout == "preset trec_eval\n"


def test_files_that_are_no_demo_s_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "labels.parquet").write_text("mine")
    refused = sqlmetrics("demo", "--out", ".", folder=tmp_path, expect=2).stderr
    assert "'labels.parquet': it exists and was not written by this command" in refused
    small = ["--requests", "20", "--days", "1", "--queries", "5", "--users", "50"]
    sqlmetrics("simulate", "log", *small, folder=tmp_path)
    sqlmetrics("simulate", "log", *small, folder=tmp_path)
    (tmp_path / "log" / "planted.parquet").write_text("mine")
    refused = sqlmetrics("simulate", "log", *small, folder=tmp_path, expect=2).stderr
    assert "give another name, or --overwrite" in refused
    sqlmetrics("simulate", "log", *small, "--overwrite", folder=tmp_path)
    assert (tmp_path / "labels.parquet").read_text() == "mine"


def test_a_notebook_sees_the_names_and_a_result_is_a_mapping() -> None:
    assert {*sm.__all__} <= {*dir(sm)}
    assert not {"TYPE_CHECKING", "import_module", "annotations"} & {*dir(sm)}
    result = sm.evaluate({"q": ["a", "b"]}, {"q": {"b": 1}}, ["mrr", "hit@1"])
    assert dict(result) == {"mrr": 0.5, "hit@1": 0.0}
    assert (list(result), len(result)) == (["mrr", "hit@1"], 2)


def test_check_names_the_last_day_and_counts_are_whole(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("query_id,item_id,score,ds\nq,a,1,2026-01-02\n")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq,a,1\n")
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv, columns: {date: ds}}\nlabels: {file: labels.csv}\n"
        "metrics: [mrr]\noutput: {relation: numbers}\n"
        "checks: [{metric: mrr, min: 0.5}, {min_rows: 1}]\n"
    )
    result = sqlmetrics("run", "s.yml", "--db", "w.duckdb", folder=tmp_path)
    assert "numbers: 1 row of s" in result.stderr
    line = ["check", "s.yml", "--db", "w.duckdb", "--date", "2026-01-09"]
    output = sqlmetrics(*line, folder=tmp_path, expect=4).stdout
    assert "no row of s on this day; the last day is 2026-01-02" in output
    assert "0.0000" not in output


def test_estimate_takes_the_spec_s_names_of_the_labels_columns(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(separated(",").replace("item_id", "sku"))
    (tmp_path / "labels.csv").write_text(LABELS.replace("item_id,grade", "sku,level"))
    (tmp_path / "mine.csv").write_text(LABELS.replace(",grade", ",level"))
    (tmp_path / "s.yml").write_text(
        "rankings: {file: runs.csv, columns: {item: sku}}\n"
        "labels: {file: labels.csv, columns: {item: sku, grade: level}}\nmetrics: [mrr]\n"
    )
    sample = sqlmetrics("sample", "s.yml", "--size", "2", "--out", "s.csv", folder=tmp_path)
    assert "2 of 2 queries, 1 stratum, seed 1" in sample.stderr
    expected = sqlmetrics("estimate", "s.yml", "s.csv", folder=tmp_path).stdout
    for labels in ("labels.csv", "mine.csv"):
        estimate = sqlmetrics("estimate", "s.yml", "s.csv", "--labels", labels, folder=tmp_path)
        assert estimate.stdout == expected


def test_labels_of_semicolons_grow_by_rows_of_semicolons(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("query_id;item_id;grade;by\nq;a;1;ann\n")
    file = graded_sheet.opened(str(labels), ("query_id", "item_id"), "grade")
    assert file.rows() == [(("q", "a"), "1")]
    file.write(tmp_path / "new.csv", {("q", "b;c"): 2.0})
    assert (tmp_path / "new.csv").read_text().splitlines()[1:] == ["q;a;1;ann", 'q;"b;c";2;']


def test_click_logs_are_read_like_other_csv(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "request; query; item; place; clicked; dwell\n1; tea; a; 1; 0;\n1; tea; b; 2; 1; 7,5\n"
        "1; tea; c; 3; 1; 0,5\n"
    )
    (tmp_path / "s.yml").write_text(
        "clicks:\n  log: {file: log.csv, decimal: ',', columns: {request: request, query: query, "
        "item: item, position: place, clicked: clicked, dwell: dwell}}\n"
        "  cleaning: {min_dwell: 1}\nmetrics: [mrr, ctr@3]\n"
    )
    output = json.loads(sqlmetrics("clicks", "s.yml", "-o", "json", folder=tmp_path).stdout)
    assert [row["value"] for row in output["offline"]] == [0.5]
    assert [row["value"] for row in output["online"]] == [pytest.approx(1 / 3)]
    listing = sqlmetrics("show", "s.yml", "-o", "csv", folder=tmp_path).stdout
    assert [line.split(",")[5] for line in listing.splitlines()[1:]] == ["ctr", "mrr"]


def test_what_is_not_there_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(separated(","))
    (tmp_path / "labels.csv").write_text(LABELS)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("create table rankings (query_id text, item_id text, score double)")
        connection.execute("create schema other; create table other.ranked (query_id text)")
    spec = (
        "version: 1\nrankings: {%s, columns: {score: score, date: ds}}\n"
        "labels: {file: labels.csv}\nmetrics: [mrr]\noutput: {relation: facts}\n"
    )
    log = "version: 1\nclicks: {log: {%s, columns: {clicked: c}}}\nmetrics: [ctr]\n"
    (tmp_path / "file.yml").write_text(spec % "file: rums.csv")
    (tmp_path / "table.yml").write_text(spec % "relation: rankigns")
    (tmp_path / "log.yml").write_text(log % "file: rums.csv")
    (tmp_path / "clicked.yml").write_text(log % "relation: main.rankigns")
    (tmp_path / "elsewhere.yml").write_text(spec % "relation: ranked")
    file = "there is no file 'rums.csv'; did you mean 'runs.csv'?"
    table = "there is no table 'rankigns'; did you mean 'rankings'?"
    database = ["--db", "shop.duckdb"]
    lines = {
        ("run", "file.yml", *database): file,
        ("run", "file.yml", *database, "--backfill"): file,
        ("run", "file.yml", "--connection", "sqlite:///m.db"): file,
        ("validate", "file.yml"): file,
        ("clicks", "log.yml"): file,
        ("clicks", "log.yml", "--connection", "sqlite://"): file,
        ("run", "table.yml", *database): table,
        ("run", "table.yml", *database, "--backfill"): table,
        ("run", "elsewhere.yml", *database): "'ranked'; did you mean 'other.ranked'?",
        ("clicks", "clicked.yml", *database): table.replace("'rankigns'", "'main.rankigns'"),
    }
    for line, message in lines.items():
        assert message in sqlmetrics(*line, folder=tmp_path, expect=2).stderr, line
    near = "there is no file or table 'rums.csv'; did you mean 'runs.csv'?"
    line = ("evaluate", "rums.csv", "labels.csv", "-m", "mrr")
    assert near in sqlmetrics(*line, folder=tmp_path, expect=2).stderr


@by_turns(0.3)
def test_comments_in_files_of_trec(tmp_path: Path) -> None:
    """Of a run and qrels in either order, by a pipe too; a file of comments alone is empty."""
    run, qrels, comments = (tmp_path / name for name in ("run", "qrels", "comments"))
    run.write_text("# made by hand\nq Q0 a 1 2.5 bm25 k1=0.9\n#\nq Q0 b 2 1.5 bm25 k1=0.9\n")
    qrels.write_text("\t# query 0 item grade\nq 0 b 1\n#q 0 a 1\n")
    comments.write_text("# nothing\n")
    for tables in ((run, qrels), (qrels, run)):
        result = sm.evaluate(*tables, "mrr", system="system")
        assert result.to_dicts()[0]["value"] == 0.5
        assert result.to_dicts()[0]["system"] == "bm25 k1=0.9"
    command = f"cat {run} | sqlmetrics evaluate - {qrels} -m mrr -o json"
    piped = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert '"metric": "mrr", "k": 0, "value": 0.5' in piped.stdout
    with pytest.raises(sm.InputError, match="rankings: the table has no rows"):
        sm.evaluate(comments, qrels, "mrr")


def test_ids_with_blanks_in_files_of_trec(tmp_path: Path) -> None:
    """Tabs between the fields of each line let ids have them; without, the line is told."""
    rows = [
        ("q 1", "Q0", "red  shoe", "1", "2", "my run"),
        ("q 1", "Q0", "hat", "2", "1", "my run"),
    ]
    grades = [("q 1", "0", "hat", "1")]
    run, qrels, blanks, mixed = (tmp_path / name for name in ("run", "qrels", "blanks", "mixed"))
    run.write_text("\n".join(map("\t".join, rows)))
    qrels.write_text("# judged\n" + "\r\n".join(map(" \t ".join, grades)) + "\r\n")
    for tables in ((run, qrels), (qrels, run)):
        result = sm.evaluate(*tables, "mrr", system="system")
        assert [(row["system"], row["value"]) for row in result.to_dicts()] == [("my run", 0.5)]
    assert result.per_query()["query_id"].to_pylist() == ["q 1"]
    run.write_text("\n".join(map("\t".join, [rows[0], (*rows[1][:5], "my other words")])))
    result = sm.evaluate(run, qrels, "mrr", system="system")  # words that differ are no name's
    assert [(row["system"], row["value"]) for row in result.to_dicts()] == [("my", 0.5)]
    blanks.write_text("\n".join(map(" ".join, rows)))
    mixed.write_text("q\tQ0\thay\t1\t2\trun\nq Q0 red hat 2 1 run\n")
    for file, line in ((blanks, "q 1 Q0 red shoe 1 2 my run"), (mixed, "q Q0 red hat 2 1 run")):
        with pytest.raises(sm.InputError, match=f"in the line '{line}', and .* put tabs between"):
            sm.evaluate(file, qrels, "mrr")


@by_turns(0.5)
def test_packed_files_are_read_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every command; a system is called as its file is without the endings."""
    monkeypatch.chdir(tmp_path)
    run, rows = "q Q0 a 1 2.5 tag\nq Q0 b 2 1.5 tag\n", "query_id,item_id,score\nq,a,2\nq,b,1\n"
    Path("bm25.txt.xz").write_bytes(lzma.compress(run.encode()))
    Path("k1=0.9.run.bz2").write_bytes(bz2.compress(run.encode()))
    with zipfile.ZipFile("dense.zip", "w") as archive:
        archive.writestr("folder/run.csv", rows)
    with zipfile.ZipFile("two.zip", "w") as archive:
        archive.writestr("a.csv", rows)
        archive.writestr("b.csv", rows)
    with pa.output_stream("sparse.csv.zst", compression="zstd") as stream:
        stream.write(rows.encode())
    Path("cut.csv.zst").write_bytes(Path("sparse.csv.zst").read_bytes()[:30])
    Path("qrels.xz").write_bytes(lzma.compress(b"q 0 b 1\n"))
    Path("cut.csv.xz").write_bytes(lzma.compress(rows.encode())[:40])
    Path("tag.txt").write_bytes(bz2.compress(run.encode()))
    for tables in (
        ("bm25.txt.xz", "qrels.xz"),
        ("qrels.xz", "bm25.txt.xz"),
        ("dense.zip", "qrels.xz"),
        ("sparse.csv.zst", "qrels.xz"),
    ):
        assert sm.evaluate(*tables, "mrr").to_dicts()[0]["value"] == 0.5, tables
    runs = ("bm25.txt.xz", "k1=0.9.run.bz2", "dense.zip")
    line = ("evaluate", *runs, "qrels.xz", "-m", "mrr")
    evaluated = sqlmetrics(*line, "-o", "json", folder=tmp_path)
    assert [row["system"] for row in json.loads(evaluated.stdout)] == ["bm25", "dense", "k1=0.9"]
    Path("s.yml").write_text(
        "rankings: {file: dense.zip}\nlabels: {file: labels.csv}\nmetrics: [mrr]\n"
    )
    Path("labels.csv").write_text("query_id,item_id,grade\nq,b,1\n")
    assert "0.5000" in sqlmetrics("show", "s.yml", folder=tmp_path).stdout
    refusals = {
        (
            "compile",
            "s.yml",
        ): "rankings: 'dense.zip' is unpacked into a file that is gone afterwards",
        ("evaluate", "two.zip", "qrels.xz", "-m", "mrr"): "holds 2 files, like 'a.csv'; unpack it",
        ("evaluate", "cut.csv.xz", "qrels.xz", "-m", "mrr"): "'cut.csv.xz' cannot be unpacked",
        ("evaluate", "cut.csv.zst", "qrels.xz", "-m", "mrr"): "'cut.csv.zst' cannot be unpacked",
        ("evaluate", "tag.txt", "qrels.xz", "-m", "mrr"): "by its name, which ends in .bz2",
        (*line, "--out", "dense.zip"): "dense.zip",
    }
    for words, message in refusals.items():
        assert message in sqlmetrics(*words, folder=tmp_path, expect=2).stderr, words
