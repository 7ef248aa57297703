"""A walk through the docs: what they tell to type exists, and runs; so does every other option.

Three walks over one small world of tables and files, all in this process:

* every verb and option that a page names is there;
* every line of a block runs, in the order of its page;
* CELLS exercise each option of each verb at least once, which is counted, on DuckDB, and what
  opens a database again on SQLite and PostgreSQL.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import click
import duckdb
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from conftest import peer
from documentation import PAGES, ROOT, SELF_CONTAINED
from engines.starting import Servers
from marked import by_turns, long

from sqlmetrics.cli import cli
from sqlmetrics.engines.registry import open_driver

pytestmark = by_turns(0.15)

VERBS: Mapping[str, click.Command] = cli.commands
PLACES = {"--db", "--connection", "--target"}
"""Options that say which database; a walk puts its own there."""

RUNS = """
select
    d as ds, s as system, 'q' || q as query_id, 'i' || i as item_id,
    ((hash(q * 31 + i * 7 + length(s)) % 1000) / 10.0)::double as score,
    if(q % 2 = 0, 'DE', 'FR') as country
from
    (values ('2026-01-01'::date), ('2026-01-02'::date)) as days(d),
    (values ('prod'), ('cand')) as systems(s), range(1, 13) as queries(q), range(1, 6) as items(i)
"""
LABELS = """
select 'q' || q as query_id, 'i' || i as item_id, (q + i) % 3 as grade
from range(1, 13) as queries(q), range(1, 5) as items(i)
"""
QUERIES = """
select 'q' || q as query_id, 'text ' || q as q, q as traffic, if(q > 6, 'app', 'web') as device
from range(1, 13) as queries(q)
"""
ITEMS = """
select 'i' || i as item_id, 'c' || (i % 2) as category, i as popularity from range(1, 6) as t(i)
"""
EXPERIMENTS = """
select
    'e' || e as experiment, metric,
    ((e * 7 % 11 - 5) * (e + length(metric)) / 50.0)::double as difference,
    0.2::double as standard_error
from range(24) as experiments(e), (values ('online'), ('ndcg@10'), ('mrr')) as metrics(metric)
"""
TABLES = {"rankings": RUNS, "labels": LABELS, "queries": QUERIES, "items": ITEMS} | {
    "experiments": EXPERIMENTS,
    "judged": f"select * exclude grade, grade as human, grade > 1 as gpt from ({LABELS})",
}
"""Table -> the query that makes it; all walks have them as tables and as Parquet files."""

SPEC = """\
name: search
rankings: {{{rankings}, columns: {{score: score, system: system, date: ds}}}}
labels: {{{labels}}}
queries: {{{queries}, columns: {{text: q, weight: traffic, segments: [device]}}}}
metrics: [ndcg@10, mrr]
by: [country]
output: {{relation: ranking_metrics, per_query: ranking_metrics_per_query}}
checks: [{{metric: ndcg@10, min: 0, min_queries: 1}}]
"""
CLICKS = ("impressions", "events", "requests")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database and the files that the docs speak of."""
    folder = tmp_path_factory.mktemp("world")
    tables = ("rankings", "labels", "queries")
    for name, kind in (("search.yml", "relation"), ("files.yml", "file")):
        end = ".parquet" if kind == "file" else ""
        (folder / name).write_text(SPEC.format(**{t: f"{kind}: {t}{end}" for t in tables}))
    shutil.copy(folder / "files.yml", folder / "spec.yml")
    sqlmetrics("metric", "new", "seen", "--folder", "own", folder=folder)
    lists = "rankings: {file: lists.parquet, columns: {score: score}}"
    (folder / "staged.yml").write_text(
        f"{lists}\nlabels: {{file: labels.parquet}}\nmetrics: [mrr]\n"
    )
    columns = "{score: score, system: system, date: ds}"
    for name, kind, end in (("track.yml", "file", ".parquet"), ("board.yml", "relation", "")):
        (folder / name).write_text(
            f"rankings: {{{kind}: runs{end}, columns: {columns}}}\n"
            f"labels: {{{kind}: labels{end}}}\nmetrics: [ndcg@10, mrr]\n"
        )
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        for name, query in TABLES.items():
            shop.execute(f"create table {name} as {query}")
            shop.table(name).write_parquet(str(folder / f"{name}.parquet"))
        selection = "from rankings where system = 'prod' and ds = '2026-01-01'"
        shop.execute(f"create table runs as select * {selection}")
        shop.table("runs").write_parquet(str(folder / "runs.parquet"))
        for stage, last in {"recall": 5, "pre-rank": 4, "rank": 3, "page": 1}.items():
            best = "row_number() over (partition by query_id order by score desc)"
            stage_query = f"select *, '{stage}' as stage from runs qualify {best} <= {last}"
            shop.sql(f"select * exclude stage from ({stage_query})").write_parquet(
                f"{folder}/{stage}.parquet"
            )
            shop.execute(f"create table if not exists lists as {stage_query} limit 0")
            shop.execute(f"insert into lists {stage_query}")
        shop.table("lists").write_parquet(str(folder / "lists.parquet"))
        candidates = shop.sql("select *, ['bm25', 'popular'] as sources from runs")
        candidates.write_parquet(str(folder / "candidates.parquet"))
        runs = shop.sql("select query_id, item_id, score from runs").fetchall()
        labels = shop.sql("from labels").fetchall()
    _texts(folder, runs, labels)
    small = ["--requests", "60", "--users", "40", "--queries", "8", "--days", "2"]
    sqlmetrics("simulate", "log", *small, folder=folder)
    for name in CLICKS:
        rows = f"select *, 'web' as device from '{folder}/log/{name}.parquet'"
        duckdb.sql(rows).write_parquet(str(folder / f"{name}.parquet"))
    sqlmetrics("init", "--clicks", "clicks.yml", folder=folder)
    text = (folder / "clicks.yml").read_text().replace("  cleaning:", UNSHOWN + "  cleaning:", 1)
    (folder / "unshown.yml").write_text(text)
    sqlmetrics("run", "search.yml", "--db", "shop.duckdb", folder=folder)
    zoned = "select * replace (ds::timestamptz as ds)"
    duckdb.sql(f"{zoned} from '{folder}/runs.parquet'").write_parquet(f"{folder}/zoned.parquet")
    files = "run.txt qrels.txt runs.csv words.csv runs.parquet zoned.parquet labels.parquet"
    for line in ("init -q -b main", f"add {files} files.yml", "commit -qm world"):
        words = ["git", "-c", "user.name=A", "-c", "user.email=a@b.example", *line.split()]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return folder


