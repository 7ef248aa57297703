"""Which of several systems is the baseline, where nobody names one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlmetrics.tables.table import printable

WORDS = ("baseline", "control", "production", "prod", "current", "live", "old")
"""What people call the system that others are held against, the surest word first."""

LETTER = "a"
"""The first arm of a test; a letter counts as a whole name alone."""


def usual_baseline(systems: Sequence[str]) -> tuple[str, str]:
    """The baseline where nobody names one, and a sentence of how it was chosen.

    A system called baseline, control, production, prod, current, live, old or A, in upper or lower
    case, else the only one with such a word in its name (`control_v2`, `old-ranker`), else the
    first in the order of the alphabet.

    Args:
        systems: Their names, at least one.

    >>> usual_baseline(["old", "new"])
    ('old', 'the baseline is old, as its name says; name another with --baseline')
    >>> usual_baseline(["dense", "bm25"])
    ('bm25', 'the baseline is bm25, the first by name; name another with --baseline')
    """
    named_baseline = _named(systems)
    baseline = named_baseline or min(systems)
    rule = "as its name says" if named_baseline else "the first by name"
    return baseline, f"the baseline is {printable(baseline)}, {rule}; name another with --baseline"


def _named(systems: Sequence[str]) -> str | None:
    """The system whose name says that it is the baseline."""
    names = {system: {system.casefold()} for system in systems}
    words = {system: {*_words(system)} for system in systems}
    for hint_words, words_by_system in (((*WORDS, LETTER), names), (WORDS, words)):
        for word in hint_words:
            fitting = [system for system in systems if word in words_by_system[system]]
            if len(fitting) == 1:  # of several, the word does not tell which
                return fitting[0]
    return None


def _words(name: str) -> list[str]:
    """The words of a name, also of `oldRanker` and `control2`, in lower case.

    >>> _words("oldRanker-v2"), _words("CONTROL_2")
    (['old', 'ranker', 'v'], ['control'])
    """
    separated = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.casefold() for word in re.findall(r"[^\W\d_]+", separated)]
