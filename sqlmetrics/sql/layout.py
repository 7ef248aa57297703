"""A long expression on several lines: broken where it binds least, as one would write it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from textwrap import indent

ROOM = 80
"""What fits on a line of a select list in a stage, which stands at an indent of 8."""

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]|\b(?:case|end)\b| (?=\S)|[^ ()'\"]")
_SIGNS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\b\d[\d.]*e[-+]?\d+|[-+()]|\b(?:case|end)\b", re.IGNORECASE
)
_LEVELS = (
    re.compile(r" (?=or )"),
    re.compile(r" (?=and )"),
    re.compile(r" (?=(?:[<>]?=|[<>]|<>) )"),
    re.compile(r" (?=[-+] )"),
    re.compile(r" (?=[*/] )"),
)
"""Where an expression may be broken, those first that bind least."""
_BRANCH = re.compile(r" (?=(?:when|then|else) )")
_CALL = re.compile(r"(\w*)\((.*)\)")
_COMMA = re.compile(r"(?<=,) ")
_BEFORE_END = re.compile(r" (?=end\b)")
_NAME = re.compile(r" (?=as \S+$)")
_CLOSED = ("\n)", "\nend")
_WINDOW = re.compile(r" (?=over \(.*\)$)")
_CLAUSE = re.compile(r" (?=order by |rows between )")
_DEEPER = {"(": 1, "case": 1, ")": -1, "end": -1}
_KEYS = re.compile(r"((?:partition|order) by) ")


def folded(expression: str, room: int = ROOM) -> str:
    """The expression as it is where its lines fit, else on lines that do, as far as can be.

    Args:
        expression: SQL of the compiler's own; a comment, or a text with line breaks, has no
            place in it.
        room: As long a line may be.

    >>> print(folded("coalesce(one_long_name, 0e0) / nullif(another_name, 0e0)", 40))
    coalesce(one_long_name, 0e0)
        / nullif(another_name, 0e0)
    """
    if max(map(len, expression.split("\n"))) <= room:
        return expression
    line = re.sub(r"\s*\n\s*", " ", expression).strip()
    return broken(line.replace("( ", "(").replace(" )", ")"), room)


def as_factor(expression: str) -> str:
    """The expression as a factor of a product: in parentheses if it is a sum or a difference.

    >>> as_factor("sum(a + b) / 2e-3"), as_factor("sum(a)-1e0")
    ('sum(a + b) / 2e-3', '(sum(a)-1e0)')
    """
    depth = 0
    for mark in _SIGNS.findall(expression):
        depth += _DEEPER.get(mark.lower(), 0)
        if depth == 0 and mark in "+-":
            return f"({expression})"
    return expression


def broken(text: str, room: int) -> str:
    """An expression of one line, or the rest of one behind its first word, on lines that fit.

    Nothing is changed but that a space, or nothing beside a parenthesis, becomes a line break.

    Args:
        text: The expression; in quotes anything may stand.
        room: As long a line may be.
    """
    if len(text) <= room:
        return text
    return next(filter(None, (way(text, room) for way in _WAYS)), text)


def _named(text: str, room: int) -> str:
    """A value, and below it its alias, which may stand behind a closing parenthesis."""
    value, *name = _split(text, _NAME)
    if not name:
        return ""
    lines = broken(value, room)
    return lines + (" " if lines.endswith(_CLOSED) else "\n    ") + name[-1]


def _operation(text: str, room: int) -> str:
    """What an operator joins, one below the other."""
    for level in _LEVELS:
        first, *operands = _split(text, level)
        if operands:
            return "\n".join(
                [broken(first, room), *(_inner(operand, room) for operand in operands)]
            )
    return ""


def _case(text: str, room: int) -> str:
    """`case when ...`, a branch a line; on its own line where there are several."""
    is_case = text.startswith("case ") and text.endswith(" end")
    if not is_case or len(_split(text, _BEFORE_END)) > 1:
        return ""
    head, *branches = _split(text.removesuffix(" end"), _BRANCH, depth=1)
    whens = sum(branch.startswith("when ") for branch in branches)
    if whens > 1 or head != "case":
        lines = [head, *(_inner(pair, room) for pair in _pairs(branches))]
    else:
        first = broken(branches[0], room - 5).replace("\n", "\n    ")
        lines = [f"{head} {first}", *(_inner(branch, room) for branch in branches[1:])]
    return "\n".join([*lines, "end"])


def _operand(text: str, room: int) -> str:
    """What stands behind an operator or a word."""
    word = re.match(r"(?:[-+*/]|and|or|[<>]?=|[<>]|when|then|else) ", text)
    return word[0] + broken(text[word.end() :], room - len(word[0])) if word else ""


def _window(text: str, room: int) -> str:
    """A function over a window, whose clauses are lines of their own."""
    function, *window = _split(text, _WINDOW)
    if not window:
        return ""
    clauses = _split(window[-1].removeprefix("over (").removesuffix(")"), _CLAUSE)
    body = "\n".join(_inner(clause, room) for clause in clauses)
    return f"{broken(function, room - len(' over ('))} over (\n{body}\n)"


def _keys(text: str, room: int) -> str:
    """What a window goes by, one key a line."""
    by = _KEYS.match(text)
    keys = [_inner(key, room) for key in _split(text[by.end() :], _COMMA)] if by else []
    return "\n".join([by[1], *keys]) if by else ""


def _call(text: str, room: int) -> str:
    """A function, one argument a line."""
    call = _CALL.fullmatch(text)
    if call is None or not _is_whole(call[2]):
        return ""
    arguments = (argument.removesuffix(",") for argument in _split(call[2], _COMMA))
    body = ",\n".join(broken(argument, room - 5) for argument in arguments)
    return f"{call[1]}(\n{indent(body, '    ')}\n)"


_WAYS = (_named, _operation, _case, _operand, _window, _keys, _call)
"""How a text may be broken, the first that fits it; each gives nothing for others."""


def _inner(text: str, room: int) -> str:
    return indent(broken(text, room - 4), "    ")


def _pairs(branches: Sequence[str]) -> Iterator[str]:
    """Each condition with its value."""
    condition = ""
    for branch in branches:
        if branch.startswith("when "):
            condition = f"{branch} "
        else:
            yield condition + branch
            condition = ""


def _is_whole(inner: str) -> bool:
    """Whether what stands between the first and the last parenthesis belongs together."""
    return all(depth >= 0 for _, depth in _depths(inner))


def _split(text: str, pattern: re.Pattern[str], depth: int = 0) -> list[str]:
    """The parts between the places of a kind that stand so deep in parentheses and cases."""
    if not pattern.search(text):
        return [text]
    ends = [
        position
        for position, level in _depths(text)
        if level == depth and pattern.match(text, position)
    ]
    places = [-1, *(end for end in ends if end > 0), len(text)]
    return [text[a + 1 : b] for a, b in pairwise(places)]


@lru_cache(maxsize=16)
def _depths(text: str) -> Sequence[tuple[int, int]]:
    """Each place of a text outside of quotes, and how deep it is."""
    depth = 0
    places = []
    for token in _TOKEN.finditer(text):
        depth += _DEEPER.get(token[0], 0)
        places.append((token.start(), depth))
    return places
