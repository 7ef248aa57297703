"""A template of the user's own: what may be in it, what it sees, and its SQL.

It is a stranger's text. Jinja runs it in its sandbox, but only after its syntax tree was read: no
loops, no variables, no other templates, no names but `m`. What it gives must be one expression over
the columns that it was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sqlmetrics.errors import SpecError, shortened, unknown
from sqlmetrics.sql.template import number

if TYPE_CHECKING:
    from sqlmetrics.catalog.metric import Metric

Node = Any

RATIO = ("numerator", "denominator")
"""The macros of a metric that is a ratio of sums."""

DEEPEST = 6
"""So deep names of `m` may stand in one another: each may repeat what it is given."""

_ROWS = ("k", "in_top", "in_relevant", "relevant")
_RANKS = (*_ROWS, "grade", "gain", "discount", "term", "up_to", "decayed")
WORDS: Mapping[str, tuple[str, ...]] = {
    "ranked": (*_RANKS, "in_hits", "first_hit", "hits_so_far", "judged"),
    "ideal": _RANKS,
    "ideal_shown": _RANKS,
    "item_features": (*_RANKS, "in_hits", "first_hit"),
    "labels": ("in_relevant", "relevant"),
    "query": ("k",),
}
"""Relation -> the names of `m`, beside its parameters and parts; they are public and stay so."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "ranked": ("rnk", "grade"),
    "ideal": ("rnk", "grade"),
    "ideal_shown": ("rnk", "grade"),
    "item_features": (
        *("rnk", "grade", "surprise", "rarity", "relative_rarity", "popularity_rank"),
        *("n_items", "same_category_above", "cosine_above"),
    ),
    "labels": ("grade",),
    "query": (),
}
"""Relation -> the columns that the SQL may read by themselves."""

OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "gain": ("gain",),
    "discount": ("discount",),
    "term": ("gain", "discount", "rounding"),
}
"""Name of `m` -> the options that decide it, which the header has to name."""

_MAY_BE_THERE = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Getattr, nodes.Call),
    *(nodes.Keyword, nodes.Const, nodes.Concat, nodes.Macro, nodes.If, nodes.CondExpr),
    *(nodes.Compare, nodes.Operand, nodes.Not, nodes.And, nodes.Or),
)
_NAMES = re.compile(r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)?", re.IGNORECASE)
_PLAIN = re.compile(r"[\w.]+|\w+\([\w., ]*\)")
_STAND_IN = "yours_"


def read_template(text: str) -> tuple[str, ...]:
    """The macros of a template, once all that is in it may be there.

    Raises:
        ValueError: If it cannot be read, or holds what it may not.
    """
    try:
        tree = _environment().parse(text)
        _check(tree, 0)
    except TemplateError as error:
        raise ValueError(f"line {getattr(error, 'lineno', 1)}: {error.message}") from None
    except RecursionError:
        raise ValueError("its template is nested too deeply") from None
    macros = tuple(node.name for node in tree.body if isinstance(node, nodes.Macro))
    if not macros:
        return ()
    beside = [
        part
        for node in tree.body
        for part in ([node] if not isinstance(node, nodes.Output) else node.nodes)
        if not isinstance(node, nodes.Macro)
        and not (isinstance(part, nodes.TemplateData) and not part.data.strip())
    ]
    if sorted(macros) != sorted(RATIO) or beside:
        raise ValueError(
            "its template must be one expression, or the macros numerator and denominator and "
            f"nothing else; given the macros {shortened(', '.join(macros), 100)}"
        )
    return macros


def rendered(metric: Metric, part: str, view: Any) -> str:
    """The SQL of a metric's value, or of a macro.

    Args:
        metric: The metric, of a file.
        part: `value`, or the macro.
        view: What its template sees, as the package's own do.

    Raises:
        SpecError: If it is not one expression over what the metric was given.
    """
    from sqlmetrics.sql.one_expression import one_expression

    names = set(COLUMNS[metric.over])
    m = _View(view, names)
    template = _compiled(metric.template)
    try:
        module = template.make_module({"m": m})
        text = str(getattr(module, part)(m)) if metric.macros else str(module)
        over_rows = metric.over != "query"
        renamed = frozenset(metric.named_columns.items())
        functions = frozenset(metric.functions)
        return one_expression(
            text.strip(), frozenset(names), renamed, functions, over_rows=over_rows
        )
    except (TemplateError, ValueError, TypeError, RecursionError) as error:
        raise SpecError(f"{metric.file}: {shortened(str(error), 600)}") from None


