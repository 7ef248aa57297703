"""Verbs by sources: each cell of the table in the docs is run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns, sliced

import sqlmetrics as sm
from sqlmetrics.cli.learn import LISTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
YES, NO = "✓", "-"
QUERIES = [f"q{number}" for number in range(6)]
LISTS_OF = {
    "old": {query: ["a", "b", "c"] for query in QUERIES},
    "new": {query: ["b", "a", "c"] if query != "q3" else ["c", "a", "b"] for query in QUERIES},
}
RELEVANT = "b"
MRR = {"old": 0.5, "new": (5 + 1 / 3) / 6}
LABELS = "query_id,item_id,grade\n" + "".join(f"{query},{RELEVANT},1\n" for query in QUERIES)


def table() -> dict[tuple[str, str], str]:
    """Source and verb -> the cell in the docs."""
    text = (DOCS / "inputs.md").read_text(encoding="utf-8")
    section = text.partition("## Which command takes what")[2].partition("\n##")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    verbs = rows[0][1:]
    return {
        (row[0], verb): cell for row in rows[1:] for verb, cell in zip(verbs, row[1:], strict=True)
    }


def lines(rows: Iterable[object], file: Path) -> str:
    """JSON lines, and where they are."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file.name


def flat(system: str) -> list[dict[str, Any]]:
    return [
        {"query_id": query, "item_id": item, "score": 3 - position}
        for query, items in LISTS_OF[system].items()
        for position, item in enumerate(items)
    ]


def csv(system: str, folder: Path, ending: str = ".csv") -> str:
    rows = [",".join(map(str, row.values())) for row in flat(system)]
    file = folder / f"{system}{ending}"
    file.write_text("\n".join(["query_id,item_id,score", *rows, ""]), encoding="utf-8")
    return file.name


def parquet(system: str, folder: Path) -> str:
    file = folder / f"{system}.parquet"
    duckdb.read_csv(str(folder / csv(system, folder))).write_parquet(str(file))
    return file.name


def parts(system: str, folder: Path) -> str:
    (folder / system / "below").mkdir(parents=True)
    csv("old" if system == "old" else "new", folder / system / "below")
    return system


def trec(system: str, folder: Path) -> str:
    rows = [
        f"{row['query_id']} Q0 {row['item_id']} 1 {row['score']} {system}" for row in flat(system)
    ]
    (folder / f"{system}.run").write_text("\n".join([*rows, ""]), encoding="utf-8")
    return f"{system}.run"


def traces(system: str, folder: Path) -> str:
    rows = [
        {"user_input": query, "retrieved_context_ids": items, "reference_context_ids": [RELEVANT]}
        for query, items in LISTS_OF[system].items()
    ]
    return lines(rows, folder / f"{system}.jsonl")


def hits(items: Sequence[str]) -> dict[str, Any]:
    """Scores tie, so that only the order of the hits tells the rank."""
    held = [{"_index": "i", "_id": item, "_score": 1.0, "_source": {"n": 1}} for item in items]
    return {"took": 3, "hits": {"total": {"value": len(items)}, "max_score": 1.0, "hits": held}}


def search(system: str, folder: Path) -> str:
    rows = [{"query_id": query, **hits(items)} for query, items in LISTS_OF[system].items()]
    if system == "new":  # as people log it
        rows = [{"query_id": row.pop("query_id"), "response": row} for row in rows]
    return lines(rows, folder / f"{system}.jsonl")


def msearch(system: str, folder: Path) -> str:
    responses = [hits(items) for items in LISTS_OF[system].values()]
    return lines([{"query_ids": QUERIES, "responses": responses}], folder / f"{system}.json")


def solr(system: str, folder: Path) -> str:
    rows = [
        {
            "responseHeader": {"status": 0, "params": {"q": query}},
            "response": {"numFound": 3, "docs": [{"id": item, "score": 1.0} for item in items]},
        }
        for query, items in LISTS_OF[system].items()
    ]
    return lines(rows, folder / f"{system}.jsonl")


def vespa(system: str, folder: Path) -> str:
    rows = [
        {
            "query_id": query,
            "root": {
                "id": "toplevel",
                "relevance": 1.0,
                "children": [{"id": item, "relevance": 1.0, "fields": {}} for item in items],
            },
        }
        for query, items in LISTS_OF[system].items()
    ]
    return lines(rows, folder / f"{system}.jsonl")


def hit_lines(system: str, folder: Path) -> str:
    rows = [
        {"query_id": row["query_id"], "_id": row["item_id"], "_score": row["score"]}
        for row in flat(system)
    ]
    return lines(rows, folder / f"{system}.jsonl")


def stored(system: str, folder: Path) -> str:
    file = folder / csv(system, folder)
    with duckdb.connect(folder / "shop.duckdb") as connection:
        connection.execute(f"create table {system} as from read_csv('{file}')")
        connection.execute(f"create or replace table labels as from '{folder / 'labels.csv'}'")
    return system


