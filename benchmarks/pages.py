"""What a report's page costs beside the evaluation that it is made of.

Every run is a process of its own, in turn: `evaluate` with segments and intervals, and `report`
to the written page, on the same files. `--data lists` are rankings of two systems on 30 days, 10
results a query, with labels and a country; half of the queries of a day come every day. `--data
clicks` is a simulated click log. `python -m benchmarks.pages --queries 1_000_000`; `--stages`
tells the CPU seconds of each statement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import clicks
from benchmarks.contenders import THREADS
from benchmarks.data import FOLDER
from benchmarks.process import medians, used
from benchmarks.statements import cost_lines, watched

METRICS = ["ndcg@10", "recall@10", "mrr", "precision@10"]
DAYS = 30
RESULTS = 10

# a query of each other place in a day comes every day, the others on one day alone
PLACES = f"""
    select
        asked % {DAYS} as day,
        if(asked // {DAYS} % 2 = 0, asked // {DAYS}, {{queries}} + asked) as query
    from range({{queries}}) as numbers(asked)
"""
NAMES = """
    'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
    'item-' || lpad(cast((query * 7919 + item * 104729) % 1000003 as varchar), 7, '0') as item_id
"""
RANKINGS = f"""
select
    date '2026-11-01' + cast(day as integer) as ds,
    if(system = 0, 'old', 'new') as system,
    (hash(day, query, item, system) % 1048576) / 1048576
        + if(item % 5 = 0, if(system = 1 and query % 7 = 0, 0.1, 0.3), 0) + item / 1e9 as score,
    {NAMES}
from ({PLACES}), range(2) as systems(system), range({RESULTS}) as items(item)
"""
LABELS = f"""
select
    cast(if(item = 0, 2, hash(query, item) % 3) as integer) as grade,
    {NAMES}
from (select distinct query from ({PLACES})), range(0, {RESULTS}, 5) as items(item)
"""
QUERIES = f"""
select distinct
    'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
    'C' || query % 7 as country
from ({PLACES})
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both in turn, compare their queries, print the table and the size of the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000_000, help="of all days, or requests")
    parser.add_argument("--data", choices=tuple(FILES), default="lists")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender")
    parser.add_argument("--memory", default="", help="DuckDB's memory_limit, like 6GB")
    parser.add_argument("--page", default="", help="a file for the page")
    parser.add_argument("--stages", action="store_true", help="tell each statement of one run")
    options = parser.parse_args(arguments)
    folder = FILES[options.data](options.queries)
    runs: dict[str, list[dict[str, float]]] = {"evaluation": [], "report": []}
    for _ in range(1 if options.stages else options.runs):
        for name, usages in runs.items():
            usages.append(measured(name, options, folder))
    if len({run["value"] for usages in runs.values() for run in usages}) > 1:
        raise SystemExit("the contenders have other numbers: no time is told")
    print(medians(runs))
    print(f"\npage: {runs['report'][0]['page'] / 1e3:,.0f} KB")


def lists(queries: int) -> Path:
    """The folder of rankings, labels and queries, written unless it is there."""
    import duckdb

    folder = FOLDER / f"pages_{queries}"
    if (folder / "queries.parquet").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, select in {"rankings": RANKINGS, "labels": LABELS, "queries": QUERIES}.items():
        file = folder / f"{name}.parquet"
        duckdb.execute(f"copy ({select.format(queries=queries)}) to '{file}.part' (format parquet)")
        os.replace(f"{file}.part", file)
    return folder


FILES = {"lists": lists, "clicks": clicks.simulated_log}


def measured(name: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """One run in a process of its own: CPU and wall seconds, peak MB, queries, the page's bytes.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    with TemporaryDirectory() as answer_folder:
        answer = Path(answer_folder) / "answer.json"
        page = options.page or str(Path(answer_folder) / "page.html")
        command = [sys.executable, "-m", "benchmarks.pages", "run", name, options.data, str(folder)]
        usage = used([*command, options.memory, str(int(options.stages)), page, str(answer)])
        n_queries = json.loads(answer.read_text())
        size = Path(page).stat().st_size if name == "report" else 0
    took = {"cpu": usage.cpu, "wall": usage.wall, "peak": usage.peak / 1e6}
    return took | {"value": n_queries, "page": size}


def run(*words: str) -> None:
    """Inside the process: evaluate or report, and write down how many queries count."""
    import duckdb

    import sqlmetrics as sm

    name, data, folder, memory, stages, page, answer = words
    connection = duckdb.connect(config={"threads": THREADS})
    if memory:
        connection.execute(f"set memory_limit = '{memory}'")
    statements = watched() if int(stages) else []
    options = {"confidence": 0.95, "per_query": False} if name == "evaluation" else {}
    if data == "clicks":
        spec = sm.Spec(name="clicks", clicks=clicks.log_of(folder), metrics=clicks.METRICS)
        if name == "report":
            built = sm.report(spec, connection=connection)
        else:
            result = sm.evaluate_clicks(spec, connection, **options)
    else:
        tables = [f"{folder}/{table}.parquet" for table in ("rankings", "labels", "queries")]
        options |= {"queries": tables[2], "by": ["country"], "date": "ds", "system": "system"}
        if name == "report":
            built = sm.report(
                *tables[:2], METRICS, baseline="old", connection=connection, **options
            )
        else:
            result = sm.evaluate(*tables[:2], METRICS, connection=connection, **options)
    if name == "report":
        before = time.process_time()
        built.save(page)
        if statements:
            print(f"{time.process_time() - before:6.2f}  page")
        values = built.content.values
    else:
        values = result.to_dicts() if data != "clicks" else result.offline.to_dicts()
    if statements:
        print("\n".join(cost_lines(statements)))
    rows = [row for row in values if row["segment_name"] == "all" and row["metric"] == "mrr"]
    Path(answer).write_text(json.dumps(sum(row["n_queries"] for row in rows)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    else:
        main()
