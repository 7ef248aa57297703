"""The ranks of the differences, summed in the warehouse: for Wilcoxon's signed-rank test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmetrics.comparison.statements import columns_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.moments import KEYS
from sqlmetrics.comparison.sums.pairing import METRIC, Pairing, is_above
from sqlmetrics.plan.shape import segment
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import double
from sqlmetrics.stats import TIED
from sqlmetrics.stats.nonparametric import signed_rank_test


def ranks_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system, segment and metric."""
    stages = [
        *pairing.stages(),
        pairing.metric_pairs(),
        _signs(pairing),
        _sizes(pairing),
        _places(),
        _rank_sums(),
    ]
    return stages, "select *\nfrom rank_sums"


def _signs(pairing: Pairing) -> Stage:
    step = double(TIED)
    columns: list[object] = [
        *("system", *map(segment, pairing.by), *METRIC),
        Column(f"floor(abs(difference) / {step} + 0.5e0)", "difference_size"),
        Column(is_above("difference"), "n_wins"),
    ]
    about = f"one row per query, system and metric with a difference, in steps of {TIED:g}"
    return columns_stage("signs", about, columns, "metric_pairs", f"abs(difference) > {step}")


def _sizes(pairing: Pairing) -> Stage:
    about = "one row per system, segment, metric and absolute difference"
    sums = [Column("count(*)", "n_alike"), Column("sum(n_wins)", "n_wins")]
    keys = ["system"], [*METRIC, "difference_size"]
    return segments_stage("sizes", about, keys, sums, "signs", segments=pairing.segments)


def _places() -> Stage:
    over = Window(KEYS, ["difference_size asc"], "unbounded preceding")
    columns = [*KEYS, "n_alike", "n_wins", Column(f"sum(n_alike) over {over}", "last_rank")]
    about = "the rank of the last difference of each size, the smallest first"
    return columns_stage("places", about, columns, "sizes")


def _rank_sums() -> Stage:
    cubes = "1e0 * n_alike * n_alike * n_alike - n_alike"
    columns = [
        Column("sum(n_alike)", "n"),
        Column("sum(n_wins * (last_rank - (n_alike - 1) / 2e0))", "rank_sum"),
        Column(f"sum({cubes})", "ties"),
    ]
    about = "one row per system, segment and metric; equal differences share their mean rank"
    return sums_stage("rank_sums", about, KEYS, columns, "places")


def p_value(row: Mapping[str, Any] | None) -> float:
    """Of a row of the query; 1 where nothing differs."""
    if row is None:
        return 1.0
    return signed_rank_test(int(row["n"]), float(row["rank_sum"]), float(row["ties"]))
