"""Airflow 3: each night the day before, then the checks of that day.

`run` replaces its days, so a retry, a cleared task or a backfill is safe.
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronDataIntervalTimetable

FOLDER = os.environ.get("SEARCH_FOLDER", "/srv/search")  # search.yml, profiles.yml
DAYS = "--start {{ data_interval_start | ds }} --end {{ data_interval_end | ds }}"

with DAG(
    dag_id="ranking_metrics",
    # Not "@daily": in Airflow 3 that has no interval, and its day has just begun.
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    run = BashOperator(
        task_id="run",
        bash_command=f"cd {FOLDER} && sqlmetrics run search.yml --target prod {DAYS}",
        # Exit code 4 says that the day's data is not there yet.
        retries=12,
        retry_delay=timedelta(minutes=30),
    )
    check = BashOperator(
        task_id="check",
        bash_command=f"cd {FOLDER} && sqlmetrics check search.yml --target prod {DAYS}",
    )
    run >> check
