"""Files that are no text with rows in it: databases, spreadsheets, other tools' formats."""

from __future__ import annotations

from sqlmetrics.engines import file_kinds
from sqlmetrics.engines.database_file import HOW_TO_OPEN
from sqlmetrics.engines.file_kinds import kind_of, start_of
from sqlmetrics.errors import InputError

_SAVE = "save it as Parquet or CSV"
_OPEN = "read it with {how}, and give one of its tables"
_DECOMPRESS = "give each file by its name, which ends in {ending}"

REMEDIES = {
    file_kinds.PARQUET: "rename it to end in .parquet",
    **dict.fromkeys(
        (
            file_kinds.ARROW,
            file_kinds.ZIP,
            file_kinds.EXCEL,
            file_kinds.ORC,
            file_kinds.AVRO,
        ),
        _SAVE,
    ),
    file_kinds.ZSTD: _DECOMPRESS.format(ending=".zst"),
    file_kinds.BZIP2: _DECOMPRESS.format(ending=".bz2"),
    file_kinds.XZ: _DECOMPRESS.format(ending=".xz"),
    file_kinds.UTF_16: "save it as 'CSV UTF-8'",
    **{kind: _OPEN.format(how=instruction) for kind, instruction in HOW_TO_OPEN.items()},
}
"""What a file is that is no text -> what to do."""


def refuse_foreign(file: str, role: str) -> None:
    """See that a file that is there is text.

    Raises:
        InputError: If it is not, with what to do.
    """
    try:
        kind = kind_of(start_of(file))
    except OSError:  # DuckDB will tell
        return
    if kind in REMEDIES:
        raise InputError(f"{role}: {file!r} is {kind}: {REMEDIES[kind].format(path=file)}")
    if kind == file_kinds.GZIP and not file.casefold().endswith(".gz"):
        raise InputError(f"{role}: {file!r} is {kind}; rename it to end in .gz")
    if not kind and not file.casefold().endswith(".gz"):
        raise InputError(f"{role}: {file!r} is not a text file: {_SAVE}")