UNSHOWN = """\
  propensity: {method: given, given: {1: 1, 2: 0.5}}
  counterfactual:
    rankings: {file: impressions.parquet, columns: {item: item_id, rank: position}}
"""


def _texts(
    folder: Path, runs: list[tuple[str, str, float]], labels: list[tuple[str, str, int]]
) -> None:
    """The files of text: TREC, a spreadsheet's CSV, another tool's values, UBI."""
    (folder / "run.txt").write_text("".join(f"{q} Q0 {i} 1 {s} prod\n" for q, i, s in runs))
    (folder / "qrels.txt").write_text("".join(f"{q} 0 {i} {g}\n" for q, i, g in labels))
    (folder / "uploads" / "ace").mkdir(parents=True)
    shutil.copy(folder / "run.txt", folder / "uploads" / "ace" / "prod.txt")
    (folder / "uploads.yml").write_text("track: tea\nlabels: qrels.txt\nmetrics: mrr\n")
    lines = [f"{q};{i};{str(s).replace('.', ',')}" for q, i, s in runs]
    (folder / "runs.csv").write_text("\n".join(["qid;doc;value", *lines]))
    words = ["low", "mid", "high"]
    (folder / "words.csv").write_text(
        "\n".join(["qid;item;level;part", *(f"{q};{i};{words[g]};{i[-1]}" for q, i, g in labels)])
    )
    (folder / "theirs.csv").write_text(
        "query_id,ndcg\n" + "".join(f"q{q},.51234\n" for q in range(1, 13))
    )
    request = {
        "query_id": "r1",
        "client_id": "c",
        "user_query": "tea",
        "timestamp": "2026-01-01T00:00:00Z",
    }
    (folder / "deploys.csv").write_text("day,name\n2026-01-02,new ranker\n")
    (folder / "ubi_queries.ndjson").write_text(json.dumps(request) + "\n")
    events = [("impression", "a", 1), ("impression", "b", 2), ("click", "b", 2)]
    event_rows = [
        request
        | {"action_name": name, "timestamp": f"2026-01-01T00:00:0{at}Z"}
        | {"event_attributes": {"object": {"object_id": item}, "position": {"ordinal": position}}}
        for at, (name, item, position) in enumerate(events)
    ]
    (folder / "ubi_events.ndjson").write_text(
        "".join(json.dumps(event) + "\n" for event in event_rows)
    )


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Path:
    """The world, for one walk alone."""
    return shutil.copytree(world, tmp_path / "world")


# -- what the pages name --------------------------------------------------------------


