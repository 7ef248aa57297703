"""Tables of Delta and Iceberg in folders: their current rows, as the libraries of these read them.

Their Parquet files may hold rows that were deleted or replaced, so the folder cannot be read as
others are. What is read is an Arrow dataset wherever there can be one: DuckDB then asks for the
columns and days that it needs alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError

INSTALL = "pip install 'sqlmetrics[lakehouse]'"
DUCKLAKE = "a table of DuckLake"
_ICEBERG_METADATA = "metadata/*.metadata.json"
_NAME_MAPPING = "schema.name-mapping.default"
"""The property of a table of which some files do not know the ids of their columns."""

_NUMBER = re.compile(r"v?(\d+)")
"""What the name of a file of metadata begins with: `00003-uuid` of a catalog, `v3` of Hadoop's."""


def lake_kind(path: str) -> str:
    """What kind of table a folder is, such as `a Delta table`; empty if it is none.

    >>> lake_kind("there is no such folder")
    ''
    """
    return _kind(path, "")


def lake_kind_below(folder: str) -> str:
    """What kind of table a folder is or holds at any depth; empty if there is none."""
    return _kind(folder, "**/")


def _kind(path: str, depth: str) -> str:
    if not Path(path).is_dir():
        return ""
    return next((k for mark, k in _KINDS.items() if any(Path(path).glob(depth + mark))), "")


def is_lake_table(path: str) -> bool:
    """Whether a path is a folder with a table of Delta or Iceberg."""
    return lake_kind(path) in _READERS


def lake_table(path: str, role: str) -> Any:
    """The current rows of a table of Delta or Iceberg: an Arrow dataset, or a table in memory.

    Args:
        path: Its folder, as `is_lake_table` says.
        role: `rankings`, `labels` ...

    Raises:
        InputError: If its library is not installed, or cannot read it.
    """
    note_read(path)
    kind = lake_kind(path)
    try:
        return _READERS[kind](Path(path).absolute())
    except ModuleNotFoundError as error:
        raise InputError(
            f"{role}: {path!r} is {kind}, which needs {error.name}: {INSTALL}"
        ) from None
    except Exception as error:  # each library has its own, of no common base
        raise InputError(f"{role}: {path!r} is {kind} that cannot be read: {error}") from None


def _delta(folder: Path) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(folder)).to_pyarrow_dataset()


def _iceberg(folder: Path) -> Any:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(_metadata(folder)))
    scan = table.scan()
    tasks = list(scan.plan_files())
    is_changed = len(table.metadata.schemas) > 1 or _NAME_MAPPING in table.properties
    if not tasks or is_changed or any(task.delete_files for task in tasks):
        return scan.to_arrow()
    from pyarrow import dataset

    return dataset.dataset([task.file.file_path.removeprefix("file://") for task in tasks])


def _metadata(folder: Path) -> Path:
    """The file of the current metadata: the one that is named in the folder, or the newest.

    Raises:
        ValueError: If two are the newest, of which a catalog alone knows the current one.
    """
    hint = folder / "metadata" / "version-hint.text"
    if hint.exists():
        return folder / "metadata" / f"v{hint.read_text().strip()}.metadata.json"
    files: dict[int, list[Path]] = {}
    for file in sorted(folder.glob(_ICEBERG_METADATA)):
        number = _NUMBER.match(file.name)
        files.setdefault(int(number[1]) if number else -1, []).append(file)
    newest = files[max(files)]
    if len(newest) > 1:
        names = " and ".join(file.name for file in newest)
        raise ValueError(f"{names} are both its newest metadata; ask its catalog for the table")
    return newest[0]


_KINDS = {
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
    _ICEBERG_METADATA: "an Iceberg table",
    "ducklake-*.parquet": DUCKLAKE,
}
"""What stands beside Parquet files of which some may hold rows that were deleted -> what it is."""

_READERS: dict[str, Callable[[Path], Any]] = {
    _KINDS["_delta_log"]: _delta,
    _KINDS[_ICEBERG_METADATA]: _iceberg,
}
