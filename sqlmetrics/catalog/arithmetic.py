"""One number made of several metrics: `north_star = 0.7 * ndcg@10 + 0.3 * recall@100`.

The text is a name and arithmetic over the texts of metrics: numbers, + - * / and parentheses. It is
computed for each query; its mean is the mean of these values, and so it has an interval as every
metric has.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from sqlmetrics.catalog.metric import limits
from sqlmetrics.catalog.option import plain
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.template import double

if TYPE_CHECKING:
    from sqlmetrics.catalog.measure import Measure

NAMED = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*=(?!=)\s*(?P<formula>.+?)\s*", re.DOTALL)
"""The text of such a number."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?(?![\w.]))"
    r"|(?P<metric>\d*[^\W\d]\w*(?:\.\d+)?(?:\s*\([^()]*\))?(?:\s*@\s*\d*\.?\d+)?)|(?P<mark>[-+*/()]))\s*",
    re.IGNORECASE,
)
_MARKS: Mapping[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}
_ATOM, _NEGATIVE = 3, 0

_SIMPLE = re.compile(r"[\w.]+|\w+\([\w., ]*\)")
"""A column, or a call with columns: SQL that needs no parentheses."""

LARGEST = 1e15
"""So large a formula's value may be, where each metric in it is 1: sums of squares stay finite."""

MOST = 20
"""So many metrics a formula may have."""

Range = tuple[float, float]
Sense = tuple[int | None, Range]
"""1 where a larger metric makes the whole larger, -1 where smaller, 0 of a number, None where
metrics disagree; and the least and the largest value."""

T = TypeVar("T")