def command_words(text: str) -> Iterator[list[str]]:
    """The words behind `sqlmetrics` in each command that a page shows, in blocks and in lines."""
    joined = re.sub(r"\\\n\s*", "", text)
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```", joined, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(sqlmetrics [^`]+)`", re.sub(r"\n", " ", joined))
    for line in [*lines, *inline]:
        for part in re.split(r"&&|\|", line.removeprefix("$ ").partition("   #")[0]):
            words = part.strip().split(maxsplit=1)
            if words[:1] == ["sqlmetrics"]:
                yield shlex.split(part.strip())[1:]


def flags(words: list[str]) -> set[str]:
    """The options among words."""
    return {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}


def options(verb: str) -> set[str]:
    """All spellings of the options of a verb."""
    click_options = [option for option in VERBS[verb].params if isinstance(option, click.Option)]
    return {name for option in click_options for name in (*option.opts, *option.secondary_opts)} | {
        "--help"
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_verbs_and_options_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for words in command_words(text):
        verb = next((word for word in words if not word.startswith("-")), "")
        assert verb in VERBS, f"{page.name}: sqlmetrics {shlex.join(words)}"
        strange = flags(words) - options(verb)
        assert not strange, f"{page.name}: sqlmetrics {verb} has no {', '.join(strange)}"
    if page.name == "messages.md":
        return  # what it quotes are sentences of the code
    spellings = {name for verb in VERBS for name in options(verb)}
    parameters = [parameter for command in VERBS.values() for parameter in command.params]
    spellings |= {name for option in parameters for name in getattr(option, "old_spellings", ())}
    alone = {flag for code in re.findall(r"`(--[^`]+)`", text) for flag in flags(code.split())}
    assert alone <= spellings, f"{page.name}: no verb has {', '.join(alone - spellings)}"


# -- the blocks -----------------------------------------------------------------------

OF_FILES = {"labelling.md", "speed.md"}
"""Pages whose search.yml names files."""

TOO_LONG = {
    "demo": "test_cli runs it",
    "doctor": "test_conformance runs it",
}
DRAWING = ("report", "plot")
"""What draws pictures with an extra; CELLS have what it does without."""

SMALLER = {
    "20000": "60",
    "300": "6",
    "5000": "60",
    "4GB": "1GB",
    "country": "device",
    "shop.rankings": "runs",
    "shop.labels": "labels",
}
"""What a page says of a large world -> of this one."""

FINDS_NOTHING = {"reconcile": 1}
"""Verbs -> their exit code in this world, which has not the numbers of the page."""


def with_database(words: list[str], database_options: list[str]) -> list[str]:
    """A command with the place of the walk's own database."""
    kept = iter(words)
    plain = []
    for word in kept:
        if word in PLACES:
            next(kept)
        else:
            plain.append(SMALLER.get(word, word))
    verb = plain[0]
    reads_database = any(word in ("search.yml", "runs") for word in plain)
    takes = (
        reads_database
        and database_options[0] in options(verb)
        and verb not in ("compile", "export")
    )
    return [*plain, *database_options] if takes else plain


def block_lines(page: Path) -> list[list[str]]:
    """The commands of a page's blocks."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [words for block in blocks for words in command_words(f"```sh\n{block}```\n")]


SLOW_PAGES = {"clicks.md", "dashboards.md", "funnel.md", "labelling.md", "reconcile.md", "speed.md"}
PRINTED = {"position-bias.md", "numbers.md"}
"""Pages whose own tests run them, and compare what they print."""
WITH_BLOCKS = [
    long(page) if page.name in SLOW_PAGES else page
    for page in PAGES
    if not (page in SELF_CONTAINED or page.stem.startswith("README") or page.name in PRINTED)
    if block_lines(page)
]


def walk(page: Path, folder: Path, database_options: list[str]) -> None:
    """Run the lines of a page, one after the other."""
    prepare(page.name, folder)
    for words in block_lines(page):
        if words[0] in TOO_LONG or (words[0] in DRAWING and find_spec("vl_convert") is None):
            continue
        line = with_database(words, database_options)
        if words[0] == "sheet-import":
            fill_grades(folder / words[1])
        if words[0] == "simulate":
            requests = [] if "--requests" in line else ["--requests", "60"]
            line += ["--users", "40", "--queries", "8", *requests]
        sqlmetrics(*line, folder=folder, expect=FINDS_NOTHING.get(words[0], 0))


def prepare(page: str, folder: Path) -> None:
    """What a page's first lines ask for."""
    if page in OF_FILES:
        shutil.copy(folder / "files.yml", folder / "search.yml")
    if page == "security.md":  # of a spec that needs no profile
        for subfolder in ("pull-request", "ci"):
            (folder / subfolder).mkdir()
        spec = (folder / "files.yml").read_text().replace("file: ", "file: ../")
        (folder / "pull-request" / "spec.yml").write_text(spec)
        profile = "outputs: {dev: {type: duckdb, path: shop.duckdb}}\ntarget: dev\n"
        (folder / "ci" / "profiles.yml").write_text(profile)
    if page == "lakehouse.md":
        for table in ("rankings", "labels"):
            rows = pq.read_table(folder / f"{table}.parquet")
            peer("deltalake").write_deltalake(str(folder / "lake" / table), rows)
    if page == "clicks.md":  # which makes it
        (folder / "search.yml").unlink()
    (folder / "labels.csv").write_text("query_id,item_id,grade\nq1,i1,1\n")


def fill_grades(sheet: Path) -> None:
    """Fill a sheet in as a person would."""
    rows = sheet.read_text().splitlines()
    column = rows[0].split(",").index('"grade"')
    filled = [rows[0]]
    for row in rows[1:]:
        cells = row.split(",")
        cells[column] = '"1"'
        filled.append(",".join(cells))
    sheet.write_text("\n".join(filled) + "\n")


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_the_lines_of_a_page_run(page: Path, folder: Path) -> None:
    walk(page, folder, ["--db", "shop.duckdb"])


# -- each option ----------------------------------------------------------------------

RANKED = "--system system --date ds"
CELLS: dict[str, tuple[str, ...]] = {
    "evaluate": (
        f"evaluate rankings.parquet labels.parquet -m ndcg@10 -m mrr {RANKED} --by country "
        "--preset trec_eval -c missing=drop --queries queries.parquet --weight traffic "
        "--where 'score > -1' --per-query -o json --confidence 0.9 --segment traffic",
        f"evaluate rankings.parquet labels.parquet -m overlap@2 --baseline prod {RANKED} "
        "--skip-input-checks --plan window --memory 1GB --profile p.json --out x.csv",
        f"evaluate rankings.parquet labels.parquet -m ndcg@2 {RANKED} --checkpoint done",
        f"evaluate rankings.parquet labels.parquet -m coverage@2 --items items.parquet {RANKED} "
        "--check-share .5",
        "evaluate runs.parquet --labels labels.parquet -m mrr --tie-audit --errors json --debug",
        "evaluate runs.parquet --labels labels.parquet -m mrr --abstention -o csv",
        "evaluate runs.csv words.csv -m mrr,alpha_ndcg@2 --query qid --item doc "
        "--score value --grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 --grades mid=1 "
        "--grades high=2",
        "evaluate runs.parquet labels.parquet -m mrr --rank rank 2",
        "evaluate \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet -m mrr {RANKED} --time-zone Europe/Berlin",
        f"evaluate rankings labels -m mrr {RANKED} PLACE",
        f"evaluate rankings labels -m mrr {RANKED} --connection dev --profiles profiles.yml",
    ),
    "reconcile": (
        "reconcile run.txt qrels.txt -m ndcg@3 --value 0.98765 --departures 1 -o json 1",
        "reconcile run.txt --labels qrels.txt -m ndcg@3 --value 0.98765 --departures 0 "
        "--check-share .5 1",
        "reconcile run.txt qrels.txt -m ndcg@3 --values theirs.csv:ndcg -c ties=id_asc --sql "
        "--departures 1 1",
        "reconcile rankings labels -m ndcg@3 --value .98765 --departures 1 --db shop.duckdb "
        "--where \"system = 'prod' and ds = '2026-01-01'\" --query query_id --item item_id "
        "--score score --grade grade --queries queries --weight traffic --skip-input-checks 1",
        "reconcile runs.csv words.csv -m ndcg@3 --value .98765 --departures 0 --query qid "
        "--item doc --score value --grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own "
        "--grades low=0 --grades mid=1 --grades high=2 1",
        "reconcile rankings.parquet labels.parquet -m mrr --value .98765 --system system --date ds "
        "--departures 0 2",
        "reconcile runs.parquet labels.parquet -m mrr --value .98765 --rank score --departures 0 2",
        "reconcile rankings.parquet labels.parquet -m mrr --value .98765 --by country "
        "--date ds --where \"system = 'prod'\" --departures 0 1",
        "reconcile \"select * replace (ds::timestamptz as ds) from 'rankings.parquet' "
        "where system = 'prod' and ds = '2026-01-01'\" labels.parquet -m mrr --value .98765 "
        "--date ds --time-zone Europe/Berlin --departures 0 1",
    ),
    "clicks": (
        "clicks clicks.yml -m ndcg@10 -m ctr@5 --by country -o json --out c.json",
        "clicks clicks.yml -m mrr --per-query --confidence 0.9",
        "clicks days clicks.yml --confidence 0.9 2",
        "clicks --ubi ubi_queries.ndjson ubi_events.ndjson",
        "clicks depth clicks.yml",
        "clicks models clicks.yml -o json",
        "clicks clicks.yml -m mrr --time-zone Asia/Tokyo",
        "clicks compare-labels clicks.yml 2",
        "clicks propensities clicks.yml 2",
        "clicks counterfactual unshown.yml --confidence 0.9 -o json --out unshown.json",
        "clicks clicks.yml -m mrr --db shop.duckdb",
        "clicks clicks.yml -m mrr --connection dev --profiles profiles.yml",
    ),
    "compile": (
        "compile search.yml --dialect bigquery --per-query",
        "compile files.yml --plan fastest",
        "compile search.yml --job job --dialect postgres",
        "compile search.yml --db shop.duckdb --plan fastest",
    ),
    "export": (
        "export malloy search.yml --out analytics --dialect postgres --force",
        "export dbt search.yml --out project --dbt-version 1.12 --refs labels",
        "export malloy search.yml --db shop.duckdb",
        "export superset search.yml --database-uri duckdb:////data/m.duckdb --database-name shop",
        "export superset search.yml --database-uuid 0d1fb2f2-6a0a-4a44-9a3e-7f6a5a6a1a11",
        "export observable search.yml --database metrics.duckdb",
        "export malloy search.yml --target dev --profiles profiles.yml",
        "export malloy search.yml --connection dev --profiles profiles.yml",
    ),
    "validate": (
        "validate search.yml files.yml --offline",
        "validate search.yml PLACE",
        "validate search.yml --connection dev --profiles profiles.yml",
        "validate files.yml",
    ),
    "verify": (
        "verify files.yml --tolerance 1e-6",
        "verify search.yml PLACE",
        "verify search.yml --connection dev --profiles profiles.yml",
    ),
    "doctor": (
        "doctor --list-cases --case preset",
        "doctor --case nothing --connection dev --profiles profiles.yml 2",
    ),
    "run": (
        "run search.yml PLACE --start 2026-01-01 --end 2026-01-02 --check-share .5",
        "run search.yml PLACE --backfill --lookback 1 --batch-days 2 --skip-input-checks",
        "run search.yml PLACE --full-refresh --publish bi",
        "run search.yml --db shop.duckdb --publish bi.duckdb --storage-version v1.4.0",
        "run search.yml PLACE --dry-run",
        "run search.yml --target dev --profiles profiles.yml",
        "run search.yml --connection dev --profiles profiles.yml",
        "run search.yml PLACE -o json --out run.json --openlineage events.jsonl",
        "run search.yml PLACE --start yesterday 4",
        "run search.yml PLACE --adopt --webhook http://127.0.0.1:1/x --log-format json",
        "run search.yml PLACE --backfill --recompute",
        "run search.yml PLACE --full-refresh --allow-loss 9 --note 'a new map of grades'",
    ),
    "check": (
        "check search.yml PLACE --start 2026-01-01 --end 2026-01-03 -v",
        "check search.yml PLACE --date 2026-01-01 --junit c.xml --github -o json "
        "--webhook http://127.0.0.1:1/x",
        "check search.yml --target dev --profiles profiles.yml",
        "check search.yml --connection dev --profiles profiles.yml",
    ),
    "gate": (
        "gate run.txt qrels.txt -m mrr --base main --fail-on worse --margin 0.01 --movers 2 "
        "--title searching --comment --check-share .5 --preset trec_eval -c missing=drop",
        "gate runs.parquet labels.parquet -m mrr,ndcg@2 --date ds --by country --where "
        "'score > 1' --queries queries.parquet --weight traffic --segment traffic "
        "--skip-input-checks --out page.md --overwrite",
        "gate runs.csv words.csv -m mrr,strec@3 --query qid --item doc --score value --grade level "
        "--label-column item=item --group part --separator ; --decimal , --skip-bad "
        "--metrics-from own --grades low=0 --grades mid=1 --grades high=2 --build 'git --version'",
        "gate --spec files.yml --errors json --debug --log-format json --quiet",
        "gate run.txt qrels.txt -m mrr --rank rank 2",
        "gate runs.parquet labels.parquet -m mrr --system model 2",
        "gate zoned.parquet labels.parquet -m mrr --date ds --time-zone Europe/Berlin",
    ),
    "compare": (
        f"compare rankings.parquet labels.parquet -m mrr {RANKED} --fail-on worse",
        f"compare rankings.parquet labels.parquet -m mrr {RANKED} --all-pairs --check-share .5",
        f"compare rankings.parquet labels.parquet -m ndcg@10,mrr {RANKED} --baseline prod "
        "--by country --test bootstrap --replicates 200 --seed 2 --confidence 0.9 --margin 0.01 "
        "--preset trec_eval -c missing=drop --where 'score > -1' --skip-input-checks -o latex",
        f"compare rankings.parquet --labels labels.parquet -m ndcg@10 {RANKED} --weight traffic "
        "--queries queries.parquet --cluster device --start 2026-01-01 --end 2026-01-02 --sql",
        "compare a=runs.csv b=runs.csv words.csv -m mrr,strec@3 --query qid --item doc "
        "--score value --grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 "
        "--grades mid=1 --grades high=2 --out c.html",
        "compare rankings.parquet labels.parquet -m mrr --rank rank 2",
        "compare \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet -m mrr {RANKED} --time-zone Europe/Berlin",
        "compare rankings.parquet labels.parquet -m ils@2 --items items.parquet --date ds "
        "--segment relevant_labels --contributions --movers 2",
        "compare search.yml --systems prod,cand --test randomization PLACE",
        "compare search.yml --systems prod --dates 2026-01-01,2026-01-02 --paired",
        "compare search.yml --systems prod,cand --covariate 2026-01-01",
        "compare search.yml --systems prod,cand --winsorise .9 2",
        "compare search.yml --systems cand -m ndcg --baseline-values theirs.csv",
        f"compare rankings labels -m mrr {RANKED} --unpaired PLACE",
        "compare search.yml --connection dev --profiles profiles.yml",
    ),
    "leaderboard": (
        f"leaderboard rankings.parquet labels.parquet -m ndcg@10,mrr {RANKED} --baseline prod "
        "--sort-by mrr --test t --correction bh --replicates 200 --seed 2 --confidence 0.9 "
        "--systems prod,cand --preset trec_eval -c missing=drop --where 'score > -1' "
        "--start 2026-01-01 --end 2026-01-02 --skip-input-checks --no-unjudged-share -o latex "
        "--siunitx",
        f"leaderboard rankings.parquet --labels labels.parquet -m mrr {RANKED} --weight traffic "
        "--queries queries.parquet --start 2026-01-01 --end 2026-01-02 --check-share .5 2",
        "leaderboard a=runs.csv b=runs.csv words.csv -m mrr,strec@3 --query qid --item doc "
        "--score value --grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 "
        "--grades mid=1 --grades high=2 --out b.html",
        "leaderboard a=rankings.parquet b=rankings.parquet labels.parquet -m mrr --rank rank 2",
        "leaderboard rankings.parquet labels.parquet -m ils@2 --items items.parquet --date ds "
        "--start 2026-01-01 --end 2026-01-02 --methods",
        "leaderboard \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet -m mrr {RANKED} --time-zone Europe/Berlin --start 2026-01-01 "
        "--end 2026-01-02 --sql",
        "leaderboard board.yml --start 2026-01-01 --end 2026-01-02 --unjudged-share PLACE",
        "leaderboard board.yml --connection dev --profiles profiles.yml --start 2026-01-01 "
        "--end 2026-01-02",
        f"leaderboard rankings labels -m mrr {RANKED} --start 2026-01-01 --end 2026-01-02 "
        "--table topics PLACE",
        f"leaderboard rankings.parquet labels.parquet -m mrr {RANKED} --start 2026-01-01 "
        "--end 2026-01-02 --other-labels labels.parquet --table labels",
        f"leaderboard rankings.parquet labels.parquet -m mrr {RANKED} --start 2026-01-01 "
        "--end 2026-01-02 --pool-depth 2 --marks team --team '^.' --table contributions",
    ),
    "track": (
        "track uploads.yml --out site --overwrite",
        "track uploads.yml --quiet --errors json --debug --log-format json",
    ),
    "foretell": (
        "foretell experiments.parquet --online online -m ndcg@10,mrr --lower-is-better mrr "
        "--confidence 0.9 --replicates 100 --seed 2 -o latex",
        "foretell e=experiments.parquet --online online --out proxies.html",
        "foretell experiments --online online --sql PLACE",
        "foretell experiments --online online --connection dev --profiles profiles.yml",
    ),
    "fuse": (
        f"fuse rankings.parquet {RANKED} --runs prod,cand --method sum --norm rank --floor 0 "
        "--weights prod=1,cand=2 --window 5 --limit 3 --start 2026-01-01 --end 2026-01-02 "
        "--where 'score > -1' --skip-input-checks -o latex",
        f"fuse rankings.parquet {RANKED} --like qdrant -k 2 --check-share .5 --sql",
        "fuse a=runs.csv b=runs.csv --query qid --item doc --score value --separator ; --decimal , "
        "--skip-bad --out fused.parquet",
        "fuse a=rankings.parquet b=rankings.parquet --rank rank 2",
        f"fuse rankings.parquet {RANKED} --weight traffic 2",
        f"fuse rankings {RANKED} --into fused --overwrite --limit 2 PLACE",
        "fuse search.yml --into mixed --dry-run PLACE",
        "fuse \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"{RANKED} --time-zone Europe/Berlin",
        f"fuse rankings.parquet {RANKED} --labels labels.parquet --sweep -m mrr@2 --method rrf "
        "--method sum --norm rank -k 10 --step .5 --seed 2 --folds 2 --confidence .9 --bounds "
        "--by country --segment relevant_labels --preset trec_eval -c missing=drop "
        "--queries queries.parquet -o json",
        "fuse a=runs.csv b=runs.csv words.csv --sweep --draws 2 --query qid --item doc "
        "--score value --grade level --label-column item=item --group part --metrics-from own "
        "--grades low=0 --grades mid=1 --grades high=2 --like opensearch",
    ),
    "funnel": (
        f"funnel rankings.parquet --labels labels.parquet {RANKED} --stage-column country "
        "--order DE,FR -m ndcg@10 --rel 2 --by device --start 2026-01-01 --end 2026-01-02 "
        "--preset trec_eval -c missing=drop --where 'score > -1' --queries queries.parquet "
        "--weight traffic --skip-input-checks -o latex",
        f"funnel --stage recall=rankings.parquet --stage page=rankings.parquet labels.parquet "
        f"{RANKED} -m ils@2 --items items.parquet",
        "funnel \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet {RANKED} --time-zone Europe/Berlin 2",
        "funnel --stage a=runs.csv --stage b=runs.csv words.csv --query qid --item doc "
        "--score value --grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own "
        "--grades low=0 --grades mid=1 --grades high=2 --out f.html",
        f"funnel a=rankings.parquet b=rankings.parquet labels.parquet {RANKED} --sql",
        "funnel a=rankings.parquet b=rankings.parquet labels.parquet --rank rank 2",
        "funnel search.yml --stage-column country --order DE,FR PLACE",
        f"funnel a=rankings b=rankings labels {RANKED} PLACE",
        "funnel candidates.parquet labels.parquet --sources sources --check-share .5",
        "funnel search.yml --connection dev --profiles profiles.yml 2",
    ),
    "report": (
        f"report rankings.parquet labels.parquet -m ndcg@10,mrr {RANKED} --baseline prod "
        "--by country --out r.md --charts charts --language zh --margin 0.01 --confidence 0.9 "
        "--start 2026-01-01 --end 2026-01-03 --preset trec_eval -c missing=drop "
        "--where 'score > -1' --queries queries.parquet --weight traffic --skip-input-checks "
        "--segment relevant_labels --deploys deploys.csv",
        "report rankings.parquet --labels labels.parquet --systems prod,cand --items items.parquet "
        "--rank rank --out r.md --overwrite 2",
        "report runs.csv words.csv -m mrr,nrbp --query qid --item doc --score value --grade level "
        "--label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 --grades mid=1 "
        "--grades high=2 --out r.tex",
        "report \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet -m mrr {RANKED} --time-zone Europe/Berlin --out -",
        "report search.yml --fresh --check-share .5 --out - PLACE",
        f"report rankings.parquet labels.parquet -m mrr {RANKED} --sweep --out -",
        f"report rankings.parquet judged.parquet -m mrr {RANKED} --grade human --judges human,gpt "
        "--out -",
        "report search.yml --connection dev --profiles profiles.yml --out r.txt",
        "report clicks.yml --out -",
        "report ubi_queries.ndjson ubi_events.ndjson --out -",
    ),
    "plot": (
        f"plot scatter rankings.parquet labels.parquet -m mrr {RANKED} --out d.json --overwrite "
        "--baseline prod --by country --margin 0.01 --confidence 0.9 --start 2026-01-01 "
        "--end 2026-01-03 --preset trec_eval -c missing=drop --where 'score > -1' "
        "--queries queries.parquet --weight traffic --skip-input-checks --language zh "
        "--segment relevant_labels --deploys deploys.csv",
        f"plot variants rankings.parquet labels.parquet -m mrr {RANKED} --sweep --out w.json",
        f"plot judges rankings.parquet judged.parquet -m mrr {RANKED} --grade human "
        "--judges human,gpt --out u.json",
        "plot verdicts rankings.parquet --labels labels.parquet --systems prod,cand "
        "--items items.parquet --rank rank --out v.json 2",
        "plot tools runs.csv words.csv -m mrr --query qid --item doc --score value --grade level "
        "--label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 --grades mid=1 "
        "--grades high=2 --out r.json",
        "plot trend \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet -m mrr {RANKED} --time-zone Europe/Berlin --out d.json 2",
        "plot verdicts search.yml --fresh --check-share .5 --out v.json --db shop.duckdb",
        "plot means search.yml --connection dev --profiles profiles.yml --out v.json 2",
    ),
    "mcp": (  # its servers run in tests/assistants
        "mcp search.yml --http --host 0.0.0.0 --port 9000 --timeout 5 --memory 4GB PLACE 2",
        "mcp search.yml search.yml --connection dev --profiles profiles.yml 2",
        "mcp clicks.yml --db nothing.duckdb 2",
    ),
    "diagnose": (
        "diagnose clicks.yml",
        "diagnose rankings.parquet --labels labels.parquet --date ds --where \"system = 'prod'\" "
        "--dates 2026-01-01,2026-01-02 --by country",
        f"diagnose rankings.parquet --labels labels.parquet {RANKED} --weight traffic "
        "--baseline prod --queries queries.parquet --start 2026-01-01 --end 2026-01-02 "
        "--preset trec_eval -c missing=drop --margin 0.02 --confidence 0.9 --where 'score > -1' "
        "--skip-input-checks -o json --out d.json",
        "diagnose a=runs.csv b=runs.csv words.csv --query qid --item doc --score value "
        "--grade level --label-column item=item --group part "
        "--separator ; --decimal , --skip-bad --metrics-from own --grades low=0 "
        "--grades mid=1 --grades high=2",
        "diagnose rankings.parquet labels.parquet --rank rank 2",
        "diagnose \"select * replace (ds::timestamptz as ds) from 'rankings.parquet'\" "
        f"labels.parquet {RANKED} --time-zone Europe/Berlin",
        "diagnose search.yml --systems prod,cand --check-share .5 PLACE",
        "diagnose search.yml --connection dev --profiles profiles.yml",
    ),
    "show": (
        "show search.yml PLACE --start 2026-01-01 --end 2026-01-02 --skip-input-checks",
        "show files.yml --per-query -o csv --out shown.csv --confidence 0.95 --check-share .5",
        "show search.yml PLACE --definition",
        "show search.yml PLACE --definition --check-share .5 2",
        "show clicks.yml --confidence 0.95",
        "show clicks.yml -o json",
        "evaluate files.yml",
    ),
    "build": (
        "build search.yml PLACE --start 2026-01-01 --end 2026-01-02 --skip-input-checks",
        "build search.yml PLACE --backfill --recompute --lookback 1 --batch-days 1 "
        "--junit c.xml --github -q -v",
        "build search.yml PLACE --full-refresh --publish bi --adopt --allow-loss 9 --note late",
        "build search.yml PLACE --check-share .5 -o json --out run.json --openlineage events.jsonl "
        "--webhook http://127.0.0.1:1/x",
    ),
    "debug": ("debug PLACE", "debug search.yml PLACE"),
    "grants": (
        "grants search.yml --role nightly --kind reader --dialect postgres",
        "grants search.yml --role nightly PLACE 2",
        "grants search.yml --role nightly --connection dev --profiles profiles.yml 2",
    ),
    "runs": (
        "run search.yml PLACE",
        "runs search.yml --limit 1 PLACE",
        "runs search.yml PLACE -o json",
    ),
    "restore": ("run search.yml PLACE", "restore search.yml last --note late PLACE"),
    "retire": (
        "run search.yml PLACE",
        "retire search.yml --rows 1 PLACE 2",
        "retire search.yml --for-good --yes --note gone PLACE",
    ),
    "install": ("install macros.duckdb", "install macros.duckdb --sql"),
    "uninstall": (
        "run search.yml PLACE",
        "uninstall search.yml --rows 0 PLACE 2",
        "uninstall search.yml --yes PLACE",
    ),
    "sheet": (
        "sheet files.yml -k 3 --limit 2 --out s.csv --excel --labelled-queries",
        "sheet files.yml --sql --skip-input-checks",
        "sheet files.yml -k 3 --order move-to-front --per-query 2 --share prod=2 --rel 2",
        "sheet files.yml -k 3 --assessors ann,bob --overlap 0.5 --out sheets/",
        "sheet runs.parquet --labels labels.parquet --queries queries.parquet "
        "--items items.parquet -k 2",
        "sample files.yml --size 4 --out sample.csv",
        "sheet search.yml --sample sample.csv --check-share .5 --db shop.duckdb",
        "sheet runs.parquet --labels labels.parquet --skip-bad",
    ),
    "sheet-import": (
        "sheet files.yml -k 5 --out s.csv",
        "GRADE s.csv",
        "sheet-import s.csv --labels new.csv --new --conflicts keep --query query_id "
        "--item item_id --grade grade",
        "sheet-import s.csv --labels other.csv --new --date ds --judge who --pooled",
    ),
    "sample": (
        "sample runs.parquet --labels labels.parquet --size 4 --skip-bad",
        "sample files.yml --unit pair --rate 2=1 --rate 4=.5",
        "sample files.yml --size 12 --by country --traffic --share traffic --seed 2 --out s.csv",
        "sample search.yml --size 3 --sql --db shop.duckdb --unit pair -k 2",
        "sample runs.parquet --labels labels.parquet --queries queries.parquet --size 3",
    ),
    "estimate": (
        "sample files.yml --size 4 --by country --out sample.csv",
        "estimate files.yml sample.csv --labels labels.parquet --by country --confidence 0.9 "
        "--ungraded drop -m ndcg@3 --complete-labels -o csv --out e.csv",
        "estimate search.yml sample.csv --ungraded drop -m dcg@3 --db shop.duckdb",
        "estimate files.yml sample.csv --llm-labels labels.parquet --llm-grade grade "
        "--llm-sample sample.csv --llm-weight 1 --ungraded drop -m dcg@3 --width .1",
        "sample files.yml --unit pair -k 3 --size 4 --out pairs.csv",
        "estimate files.yml pairs.csv --ungraded drop -m dcg@3 --width .5",
    ),
    "agree": (
        "agree a=labels.parquet b=labels.parquet --rankings rankings.parquet --system system "
        "--date ds -m mrr -k 2 --scale 0,1,2,3 --confidence .9 --replicates 100 --seed 2 "
        "--where 'score > -1' --skip-input-checks -o latex",
        "agree words.csv twice=words.csv --judges words,twice --query qid --item doc "
        "--grade level --label-column item=item --grades low=0 --grades mid=1 --grades high=2 "
        "--separator ; --by level --check-share .5 -o json",
        "agree \"select *, 'a' as who from 'labels.parquet' union all select *, 'b' from "
        "'labels.parquet'\" --judge who --sql --out a.txt",
        "agree a=labels.parquet b=labels.parquet --rankings runs.csv --score value --decimal , "
        "--skip-bad --rank rank 2",
        "agree labels.parquet words.csv --time-zone Europe/Berlin --group part --weight w "
        "--metrics-from own 2",
        "agree search.yml --judges grade PLACE 2",
    ),
    "combine": (
        "combine a=labels.parquet b=labels.parquet --rankings rankings.parquet --system system "
        "--date ds -m mrr --confidence .9 --method median --method dawid_skene --max-rounds 9 "
        "--method calibrated --per system -k 2 "
        "--where 'score > -1' --skip-input-checks -o latex",
        "combine words.csv twice=words.csv --judges words,twice --query qid --item doc "
        "--grade level --label-column item=item --grades low=0 --grades mid=1 --grades high=2 "
        "--separator ; --check-share .5 --out one-label.parquet",
        "combine \"select *, 'a' as who from 'labels.parquet' union all select *, 'b' from "
        "'labels.parquet'\" --judge who --sql --out a.txt",
        "combine a=labels.parquet b=labels.parquet --rankings runs.csv --score value --decimal , "
        "--skip-bad --rank rank 2",
        "combine labels.parquet words.csv --time-zone Europe/Berlin --group part --weight w 2",
        "combine a=labels b=labels --into one_label --overwrite PLACE",
        "combine a=labels b=labels --into other_label --dry-run PLACE",
    ),
    "simulate": (
        "simulate made --requests 20 --results 3 --model cascade --days 1 --queries 4 --users 9 "
        "--system a --bots 0 --duplicates 0 --late 0 --early 0 --orphans 0 --hurried 0 "
        "--zero-results 0 --test-traffic 0 --seed 3 --overwrite",
        "simulate mixed --requests 20 --users 9 --bots 0 --cascade .2 --trust .3 --randomised .1",
    ),
    "explain": ("explain ties --preset trec_eval", "explain seen@2 --metrics-from own"),
    "metric": (
        "metric new mine",
        "metric test own/seen.sql.jinja --folder . --engines sqlite --python",
    ),
    "list": ("list metrics -o json", "list presets", "list options", "list dialects"),
    "init": ("init new.yml --clicks --force", "init --schema"),
    "demo": ("demo --out . 2",),
}
"""Verb -> lines that together have all its options; a number at the end is the exit code."""

_OF_TABLES = [
    "where",
    "grades",
    "query",
    "item",
    "score",
    "rank",
    "grade",
    "group",
    "system",
    "date",
    "weight",
    "time-zone",
    "label-column",
    "separator",
    "decimal",
    "metrics-from",
]
ELSEWHERE_TESTED = {(verb, f"--{name}") for verb in ("sheet", "sample") for name in _OF_TABLES}
ELSEWHERE_TESTED |= {("clicks", "--metrics-from"), ("gate", "--items")}
"""Options that evaluate has from the same list; test_sources gives tables to these verbs,
test_metric_files a folder of metrics to clicks, test_gate_command items to the gate."""

SHARED = {"--debug", "--errors", "--help", "--log-format", "--overwrite", "--profiles", "--quiet"}
SHARED |= PLACES
"""Options of many verbs; one cell each has `--debug`, `--errors` and `--log-format`, and
test_connections has the places of each."""


def test_the_cells_have_every_option_of_every_verb() -> None:
    assert CELLS.keys() == VERBS.keys()
    for verb, lines in CELLS.items():
        used: set[str] = set()
        for line in lines:
            used |= flags(shlex.split(line)) if line.split()[0] == verb else set()
        for option in VERBS[verb].params:
            if not isinstance(option, click.Option) or option.hidden or SHARED & {*option.opts}:
                continue
            is_used = used & {*option.opts} or (verb, option.opts[0]) in ELSEWHERE_TESTED
            assert is_used, f"no cell has {verb} {option.opts[0]}"


def words_and_code(cell: str) -> tuple[list[str], int]:
    """The words of a cell, and the exit code that stands behind them if it is not 0."""
    words = shlex.split(cell)
    has_code = re.fullmatch(r"[0124]", words[-1]) and words[-2] != "--seed"
    return words, int(words.pop()) if has_code else 0


def run_cells(verb: str, folder: Path, database_options: list[str], only: str = "") -> None:
    """Run the cells of a verb, one after the other."""
    for cell in CELLS[verb]:
        words, expect = words_and_code(cell)
        if only and only not in words:
            continue
        if words[0] == "GRADE":
            fill_grades(folder / words[1])
            continue
        if "PLACE" in words:
            at = words.index("PLACE")
            words[at : at + 1] = database_options
        sqlmetrics(*words, folder=folder, expect=expect)


SLOW = {
    "clicks",
    "estimate",
    "plot",
    "report",
    "explain",
    "funnel",
    "install",
    "reconcile",
    "run",
    "verify",
}


@pytest.mark.parametrize("verb", [long(verb) if verb in SLOW else verb for verb in CELLS])
def test_each_option_of_a_verb_runs(verb: str, folder: Path) -> None:
    profile = "target: dev\noutputs:\n  dev: {type: duckdb, path: shop.duckdb}\n"
    (folder / "profiles.yml").write_text(profile)
    run_cells(verb, folder, ["--db", "shop.duckdb"])


# -- other databases ------------------------------------------------------------------

OPENING = (
    *("evaluate", "compare", "diagnose", "funnel", "show", "debug", "validate", "verify", "run"),
    *("check", "report"),
)
"""Verbs with a cell that names the place."""


@by_turns(1.7)
@pytest.mark.parametrize("name", ["sqlite", long("postgres")])
def test_what_opens_a_database_runs_on_others(name: str, folder: Path, servers: Servers) -> None:
    url = f"sqlite:///{folder}/shop.sqlite" if name == "sqlite" else servers.connection(name)
    assert isinstance(url, str)
    with open_driver(url, create=True) as engine:
        for table in TABLES:
            with duckdb.connect() as reader:
                rows = reader.sql(f"from '{folder}/{table}.parquet'").to_arrow_table()
            if engine.find(table) is None:
                engine.load(table, rows)
    for verb in OPENING:
        for cell in CELLS[verb]:
            if "PLACE" not in cell:
                continue
            words, expect = words_and_code(cell.replace("PLACE", f"--connection {url}"))
            sqlmetrics(*words, folder=folder, expect=expect)


def test_the_target_of_profiles_yml_is_the_usual_one(folder: Path) -> None:
    profile = "target: dev\noutputs:\n  dev: {type: duckdb, path: shop.duckdb}\n"
    (folder / "profiles.yml").write_text(profile)
    for line in ("run search.yml", "check search.yml", "run search.yml --dry-run"):
        sqlmetrics(*line.split(), folder=folder)
