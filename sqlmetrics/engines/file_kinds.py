"""What a file is, by its first bytes: its name may say anything."""

from __future__ import annotations

LOOKED_AT = 4096

DUCKDB, SQLITE = "a DuckDB database", "an SQLite database"
PARQUET, ARROW, GZIP = "Parquet", "Arrow or Feather", "compressed by gzip"
PNG = "a PNG picture"
ZIP, EXCEL = "a spreadsheet or another archive", "a spreadsheet of old Excel"
ORC, AVRO = "ORC", "Avro"
ZSTD, BZIP2, XZ = "compressed by zstd", "compressed by bzip2", "compressed by xz"
UTF_16 = "UTF-16"
TEXT, EMPTY = "text", "empty"

SIGNATURES = (
    (8, b"DUCK", DUCKDB),
    (0, b"SQLite format 3\0", SQLITE),
    (0, b"PAR1", PARQUET),
    (0, b"ARROW1", ARROW),
    (0, b"\x89PNG", PNG),
    (0, b"PK\x03\x04", ZIP),
    (0, b"\xd0\xcf\x11\xe0", EXCEL),
    (0, b"ORC", ORC),
    (0, b"Obj\x01", AVRO),
    (0, b"\x1f\x8b", GZIP),
    (0, b"\x28\xb5\x2f\xfd", ZSTD),
    (0, b"BZh", BZIP2),
    (0, b"\xfd7zXZ\0", XZ),
    (0, b"\xff\xfe", UTF_16),
    (0, b"\xfe\xff", UTF_16),
)
"""Where a file has which bytes, and what it then is."""


def kind_of(start: bytes) -> str:
    r"""What a file is that begins with some bytes; empty if it is nothing that is known.

    >>> kind_of(b"PAR1..."), kind_of(b"query_id,item_id\n"), kind_of(b"\0\1")
    ('Parquet', 'text', '')
    """
    if not start:
        return EMPTY
    for offset, mark, kind in SIGNATURES:
        if start[offset:].startswith(mark):
            return kind
    return "" if b"\0" in start else TEXT


def start_of(path: str) -> bytes:
    """The first bytes of a file.

    Raises:
        OSError: If it cannot be read.
    """
    with open(path, "rb") as file:
        return file.read(LOOKED_AT)