@dataclass(frozen=True)
class Arithmetic:
    """A formula over metrics.

    Attributes:
        python: The formula, with `m0`, `m1` and so on in the place of the metrics.
        components: The metrics, each once.
    """

    python: str
    components: tuple[Measure, ...]

    def __str__(self) -> str:
        return self.text([str(measure) for measure in self.components])

    def text(self, values: Sequence[str]) -> str:
        """The formula with these texts in the place of the metrics."""
        return self._printed(values, plain, "{} / {}")

    def plain(self) -> Arithmetic:
        """The same with the parentheses that it needs, and no others.

        Raises:
            ValueError: If a number is too large.
        """
        return replace(self, python=self.text([f"m{i}" for i in range(len(self.components))]))

    def sql(self, values: Sequence[str]) -> str:
        """The formula as SQL: NULL where a metric is, or where a divisor is 0.

        Args:
            values: The SQL of the value of each metric.
        """
        atoms = [value if _SIMPLE.fullmatch(value) else f"({value})" for value in values]
        return self._printed(atoms, double, "{} / nullif({}, 0e0)")

    @property
    def better(self) -> str:
        """Whether `higher` or `lower` values are better; `none` where the metrics disagree."""
        signs = {"higher": 1, "lower": -1}
        senses = [signs.get(measure.metric.better) for measure in self.components]
        sense, _ = self._folded(
            lambda value: (0, (value, value)),
            lambda index: (senses[index], self._ranges[index]),
            _sense,
        )
        return {1: "higher", -1: "lower"}.get(sense or 0, "none")

    @property
    def range(self) -> str:
        """The values that it can take, by those of the metrics, as a header says it."""
        low, high = self._folded(lambda value: (value, value), self._ranges.__getitem__, _range)
        if math.isinf(low):
            return "any number"
        low, high = float(f"{low:.12g}"), float(f"{high:.12g}")
        return f"{plain(low)} or more" if math.isinf(high) else f"{plain(low)} to {plain(high)}"

    @property
    def magnitude(self) -> float:
        """How large the value may be, where each metric is 1 and no two terms cancel out."""

        def operation(mark: str, left: float, right: float) -> float:
            if mark in "+-":
                return left + right
            return left * right if mark == "*" else left / (right or math.inf)

        return self._folded(abs, lambda _: 1.0, operation)

    @cached_property
    def _ranges(self) -> list[Range]:
        ends = [limits(measure.metric.range) for measure in self.components]
        return [
            (-math.inf if low is None else low, math.inf if high is None else high)
            for low, high in ends
        ]

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.python, mode="eval").body

    def _printed(self, atoms: Sequence[str], number: Callable[[float], str], quotient: str) -> str:
        """The formula with the parentheses that it needs."""

        def operation(mark: str, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
            strength = _STRENGTH[mark]
            first = left[0] if left[1] >= strength else f"({left[0]})"
            pattern = quotient if mark == "/" else f"{{}} {mark} {{}}"
            is_apart = right[1] > strength or "(" in pattern
            last = right[0] if is_apart else f"({right[0]})"
            return pattern.format(first, last), strength

        return self._folded(
            lambda value: (number(value), _ATOM if value >= 0 else _NEGATIVE),
            lambda index: (atoms[index], _ATOM),
            operation,
        )[0]

    def _folded(
        self,
        number: Callable[[float], T],
        component: Callable[[int], T],
        operation: Callable[[str, T, T], T],
    ) -> T:
        """What the formula comes to, from its numbers and metrics up."""

        def fold(node: Any) -> T:
            if isinstance(node, ast.Name):
                return component(int(node.id.removeprefix("m")))
            if isinstance(node, ast.Constant):
                return number(_finite(node.value))
            if isinstance(node, ast.UnaryOp):
                sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
                if isinstance(node.operand, ast.Constant):
                    return number(sign * _finite(node.operand.value))
                return operation("*", number(sign), fold(node.operand))
            return operation(_MARKS[type(node.op)], fold(node.left), fold(node.right))

        return fold(self._tree)


def read_formula(text: str, formula: str, parse: Callable[[str], Measure]) -> Arithmetic:
    """The arithmetic of a formula.

    Args:
        text: The whole text, for messages.
        formula: What stands behind the `=`.
        parse: Reads the text of a metric.

    Raises:
        SpecError: If it is no arithmetic over metrics, or a metric in it is wrong.
    """
    measures: dict[Measure, int] = {}

    def placed(metric: str) -> str:
        return f"m{measures.setdefault(parse(metric), len(measures))}"

    python = rewritten(text, formula, placed)
    try:
        arithmetic = Arithmetic(python, tuple(measures)).plain()
        is_large = arithmetic.magnitude > LARGEST
    except (SyntaxError, ValueError, KeyError, AttributeError, RecursionError, OverflowError):
        raise SpecError(_unreadable(text)) from None
    if is_large:
        raise SpecError(f"metric {text!r}: the numbers in it come to more than {LARGEST:g}")
    if not 0 < len(measures) <= MOST:
        raise SpecError(
            f"metric {text!r}: a formula has 1 to {MOST} metrics, given {len(measures)}"
        )
    return arithmetic


def rewritten(text: str, formula: str, replaced: Callable[[str], str]) -> str:
    """A formula with something else in the place of each metric.

    Raises:
        SpecError: If it has a mark that is no part of arithmetic.
    """
    pieces, offset = [], 0
    while offset < len(formula):
        token = _TOKEN.match(formula, offset)
        if token is None:
            raise SpecError(_unreadable(text, (formula[offset:].split() or [""])[0]))
        metric = token["metric"]
        pieces.append(replaced(metric) if metric else token["number"] or token["mark"])
        offset = token.end()
    return " ".join(pieces)


def _finite(value: Any) -> float:
    if math.isinf(value):
        raise ValueError(value)
    return float(value)


def _unreadable(text: str, mark: str = "") -> str:
    where = f"{mark!r} cannot be read; " if mark else "it cannot be read; "
    return (
        f"metric {text!r}: {where}write arithmetic over metrics, with + - * / and parentheses, "
        "like north_star = 0.7 * ndcg@10 + 0.3 * recall@100"
    )


def _sense(mark: str, left: Sense, right: Sense) -> Sense:
    """Where the whole goes as a metric in it grows, and its range."""
    (left_sense, left_range), (right_sense, right_range) = left, right
    if mark in "-/" and right_sense is not None:
        right_sense = -right_sense
    if mark in "*/":
        left_sense = _scaled(left_sense, right_range)
        right_sense = _scaled(right_sense, left_range)
    senses = {sense for sense in (left_sense, right_sense) if sense != 0} or {0}
    sense = senses.pop() if len(senses) == 1 else None
    return sense, _range(mark, left_range, right_range)


def _scaled(sense: int | None, factor: Range) -> int | None:
    """A sense of what is multiplied: turned by a factor below 0, unknown by one of both signs."""
    if sense is None or factor[0] >= 0:
        return sense
    return -sense if factor[1] <= 0 else sense and None


def _range(mark: str, left: Range, right: Range) -> Range:
    """The least and the largest value of an operation, by those of its sides."""
    if mark == "-":
        return left[0] - right[1], left[1] - right[0]
    if mark == "+":
        return left[0] + right[0], left[1] + right[1]
    if mark == "/":
        if right[0] <= 0 <= right[1]:
            return (0.0 if left[0] >= 0 and right[0] >= 0 else -math.inf), math.inf
        return _range("*", left, (1 / right[1], 1 / right[0]))
    ends = [0.0 if 0 in pair else math.prod(pair) for pair in product(left, right)]
    return min(ends), max(ends)
