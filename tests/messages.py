"""The messages of the package and the heads of its tables, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from documentation import ROOT

PACKAGE = ROOT / "sqlmetrics"
NAMED = re.compile(
    r"problem|note|warning|remedy|reason|message|hint|advice|sentence|refus|doubt|obstacle|"
    r"lacks|wrong|unfit|_misfit|_unmet|explanation|LEGEND|MISSING"
)
"""What is called so holds a message, or returns one."""
SQL = re.compile(r"(?i)\b(select |insert into|create table|from \{\}|case when|cast\(|where \{\})")
NOT_PRINTED = ("docstring", "option", "argument", "Field", "Stage", "Column", "columns_stage")


class Message(NamedTuple):
    """A message, with names in braces for what is filled in.

    Attributes:
        room: The folder of the package.
        is_error: Whether it is raised, or is a problem of the input.
        text: The template.
    """

    room: str
    is_error: bool
    text: str


def template(node: ast.expr) -> str | None:
    """A text with placeholders; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [template(side) or f"{{{placeholder(side)}}}" for side in (node.left, node.right)]
        return "".join(sides) if any(map(template, (node.left, node.right))) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = (
        f"{{{placeholder(part.value)}}}" if isinstance(part, ast.FormattedValue) else template(part)
        for part in node.values
    )
    return "".join(part or "" for part in parts)


def placeholder(node: ast.expr) -> str:
    """The name of what is filled in: the last one in its expression that says something."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "many":
        nouns = [arg.value for arg in node.args[1:] if isinstance(arg, ast.Constant)]
        return f"n {nouns[-1]}" + "s" * (len(nouns) == 1) if nouns else "n"
    if isinstance(node, ast.Call) and node.args:
        return placeholder(node.args[0])
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Subscript):
        index = node.slice
        is_key = isinstance(index, ast.Constant) and isinstance(index.value, str)
        return str(index.value) if is_key else placeholder(node.value)
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    names = [placeholder(child) for child in ast.iter_child_nodes(node) if _has_name(child)]
    return next((name for name in names if name != "..."), "...")


def _has_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp)


def messages() -> list[Message]:
    """All of them, by room and in the order of the source, each once."""
    collected = dict[Message, None]()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for is_error, text in _texts(tree, is_message=False, is_error=False):
            collected[Message(room, is_error, " ".join(text.split()))] = None
    return list(collected)


def _texts(node: ast.AST, *, is_message: bool, is_error: bool) -> Iterator[tuple[bool, str]]:
    text = template(node) if isinstance(node, ast.expr) else None
    if text is not None:
        if is_message and _is_prose(text):
            yield is_error, text
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    name = _name(node)
    if name in NOT_PRINTED:
        return
    if name == "Problem" or name.endswith("Error"):
        is_message = is_error = True
    elif NAMED.search(name):
        is_message = True
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, is_message=is_message, is_error=is_error)


def _name(node: ast.AST) -> str:
    """What a function, a call, a keyword or the target of an assignment is called."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2]
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.keyword):
        return node.arg or ""
    if isinstance(node, ast.Assign):
        return " ".join(ast.unparse(target) for target in node.targets)
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return ast.unparse(node.target)
    return ""


def _is_prose(text: str) -> bool:
    words = re.findall(r"\b[a-z]{2,}\b", re.sub(r"\{[^}]*\}", "{}", text))
    return len(words) >= 3 and not SQL.search(text)


def page(head: str) -> str:
    """The page of all messages, by room."""
    parts, collected = [head], messages()
    for room in dict.fromkeys(message.room for message in collected):
        of_room = [message for message in collected if message.room == room]
        for title, is_error in (("errors", True), ("notes and warnings", False)):
            texts = [message.text for message in of_room if message.is_error == is_error]
            if texts:
                items = "\n".join(f"- `{text.replace('`', chr(39))}`" for text in texts)
                parts.append(f"## {room}: {title}\n\n{items}\n")
    return "\n".join(parts)


def heads() -> dict[str, list[str]]:
    """The head of a column of a printed table -> the modules that print it."""
    collected: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in _heads_of(tree):
            collected.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    return collected


def _heads_of(tree: ast.Module) -> Iterator[str]:
    """A list belongs to the function that names it, or to the module."""
    of_module = _lists(tree.body)
    for function in _functions(tree.body):
        nodes = [*ast.walk(function)]
        calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
        tables = [call.args[0] for call in calls if _name(call) in ("Table", "_fitted")]
        lists = of_module | _lists(nodes) if tables else {}
        for first in tables:
            sources = lists.get(first.id, []) if isinstance(first, ast.Name) else [first]
            yield from _constants(sources)


def _functions(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)


def _lists(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    lists: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(node.value, ast.List):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                lists.setdefault(ast.unparse(target), []).append(node.value)
    return lists


def _constants(sources: Sequence[ast.expr]) -> Iterator[str]:
    for source in sources:
        elements = source.elts if isinstance(source, ast.List | ast.Tuple) else []
        for element in elements:
            if isinstance(element, ast.Constant) and element.value:
                yield str(element.value)
