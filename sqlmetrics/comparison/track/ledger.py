"""The ledger of a track: each upload that was ever seen, and when; nothing is taken out of it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from sqlmetrics.engines.output_files import output_file, writing_to
from sqlmetrics.errors import SpecError

ACCEPTED, REFUSED = "accepted", "refused"

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How a time is written: UTC, in whole seconds."""

_FORMS = {
    "uploaded": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
    "status": re.compile(f"{ACCEPTED}|{REFUSED}"),
    "value": re.compile(r"(-?\d+\.\d+)?"),
}


@dataclass(frozen=True)
class Entry:
    """One upload: a file with these bytes.

    Attributes:
        uploaded: When, in UTC.
        team: The team.
        file: The name of the file.
        sha256: The hash of its bytes.
        status: `accepted` or `refused`, when it was last there.
        metric: The metric of the value.
        value: The value, rounded as on the page; empty for an upload that was refused.
    """

    uploaded: str
    team: str
    file: str
    sha256: str
    status: str
    metric: str = ""
    value: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes an upload: other bytes under the same name are another one."""
        return self.team, self.file, self.sha256


COLUMNS = [field.name for field in fields(Entry)]


@dataclass(frozen=True)
class Ledger:
    """The uploads that were seen, as a file has them.

    Attributes:
        path: The file.
        text: What it holds; empty if there is none.
    """

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger; one that is not there is empty.

        Raises:
            SpecError: If it cannot be read.
        """
        try:
            text = path.read_bytes().decode() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot read the ledger {str(path)!r}: {error}") from None
        return cls(path, text)

    def entries(self) -> Iterator[Entry]:
        """The uploads.

        Raises:
            SpecError: If a row is not as it was written.
        """
        rows = csv.reader(io.StringIO(self.text, newline=""), strict=True)
        try:
            for row in rows:
                if rows.line_num == 1 and row == COLUMNS:
                    continue
                entry = dict(zip(COLUMNS, row, strict=True))
                for name, form in _FORMS.items():
                    if not form.fullmatch(entry[name]):
                        raise ValueError(f"{name} is {entry[name]!r}")
                yield Entry(**entry)
        except (csv.Error, ValueError) as error:
            raise SpecError(
                f"the ledger {str(self.path)!r} cannot be read, line {rows.line_num}: {error}; put "
                "a copy of it back, or move it away: then all uploads count as new"
            ) from None

    def write(self, entries: Iterable[Entry]) -> Ledger:
        """Write it anew, in the order of time; what it then holds.

        Raises:
            SpecError: If another refresh has written it since it was read.
        """
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([COLUMNS, *sorted(map(astuple, entries))])
        if Ledger.read(self.path).text != self.text:
            raise SpecError(f"another refresh has just written {str(self.path)!r}; run this again")
        with (
            writing_to(self.path.parent),
            output_file(self.path, is_ours=lambda *_: True) as staging,
        ):
            staging.write_bytes(buffer.getvalue().encode())
        return Ledger(self.path, buffer.getvalue())
