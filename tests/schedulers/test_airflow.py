"""The DAG of the examples, in Airflow itself: its run and its backfill fill exactly their days.

In an environment of its own:

    pip install -e . pytest 'apache-airflow==3.3.*'
    pytest -o addopts= -o filterwarnings= --noconftest tests/schedulers/test_airflow.py

No server is started: Airflow makes the runs, as for a backfill of the command line, and their
tasks run in this process.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from night_shop import EXAMPLES, FIRST, days, environment, make, rows_by_day, runs

if find_spec("airflow") is None:
    pytest.skip("pip install apache-airflow, in its own environment", allow_module_level=True)


@pytest.fixture(scope="module")
def dag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The DAG, with a metadata database of its own."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    shutil.copy(EXAMPLES / "airflow_dag.py", home / "dags")
    variables = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "SEARCH_FOLDER": str(tmp_path_factory.mktemp("shop")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with environment(**variables):
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
        from airflow.utils.db import initdb

        initdb()
        DagBundlesManager().sync_bundles_to_db()
        bag = DagBag(home / "dags", bundle_name="dags-folder")
        assert bag.import_errors == {}
        sync_bag_to_db(bag, "dags-folder", None)
        yield bag.get_dag("ranking_metrics")


@pytest.fixture
def shop(dag: Any) -> Path:
    """The folder of the DAG, as on the first day."""
    folder = Path(os.environ["SEARCH_FOLDER"])
    shutil.rmtree(folder)
    folder.mkdir()
    return make(folder)


def at(day: int) -> datetime:
    """At two o'clock of a day, when the schedule is due."""
    return datetime.combine(FIRST, datetime.min.time(), UTC) + timedelta(day, hours=2)


def test_a_run_fills_the_day_before(dag: Any, shop: Path) -> None:
    run = dag.test(logical_date=at(4))
    assert run.state == "success"
    assert rows_by_day(shop) == days(3, 4)
    again = dag.test(logical_date=at(4))
    assert again.state == "success"
    assert rows_by_day(shop) == days(3, 4)


def backfill(dag: Any, first: int, last: int) -> list[list[str]]:
    """The states of a backfill's tasks, run by run; a run ends with the first that fails."""
    from airflow.models.backfill import Backfill, ReprocessBehavior, _create_backfill
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    created = _create_backfill(
        dag_id=dag.dag_id,
        from_date=at(first),
        to_date=at(last),
        max_active_runs=1,
        reverse=False,
        dag_run_conf=None,
        triggering_user_name="test",
        reprocess_behavior=ReprocessBehavior.COMPLETED,
    )
    states = []
    with create_session() as session:
        query = select(DagRun).where(DagRun.backfill_id == created.id).order_by(DagRun.logical_date)
        for run in session.scalars(query).all():
            instances = {
                instance.task_id: instance for instance in run.get_task_instances(session=session)
            }
            states.append([])
            for task in dag.topological_sort():
                ti = instances[task.task_id]
                _run_task(ti=ti, task=task)
                states[-1].append(ti.state.value)
                if ti.state != "success":
                    break
        session.execute(update(Backfill).values(completed_at=datetime.now(UTC)))
    return states


def test_a_backfill_fills_exactly_its_days(dag: Any, shop: Path) -> None:
    assert backfill(dag, 1, 3) == [["success", "success"]] * 3
    assert rows_by_day(shop) == days(1, 4)
    one_by_one = [(FIRST + timedelta(day), FIRST + timedelta(day + 1)) for day in (1, 2, 3)]
    assert runs(shop) == one_by_one


def test_a_day_without_data_is_tried_again(dag: Any, shop: Path) -> None:
    assert backfill(dag, 30, 30) == [["up_for_retry"]]
    assert rows_by_day(shop) == {}