FILES: Mapping[str, Callable[[str, Path], str]] = {
    "CSV, a file a system, and labels": csv,
    "Parquet, a file a system, and labels": parquet,
    "folders of CSV, one a system, and labels": parts,
    "TREC runs and qrels": trec,
    "traces, a file a system": traces,
    "traces, and labels": traces,
    "`_search`, and labels": search,
    "`_msearch`, and labels": msearch,
    "Solr, and labels": solr,
    "Vespa, and labels": vespa,
    "lines of `_id` and `_score`, and labels": hit_lines,
    "tables of a database": stored,
}


def spec_of(source: str, folder: Path) -> str:
    """A spec of a table with two systems, or of traces, which are one."""
    if "traces" in source:
        file = traces("old", folder)
        rankings, labels = f"{{file: {file}}}", f"{{file: {file}}}"
    else:
        rows = [
            ",".join(map(str, [*row.values(), system, system]))
            for system in LISTS_OF
            for row in flat(system)
        ]
        text = "\n".join(["query_id,item_id,score,system,step", *rows, ""])
        (folder / "all.csv").write_text(text, encoding="utf-8")
        rankings = "{file: all.csv, columns: {score: score, system: system}}"
        labels = "{file: labels.csv}"
    text = f"version: 1\nname: s\nrankings: {rankings}\nlabels: {labels}\nmetrics: [mrr]\n"
    (folder / "spec.yml").write_text(text, encoding="utf-8")
    return "spec.yml"


def source_words(source: str, folder: Path, *, systems: Sequence[str]) -> list[str]:
    """The words of the command line that name a source."""
    (folder / "labels.csv").write_text(LABELS, encoding="utf-8")
    if source not in FILES:
        return [spec_of(source, folder)]
    words = [FILES[source](system, folder) for system in systems]
    if source == "TREC runs and qrels":
        qrels = "".join(f"{query} 0 {RELEVANT} 1\n" for query in QUERIES)
        (folder / "qrels.txt").write_text(qrels, encoding="utf-8")
        return [*words, "qrels.txt"]
    if source == "tables of a database":
        return [*words, "labels", "--db", "shop.duckdb"]
    return words if source == "traces, a file a system" else [*words, "labels.csv"]


def mrr_by_system(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["system"]: row["value"] for row in rows if row["metric"] == "mrr"}


@by_turns(1.1)
@pytest.mark.parametrize("cell", sliced("sources", 0.1, [" | ".join(key) for key in table()]))
def test_each_cell_of_the_table_holds(cell: str, tmp_path: Path) -> None:
    source, verb = cell.split(" | ")
    is_taken, is_spec = table()[source, verb] == YES, source not in FILES
    assert table()[source, verb] in (YES, NO)
    words = source_words(
        source, tmp_path, systems=("old",) if verb == "reconcile" else ("old", "new")
    )
    metric = [] if is_spec and verb not in ("tie audit", "reconcile") else ["-m", "mrr"]
    commands = {
        "evaluate": ["evaluate", *words, *metric, "-o", "json"],
        "tie audit": ["evaluate", *words, *metric, "--tie-audit", "-o", "json"],
        "compare": ["compare", *words, *metric, "--baseline", "old", "-o", "json"],
        "report": ["report", *words, *metric, "--out", "-"],
        "diagnose": ["diagnose", *words, "-o", "json"],
        "funnel": ["funnel", *words, *metric, "--order", "old,new", "-o", "json"],
        "sheet": ["sheet", *words, "-k", "3"],
        "sample": ["sample", *words, "--size", "4"],
        "reconcile": ["reconcile", *words, *metric, "--value", ".5000", "-o", "json"],
    }
    command = commands[verb]
    if verb == "funnel" and is_spec:
        command += ["--stage-column", "step"]
    if not is_taken:
        assert sqlmetrics(*command, folder=tmp_path, expect=2).stderr
        return
    printed = sqlmetrics(*command, folder=tmp_path).stdout
    CHECK_BY_COMMAND[verb](printed, source)


def means_hold(printed: str, source: str) -> None:
    means = {"s": MRR["old"]} if source == "a spec of traces" else MRR
    assert mrr_by_system(json.loads(printed)) == pytest.approx(means)


def differences_hold(printed: str, source: str) -> None:
    (row,) = json.loads(printed)
    assert (row["baseline_value"], row["value"]) == pytest.approx((MRR["old"], MRR["new"])), source


def stages_hold(printed: str, source: str) -> None:
    rows = json.loads(printed)
    if source in FILES:
        assert {row["stage"]: row["mrr"] for row in rows} == pytest.approx(MRR)
    assert {row["stage"] for row in rows} == {"old", "new"}


