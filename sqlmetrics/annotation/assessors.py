"""Sheets by assessor: a query goes to one person, and a share of the pairs to a second one.

One person grades all items of a query, so that they are graded alike. The largest query goes first,
each to whoever has the fewest rows. Pairs that two people grade are drawn by lot; the second is
whom the first has the fewest pairs in common with, then whoever has the fewest rows. So each two of
them share some, which `agree` needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from sqlmetrics.annotation.csv_file import fingerprint
from sqlmetrics.annotation.sheet import ASSESSOR, IDS, TEXTS, Sheet
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.tables.table import many

_NO_FILE = frozenset('/\\:*?"<>|\0\n\r\t')
"""What the name of a file cannot have on some system."""


@dataclass(frozen=True)
class Assessors:
    """Who grades.

    Attributes:
        names: The people, in their order.
        overlap: The share of the pairs that two of them grade, 0 to 1.
    """

    names: tuple[str, ...]
    overlap: float = 0.0

    def check(self) -> None:
        """Raise SpecError for people or a share that cannot be."""
        folded = [name.casefold() for name in self.names]
        for name in self.names:
            if folded.count(name.casefold()) > 1:
                raise SpecError(
                    f"each assessor must be named once, in upper or lower case, given {name!r} and "
                    "again"
                )
            if _NO_FILE & {*name} or name.startswith("."):
                raise SpecError(
                    f"an assessor is the name of a file, too; give another one than "
                    f"{shortened(repr(name))}"
                )
        if not 0 <= self.overlap <= 1:
            raise SpecError(
                f"overlap must be a share from 0 to 1, like 0.1, given {self.overlap:g}"
            )
        if self.overlap and len(self.names) < 2:
            raise SpecError("overlap needs two assessors or more; name them with --assessors")

    def dealt(self, sheet: Sheet) -> Sheet:
        """The rows of a sheet with their assessors, without what hints at a grade."""
        names = [name for name in sheet.names if name in (*IDS, *TEXTS)]
        places = [sheet.names.index(name) for name in names]
        n_ids = sum(name in IDS for name in names)
        rows = sorted(tuple(row[place] for place in places) for row in sheet.rows)
        n_rows = Counter(dict.fromkeys(self.names, 0))
        sizes = Counter(row[names.index("query_id")] for row in rows)
        first = {}
        for query in sorted(sizes, key=lambda query: (-sizes[query], fingerprint(query), query)):
            first[query] = min(self.names, key=n_rows.__getitem__)
            n_rows[first[query]] += sizes[query]
        dealt = [(first[row[names.index("query_id")]], row) for row in rows]
        in_common: Counter[tuple[str, str]] = Counter()
        by_lot = sorted(dealt, key=lambda pair: fingerprint("overlap", *map(str, pair[1][:n_ids])))
        for grader, row in by_lot[: floor(self.overlap * len(rows) + 0.5)]:
            waiting = [
                (in_common[grader, name], n_rows[name], place)
                for place, name in enumerate(self.names)
                if name != grader
            ]
            second = self.names[min(waiting)[-1]]
            in_common.update([(grader, second), (second, grader)])
            n_rows[second] += 1
            dealt.append((second, row))
        dealt.sort(key=lambda pair: (self.names.index(pair[0]), pair[1]))
        parts = ", ".join(f"{name} {n_rows[name]:,}" for name in self.names)
        twice = f"; {many(len(dealt) - len(rows), 'pair')} twice" if self.overlap else ""
        return replace(
            sheet,
            names=(ASSESSOR, *names),
            rows=tuple((name, *row) for name, row in dealt),
            notes=(*sheet.notes, f"rows by assessor: {parts}{twice}"),
        )


def sheet_by_assessor(sheet: Sheet, names: Sequence[str]) -> dict[str, Sheet]:
    """The rows of each assessor; of one who has none an empty sheet."""
    return {
        name: replace(sheet, rows=tuple(row for row in sheet.rows if row[0] == name))
        for name in names
    }
