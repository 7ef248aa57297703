"""The files of an export, written into a folder or into one zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from sqlmetrics.engines.output_files import has_mark, output_folder
from sqlmetrics.evaluation.inputs.sources import refuse_pipes
from sqlmetrics.jobs.exports.formats import format_named
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import dialect as dialect_named

MARK = b"sqlmetrics export"
"""Every file says it in a comment; one that does not is somebody's own, and is left alone."""


def export(
    spec: Spec,
    name: str,
    to: str | Path,
    *,
    dialect: str | None = None,
    force: bool = False,
    **options: str,
) -> list[Path]:
    """Write a spec as the files of another tool: the same spec gives the same bytes.

    Files of an earlier export are replaced; other files are not.

    Args:
        spec: The spec, with its `output`.
        name: The tool: one of `sqlmetrics list exports`.
        to: A folder, created if it does not exist; or a name that ends in `.zip`.
        dialect: The dialect of the database in which the tool finds the tables. Default: DuckDB,
            or the first dialect that the tool supports.
        force: Whether to replace files that no export wrote, too.
        options: Options of the tool, such as `dbt_version="1.12"`.

    Returns:
        The files that were written.

    Raises:
        SpecError: If the tool, the dialect or an option is unknown, the spec does not fit, or a
            file that no export wrote is in the way.
        EngineError: If a file cannot be written.
    """
    refuse_pipes(spec)
    tool_options = {key.replace("_", "-"): value for key, value in options.items()}
    destination = Path(to)
    folder = destination.parent if destination.suffix == ".zip" else destination
    tool = format_named(name)
    content_by_path = tool.files(
        Target(spec, dialect_named(dialect or tool.dialect), tool_options, folder)
    )
    if destination.suffix == ".zip":
        content_by_path, destination = (
            {destination.name: zipped(content_by_path)},
            destination.parent,
        )
    with output_folder(destination, overwrite=force, is_ours=has_mark(MARK)) as staging:
        for path, content in content_by_path.items():
            file = staging / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return [destination / path for path in content_by_path]


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Files as a zip, whose bytes hang on nothing but theirs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = MARK
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()
