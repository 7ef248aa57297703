"""Dagster: the fact table as an asset by day, with its checks.

A backfill of many days is one run: `sqlmetrics build` takes the range as a whole.
"""

import json
import os
import subprocess

import dagster as dg

FOLDER = os.environ.get("SEARCH_FOLDER", "/srv/search")  # search.yml, profiles.yml
NOT_YET = 4
"""The exit code that says that the data of the days is not there yet."""

days = dg.DailyPartitionsDefinition(start_date="2026-01-01", timezone="UTC")


@dg.asset(
    partitions_def=days,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[dg.AssetCheckSpec("numbers", asset="ranking_metrics")],
    kinds={"sql"},
)
def ranking_metrics(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """A row per day, system, segment and metric."""
    window = context.partition_time_window
    command = ["sqlmetrics", "build", "search.yml", "--target", "prod", "-o", "json"]
    command += ["--start", f"{window.start:%Y-%m-%d}", "--end", f"{window.end:%Y-%m-%d}"]
    done = subprocess.run(command, cwd=FOLDER, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode == NOT_YET:
        raise dg.RetryRequested(max_retries=12, seconds_to_wait=1800)
    if done.returncode > 1:
        raise dg.Failure(json.loads(done.stdout or "{}").get("message") or "see the log")
    summary = json.loads(done.stdout)
    broken = [one for one in summary.pop("checks") if not one["holds"]]
    numbers = dg.AssetCheckResult(
        check_name="numbers", passed=done.returncode == 0, metadata={"broken": broken}
    )
    return dg.MaterializeResult(metadata=summary, check_results=[numbers])


nightly = dg.build_schedule_from_partitioned_job(
    dg.define_asset_job("ranking_metrics_nightly", [ranking_metrics]), hour_of_day=2
)
defs = dg.Definitions(assets=[ranking_metrics], schedules=[nightly])
