"""Events of `run --openlineage` are what OpenLineage's own classes write, made from its schemas.

In an environment of its own, where the URL is tried too:

    pip install -e '.[openlineage]' pytest
    pytest -o addopts= -o filterwarnings= --noconftest tests/schedulers/test_openlineage.py
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from threading import Thread
from typing import Any, ClassVar

import pytest
from night_shop import environment, make

pytest.importorskip("openlineage", reason="pip install 'sqlmetrics[openlineage]'")


def run(folder: Path, to: str, *words: str) -> int:
    command = [sys.executable, "-m", "sqlmetrics", "run", "search.yml", "--target", "prod"]
    variables = {
        "OPENLINEAGE_PARENT_ID": "airflow/nightly.run/0194e8a0-0000-7000-8000-000000000001",
        "OPENLINEAGE_API_KEY": "a key",
    }
    with environment(**variables):
        return subprocess.run(
            [*command, "--openlineage", to, *words], cwd=folder, check=False
        ).returncode


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = make(tmp_path_factory.mktemp("shop"))
    assert run(folder, "events.jsonl", "--start", "2026-01-02", "--end", "2026-01-04") == 0
    assert run(folder, "events.jsonl", "--start", "2026-03-02") == 4
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def classes() -> dict[str, type]:
    """The address of a schema -> the class that is made from it."""
    home = import_module("openlineage.client.generated")
    classes_by_schema: dict[str, type] = {}
    for module in iter_modules(home.__path__):
        for member in vars(import_module(f"{home.__name__}.{module.name}")).values():
            if isinstance(member, type) and hasattr(member, "_get_schema"):
                classes_by_schema[member._get_schema()] = member
    return classes_by_schema


def rebuilt(event: dict[str, Any]) -> dict[str, Any]:
    """The event by OpenLineage's classes: they refuse what the schemas do not know."""
    from openlineage.client.event_v2 import (
        InputDataset,
        Job,
        OutputDataset,
        Run,
        RunEvent,
        RunState,
    )
    from openlineage.client.facet_v2 import parent_run, schema_dataset
    from openlineage.client.serde import Serde

    classes_by_schema = classes()

    def facet(content: dict[str, Any]) -> Any:
        values = {name: value for name, value in content.items() if not name.startswith("_")}
        facet_class = classes_by_schema[content["_schemaURL"]]
        if facet_class.__name__ == "RunFacet":
            return facet_class(producer=content["_producer"]).with_additional_properties(**values)
        if facet_class.__name__ == "ParentRunFacet":
            values = {
                "run": parent_run.Run(**values["run"]),
                "job": parent_run.Job(**values["job"]),
            }
        if facet_class.__name__ == "SchemaDatasetFacet":
            fields = [
                schema_dataset.SchemaDatasetFacetFields(**field) for field in values["fields"]
            ]
            values = {"fields": fields}
        return facet_class(**values, producer=content["_producer"])

    def facets(node: dict[str, Any], key: str = "facets") -> dict[str, Any]:
        return {name: facet(content) for name, content in node.get(key, {}).items()}

    rebuilt_event = RunEvent(
        eventType=RunState[event["eventType"]],
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(event["run"]["runId"], facets(event["run"])),
        job=Job(event["job"]["namespace"], event["job"]["name"], facets(event["job"])),
        inputs=[
            InputDataset(dataset["namespace"], dataset["name"], facets=facets(dataset))
            for dataset in event["inputs"]
        ],
        outputs=[
            OutputDataset(
                dataset["namespace"],
                dataset["name"],
                facets=facets(dataset),
                outputFacets=facets(dataset, "outputFacets"),
            )
            for dataset in event["outputs"]
        ],
    )
    return Serde.to_dict(rebuilt_event)


def without_nothing(value: Any) -> Any:
    """It without what is empty, which the classes write and we leave out."""
    if isinstance(value, dict):
        kept = {name: without_nothing(element) for name, element in value.items()}
        return {name: element for name, element in kept.items() if element not in ({}, [], None)}
    return [without_nothing(element) for element in value] if isinstance(value, list) else value


def test_the_events_are_those_of_openlineages_classes(events: list[dict[str, Any]]) -> None:
    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "FAIL"]
    for event in events:
        assert without_nothing(rebuilt(event)) == without_nothing(event)
    used = {name for event in events for name in event["run"]["facets"]}
    assert used >= {"nominalTime", "parent", "processing_engine", "errorMessage", "sqlmetrics_run"}


class Catalogue(BaseHTTPRequestHandler):
    """What a catalogue of lineage answers; it keeps what is posted."""

    posted: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        """Keep what is posted."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.posted.append((self.path, str(self.headers["Authorization"]), json.loads(body)))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def catalogue() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Catalogue)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_events_are_posted(tmp_path: Path, catalogue: str) -> None:
    assert run(make(tmp_path), catalogue, "--start", "2026-01-02", "--end", "2026-01-03") == 0
    assert [(path, key) for path, key, _ in Catalogue.posted] == [
        ("/api/v1/lineage", "Bearer a key")
    ] * 2
    assert [event["eventType"] for *_, event in Catalogue.posted] == ["START", "COMPLETE"]


def test_a_catalogue_that_is_not_there_fails_no_run(tmp_path: Path) -> None:
    assert run(make(tmp_path), "http://127.0.0.1:9", "--start", "2026-01-02") == 0
