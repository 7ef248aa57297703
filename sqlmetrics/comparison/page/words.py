"""The words of a report in one language, from one catalogue of all of them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.template import folder
from sqlmetrics.tables.tabular import Row

LANGUAGES = ("en", "zh")

ROOM = "comparison/page"
"""The folder below `templates/`."""

ONE = {
    f"1 {several}": f"1 {alone}"
    for several, alone in (
        *(("queries", "query"), ("days", "day"), ("lists", "list")),
        *(("requests", "request"), ("users", "user")),
    )
}
"""What a count of one makes of words for many."""

_ONE = re.compile(rf"(?<![\d.,])(?:{'|'.join(ONE)})\b")


@dataclass(frozen=True)
class Words:
    """The words of one language.

    Attributes:
        language: One of LANGUAGES.
    """

    language: str = "en"

    def __post_init__(self) -> None:
        """Refuse a language that the catalogue has not."""
        if self.language not in LANGUAGES:
            raise SpecError(unknown("language", self.language, LANGUAGES))

    def __call__(self, key: str, **values: object) -> str:
        """The words of a key like `headline.better`, with what is filled in.

        >>> Words()("page.all_queries", n=1)
        '1 query'
        """
        return _ONE.sub(lambda match: ONE[match[0]], self._text(key).format(**values))

    def has(self, key: str) -> bool:
        """Whether there are words of this key."""
        section, _, name = key.partition(".")
        return name in catalogue().get(section, {})

    def _text(self, key: str) -> str:
        section, _, name = key.partition(".")
        text: str = catalogue()[section][name][self.language]
        return text

    def counted(self, unit: str, count: float) -> str:
        """A count of `queries`, `users` or `requests`.

        >>> Words().counted("users", 1), Words().counted("requests", 1200)
        ('1 user', '1,200 requests')
        """
        return self(f"counted.{unit}", n=self.n(count))

    def n(self, count: float) -> str:
        """A count, with marks between thousands."""
        return f"{count:,.0f}"


@cache
def catalogue() -> Mapping[str, Row]:
    """Section -> name -> language -> words."""
    return tomllib.loads((folder() / ROOM / "strings.toml").read_text(encoding="utf-8"))


def number(value: float | None) -> str:
    """A value as it is read: four digits of it, a dash where there is none.

    >>> number(0.61234), number(12.3456), number(12345.678), number(None)
    ('0.6123', '12.35', '12,346', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:.4f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """A difference with its sign, and a minus that is one.

    >>> signed(0.0612), signed(-0.5), signed(None)
    ('+0.0612', '−0.5000', '–')
    """
    if value is None:
        return "–"
    text = number(abs(value))
    return f"{'−' if value < 0 else '+'}{text}"


def percent(share: float) -> str:
    """A share, rounded; never 0 % of something.

    >>> percent(0.314), percent(0.0004)
    ('31 %', '0.04 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.0095 else f"{100 * share:.2g} %"
