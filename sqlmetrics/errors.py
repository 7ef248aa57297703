"""What can go wrong, in one tree, and the one way to say "did you mean".

No message has a password in it, nor has any other text that goes through `masked`.

SqlmetricsError             exit code 3
├── CheckError              exit code 1: a number is not as it must be
├── SpecError               exit code 2: what was asked for is wrong
├── InputError              exit code 2: the data cannot be evaluated as it is
│   └── NoDataError         exit code 4: there is no row yet; the same may work later
└── EngineError             exit code 3: the database refused or failed
"""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

LONGEST = 1_000
"""As many characters a message has at most, of one problem or of several."""
SHORT = 120
"""As many characters of each of several problems are told at least."""
MOST = 50
"""As many problems a message tells."""


MASK = "***"

SHORTEST = 4
"""A secret that is shorter is masked by what stands before it alone: it may be any word."""

_WRITTEN = re.compile(
    r"""(?i)(\b\w*(?:password|passwd|pwd|secret|token)\w*=)  # of libpq, of a URL's options
    ('(?:[^'\\]|\\.|'')*'|"[^"]*"|[^\s'"&;,)*]+)
    |(://[^\s/:@'"]*:)(?!password@|TOKEN@)([^\s'"@]+)(?=@)  # but of our own samples""",
    re.VERBOSE,
)
"""Secrets that a text shows to be some."""

_KEPT: set[str] = set()


def keep_secret(*secrets: str) -> None:
    """From now on no text tells these, in any of the ways in which they may be written."""
    _KEPT.update(secret for secret in secrets if len(secret) >= SHORTEST)
    _pattern.cache_clear()


def masked(text: str) -> str:
    """A text without secrets: those that are kept, and those that look like one.

    >>> masked("no server at host=db password='a b' and mysql://ann:pw@db")
    'no server at host=db password=*** and mysql://ann:***@db'
    """
    text = _WRITTEN.sub(lambda match: (match[1] or match[3]) + MASK, text)
    pattern = _pattern()
    return pattern.sub(MASK, text) if pattern else text


def masked_values(value: Any) -> Any:
    """What JSON has, with no secret in any of its texts."""
    if isinstance(value, dict):
        return {key: masked_values(part) for key, part in value.items()}
    if isinstance(value, list):
        return [masked_values(part) for part in value]
    return masked(value) if isinstance(value, str) else value


@cache
def _pattern() -> re.Pattern[str] | None:
    """What finds the secrets that are kept; a short one only where it is a word of its own."""
    forms = {form for secret in _KEPT for form in _forms(secret)}
    words = (
        re.escape(form) if len(form) > 2 * SHORTEST else rf"(?<!\w){re.escape(form)}(?!\w)"
        for form in sorted(forms, key=len, reverse=True)
    )
    return re.compile("|".join(words)) if forms else None


def _forms(secret: str) -> Iterable[str]:
    """A secret as it is, in URLs, in SQL, in JSON and in Python."""
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield secret.replace("'", "''")
    yield secret.replace("\\", "\\\\").replace("'", "\\'")
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]


class SqlmetricsError(Exception):
    """Every error that sqlmetrics raises on purpose derives from this one."""

    exit_code = 3

    def _render_traceback_(self) -> list[str]:
        """What a notebook prints: the sentence, then the lines of its own that led here."""
        frames = traceback.extract_tb(self.__traceback__)
        internal_paths = (str(Path(__file__).parent), f"{os.sep}IPython{os.sep}")
        own_frames = [
            frame for frame in frames if not any(part in frame.filename for part in internal_paths)
        ]
        lines = [line.rstrip("\n") for line in traceback.format_list(own_frames)]
        return [f"{type(self).__name__}: {self}", *([""] * bool(lines)), *lines]


class CheckError(SqlmetricsError):
    """Raised if a number breaks a rule that was asked for.

    Attributes:
        failures: The numbers with the rules that they break; the text of each is what every
            recipient gets.
        problems: Their texts.
        result: The comparison, or the verdicts of a check.
    """

    exit_code = 1

    def __init__(self, failures: Sequence[object], result: Any = None) -> None:
        self.failures = tuple(failures)
        self.problems = tuple(_masked_and_short(str(failure)) for failure in failures)
        self.result = result
        super().__init__(numbered("the checks found", self.problems))


class SpecError(SqlmetricsError):
    """Raised if a spec, a metric, an option or a name in them is wrong.

    Attributes:
        problems: One sentence per problem; the message has all of them.
    """

    exit_code = 2

    def __init__(self, problems: str | Sequence[str], subject: str = "the spec has") -> None:
        texts = (problems,) if isinstance(problems, str) else tuple(problems)
        self.problems = tuple(map(_masked_and_short, texts))
        super().__init__(numbered(subject, self.problems))


class InputError(SqlmetricsError):
    """Raised if the data has problems that would give wrong numbers.

    Attributes:
        problems: One text per problem, with counts, example rows and what to do.
        details: The same problems as objects: texts, or `Problem`s.
    """

    exit_code = 2

    def __init__(self, problems: object) -> None:
        self.details = tuple(problems) if isinstance(problems, list | tuple) else (problems,)
        self.problems = tuple(_masked_and_short(str(detail)) for detail in self.details)
        super().__init__(numbered("the input has", self.problems))