def unjudged_hold(printed: str, source: str) -> None:
    """Two of three items of each query, whichever list they stand in."""
    assert len(printed.splitlines()) == 1 + 2 * len(QUERIES), source


def has(*words: str) -> Callable[[str, str], None]:
    """See that words are in the output."""

    def check(printed: str, source: str) -> None:
        assert [word for word in words if word not in printed] == [], source

    return check


CHECK_BY_COMMAND: Mapping[str, Callable[[str, str], None]] = {
    "evaluate": means_hold,
    "tie audit": has("mrr", "old", "new"),
    "compare": differences_hold,
    "report": has("mrr", "0.5000"),
    "diagnose": has("finding"),
    "funnel": stages_hold,
    "sheet": unjudged_hold,
    "sample": has('"stratum_size"', "\n", ",6,4,"),
    "reconcile": has("candidates", "house"),
}


def test_the_table_has_every_source() -> None:
    assert {source for source, _ in table()} == {*FILES, "a spec", "a spec of traces"}


def test_references_that_differ_are_refused_with_examples(tmp_path: Path) -> None:
    for name, relevant in (("a", "x"), ("b", "y")):
        rows = [
            {"query": query, "retrieved_ids": ["x", "y"], "expected_ids": [item]}
            for query, item in (("same", "x"), ("other", relevant), ("no label", ""))
        ]
        rows[-1]["expected_ids"] = [] if name == "a" else ["y"]
        lines(rows, tmp_path / f"{name}.jsonl")
    completed = sqlmetrics("compare", "a.jsonl", "b.jsonl", "-m", "mrr", folder=tmp_path, expect=2)
    assert "references of 1 query differ" in completed.stderr
    assert "other: x in a, y in b" in completed.stderr
    assert "--labels" in completed.stderr
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nother,y,1\n", encoding="utf-8")
    words = ("evaluate", "one=a.jsonl", "two=b.jsonl", "labels.csv", "-m", "mrr", "-o", "json")
    completed = sqlmetrics(*words, folder=tmp_path)
    assert mrr_by_system(json.loads(completed.stdout)) == {"one": 0.5, "two": 0.5}


OBJECTS = [{"qid": "q", "contexts": [{"chunk_id": "a#1", "doc_id": "a"}], "truth": ["a"]}]
DEEP = [{"qid": "q", "contexts": [{"document": {"id": "b"}}, {"document": {"id": "a"}}]}]


@by_turns(0.9)
def test_the_id_of_an_object_can_be_named(tmp_path: Path) -> None:
    lines(OBJECTS, tmp_path / "objects.jsonl")
    lines(DEEP, tmp_path / "deep.jsonl")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq,a,1\n", encoding="utf-8")
    options, ids = (
        ("--query", "qid", "--label-column", "item=truth"),
        ("--label-column", "query=query_id"),
    )
    for words, value, note in (
        (
            ("objects.jsonl", *options, "--item", "contexts"),
            1.0,
            "using doc_id as the id of a document; for chunk_id use item=",
        ),
        (("objects.jsonl", *options, "--item", "contexts.doc_id"), 1.0, "read as traces"),
        (("objects.jsonl", *options, "--item", "contexts.chunk_id"), 0.0, "read as traces"),
        (
            ("deep.jsonl", "labels.csv", "--item", "contexts.document.id", *options[:2], *ids),
            0.5,
            "read as traces",
        ),
    ):
        completed = sqlmetrics("evaluate", *words, "-m", "mrr", "-o", "json", folder=tmp_path)
        assert [row["value"] for row in json.loads(completed.stdout)] == [value], words
        assert note in completed.stderr
    wrong = ("objects.jsonl", *options, "--item", "context")
    completed = sqlmetrics("evaluate", *wrong, "-m", "mrr", folder=tmp_path, expect=2)
    assert "did you mean 'contexts'" in completed.stderr


