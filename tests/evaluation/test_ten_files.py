"""Ten files as people have them: each gives its number in one command, and nothing is asked."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from command import sqlmetrics

NDCG = 0.6309
"""In each of them two queries have their relevant item at the second of two ranks."""
RANKS = [(1, 12, 4.5), (1, 13, 3.25), (2, 14, 2.0), (2, 15, 1.5)]
QRELS = "1 0 13 1\n2 0 15 2\n"
RUN = "".join(f"{q} Q0 {i} {n % 2 + 1} {s} bm25\n" for n, (q, i, s) in enumerate(RANKS))
LABELS = "query_id,item_id,grade\n1,13,1\n2,15,2\n"
CLICKS = "search_id,term,sku,rank,clicked\n1,a,12,1,0\n1,a,13,2,1\n2,b,14,1,0\n2,b,15,2,1\n"


def texts(folder: Path) -> None:
    """The files that are texts."""
    lines = (f"{q};{i};{s}".replace(".", ",") for q, i, s in RANKS)
    hits = {q: [{"id": i, "score": s} for n, i, s in RANKS if n == q] for q in (1, 2)}
    recs = {q: [i for n, i, _ in RANKS if n == q] for q in (1, 2)}
    files = {
        "sheet.csv": "\n".join(["Query;Document;Score", *lines]),
        "sheet_labels.csv": "Query;Document;Relevance\n1;13;1\n2;15;2\n",
        "labels.csv": LABELS,
        "recs.csv": "userId,movieId,prediction\n" + "".join(f"{q},{i},{s}\n" for q, i, s in RANKS),
        "ratings.csv": "userId,movieId,rating,timestamp\n1,13,4.0,9\n2,15,5.0,9\n",
        "a.run": RUN,
        "qrels.txt": QRELS,
        "api.jsonl": "".join(json.dumps({"query": q, "hits": h}) + "\n" for q, h in hits.items()),
        "top.jsonl": "".join(json.dumps({"user": q, "items": i}) + "\n" for q, i in recs.items()),
        "run.json": json.dumps({q: {i: s for n, i, s in RANKS if n == q} for q in (1, 2)}),
        "qrels.json": json.dumps({1: {13: 1}, 2: {15: 2}}),
        "log.csv": CLICKS,
    }
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ten")
    texts(directory)
    frame = pd.DataFrame(RANKS, columns=["query_id", "doc_id", "score"])
    frame.astype({"doc_id": float}).to_parquet(directory / "floats.parquet")
    days = frame.assign(ds=["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"])
    days = days.rename(columns={"doc_id": "item_id"})
    with duckdb.connect(directory / "shop.duckdb") as shop:
        shop.register("days", days)
        shop.execute(f"copy days to '{directory / 'lake'}' (format parquet, partition_by (ds))")
        shop.execute("create table runs as select query_id, item_id, score from days")
        shop.execute(f"create table qrels as from read_csv('{directory / 'labels.csv'}')")
    return directory


COMMANDS = {
    "a German spreadsheet": "evaluate sheet.csv sheet_labels.csv",
    "ids that pandas made floats": "evaluate floats.parquet labels.csv",
    "MovieLens": "evaluate recs.csv ratings.csv",
    "TREC in the other order": "evaluate qrels.txt a.run",
    "a search API's log": "evaluate api.jsonl labels.csv",
    "Parquet by day": "evaluate lake labels.csv",
    "a DuckDB file": "evaluate runs qrels --db shop.duckdb",
    "top-N lists": "evaluate top.jsonl ratings.csv",
    "ranx": "evaluate run.json qrels.json",
    "a wide click log": "clicks log.csv",
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_file_as_people_have_it(folder: Path, case: str) -> None:
    out = sqlmetrics(*COMMANDS[case].split(), "-m", "ndcg@10", folder=folder)
    assert f"{NDCG}" in out.stdout, out.stdout + out.stderr