class NoDataError(InputError):
    """Raised if the only problem is that there are no rows yet, on these days or in a table.

    The same call may succeed later, so a scheduler can wait and try again.
    """

    exit_code = 4


class EngineError(SqlmetricsError):
    """Raised if a database fails to open, or refuses or fails a statement.

    Attributes:
        sql: The complete statement that failed, empty if there was none.
    """

    def __init__(self, message: str, sql: str = "") -> None:
        self.sql = masked(sql)
        super().__init__(_masked_and_short(message))


def _masked_and_short(text: str) -> str:
    return shortened(masked(text))


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of a bounded length: what is wrong stands at its start, what to do at its end.

    >>> shortened("unknown column '" + "a" * 100 + "'; did you mean 'a'?", 80)
    "unknown column 'aaaaaaaaaaaaaa ... (91 characters left out) ... d you mean 'a'?"
    """
    if len(text) <= longest:
        return text
    room = max(longest - len(f" ... ({len(text):,} characters left out) ... "), 3)
    start = room * 2 // 3
    left_out = len(text) - room
    return f"{text[:start]} ... ({left_out:,} characters left out) ... {text[start + left_out :]}"


def numbered(subject: str, problems: Sequence[str]) -> str:
    """One problem as it is, several under a count and numbers, the long ones shortened."""
    if len(problems) == 1:
        return problems[0]
    head = f"{subject} {len(problems):,} problems"
    room = LONGEST - len(f"{head}\n... and {len(problems):,} more")
    texts = [
        f"{number}. " + problem.replace("\n", "\n   ")
        for number, problem in enumerate(problems[:MOST], start=1)
    ]
    longest = _fitting([len(text) + 1 for text in texts], room)
    while longest < SHORT and sum(map(len, texts)) + len(texts) > room:
        texts.pop()
        longest = _fitting([len(text) + 1 for text in texts], room)
    lines = [head, *(shortened(text, longest - 1) for text in texts)]
    if len(problems) > len(texts):
        lines.append(f"... and {len(problems) - len(texts):,} more")
    return "\n".join(lines)


def _fitting(lengths: Sequence[int], room: int) -> int:
    """How long the longest of some texts may be, so that all of them fit.

    >>> _fitting([10, 50, 90], 100)
    45
    """
    for position, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - position)
        if length > share:
            return share
        room -= length
    return max(lengths)


def unknown(kind: str, given_name: object, known_names: Iterable[str]) -> str:
    """The sentence for a name that is not known: given, nearest, known.

    >>> unknown("system", "control", ["control ", "treatment"])
    "unknown system 'control'; did you mean 'control '? known: 'control ', treatment"
    >>> unknown("stratum column", "country", [])
    "unknown stratum column 'country'; there is none"
    """
    names = sorted(str(name) for name in known_names if name is not None)
    if not names:
        return f"unknown {kind} {given_name!r}; there is none"
    seen_names = (name if name and name.strip() == name else repr(name) for name in names)
    return (
        f"unknown {kind} {given_name!r}{did_you_mean(given_name, names) or ';'} "
        f"known: {', '.join(seen_names)}"
    )


def did_you_mean(given_name: object, names: Iterable[str]) -> str:
    """The question whether the nearest of some names is meant; empty if none is near.

    >>> did_you_mean("clik", ["click", "purchase"]), did_you_mean("x", ["click"])
    ("; did you mean 'click'?", '')
    """
    near = nearest(given_name, names)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(given_name: object, names: Iterable[str]) -> str | None:
    """The name that somebody may have meant; None if none is near.

    Upper and lower case are the same. A name that begins with what was given comes first, then
    the one with the fewest letters that are wrong, too few, too many or in another's place.

    >>> nearest("ngcd", ["map", "ndcg"]), nearest("ctrr", ["ctr", "ncrr"]), nearest("x", ["map"])
    ('ndcg', 'ctr', None)
    """
    by_folded = {name.casefold(): name for name in sorted(names)}
    folded = str(given_name).casefold()
    if folded in by_folded:
        return by_folded[folded]
    longer = [name for name in by_folded if name.startswith(folded)] if len(folded) > 2 else []
    if longer:
        return by_folded[min(longer, key=len)]
    most = max(1, (len(folded) + 1) // 3)
    near = [name for name in by_folded if abs(len(name) - len(folded)) <= most]
    mistakes = {name: _mistakes(folded, name) for name in near} if len(folded) > 1 else {}
    best = min(mistakes, key=mistakes.__getitem__, default=None)
    if best is not None and mistakes[best] <= most:
        return by_folded[best]
    alike = get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[alike[0]] if alike else None


def _mistakes(given_name: str, name: str) -> int:
    """How many letters are wrong, missing, too many, or two that changed places.

    >>> _mistakes("ctrr", "ctr"), _mistakes("recla", "recal"), _mistakes("ngcd", "ndcg")
    (1, 1, 1)
    """
    if sorted(given_name) == sorted(name):  # the same letters in another order
        return 1
    before: list[int] = []
    above = list(range(len(name) + 1))
    for i, letter in enumerate(given_name, start=1):
        row: list[int] = [i]
        for j, target_letter in enumerate(name, start=1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + int(letter != target_letter))
            swapped = (
                i > 1 and j > 1 and letter == name[j - 2] and given_name[i - 2] == target_letter
            )
            row.append(min(cost, before[j - 2] + 1) if swapped else cost)
        before, above = above, row
    return above[-1]
