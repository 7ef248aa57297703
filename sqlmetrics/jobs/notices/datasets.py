"""Tables and files by the names under which catalogues of lineage know them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlmetrics.engines.url import (
    FILES,
    ONE_DATABASE,
    PLAIN_SCHEMES,
    PORTS,
    SCHEMA,
    USUAL_SCHEMAS,
    ConnectionURL,
)
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.tables import columns as columns_of
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts
from sqlmetrics.sql.user_sql import names_in

_URI = re.compile(r"([a-z][a-z0-9+.-]+://[^/]*)/(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Dataset:
    """A table or a file.

    Attributes:
        namespace: Where it is, like `postgres://db:5432`.
        name: Its name there, like `shop.public.rankings`.
        relation: As the spec names it.
        columns: Its columns and their types, where they are known without a look at it.
    """

    namespace: str
    name: str
    relation: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


def inputs(spec: Spec, url: ConnectionURL) -> list[Dataset]:
    """What a spec reads, each once: tables, files, and the tables that its queries name.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    datasets = (dataset for source in sources_of(spec) for dataset in _read(source, url))
    return list({(dataset.namespace, dataset.name): dataset for dataset in datasets}.values())


def sources_of(spec: Spec) -> list[Source]:
    """The sources of a spec, as far as it has them."""
    if spec.clicks is None:
        sources: list[Source | None] = [spec.rankings, spec.labels, spec.queries, spec.items]
    else:
        unshown = spec.clicks.counterfactual.source if spec.clicks.counterfactual else None
        log_sources = [*spec.clicks.sources.values(), spec.clicks.ranked, unshown]
        sources = [*log_sources, spec.queries, spec.items]
    return [source for source in sources if source is not None]


def outputs(spec: Spec, url: ConnectionURL) -> list[Dataset]:
    """The tables that a run of a spec writes."""
    kinds = {
        table: {name: column.type for name, column in columns.items()}
        for table, columns in columns_of(spec).items()
    }
    return [table_dataset(name, url, kinds[table]) for table, name in targets(spec).items()]


def _read(source: Source, url: ConnectionURL) -> Iterator[Dataset]:
    if source.file is not None:
        yield file_dataset(source.file)
    elif source.relation is not None:
        yield table_dataset(source.relation, url)
    elif source.sql is not None:
        for name in names_in(source.sql) or ():
            yield (
                file_dataset(name.strip('"')) if is_file_name(name) else table_dataset(name, url)
            )


def file_dataset(path: str) -> Dataset:
    """A file, or what a URI names."""
    if match := _URI.fullmatch(path):
        return Dataset(match[1], match[2], path)
    return Dataset("file", str(Path(path).absolute()), path)


def table_dataset(
    relation: str, url: ConnectionURL, kind_by_column: Mapping[str, str] | None = None
) -> Dataset:
    """A table by all parts of its name; those that a connection says stand before its own."""
    scheme = PLAIN_SCHEMES.get(url.scheme, url.scheme)
    database, schema = url.parts
    if scheme in FILES:
        path = url.path if url.in_memory else str(Path(url.path).absolute())
        namespace, database, schema = f"{scheme}://{path}", Path(url.path).stem, ""
    else:
        port = url.port or PORTS.get(scheme)
        namespace = f"{scheme}://{url.host}" + (f":{port}" if port else "")
    schema = str(url.options.get(SCHEMA) or schema or USUAL_SCHEMAS.get(scheme, ""))
    before = [] if scheme in ONE_DATABASE else [database, *[schema] * bool(schema)]
    name_parts = parts(relation)
    name = [*before[: max(0, len(before) + 1 - len(name_parts))], *name_parts]
    return Dataset(namespace, ".".join(filter(None, name)), relation, kind_by_column or {})