class _View:
    """What a template has as `m`: the names that are public, its parameters and its parts.

    Args:
        view: All that the package's own templates have.
        names: Names in the SQL that is handed out are added to these.
    """

    def __init__(self, view: Any, names: set[str]) -> None:
        self._view, self._names = view, names

    def __getattr__(self, name: str) -> Any:
        metric = self._view.measure.metric
        words = WORDS[metric.over]
        if missing := [o for o in OPTIONS_OF.get(name, ()) if o not in metric.options]:
            raise ValueError(f'm.{name} needs options = ["{missing[0]}"] in the header')
        if name in metric.named_columns:
            return name
        if name in metric.parameters or name in metric.parts or name in words:
            value = getattr(self._view, name)
            if callable(value):
                return _called(value, self._names)
            self._names.update(found.casefold() for found in _NAMES.findall(str(value)))
            return value
        known_names = [
            f"m.{word}"
            for word in (*words, *metric.parameters, *metric.parts, *metric.named_columns)
        ]
        raise ValueError(unknown("name", f"m.{name}", known_names))


def _called(method: Callable[..., str], names: set[str]) -> Callable[..., str]:
    """A method of the view; names in its own SQL are added, not those in what it is given."""

    def call(*values: object) -> str:
        texts = [number(v) if isinstance(v, int | float) else str(v) for v in values]
        stand_ins = [f"{_STAND_IN}{index}" for index in range(len(texts))]
        is_name = method.__name__ == "decayed"
        own_text = method(*(texts if is_name else stand_ins))
        names.update(name.casefold() for name in _NAMES.findall(own_text) if name not in stand_ins)
        if method.__name__ in ("in_top", "in_hits", "in_relevant", "first_hit"):
            first, *others = texts
            return method(first, *map(_in_parentheses, others))
        return method(*map(_in_parentheses, texts))

    return call


def _in_parentheses(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f"({text})"


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


@cache
def _compiled(text: str) -> Any:
    """A template that was read already."""
    return _environment().from_string(text)


def _check(node: Node, depth: int) -> None:
    """Raise ValueError for what may not be in a template."""
    if problem := _problem(node):
        raise ValueError(f"line {node.lineno}: {problem}")
    depth += isinstance(node, nodes.Call)
    if depth > DEEPEST:
        raise ValueError(f"line {node.lineno}: names of m are nested more than {DEEPEST} deep")
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Macro) and not isinstance(node, nodes.Template):
            raise ValueError(f"line {child.lineno}: a macro must be at the top level")
        is_member = isinstance(child, nodes.Name) and isinstance(node, nodes.Getattr)
        if isinstance(child, nodes.Name) and not is_member and child.ctx == "load":
            raise ValueError(f"line {child.lineno}: write names as m.name; given {child.name!r}")
        _check(child, depth)


def _problem(node: Node) -> str:
    """What is wrong with a part of a template; empty if nothing is."""
    if not isinstance(node, _MAY_BE_THERE):
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
        return f"{kind!r} is not for metric files: they have SQL, m.name, ~ and {{% if %}}"
    looks = _LOOKS.get(type(node))
    return looks(node) if looks else ""


def _of_name(node: Node) -> str:
    unknown_name = shortened(node.name, 60)
    return "" if node.name == "m" else f"unknown name {unknown_name!r}; a metric file has m alone"


def _of_member(node: Node) -> str:
    is_public = isinstance(node.node, nodes.Name) and not node.attr.startswith("_")
    return "" if is_public else f"{shortened(node.attr, 60)!r} is no name of m"


def _of_call(node: Node) -> str:
    by_name = node.dyn_args or node.dyn_kwargs or node.kwargs
    if not isinstance(node.node, nodes.Getattr) or by_name:
        return "call names of m alone, with their values in order"
    return "" if node.args else f"m.{node.node.attr} needs a value"


def _of_macro(node: Node) -> str:
    return "a macro takes m alone" if node.defaults or len(node.args) != 1 else ""


def _of_constant(node: Node) -> str:
    is_plain = isinstance(node.value, str | int | float | None)
    return "" if is_plain else f"{node.value!r} is no text and no number"


_LOOKS: Mapping[type, Callable[[Node], str]] = {
    nodes.Name: _of_name,
    nodes.Getattr: _of_member,
    nodes.Call: _of_call,
    nodes.Macro: _of_macro,
    nodes.Const: _of_constant,
}
"""Parts that may be there in some forms only."""
