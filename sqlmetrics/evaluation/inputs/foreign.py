"""Files that are no text with rows in it: databases, spreadsheets, other tools' formats."""

from __future__ import annotations

from pathlib import Path

from sqlmetrics.engines.url import DATABASE_FILES
from sqlmetrics.errors import InputError

_SAVE = "save it as Parquet or CSV"

MARKS = (
    *((*mark, f"{opening}, and name a table of it") for mark, opening in DATABASE_FILES),
    (0, b"PAR1", "is Parquet: let its name end in .parquet"),
    (0, b"ARROW1", f"is Arrow or Feather: {_SAVE}"),
    (0, b"PK\x03\x04", f"is a spreadsheet or another archive: {_SAVE}"),
    (0, b"\xd0\xcf\x11\xe0", f"is a spreadsheet of old Excel: {_SAVE}"),
    (0, b"ORC", f"is ORC: {_SAVE}"),
    (0, b"Obj\x01", f"is Avro: {_SAVE}"),
    (0, b"\x28\xb5\x2f\xfd", "is compressed by zstd: decompress it, or use gzip"),
    (0, b"BZh", "is compressed by bzip2: decompress it, or use gzip"),
    (0, b"\xff\xfe", "is UTF-16: save it as 'CSV UTF-8'"),
    (0, b"\xfe\xff", "is UTF-16: save it as 'CSV UTF-8'"),
)
"""Where a file has which bytes, and what it then is."""

LOOKED_AT = 4096


def refuse_foreign(file: str, role: str) -> None:
    """See that a file that is there is text.

    Raises:
        InputError: If it is not, with what to do.
    """
    try:
        with Path(file).open("rb") as opened:
            start = opened.read(LOOKED_AT)
    except OSError:  # DuckDB will tell
        return
    for place, mark, what in MARKS:
        if start[place:].startswith(mark):
            raise InputError(f"{role}: {file!r} {what.format(path=file)}")
    if b"\0" in start and not file.casefold().endswith(".gz"):
        raise InputError(f"{role}: {file!r} is no text: {_SAVE}")
