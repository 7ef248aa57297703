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
from night_shop import given, make

pytest.importorskip("openlineage", reason="pip install 'sqlmetrics[openlineage]'")


def run(folder: Path, to: str, *words: str) -> int:
    command = [sys.executable, "-m", "sqlmetrics", "run", "search.yml", "--target", "prod"]
    variables = {
        "OPENLINEAGE_PARENT_ID": "airflow/nightly.run/0194e8a0-0000-7000-8000-000000000001",
        "OPENLINEAGE_API_KEY": "a key",
    }
    with given(**variables):
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
    found: dict[str, type] = {}
    for one in iter_modules(home.__path__):
        for made in vars(import_module(f"{home.__name__}.{one.name}")).values():
            if isinstance(made, type) and hasattr(made, "_get_schema"):
                found[made._get_schema()] = made
    return found


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

    known = classes()

    def facet(given: dict[str, Any]) -> Any:
        own = {name: value for name, value in given.items() if not name.startswith("_")}
        made = known[given["_schemaURL"]]
        if made.__name__ == "RunFacet":
            return made(producer=given["_producer"]).with_additional_properties(**own)
        if made.__name__ == "ParentRunFacet":
            own = {"run": parent_run.Run(**own["run"]), "job": parent_run.Job(**own["job"])}
        if made.__name__ == "SchemaDatasetFacet":
            fields = [schema_dataset.SchemaDatasetFacetFields(**one) for one in own["fields"]]
            own = {"fields": fields}
        return made(**own, producer=given["_producer"])

    def facets(given: dict[str, Any], key: str = "facets") -> dict[str, Any]:
        return {name: facet(one) for name, one in given.get(key, {}).items()}

    made = RunEvent(
        eventType=RunState[event["eventType"]],
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(event["run"]["runId"], facets(event["run"])),
        job=Job(event["job"]["namespace"], event["job"]["name"], facets(event["job"])),
        inputs=[
            InputDataset(one["namespace"], one["name"], facets=facets(one))
            for one in event["inputs"]
        ],
        outputs=[
            OutputDataset(
                one["namespace"],
                one["name"],
                facets=facets(one),
                outputFacets=facets(one, "outputFacets"),
            )
            for one in event["outputs"]
        ],
    )
    return Serde.to_dict(made)


def without_nothing(given: Any) -> Any:
    """It without what is empty, which the classes write and we leave out."""
    if isinstance(given, dict):
        kept = {name: without_nothing(one) for name, one in given.items()}
        return {name: one for name, one in kept.items() if one not in ({}, [], None)}
    return [without_nothing(one) for one in given] if isinstance(given, list) else given


def test_the_events_are_those_of_openlineages_classes(events: list[dict[str, Any]]) -> None:
    assert [one["eventType"] for one in events] == ["START", "COMPLETE", "START", "FAIL"]
    for event in events:
        assert without_nothing(rebuilt(event)) == without_nothing(event)
    used = {name for event in events for name in event["run"]["facets"]}
    assert used >= {"nominalTime", "parent", "processing_engine", "errorMessage", "sqlmetrics_run"}


class Catalogue(BaseHTTPRequestHandler):
    """What a catalogue of lineage answers; it keeps what it was told."""

    told: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        """Keep what is posted."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.told.append((self.path, str(self.headers["Authorization"]), json.loads(body)))
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
    assert [(path, key) for path, key, _ in Catalogue.told] == [
        ("/api/v1/lineage", "Bearer a key")
    ] * 2
    assert [one["eventType"] for *_, one in Catalogue.told] == ["START", "COMPLETE"]


def test_a_catalogue_that_is_not_there_fails_no_run(tmp_path: Path) -> None:
    assert run(make(tmp_path), "http://127.0.0.1:9", "--start", "2026-01-02") == 0