@by_turns(1.1)
def test_a_track_without_labels_starts_with_a_sheet(tmp_path: Path) -> None:
    run = trec("old", tmp_path)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("query_id,item_id,grade\n", encoding="utf-8")
    spec = "version: 1\nname: s\nrankings: {file: old.run}\nmetrics: [mrr]\n"
    (tmp_path / "none.yml").write_text(spec, encoding="utf-8")
    (tmp_path / "spec.yml").write_text(spec + "labels: {file: lab.qrels}\n", encoding="utf-8")
    for words in (
        (run,),
        (run, "--labels", "lab.qrels"),
        (run, "empty.csv"),
        (run, "header.csv"),
        ("none.yml",),
        ("spec.yml",),
    ):
        completed = sqlmetrics("sheet", *words, folder=tmp_path)
        assert len(completed.stdout.splitlines()) == 1 + len(flat("old")), words
        assert "no item is labelled yet" in completed.stderr
    graded = re.sub(r',"",("k\w+")', r",1,\1", sqlmetrics("sheet", run, folder=tmp_path).stdout)
    (tmp_path / "sheet.csv").write_text(graded, encoding="utf-8")
    words = ("sheet-import", "sheet.csv", "--labels", "lab.qrels")
    sqlmetrics(*words, "--new", folder=tmp_path)
    assert "0 added" in sqlmetrics(*words, folder=tmp_path).stdout
    completed = sqlmetrics("show", "spec.yml", "-o", "json", folder=tmp_path)
    assert mrr_by_system(json.loads(completed.stdout)) == {"old": 1.0}
    assert len(sqlmetrics("sheet", "spec.yml", folder=tmp_path).stdout.splitlines()) == 1


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_is_json_for_programs(kind: str, tmp_path: Path) -> None:
    rows = json.loads(sqlmetrics("list", kind, "-o", "json", folder=tmp_path).stdout)
    printed = sqlmetrics("list", kind, folder=tmp_path).stdout
    name = next(iter(rows[0]))
    assert all(row[name] and row.keys() == rows[0].keys() for row in rows)
    assert rows[0][name].split(",")[0] in printed
    assert " " not in "".join(rows[0])


def test_an_argument_that_is_unknown_is_told_with_those_of_the_function(tmp_path: Path) -> None:
    runs = {name: str(tmp_path / csv(name, tmp_path)) for name in LISTS_OF}
    (tmp_path / "labels.csv").write_text(LABELS, encoding="utf-8")
    labels = str(tmp_path / "labels.csv")
    for function, wrong, near in (
        (sm.compare, "unpaird", "unpaired"),
        (sm.report, "langage", "language"),
        (sm.diagnose, "margn", "margin"),
        (sm.reconcile, "departurs", "departures"),
    ):
        with pytest.raises(sm.SpecError, match=f"'{wrong}'; did you mean '{near}'"):
            function(runs, labels, "mrr", **{wrong: 1}) if function is not sm.diagnose else (
                function(runs, labels, **{wrong: 1})
            )
    with pytest.raises(sm.SpecError, match="contradict"):
        sm.compare(runs, labels, "mrr", paired=True, unpaired=True)
    rows = [
        sm.compare(runs, labels, "mrr", **{name: value}).to_dicts()
        for name, value in (("unpaired", True), ("paired", False))
    ]
    assert rows[0] == rows[1]


def test_a_column_that_tells_systems_apart_is_named_first(tmp_path: Path) -> None:
    text = "query_id,item_id,score,ab_bucket\nq0,b,1,x\nq0,b,2,y\n"
    (tmp_path / "both.csv").write_text(text, encoding="utf-8")
    (tmp_path / "labels.csv").write_text(LABELS, encoding="utf-8")
    words = ("evaluate", "both.csv", "labels.csv", "-m", "mrr")
    message = sqlmetrics(*words, folder=tmp_path, expect=2).stderr
    assert "-> ab_bucket distinguishes them, so use --system ab_bucket" in message
    (tmp_path / "both.csv").write_text(text.replace(",x", ",y"), encoding="utf-8")
    message = sqlmetrics(*words, folder=tmp_path, expect=2).stderr
    assert "distinguishes them" not in message
    assert "best_score" in message
    # and a column that tells judges apart
    (tmp_path / "both.csv").write_text("query_id,item_id,score\nq0,b,1\n", encoding="utf-8")
    graded = "query_id,item_id,note,grade,who\nq0,b,,1,ann\nq0,b,,2,bob \nq0,c,,1,ann\n"
    (tmp_path / "labels.csv").write_text(graded, encoding="utf-8")
    message = sqlmetrics(*words, folder=tmp_path, expect=2).stderr
    assert "-> who distinguishes them (ann, 'bob '): if it names the judge, make one" in message
    assert "sqlmetrics combine --judge who; else remove the repeated rows" in message
    (tmp_path / "labels.csv").write_text(graded.replace("bob ", "ann"), encoding="utf-8")
    assert "distinguishes" not in sqlmetrics(*words, folder=tmp_path, expect=2).stderr
    # a click log is no rankings
    (tmp_path / "log.csv").write_text("request_id,item_id,is_click\nr,a,0\n", encoding="utf-8")
    message = sqlmetrics("compare", "log.csv", "-m", "mrr", folder=tmp_path, expect=2).stderr
    assert "no labels are given, and is_click looks like a column of a click log: evalu" in message
    message = sqlmetrics("clicks", "log.csv", folder=tmp_path, expect=2).stderr
    assert "no column is known as position; " in message
    (tmp_path / "log.csv").write_text("request_id,item_id,what\nr,a,view\n", encoding="utf-8")
    message = sqlmetrics("clicks", "log.csv", folder=tmp_path, expect=2).stderr
    assert message.endswith("as clicks.events, each with its condition (where)\n")
