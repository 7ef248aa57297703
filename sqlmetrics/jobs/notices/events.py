"""OpenLineage's events of a run: what it reads, what it writes, and how it ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.jobs.days import zone_of_days
from sqlmetrics.jobs.notices.columns import Dataset, columns_read, filters_read, inputs, outputs
from sqlmetrics.jobs.schema import targets
from sqlmetrics.jobs.summary import Summary
from sqlmetrics.spec.spec import Spec

SPEC = "https://openlineage.io/spec"
CORE = f"{SPEC}/2-0-2/OpenLineage.json#/$defs"
VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "NominalTimeRunFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "SchemaDatasetFacet": "1-2-0",
}
"""Facet -> the version of its published schema that is kept to."""

PARENT = "OPENLINEAGE_PARENT_ID"
"""The variable in which a scheduler says whose part the run is: `namespace/job/run`."""
NAMESPACE = "OPENLINEAGE_NAMESPACE"

FILTER = {"type": "INDIRECT", "subtype": "FILTER"}
"""How a condition's columns decide a table, in OpenLineage's words."""

START, COMPLETE, FAIL = "START", "COMPLETE", "FAIL"


@dataclass(frozen=True)
class Lineage:
    """What all events of a run have in common.

    Attributes:
        spec: What is asked.
        database: Where its tables are.
        run_id: The run, a UUID.
    """

    spec: Spec
    database: ConnectionURL
    run_id: str

    def event(self, kind: str, summary: Summary) -> dict[str, Any]:
        """An event as JSON has it, by the schema that OpenLineage publishes.

        Args:
            kind: START, COMPLETE or FAIL.
            summary: What the run has done so far.
        """
        is_complete = kind == COMPLETE
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "producer": producer(),
            "schemaURL": f"{CORE}/RunEvent",
            "run": {"runId": self.run_id, "facets": dict(self._of_run(summary))},
            "job": {
                "namespace": os.environ.get(NAMESPACE, "default"),
                "name": f"sqlmetrics.{self.spec.title}",
                "facets": {
                    "jobType": facet(
                        "JobTypeJobFacet",
                        processingType="BATCH",
                        integration="SQLMETRICS",
                        jobType="JOB",
                    )
                },
            },
            "inputs": [_dataset(dataset) for dataset in inputs(self.spec, self.database)],
            "outputs": [
                self._output(dataset)
                | ({"outputFacets": _statistics(dataset, summary.rows)} if is_complete else {})
                for dataset in outputs(self.spec, self.database)
            ],
        }

    def _output(self, dataset: Dataset) -> dict[str, Any]:
        """A table that is written, with the columns that each of its columns reads."""
        entry = _dataset(dataset)
        tables = {name: table for table, name in targets(self.spec).items()}
        read = columns_read(self.spec, self.database).get(tables.get(dataset.relation, ""), {})
        fields = {
            name: {"inputFields": [_field(source, column) for source, column in columns]}
            for name, columns in read.items()
        }
        if fields:
            filters = [
                {**_field(source, column), "transformations": [FILTER]}
                for source, column in filters_read(self.spec, self.database)
            ]
            content = {"fields": fields, **({"dataset": filters} if filters else {})}
            entry["facets"]["columnLineage"] = facet("ColumnLineageDatasetFacet", **content)
        return entry

    def _of_run(self, summary: Summary) -> Iterator[tuple[str, dict[str, Any]]]:
        start, end = summary.days
        if start is not None:
            ends = {"nominalEndTime": self._moment(end)} if end else {}
            yield (
                "nominalTime",
                facet("NominalTimeRunFacet", nominalStartTime=self._moment(start), **ends),
            )
        if parent := _parent(os.environ.get(PARENT, "")):
            yield "parent", facet("ParentRunFacet", **parent)
        name, _, version = summary.database.rpartition(" ")
        if name:
            yield "processing_engine", facet("ProcessingEngineRunFacet", name=name, version=version)
        if summary.message:
            message = {"message": summary.message, "programmingLanguage": "python"}
            yield "errorMessage", facet("ErrorMessageRunFacet", **message)
        yield (
            "sqlmetrics_run",
            {"_producer": producer(), "_schemaURL": f"{CORE}/RunFacet", **_own_facet(summary)},
        )

    def _moment(self, day: date) -> str:
        """When a day begins, in the zone of the spec's days."""
        zone = zone_of_days(self.spec)
        time_zone = UTC if zone in (None, "UTC") else ZoneInfo(zone)
        return datetime.combine(day, time.min, time_zone).isoformat()


def producer() -> str:
    """Who says it, as a URI: a package of PyPI and its version."""
    from sqlmetrics import __version__

    return f"pkg:pypi/sqlmetrics@{__version__}"


def facet(name: str, /, **content: Any) -> dict[str, Any]:
    """A facet of the standard, with the version of its schema."""
    schema = f"{SPEC}/facets/{VERSIONS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": producer(), "_schemaURL": schema, **content}


def _own_facet(summary: Summary) -> dict[str, Any]:
    """What no facet of the standard has: definitions, and the ids of the run log."""
    return {
        "rows": summary.rows,
        "definitions": summary.definitions,
        "runs": [report.run_id for report in summary.reports],
    }


def _parent(text: str) -> dict[str, Any] | None:
    """The run that this one is a part of; None if the variable says none."""
    namespace, _, job_and_run = text.partition("/")
    name, _, run = job_and_run.rpartition("/")
    if not (namespace and name and run):
        return None
    return {"run": {"runId": run}, "job": {"namespace": namespace, "name": name}}


def _field(dataset: Dataset, column: str) -> dict[str, Any]:
    return {"namespace": dataset.namespace, "name": dataset.name, "field": column}


def _dataset(dataset: Dataset) -> dict[str, Any]:
    entry: dict[str, Any] = {"namespace": dataset.namespace, "name": dataset.name}
    if dataset.columns:
        fields = [{"name": name, "type": kind} for name, kind in dataset.columns.items()]
        entry["facets"] = {"schema": facet("SchemaDatasetFacet", fields=fields)}
    return entry


def _statistics(dataset: Dataset, rows: Mapping[str, int]) -> dict[str, Any]:
    if dataset.relation not in rows:
        return {}
    statistics = facet("OutputStatisticsOutputDatasetFacet", rowCount=rows[dataset.relation])
    return {"outputStatistics": statistics}
