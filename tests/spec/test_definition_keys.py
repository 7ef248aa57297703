"""A definition is all that decides a number: each key of a spec has another value in turn.

Then a number is the same, or its definition_hash is another one, or the run is refused.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from definition_keys import BASES, Path_, changed, changes, leaves, printed, tables, write_files
from marked import by_turns
from slices import is_all, kept

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.jobs.definitions import list_metrics
from sqlmetrics.jobs.run import write
from sqlmetrics.jobs.schema import BASELINE
from sqlmetrics.jobs.sources import check_same_spec
from sqlmetrics.spec.definition import definition, definition_hash
from sqlmetrics.spec.schema import schema
from sqlmetrics.spec.spec import Spec

KEY = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
NO_NUMBERS = ("spec", "run_id", "computed_at", "definition_hash", "ci_method", "baseline")
BESIDE_BASELINE = tuple(BASELINE)
Rows = dict[tuple[str, ...], tuple[str, dict[str, Any]]]
CHANGES = [*changes(schema(Spec))]


def rows_of(engine: Database, table: str) -> Rows:
    """Key -> definition_hash and numbers."""
    return {
        tuple(str(row[name]) for name in KEY): (
            row["definition_hash"],
            {
                # a row names its baseline: beside another one it has other numbers
                f"{name} beside {row['baseline']}" if name in BESIDE_BASELINE else name: row[name]
                for name in row
                if name not in (*KEY, *NO_NUMBERS)
            },
        )
        for row in engine.table(f"select * from {table}").to_pylist()
    }


def is_same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        value == pytest.approx(other.get(name), rel=1e-12, nan_ok=True)
        if isinstance(value, float) and isinstance(other.get(name), float)
        else value == other.get(name)
        for name, value in row.items()
        if name in other
    )


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Database, Rows]]]:
    """Base -> a database with what it wrote."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("definitions")
        patch.chdir(folder)
        write_files(folder)
        yield {}


def base_of(bases: dict[str, tuple[Database, Rows]], name: str) -> tuple[Database, Rows]:
    if name not in bases:
        engine = connect().__enter__()
        for table, rows in tables().items():
            engine.load(table, rows)
        write(sm.Spec(**BASES[name][1]), engine)
        bases[name] = engine, rows_of(engine, "metrics")
    return bases[name]


def effect(change: tuple[str, Path_, Any], engine: Database, before: Rows) -> str:
    """What a change does: `refused`, `numbers`, `hash alone` or `neither`; `silent` is wrong."""
    base, path, value = change
    try:
        spec = sm.Spec(**changed(BASES[base][1], path, value))
        if spec.title == "shop" and spec.output and spec.output.relation == "metrics":
            check_same_spec(spec, engine)
        write(spec.having(output={"relation": "beside", "views": False}), engine)
        after = rows_of(engine, "beside")
    except SqlmetricsError:
        return "refused"
    finally:
        for table in ("", "_runs", "_metrics", "_definitions"):
            engine.execute(f"drop table if exists beside{table}")
    check_readable(sm.Spec(**BASES[base][1]), spec)
    pairs = [(before[key], row) for key, row in after.items() if key in before]
    other = [(was, row) for was, row in pairs if not is_same(was[1], row[1])]
    if any(was[0] == row[0] for was, row in other):
        return "silent"
    if other:
        return "numbers"
    return "hash alone" if any(was[0] != row[0] for was, row in pairs) else "neither"


def check_readable(before: Spec, now: Spec) -> None:
    """What the table of definitions says differs exactly where the hash does."""
    metrics = {str(metric): metric for metric in list_metrics(before)}
    for metric in list_metrics(now):
        if str(metric) in metrics:
            pairs = [(before, metrics[str(metric)]), (now, metric)]
            hashes, texts = (
                [function(spec, measure) for spec, measure in pairs]
                for function in (
                    definition_hash,
                    lambda *of: json.dumps(definition(*of), default=str),
                )
            )
            assert (hashes[0] == hashes[1]) == (texts[0] == texts[1]), (hashes, texts)


def test_every_key_is_changed() -> None:
    """A key that is new in the schema needs other values here, in some base."""
    keys = {path for path, _ in leaves(schema(Spec))}
    assert sorted(map(".".join, keys - {path for _, path, _ in CHANGES})) == []


KEPT_CHANGES = kept("keys of definitions", CHANGES, 0.008, printed)
EFFECTS: dict[str, set[str]] = defaultdict(set)


@by_turns(9)
@pytest.mark.xdist_group("definition keys")
@pytest.mark.parametrize("base", dict.fromkeys(base for base, *_ in KEPT_CHANGES))
def test_no_key_changes_a_number_under_its_hash(
    base: str, bases: dict[str, tuple[Database, Rows]]
) -> None:
    base_changes = [change for change in KEPT_CHANGES if change[0] == base]
    engine, before = base_of(bases, base)
    effects = {printed(change): effect(change, engine, before) for change in base_changes}
    for _, path, value in base_changes:
        EFFECTS[".".join(path)].add(effects[printed((base, path, value))])
    assert [change for change, outcome in effects.items() if outcome == "silent"] == []


PLACES = re.compile(r"\.columns\.|\.(relation|file|separator|decimal)$")
"""Where the data is: another place is another spec, or is not read at all."""
ALWAYS_REFUSED = {
    # without rows that others need, or with keys that only go together with others
    *("items.where", "queries.where", "clicks.counterfactual.policy.where", "clicks.format"),
    *("rankings.lists", "clicks.counterfactual.rankings.lists", "checks.since"),
    *("checks.experiment", "clicks.experiment.triggered"),
}


@pytest.mark.skipif(not is_all(), reason="SQLMETRICS_ALL=1 tries all changes")
@pytest.mark.xdist_group("definition keys")
def test_most_keys_have_a_value_that_runs() -> None:
    """A key of which nothing is ever evaluated would prove nothing."""
    idle = {key for key, outcomes in EFFECTS.items() if outcomes == {"refused"}}
    assert {key for key in idle if not PLACES.search(key)} <= ALWAYS_REFUSED
