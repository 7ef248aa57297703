"""Leaderboards: beside scipy, statsmodels and plain Python, and where there is little to rank."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
from contextlib import closing
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.comparison.all_pairs import group_letters
from sqlmetrics.stats import student
from sqlmetrics.stats.student import f_quantile

METRICS = ["mrr", "P_3", "ndcg@5"]


@cache
def world(n_systems: int = 5, n_topics: int = 30, *, equal: bool = False) -> tuple[Any, Any]:
    """Rankings of systems that get worse; one item of six has no label."""
    chance = random.Random(5)
    grades = {(t, i): chance.choice((0, 0, 1, 2)) for t in range(n_topics) for i in range(6)}
    rows = [
        {"system": f"s{s}", "query_id": f"t{t}", "item_id": i}
        | {"score": grade * (not equal) + chance.gauss(0, 0.4 + 0.4 * s)}
        for s in range(n_systems)
        for (t, i), grade in grades.items()
    ]
    labels = [{"query_id": f"t{t}", "item_id": i, "grade": g} for (t, i), g in grades.items() if i]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(labels)


def values_of(rankings: Any, labels: Any, metric: str) -> dict[str, dict[str, float]]:
    """System -> topic -> the value, of an evaluation."""
    result = sm.evaluate(rankings, labels, [metric], system="system", preset="trec_eval")
    column = result.per_query().column_names[-1]
    values: dict[str, dict[str, float]] = {}
    for row in result.per_query().to_pylist():
        values.setdefault(row["system"], {})[row["query_id"]] = row[column]
    return values


def residual_of(values: dict[str, dict[str, float]]) -> tuple[float, int]:
    """The mean square of what neither system nor topic explains, in fractions; and its df."""
    systems, topics = [*values], [*next(iter(values.values()))]
    exact = {s: {t: Fraction(values[s][t]) for t in topics} for s in systems}
    of_system = {s: sum(exact[s].values()) / len(topics) for s in systems}
    of_topic = {t: sum(exact[s][t] for s in systems) / len(systems) for t in topics}
    mean = sum(of_system.values()) / len(systems)
    squares = sum(
        (exact[s][t] - of_system[s] - of_topic[t] + mean) ** 2 for s in systems for t in topics
    )
    df = (len(systems) - 1) * (len(topics) - 1)
    return float(squares / df), df


@pytest.mark.long
def test_tukey_is_that_of_scipy_on_the_residual_of_statsmodels() -> None:
    stats = pytest.importorskip("scipy.stats")
    api = pytest.importorskip("statsmodels.formula.api")
    pandas = pytest.importorskip("pandas")
    rankings, labels = world()
    board = sm.leaderboard(rankings, labels, METRICS, preset="trec_eval")
    assert len(board) == 15
    values_by_metric = {m: values_of(rankings, labels, m) for m in ("mrr", "precision@3", "ndcg@5")}
    residuals = {metric: residual_of(values) for metric, values in values_by_metric.items()}
    for row in board.to_arrow("pairs").to_pylist():
        values, (square, df) = values_by_metric[row["metric"]], residuals[row["metric"]]
        if row["metric"] == "mrr" and row["other_system"] == "s1":
            frame = pandas.DataFrame(
                [(s, t, v) for s, of in values.items() for t, v in of.items()],
                columns=["system", "topic", "score"],
            )
            fit = api.ols("score ~ C(system) + C(topic)", frame).fit()
            assert (square, df) == (pytest.approx(fit.mse_resid, abs=1e-12), fit.df_resid)
        means = [sum(values[row[n]].values()) / 30 for n in ("system", "other_system")]
        q = abs(means[0] - means[1]) / (square / 30) ** 0.5
        expected = stats.studentized_range.sf(q, 5, df)
        assert row["p_adjusted"] == pytest.approx(expected, abs=1e-9)
        assert row["difference"] == pytest.approx(means[0] - means[1], abs=1e-12)


@by_turns(11.8)
def test_other_tests_and_corrections_are_those_of_scipy_and_statsmodels() -> None:
    stats = pytest.importorskip("scipy.stats")
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rankings, labels = world()
    values = values_of(rankings, labels, "ndcg@5")
    sides = ("system", "other_system")
    theirs = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}
    tests = {
        "t": stats.ttest_rel,
        "wilcoxon": lambda a, b: stats.wilcoxon(
            [round(x - y, 12) for x, y in zip(a, b, strict=True) if abs(x - y) > 1e-9]
        ),
    }
    for test, peer in tests.items():
        for correction, name in theirs.items():
            board = sm.leaderboard(
                rankings, labels, "ndcg@5", preset="trec_eval", test=test, correction=correction
            )
            pairs = board.to_arrow("pairs").to_pylist()
            expected = [
                peer(*([values[pair[side]][t] for t in values["s0"]] for side in sides))
                for pair in pairs
            ]
            p_values = [outcome.pvalue for outcome in expected]
            assert [p["p_value"] for p in pairs] == pytest.approx(p_values, abs=1e-9)
            adjusted = multitest.multipletests(p_values, method=name)[1]
            assert [p["p_adjusted"] for p in pairs] == pytest.approx(list(adjusted), abs=1e-9)
    t, swapped = (
        sm.leaderboard(rankings, labels, "ndcg@5", preset="trec_eval", test=test, replicates=2_000)
        for test in ("t", "randomization")
    )
    for pair, other in zip(t.pairs, swapped.pairs, strict=True):
        assert pair["p_value"] == pytest.approx(other["p_value"], abs=0.04)


@by_turns(9)
def test_the_studentized_range_is_scipy_s() -> None:
    import numpy as np

    stats = pytest.importorskip("scipy.stats")
    q = np.array([0.0, 0.5, 2.0, 3.5, 5.0, 9.0])
    for count, df in ((2, 1), (3, 10), (10, 99), (60, 59 * 49), (100, 99 * 249)):
        expected = stats.studentized_range.sf(q, count, df)
        assert student.studentized_tail(q, count, df) == pytest.approx(expected, abs=1e-9)
    for p, df, df_below in ((0.025, 1, 3), (0.5, 4, 116), (0.975, 59, 2891), (0.999, 2, 30_000)):
        quantile = stats.f.ppf(p, df, df_below)
        assert f_quantile(p, df, df_below) == pytest.approx(quantile, rel=1e-9)


@by_turns(1.8)
def test_rows_say_what_the_evaluation_and_the_pairs_say() -> None:
    rankings, labels = world()
    metrics = [*METRICS, "first_rank", "num_rel_ret"]
    formula = sm.leaderboard(rankings, labels, "north = mrr + P_3", preset="trec_eval")
    assert formula.headings == {"north": "north"}
    board = sm.leaderboard(rankings, labels, metrics, preset="trec_eval", baseline="s3")
    result = sm.evaluate(
        rankings,
        labels,
        [*metrics, "num_judged@3", "num_ret@3"],
        system="system",
        preset="trec_eval",
    )
    value_by_key = {(r["metric"], r["k"], r["system"]): r["value"] for r in result.to_dicts()}
    assert [*board.headings.values()] == metrics
    for metric in board.headings:
        rows = [row for row in board if row["metric"] == metric]
        name, _, k = metric.partition("@")
        for row in rows:
            assert row["value"] == value_by_key[name, int(k or 0), row["system"]]
        if metric == "num_rel_ret":
            assert {row["rank"] for row in rows} == {None}
            continue
        sign = -1 if metric == "first_rank" else 1
        values = {row["system"]: sign * row["value"] for row in rows}
        different = {
            frozenset((pair["system"], pair["other_system"]))
            for pair in board.pairs
            if pair["metric"] == metric and pair["p_adjusted"] < 0.05
        }
        letters = group_letters([row["system"] for row in rows], different)
        for row in rows:
            name = row["system"]
            better = [other for other in values if values[other] > values[name]]
            assert row["rank"] == 1 + len(better)
            assert row["rank_low"] <= row["rank"] <= row["rank_high"]
            assert row["group"] == letters[name]
            assert row["n_worse"] == sum(frozenset((name, o)) in different for o in better)
            is_different = frozenset((name, "s3")) in different
            verdict = "better" if values[name] > values["s3"] else "worse"
            expected = None if name == "s3" else verdict if is_different else "unclear"
            assert row["verdict"] == expected
    judged = value_by_key["num_judged", 3, "s0"] / value_by_key["num_ret", 3, "s0"]
    (row,) = (r for r in board if (r["metric"], r["system"]) == ("precision@3", "s0"))
    assert row["unjudged"] == pytest.approx(1 - judged, abs=1e-12)
    assert "unjudged P_3" in board.text()
    assert "+ better, - worse than s3" in " ".join(board.text().split())


def test_rank_intervals_are_those_of_samples_drawn_by_hand() -> None:
    from sqlmetrics.stats.bootstrap import resampled_counts

    rankings, labels = world(4, 12)
    board = sm.leaderboard(rankings, labels, "mrr", replicates=200, seed=7, level=0.8)
    values = values_of(rankings, labels, "mrr")
    topics = [*values["s0"]]
    first: dict[str, list[int]] = {name: [] for name in values}
    last: dict[str, list[int]] = {name: [] for name in values}
    for counts in resampled_counts(len(topics), 200, 7).tolist():
        totals = {
            name: sum(n * of[t] for n, t in zip(counts, topics, strict=True))
            for name, of in values.items()
        }
        for name, total in totals.items():
            first[name].append(1 + sum(other > total + 1e-7 for other in totals.values()))
            last[name].append(sum(other > total - 1e-7 for other in totals.values()))
    for row in board:
        assert row["rank_low"] == sorted(first[row["system"]])[int(0.1 * 199)]
        assert row["rank_high"] == sorted(last[row["system"]])[math.ceil(0.9 * 199)]


@by_turns(1.4)
def test_where_there_is_little_to_rank_it_says_so() -> None:
    rankings, labels = world(3, 4)
    alone = sm.leaderboard(rankings, labels, "mrr", systems=["s1"])
    assert "there is one system: nothing to compare it with" in alone.text()
    assert [row["rank"] for row in alone] == [1]
    apart = "(system = 's1') = (query_id in ('t0', 't1'))"
    for test in ("tukey", "t"):
        board = sm.leaderboard(
            rankings, labels, "mrr", systems=["s0", "s1"], where=apart, missing="drop", test=test
        )
        assert "no topics have values of the same systems" in " ".join(board.text().split()), test
        assert "Differences were tested" not in board.methods_text()
    topic = sm.leaderboard(rankings, labels, "mrr", where="query_id = 't0'", missing="drop")
    assert "there is one topic" in topic.text()
    assert {row["group"] for row in topic} == {None}
    is_first = pa.compute.equal(rankings["system"], "s0")
    runs = {"a": rankings.filter(is_first), "b": rankings.filter(is_first)}
    runs = {name: run.drop_columns(["system"]) for name, run in runs.items()}
    tied = sm.leaderboard(runs, labels, "mrr")
    assert [(r["rank"], r["rank_low"], r["rank_high"], r["group"]) for r in tied] == [
        (1, 1, 2, "a")
    ] * 2
    assert {pair["p_adjusted"] for pair in tied.pairs} == {1.0}
    runs["b"] = runs["b"].filter(pa.compute.not_equal(runs["b"]["query_id"], "t0"))
    dropped = sm.leaderboard(runs, labels, "mrr", missing="drop")
    assert "topics without a list, left out: b 1" in dropped.text()
    assert "Tukey's test is of" in dropped.text()
    assert "counted as empty lists: b 1" in sm.leaderboard(runs, labels, "mrr").text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test": "anova"}, "unknown test 'anova'"),
        ({"test": "t", "correction": "hochberg"}, "unknown correction 'hochberg'"),
        ({"correction": "holm"}, "tukey holds for all pairs"),
        ({"sort_by": "map"}, "sort_by: unknown metric of this leaderboard 'map'; known: mrr"),
        ({"baseline": "s9"}, "unknown system 's9'"),
        ({"metrics": "auc"}, "auc is not compared"),
        ({"weight": "w"}, "queries have weights"),
        ({"team": "s"}, "give the depth of the pool"),
        ({"marks": "first"}, "marks: unknown reference 'first'; known: baseline, best, team"),
        ({"marks": "team"}, "give team, such as"),
        ({"marks": "baseline"}, "name it"),
        ({"marks": "best", "baseline": "s0"}, "marks=best compares with no baseline"),
        ({"pool_depth": 0}, "pool_depth must be"),
        ({"pool_depth": 5, "team": "^x"}, "'\\^x' finds no team in the system 's0'"),
        ({"pool_depth": 5, "team": "("}, "no regular expression"),
        ({"date": "day"}, "a leaderboard is of one day, but the rankings have 2"),
    ],
)
def test_what_cannot_be_ranked_is_refused(arguments: dict[str, Any], message: str) -> None:
    rankings, labels = world(2, 4)
    numbers = [int(topic[1:]) for topic in rankings["query_id"].to_pylist()]
    rankings = rankings.append_column("w", pa.array([1.0 + n for n in numbers]))
    days = [f"2026-01-0{1 + number % 2}" for number in numbers]
    rankings = rankings.append_column("day", pa.array(days))
    with pytest.raises(sm.SqlmetricsError, match=message):
        sm.leaderboard(rankings, labels, **{"metrics": "mrr", **arguments})


@by_turns(1.3)
def test_sixty_systems_are_a_longtable_that_is_whole(tmp_path: Path) -> None:
    rankings, labels = world(60, 12, equal=True)
    board = sm.leaderboard(rankings, labels, ["mrr", "P_3"], preset="trec_eval")
    lines = board.latex().splitlines()
    assert lines[:2] == [
        r"% needs \usepackage{booktabs,longtable}",
        r"\begin{longtable}{lrrlrlr}",
    ]
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 61
    assert {line.count(" & ") for line in body} == {6}
    assert {line.count("{") - line.count("}") for line in lines} == {0}
    ends = [lines.index(rf"\{word}") for word in ("toprule", "midrule", "endhead", "bottomrule")]
    assert ends == sorted(ends)
    assert r"\end{longtable}" in lines
    short = sm.leaderboard(rankings, labels, "mrr", systems=["s1", "s2"]).latex()
    assert short.startswith(r"\begin{tabular}{lrrlr}")
    assert r"\textsuperscript{a}" in short
    page = board.sortable_html()
    assert page.count("<tr>") == 61
    assert page.count("<script>") == 1


@pytest.mark.long
def test_tables_for_a_paper_compile(tmp_path: Path) -> None:
    """By LaTeX as it is, with names that have its signs; a page and more, and with siunitx."""
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex (texlive-latex-recommended, texlive-science)")
    rankings, labels = world(60, 12)
    odd = pa.array([{"s1": "a_b & 50% #1", "s2": "\\x{y}^~$"}.get(s, s) for s in systems(rankings)])
    rankings = rankings.set_column(0, "system", odd)
    names = [*pa.compute.unique(odd).to_pylist()]
    question = {"metrics": ["mrr", "P_3", "num_rel_ret"], "preset": "trec_eval", "marks": "best"}
    boards = [sm.leaderboard(rankings, labels, systems=names[:n], **question) for n in (5, 60)]
    tables = [board.latex(siunitx=siunitx) for board in boards for siunitx in (False, True)]
    lines = [r"\documentclass{article}", r"\usepackage[T1]{fontenc}"]
    lines += [r"\usepackage{booktabs,longtable,siunitx}", r"\begin{document}"]
    text = "\n\n".join([*lines, *tables, r"\end{document}"])
    (tmp_path / "paper.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    compiled = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size


def systems(rankings: Any) -> list[str]:
    """The system of each row."""
    return list(rankings["system"].to_pylist())


@by_turns(1)
def test_marks_compare_with_the_best_of_all_or_of_the_team() -> None:
    """Each system with the reference of its row, by the test of their pair."""
    rankings, labels = world(5, 30)
    teams = {"s0": "ares", "s1": "hera", "s2": "hera", "s3": "zeus", "s4": "ares"}
    named = [f"{teams[s]}-{s}" for s in systems(rankings)]
    rankings = rankings.set_column(0, "system", pa.array(named))
    for marks, arguments in (("best", {}), ("team", {"team": "^[^-]+"})):
        board = sm.leaderboard(rankings, labels, "ndcg@5", marks=marks, **arguments)
        pairs = {frozenset((p["system"], p["other_system"])): p for p in board.pairs}
        for row in board:
            team = row["system"].partition("-")[0]
            rivals = [r for r in board if marks == "best" or r["system"].startswith(team)]
            assert row["reference"] == min(rivals, key=lambda r: r["rank"])["system"]
            if row["system"] != row["reference"]:
                pair = pairs[frozenset((row["system"], row["reference"]))]
                assert row["p_adjusted"] == pair["p_adjusted"]
                assert row["verdict"] == ("worse" if pair["p_adjusted"] < 0.05 else "unclear")
        worse = [row["system"] for row in board if row["verdict"] == "worse"]
        lines = board.text().splitlines()
        assert [line.split()[0] for line in lines if re.search(r"\d [a-e]+- ", line)] == worse
        assert worse
        assert f"- worse than the best{' of its team' * (marks == 'team')}" in " ".join(lines)


@by_turns(2)
def test_pictures_are_of_the_rows_and_replace_only_their_own(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    board = sm.leaderboard(*world(3, 70), "mrr", pool_depth=2)
    for name, n in (("rows", 3), ("topics", 60), ("contributions", 3)):
        file = board.save_plot(name, tmp_path / f"{name}.json")
        chart = json.loads(file.read_text())
        assert len(chart["data"]["values"]) == n
        title = chart["layer"][0]["encoding"]["x"]["title"]
        assert ("the 60 of 70 that divide the systems most" in title) == (name == "topics")
        assert board.save_plot(name, tmp_path / f"{name}.svg").read_text().startswith("<svg")
    ranked = json.loads((tmp_path / "rows.json").read_text())["data"]["values"]
    assert [(row["label"], row["low"], row["high"]) for row in ranked] == [
        (row["system"], row["rank_low"], row["rank_high"]) for row in board
    ]
    with pytest.raises(sm.SpecError, match="unknown table 'pairs'; known: contributions, rows"):
        board.save_plot("pairs", tmp_path / "pairs.svg")
    Path(tmp_path / "notes.svg").write_text("mine")
    with pytest.raises(sm.SpecError, match="already exists"):
        board.save_plot("rows", tmp_path / "notes.svg")
    with pytest.raises(sm.SpecError, match="a chart needs a name that ends in"):
        board.save_plot("rows", tmp_path / "ranks.pdf")
    words = ("leaderboard", "no.txt", "no.txt", "-m", "map", "--table", "pairs", "--out", "p.svg")
    assert "unknown table 'pairs'" in sqlmetrics(*words, folder=tmp_path, expect=2).stderr


@by_turns(2)
def test_the_command_prints_the_table_and_the_paragraph(tmp_path: Path) -> None:
    rankings, labels = world(3, 10)
    pa.parquet.write_table(rankings, tmp_path / "runs.parquet")
    pa.parquet.write_table(labels, tmp_path / "labels.parquet")
    words = ("leaderboard", "runs.parquet", "labels.parquet", "-m", "map,P_3")
    words = (*words, "--preset", "trec_eval")
    printed = sqlmetrics(*words, folder=tmp_path).stdout
    assert printed.splitlines()[0].split() == [
        *("system", "rank", "rank", "95", "%", "map", "unjudged", "map"),
        *("P_3", "unjudged", "P_3"),
    ]
    paragraph = sqlmetrics(*words, "--methods", folder=tmp_path).stdout
    assert "3 systems on 10 topics" in paragraph
    assert "by map, P_3 (conventions: trec_eval)" in paragraph
    tested = sqlmetrics(*words, "--methods", "--test", "t", folder=tmp_path).stdout
    assert "paired t-tests of all pairs of systems with Holm's correction" in tested
    sqlmetrics(*words, "--methods", "--sql", folder=tmp_path, expect=2)
    topics = sqlmetrics(*words, "--table", "topics", folder=tmp_path).stdout.splitlines()
    assert topics[0].split()[:4] == ["metric", "topic", "mean", "sd"]
    assert len(topics) == 21
    pairs = sqlmetrics(*words, "--table", "pairs", "-o", "csv", folder=tmp_path).stdout
    assert len(pairs.splitlines()) == 7
    bare = sqlmetrics("leaderboard", "runs.parquet", "labels.parquet", folder=tmp_path, expect=2)
    assert "no metric to order by" in bare.stderr


def test_topics_and_variances_are_those_of_the_values() -> None:
    rankings, labels = world()
    board = sm.leaderboard(rankings, labels, "mrr")
    values = values_of(rankings, labels, "mrr")
    rows = board.to_arrow("topics").to_pylist()
    assert [row["mean"] for row in rows] == sorted(row["mean"] for row in rows)
    for row in rows:
        of_systems = {system: by_topic[row["topic"]] for system, by_topic in values.items()}
        assert row["mean"] == pytest.approx(statistics.fmean(of_systems.values()), abs=1e-12)
        assert row["sd"] == pytest.approx(statistics.stdev(of_systems.values()), abs=1e-12)
        assert row["lowest"] == min(of_systems.values()) == of_systems[row["lowest_system"]]
        assert row["highest"] == max(of_systems.values()) == of_systems[row["highest_system"]]
    (variance,) = board.to_arrow("variances").to_pylist()
    residual, _ = residual_of(values)
    means = [statistics.fmean(by_topic.values()) for by_topic in values.values()]
    system = statistics.variance(means) - residual / 30
    topic = statistics.variance([row["mean"] for row in rows]) - residual / 5
    names = ("system_variance", "topic_variance", "residual_variance")
    expected = (max(0, system), max(0, topic), residual)
    assert [variance[name] for name in names] == pytest.approx(expected, abs=1e-12)
    assert variance["reliability"] == pytest.approx(system / (system + residual / 30), abs=1e-12)
    of_systems = 30 * statistics.variance(means)
    f_values = [f_quantile(p, 4, 4 * 29) for p in (0.975, 0.025)]
    low, high = (1 - f * residual / of_systems for f in f_values)
    ends = [variance["reliability_low"], variance["reliability_high"]]
    assert ends == pytest.approx([max(0, low), high], abs=1e-9)
    assert variance["n_topics_high"] is None  # the reliability may be 0
    assert variance["n_topics_low"] == math.ceil(30 * 19 * (1 - high) / high)
    n = variance["n_topics_needed"]
    assert system / (system + residual / n) >= 0.95 > system / (system + residual / (n - 1))


@by_turns(2)
def test_orders_and_verdicts_of_metrics_and_labels_are_those_of_rows_and_pairs() -> None:
    from sqlmetrics.stats.bootstrap import expanded_level, resampled_counts
    from sqlmetrics.stats.estimate import percentile_interval
    from sqlmetrics.stats.nonparametric import kendall

    rankings, labels = world()
    changed = [row | {"grade": row["grade"] * (row["item_id"] > 1)} for row in labels.to_pylist()]
    other_labels = pa.Table.from_pylist([row for row in changed if row["query_id"] != "t3"])
    arguments: dict[str, Any] = {"other_labels": other_labels, "replicates": 100}
    metrics = ["ndcg@5", "first_rank"]
    first = sm.leaderboard(rankings, labels, metrics, test="t", **arguments)
    other = sm.leaderboard(rankings, other_labels, metrics, test="t")

    def means(board: sm.Leaderboard, metric: str) -> list[float]:
        sign = -1 if metric == "first_rank" else 1
        values = {row["system"]: sign * row["value"] for row in board if row["metric"] == metric}
        return [values[system] for system in sorted(values)]

    def verdicts(board: sm.Leaderboard, metric: str) -> list[int]:
        sign = -1 if metric == "first_rank" else 1
        return [
            (pair["p_adjusted"] < 0.05) * (1 if sign * pair["difference"] > 0 else -1)
            for pair in board.pairs
            if pair["metric"] == metric
        ]

    (by_metric,) = first.to_arrow("metrics").to_pylist()
    by_label = first.to_arrow("labels").to_pylist()
    assert [row["metric"] for row in by_label] == ["ndcg@5", "first_rank"]
    sides = [(by_metric, first, "ndcg@5", first, "first_rank")]
    sides += [(row, first, row["metric"], other, row["metric"]) for row in by_label]
    for row, board, metric, other_board, other_metric in sides:
        expected = kendall(means(board, metric), means(other_board, other_metric))
        assert row["kendall_tau"] == pytest.approx(expected, abs=1e-12)
        pairs = [
            *zip(verdicts(board, metric), verdicts(other_board, other_metric), strict=True),
        ]
        counts = {
            "n_pairs": len(pairs),
            "n_agreed": sum(x * y > 0 for x, y in pairs),
            "n_opposite": sum(x * y < 0 for x, y in pairs),
            "n_first_only": sum(x != 0 == y for x, y in pairs),
            "n_other_only": sum(x == 0 != y for x, y in pairs),
        }
        assert {name: row[name] for name in counts} == counts
    for row in first.to_arrow("discrimination").to_pylist():
        is_different = [verdict != 0 for verdict in verdicts(first, row["metric"])]
        assert (row["n_different"], row["n_pairs"]) == (sum(is_different), 10)
        assert row["discriminative_power"] == sum(is_different) / 10
    values = {
        name: values_of(rankings, table, "ndcg@5")
        for name, table in (("labels", labels), ("others", other_labels))
    }
    taus = []
    topics = [*dict.fromkeys(t for of in values.values() for t in of["s0"])]
    for counts in resampled_counts(len(topics), 100, 1).tolist():
        n = dict(zip(topics, counts, strict=True))
        orders = [
            [sum(n[t] * v for t, v in by_topic[s].items()) / sum(n[t] for t in by_topic[s])]
            for by_topic in values.values()
            for s in sorted(by_topic)
        ]
        taus.append(kendall([x for (x,) in orders[:5]], [x for (x,) in orders[5:]]) or 0.0)
    low, high = percentile_interval(iter(taus), expanded_level(0.95, len(topics)))
    ends = [by_label[0][f"kendall_tau_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx([low, high], abs=1e-12)
    words = " ".join(first.text().split())
    assert "by the other labels the order by ndcg@5 has Kendall's tau" in words
    assert "topics by both labels 29, by the first alone 1, by the other 0" in words


def test_labels_of_another_year_have_their_own_topics_and_a_spec_its_own_labels() -> None:
    rankings, labels = world(3, 24)
    early = [f"t{number}" for number in range(12)]
    is_early = pa.compute.is_in(labels["query_id"], pa.array(early))
    years = [labels.filter(is_early), labels.filter(pa.compute.invert(is_early))]
    board = sm.leaderboard(rankings, years[0], "ndcg@5", other_labels=years[1])
    (row,) = board.to_arrow("labels").to_pylist()
    assert (row["n_systems"], row["n_pairs"]) == (3, 3)
    assert row["kendall_tau_low"] <= row["kendall_tau_high"]
    assert "by both labels 0, by the first alone 12, by the other 12" in " ".join(
        board.text().split()
    )
    alone = sm.leaderboard(rankings, years[0], "mrr", other_labels=years[1], systems=["s1"])
    (row,) = alone.to_arrow("labels").to_pylist()
    assert (row["kendall_tau"], row["tau_ap"], row["n_systems"]) == (None, None, 1)
    assert alone.to_arrow("metrics").num_rows == 0
    spec = sm.Spec(name="s", rankings={"file": "a.csv"}, labels={"file": "b.csv"}, metrics=["mrr"])
    with pytest.raises(sm.SpecError, match="other_labels: a spec names its own labels"):
        sm.leaderboard(spec, other_labels=labels)


@by_turns(3)
def test_a_system_without_its_team_s_items_is_its_evaluation_by_the_other_labels() -> None:
    chance = random.Random(1)
    grades = {(q, i): chance.choice((0, 0, 1, 2)) for q in range(5) for i in range(20)}
    lists = {
        (system, q): chance.sample(range(20), 8)
        for system in ("a:1", "a:2", "b's")
        for q in range(5)
        if (system, q) != ("b's", 4)
    }
    rankings = pa.Table.from_pylist(
        [
            {"system": system, "query_id": f"1:{q}", "item_id": i, "score": -(rank // 2)}
            for (system, q), items in lists.items()
            for rank, i in enumerate(items)
        ]
    )
    labels = [{"query_id": f"1:{q}", "item_id": i, "grade": g} for (q, i), g in grades.items()]
    metrics = ["ap", "ndcg@5", "first_rank"]
    tables = rankings, pa.Table.from_pylist(labels), metrics
    for pattern in (None, "^[ab]"):
        board = sm.leaderboard(*tables, pool_depth=4, team=pattern, ties="input_order")
        items = board.to_arrow("contributed_items").to_pylist()
        pool: dict[tuple[str, int], set[str]] = {}
        for (system, q), ids in lists.items():
            for i in ids[:4]:
                pool.setdefault((f"1:{q}", i), set()).add(system[0] if pattern else system)
        alone = {key: min(teams) for key, teams in pool.items() if len(teams) == 1}
        assert {(row["topic"], int(row["item"])): row["team"] for row in items} == alone
        rows = board.to_arrow("contributions").to_pylist()
        assert len(rows) == 9
        value_by_key = {(row["metric"], row["system"]): row["value"] for row in board}
        for system in ("a:1", "a:2", "b's"):
            team = system[0] if pattern else system
            theirs = {key for key, name in alone.items() if name == team}
            kept = [row for row in labels if (row["query_id"], row["item_id"]) not in theirs]
            result = sm.evaluate(
                rankings, pa.Table.from_pylist(kept), metrics, system="system", ties="input_order"
            )
            expected = {r["metric"]: r["value"] for r in result.to_dicts() if r["system"] == system}
            for row in (row for row in rows if row["system"] == system):
                value = expected[row["metric"].partition("@")[0]]
                assert row["value_without"] == pytest.approx(value, abs=1e-12)
                assert row["value"] == value_by_key[row["metric"], system]
                sign = -1 if row["metric"] == "first_rank" else 1
                better = [
                    other
                    for (metric, name), other in value_by_key.items()
                    if metric == row["metric"] and name != system and sign * (other - value) > 1e-9
                ]
                assert row["rank_without"] == 1 + len(better)
                grade_by_key = {(f"1:{q}", i): grade for (q, i), grade in grades.items()}
                assert row["n_labelled"] == len(theirs)
                assert row["n_relevant"] == sum(grade_by_key[key] >= 1 for key in theirs)
                assert row["n_topics"] == len({query for query, _ in theirs})
        assert "at pool depth 4 one team alone contributed" in " ".join(board.text().split())
    same = {name: rankings.filter(pa.compute.equal(rankings["system"], "a:1")) for name in "xy"}
    same = {name: run.drop_columns(["system"]) for name, run in same.items()}
    board = sm.leaderboard(same, *tables[1:], pool_depth=4)
    assert {row["difference"] for row in board.to_arrow("contributions").to_pylist()} == {0.0}
    assert "contributed 0 relevant items" in " ".join(board.text().split())


@by_turns(1)
def test_contributions_are_the_same_numbers_in_sqlite(tmp_path: Path) -> None:
    rankings, labels = world(3, 8)
    path = tmp_path / "track.sqlite"
    with closing(sqlite3.connect(path)) as database:
        for name, table in (("rankings", rankings), ("labels", labels)):
            database.execute(f"create table {name} ({', '.join(table.column_names)})")
            marks = ", ".join("?" * table.num_columns)
            rows = [tuple(row.values()) for row in table.to_pylist()]
            database.executemany(f"insert into {name} values ({marks})", rows)
        database.commit()
    options: dict[str, Any] = {"metrics": ["ap", "ndcg@5"], "pool_depth": 2, "team": "[01]|2"}
    expected = sm.leaderboard(rankings, labels, **options).to_arrow("contributions").to_pylist()
    board = sm.leaderboard("rankings", "labels", connection=f"sqlite:///{path}", **options)
    rows = board.to_arrow("contributions").to_pylist()
    assert any(row["n_labelled"] for row in rows)
    for row, other in zip(rows, expected, strict=True):
        assert row == {name: pytest.approx(value, abs=1e-9) for name, value in other.items()}
