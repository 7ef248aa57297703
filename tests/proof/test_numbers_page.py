"""The page of numbers that can be checked: each row is what sqlmetrics says of the public files."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

from marked import by_turns

import sqlmetrics as sm

PAGE = Path(__file__).parents[2] / "docs" / "numbers.md"
ROW = re.compile(
    r"^\| (\S+) \| (\S+) \| (\S+) \| ([\d.]+) \| `-m (\S+)` \| ([\d.]+) \|$", re.MULTILINE
)
FOLDERS = {"qrels.txt.gz": "robust03", "qrels.test": "trec_eval"}


@by_turns(5)
def test_every_row_of_the_page_is_what_is_computed(shared: Path) -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    metrics_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run, judgments, _, _, metric, _ in rows:
        metrics_of[run, judgments].append(metric)
    results = {
        (run, judgments): sm.evaluate(
            *(shared / FOLDERS[judgments] / name for name in (run, judgments)),
            metrics,
            preset="trec_eval",
        )
        for (run, judgments), metrics in metrics_of.items()
    }
    for run, judgments, _, printed, metric, number in rows:
        value = results[run, judgments][metric]
        assert f"{value:.6f}" == number
        assert abs(value - float(printed)) <= 0.5 * 10 ** -len(printed.partition(".")[2]) + 1e-12


@by_turns(0.1)
def test_the_page_has_all_that_was_printed(shared: Path) -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    on_page = {(run.removesuffix(".txt.gz"), name, printed) for run, _, name, printed, _, _ in rows}
    with (shared / "robust03" / "nist_printed.csv").open(encoding="utf-8") as lines:
        nist = {(row["run"], row["printed_name"], row["value"]) for row in csv.DictReader(lines)}
    output = (shared / "trec_eval" / "out.test.a").read_text(encoding="utf-8")
    trec_eval = {("results.test", *line.split()[::2]) for line in output.splitlines()}
    assert nist == {row for row in on_page if row[0] != "results.test"}
    assert on_page - nist <= trec_eval
    assert f"All {len(rows)} do." in PAGE.read_text(encoding="utf-8")
