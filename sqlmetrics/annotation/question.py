"""What people are asked to grade: a spec, or files, whose labels need not be there yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import readable
from sqlmetrics.evaluation.inputs.trace_systems import resolved
from sqlmetrics.evaluation.question import question, with_texts
from sqlmetrics.spec.source import REMOTE, Labels, no_labels
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import protect_query, source_text

USUAL = "ndcg@10"
"""The metric of files, none of which a sheet computes."""


def spec_of_sample(
    rankings: Any, labels: Any, engine: Database, arguments: Mapping[str, Any]
) -> tuple[Spec, str]:
    """The spec of what is graded, and why nothing has a label yet; empty if something has.

    Labels that are not there, are empty, or have no row, are no labels yet: a new track begins.

    Args:
        rankings: Rankings as `evaluate` takes them, or a spec.
        labels: The labels; None of a spec, and where there are none.
        engine: Where the tables are.
        arguments: The arguments of `evaluate`, of rankings.

    Raises:
        SpecError: If something is asked of a spec that it says itself.
    """
    if isinstance(rankings, Spec):
        if arguments:
            raise SpecError(f"a spec already says this; leave out {', '.join(arguments)}")
        spec = rankings
    else:
        rankings, labels = resolved(rankings, labels, engine, arguments)
        missing = "no labels are given" if labels is None else _missing_labels(labels)
        if missing:
            labels = pa.table({name: pa.array([], kind) for name, kind in _COLUMNS.items()})
            arguments = {name: value for name, value in arguments.items() if name not in _OF_LABELS}
        spec, _ = question(engine, rankings, labels, USUAL, **{**_ANY_GRADE, **arguments})
        spec = with_texts(spec, engine)
        if missing:
            return spec, missing
    return _with_labels(spec, engine)


_COLUMNS = {"query_id": pa.string(), "item_id": pa.string(), "grade": pa.float64()}
_ANY_GRADE = {"negative_grades": "unjudged"}
"""An item of the grade -1 is in a pool already: it is labelled, and not relevant."""

_OF_LABELS = ("label_columns", "grade", "grades", "group")


def _with_labels(spec: Spec, engine: Database) -> tuple[Spec, str]:
    """The spec, without labels where they are not there; and why."""
    if spec.labels is None or spec.clicks is not None:
        return spec, ""
    missing = _missing_labels(spec.labels.file) if spec.labels.file else ""
    if missing:
        none_yet = Labels(**no_labels(spec.labels.columns))
        return spec.having(labels=none_yet), missing
    relation = readable(spec.labels, "labels", engine)
    source = source_text(protect_query(relation, engine.translation))
    if engine.rows(f"select 1 as n\nfrom {source}\nlimit 1"):
        return spec, ""
    return spec, "the labels have no rows"


def _missing_labels(labels: Any) -> str:
    """Why a file of labels has none; empty of one that has something, and of what is no file."""
    if not isinstance(labels, str | Path) or str(labels).startswith(REMOTE):
        return ""
    path = Path(labels)
    if path.is_file():
        return "" if path.stat().st_size else f"{str(labels)!r} is empty"
    is_name = not path.suffix and path.parent == Path()
    return "" if path.exists() or is_name or "*" in str(labels) else f"no file {str(labels)!r}"
