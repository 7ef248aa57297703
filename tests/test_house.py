"""The house: nineteen rooms, imports that run one way, and docs that know public names alone."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name

import pytest
from mutants import stale

import sqlmetrics as sm
from sqlmetrics.engines.registry import ENGINES, SCHEMES
from sqlmetrics.sql.dialects import DIALECTS

pytestmark = pytest.mark.xdist_group("house")  # one worker, which reads the package once

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sqlmetrics"
FLOORS = (
    {"errors"},
    {"stats", "tables"},
    {"sql"},
    {"engines"},
    {"catalog"},
    {"spec"},
    {"plan"},
    {"evaluation"},
    {"annotation", "clicks", "proof"},
    {"jobs"},
    {"comparison"},
    {"agreement", "fusion"},
    {"api"},
    {"assistants"},
    {"cli"},
)
"""The rooms from the ground up: a room imports those below it, and none beside it."""
LONGEST = 19
"""As many rooms the picture may have, with those that are no package of their own; the last
five are `stats`, which four rooms spelled out before, `tables`, which six places did,
`assistants`, which asks of all of them what the command line does, `fusion`, which makes
rankings and compares them, and `agreement`, which asks what its labels do to both."""
CROWD = 32
"""As many modules a room may have that are not in a folder of their own."""


@cache
def imports() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports as it is loaded."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    return {
        name: {
            imported
            for imported in _imports(ast.parse(path.read_text()).body, {*files})
            if imported != name
        }
        for name, path in files.items()
    }


def _imports(body: list[ast.stmt], files: set[str]) -> Iterator[str]:
    for node in body:
        if (isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test)) or isinstance(
            node, ast.Try | ast.With
        ):
            yield from _imports(node.body, files)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & files or {str(node.module)} & files
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & files


@cache
def syntax() -> dict[Path, list[ast.AST]]:
    """File of the package -> what is written there, but for docstrings; read once for all tests."""
    return {
        file: list(_without_docstrings(ast.parse(file.read_text())))
        for file in PACKAGE.rglob("*.py")
    }


def room(module: str) -> str:
    """The room of a module; the package itself stands outside the house."""
    return module.split(".")[1] if "." in module else ""


def test_every_module_has_a_room() -> None:
    entries = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    rooms = set.union(*FLOORS)
    assert entries - {"__init__", "__main__", "py"} == rooms
    assert len(rooms) <= LONGEST
    assert rooms & {*sm.__all__} == {"clicks"}, "a module would stand where the public name is"
    tested = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert tested - {"snowflake", "schedulers", "stack"} <= rooms, "tests have the same rooms"


def test_no_room_is_a_crowd() -> None:
    """Who looks for something reads the names of a folder: there are not too many of them."""
    folders = [folder for folder in PACKAGE.rglob("*") if folder.is_dir()]
    crowds = {str(folder.relative_to(PACKAGE)): len([*folder.glob("*.py")]) for folder in folders}
    assert {name: number for name, number in crowds.items() if number > CROWD} == {}


def test_imports_run_one_way() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    up = [
        f"{module} imports {other}"
        for module, imported in imports().items()
        for other in imported
        if room(module) != room(other) and room(module) in floor and room(other) in floor
        if floor[room(module)] <= floor[room(other)]
    ]
    assert up == []


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    """Drawn anew with UPDATE_GOLDEN=1; what a room imports by way of another has no arrow."""
    below: dict[str, set[str]] = {name: set() for floor in FLOORS for name in floor}
    for name in below:
        files = [PACKAGE / f"{name}.py", *(PACKAGE / name).rglob("*.py")]
        texts = [file.read_text() for file in files if file.is_file()]
        used = re.findall(r"^ *from sqlmetrics(?:\.| import )(\w+)", "\n".join(texts), re.MULTILINE)
        below[name] = {*used} & {*below} - {name}
    reached: dict[str, set[str]] = {}
    for name in TopologicalSorter(below).static_order():
        reached[name] = below[name].union(*(reached[other] for other in below[name]))
    arrows = [
        f"    {name} --> {other}"
        for name in sorted(below)
        for other in sorted(below[name])
        if not any(other in reached[third] for third in below[name] - {other})
    ]
    picture = "\n".join(["```mermaid", "graph TD", *arrows, "```"])
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    (current,) = re.findall(r"^```mermaid\n.*?^```$", text, re.DOTALL | re.MULTILINE)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        page.write_text(text.replace(current, picture), encoding="utf-8")
    else:
        assert current == picture


def test_folders_in_a_room_know_one_another_one_way() -> None:
    """A folder stands for all that is in it; a file of a room itself for its own.

    But for an evaluation, whose checks are asked while its tables are opened.
    """
    above: dict[str, set[str]] = {}
    for module, imported in imports().items():
        if room(module) != "evaluation":
            above.setdefault(_folder(module), set()).update(map(_folder, imported - {module}))
    TopologicalSorter({name: imported - {name} for name, imported in above.items()}).prepare()


def _folder(module: str) -> str:
    """The folder of a module in a room, `sqlmetrics.room.folder`; of another one itself."""
    path = Path(*module.split("."))
    inside = path if (ROOT / path).is_dir() else path.parent
    return ".".join(inside.parts[:3]) if len(inside.parts) > 2 else module


def test_no_module_imports_itself_by_others() -> None:
    TopologicalSorter(imports()).prepare()  # raises CycleError with the modules


def test_no_module_is_left_alone() -> None:
    """Each is imported, or named by another one that loads it: a merge leaves none behind."""
    texts = {file.relative_to(ROOT).as_posix(): file.read_text() for file in PACKAGE.rglob("*.py")}
    alone = {*imports()}.difference(*imports().values())
    unread = []
    for module in alone:
        *_, folder, name = module.split(".")
        own_file = f"{module.replace('.', '/')}.py"
        loaded = re.compile(  # in a function, or by its name in a text, which may go on
            rf"\b{folder}\.{name}\b|\b{folder} import .*\b{name}\b|[\"']{name}[\"'.]"
        )
        other_texts = (text for file, text in texts.items() if file != own_file and name in text)
        if own_file in texts and not any(loaded.search(text) for text in other_texts):
            unread.append(module)
    assert unread == ["sqlmetrics.__main__"]


def test_the_map_of_contributing_has_each_room_in_its_own_words() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)/?` \| (.+) \|$", page, re.M))
    docstrings = {path.parent.name: _first_line(path) for path in PACKAGE.glob("*/__init__.py")}
    docstrings |= {name: _first_line(PACKAGE / f"{name}.py") for name in ("api", "errors")}
    assert {name: documented.get(name) for name in docstrings} == docstrings
    order = [name for name in documented if name in docstrings]
    floors = [next(n for n, names in enumerate(FLOORS) if name in names) for name in order]
    assert all(above >= below for above, below in pairwise(floors))


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0].rstrip(".")


def test_modules_that_are_named_in_words_exist() -> None:
    """Docstrings and pages tell where something stands; a page may name a setting of a spec too."""
    rooms = "|".join({name.split(".")[1] for name in imports() if "." in name})
    named = re.compile(rf"`(?:sqlmetrics\.)?((?:{rooms})(?:\.\w+)+)")
    settings = {*re.findall(r"`([\w.]+)`", (ROOT / "docs" / "spec-keys.md").read_text())}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    code = [*PACKAGE.rglob("*.py"), *ROOT.glob("benchmarks/**/*.py")]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in [*pages, *code]
        for name in named.findall(path.read_text())
        if not ((path.suffix == ".md" and name in settings) or _exists(name))
    ]
    assert wrong == []
    files = {path.name for path in ROOT.glob("*/**/*.py")}
    described = [*code, *ROOT.glob("docs/adr/*.md")]
    assert {
        name for path in described for name in re.findall(r"`(\w+\.py)`", path.read_text())
    } <= files


def _exists(name: str) -> bool:
    """Whether a dotted name below the package is a module, or what stands in one."""
    try:
        resolve_name(f"sqlmetrics.{name}")
    except (ImportError, AttributeError):
        return False
    return True


def test_docs_and_examples_import_public_names_alone() -> None:
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py"), ROOT / "README.md"]
    deep = [
        f"{path.name}: {line}"
        for path in texts
        for line in re.findall(r"^ *(?:from|import) sqlmetrics\.\S*.*$", path.read_text(), re.M)
    ]
    assert deep == []
    used = {name for path in texts for name in re.findall(r"\bsm\.(\w+)", path.read_text())}
    assert used <= {*sm.__all__}


def test_names_of_modules_are_nouns_or_verbs() -> None:
    """No bare past participle and no preposition: a reader shall know what is in it."""
    bare = re.compile(
        r"(?!need|embed|feed)[a-z]+ed|told|found|seen|shown|held|chosen|made|beside|abreast"
    )
    assert [name for name in imports() if bare.fullmatch(name.rpartition(".")[2])] == []


VAGUE = re.compile(
    "one|found|own|told|given|known|asked|there|shown|made|whole|both|each|more|others|place|said"
    "|left|done|seen|drawn|what|how|here|worth|asks|tells|holds"
)
"""Words that could name anything: a variable is called what it holds."""


@pytest.mark.parametrize("folder", ["sqlmetrics", "benchmarks", "tests"])
def test_names_say_what_they_hold(folder: str) -> None:
    """At most one vague name per 1,000 lines of code: variables, parameters, functions, classes."""
    vague, n_lines = [], 0
    for file in (ROOT / folder).rglob("*.py"):
        nodes = syntax().get(file) or list(_without_docstrings(ast.parse(file.read_text())))
        n_lines += len({node.lineno for node in nodes if hasattr(node, "lineno")})
        for node in nodes:
            match node:
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.arg(arg=name)
                    | ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                ) if VAGUE.fullmatch(name.strip("_").casefold()):
                    vague.append(f"{file.relative_to(ROOT)}:{node.lineno}: {name}")
    assert n_lines, "the count counts nothing"
    assert 1000 * len(vague) / n_lines <= 1, vague


USUAL_ALIASES = {"ET", "np", "pa", "pc", "pd", "pl", "pq"}
"""Names that everybody gives these libraries."""


def test_no_import_has_an_alias() -> None:
    """Two things that share a name are called by what sets them apart, where they are defined."""
    aliases = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {alias.name} as {alias.asname}"
        for file, nodes in syntax().items()
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.asname and alias.asname not in USUAL_ALIASES
    ]
    assert aliases == []


def test_mutants_that_change_nothing_are_of_lines_that_exist() -> None:
    assert stale(ROOT / "templates") == []


VAGUE_IN_SQL = (
    rf"({VAGUE.pattern}|is_there|n_there|ours|theirs|their_\w+|nothing|one_row|some_rows)"
)
NAMED_IN_SQL = re.compile(
    rf"\bas {VAGUE_IN_SQL}\b|\blambda {VAGUE_IN_SQL}\b|{{%-? *(?:for|set) {VAGUE_IN_SQL}\b"
)
"""An alias, a variable of a lambda or of a template, that says nothing."""


def test_sql_names_say_what_they_hold() -> None:
    """No alias, stage's column or variable of a template is called by a vague name."""
    texts = {
        file: re.sub(r"--.*|{#.*?#}", "", file.read_text())
        for file in (ROOT / "templates").rglob("*.jinja")
    }
    for file, nodes in syntax().items():
        selects = [
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and re.search(r"\b(select|over) ", str(node.value))
        ]
        columns = [
            f" as {node.args[1].value}"
            for node in nodes
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) == "Column"
            and isinstance(node.args[1], ast.Constant)
        ]
        texts[file] = "\n".join([*map(str, selects), *columns])
    vague = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file, text in texts.items()
        for match in NAMED_IN_SQL.finditer(text)
    ]
    assert vague == []


def test_what_benchmarks_and_examples_import_is_there() -> None:
    """They run by turns, so that a name that went away would be missed for long."""
    imported = {
        f"from {node.module} import {alias.name}"
        for folder in ("benchmarks", "examples")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sqlmetrics")
        for alias in node.names
    }
    assert len(imported) > 20
    for statement in imported:
        exec(statement, {})


def test_tests_take_what_they_share_from_helpers() -> None:
    """A test module is imported by none: what two of them need is a module of its own."""
    files = [file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    from_tests = re.compile(r"^ *(?:from|import) (?:\w+\.)*test_\w+", re.MULTILINE)
    imports = {file: from_tests.findall(file.read_text()) for file in files}
    assert len(files) > 100
    assert not {file: lines for file, lines in imports.items() if lines}


def test_dialects_are_named_in_sql_and_engines_alone() -> None:
    """All that a database is stands in its row and its driver: others ask these.

    Files for other tools name databases by the words of these tools.
    """
    exempt = ("sql", "engines", "jobs/exports")
    named = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {name}"
        for file, nodes in syntax().items()
        if not file.relative_to(PACKAGE).as_posix().startswith(exempt)
        for node in nodes
        for name in sorted(_dialects_in(node, is_message="cli" in file.parts))
    ]
    assert named == []


NAMES = {*DIALECTS, *SCHEMES, *(engine.module for engine in ENGINES)}
DRIVERS = {f"sqlmetrics.engines.{engine.module}" for engine in ENGINES}
DRIVERS |= {home.split(".")[0] for engine in ENGINES for home in engine.objects} - {"google"}
WORD = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(NAMES))})(?![\w:])")
"""A dialect in a text: not the ending of a file, nor the scheme of a URL."""


def _dialects_in(node: ast.AST, *, is_message: bool) -> set[str]:
    """The dialects and drivers that a node names; in what people are told, as a whole text."""
    match node:
        case ast.Import(names=imported):
            return DRIVERS & {alias.name.split(".")[0] for alias in imported}
        case ast.ImportFrom(module=module):
            return DRIVERS & {str(module), str(module).split(".")[0]}
        case ast.Constant(value=str(text)):
            return NAMES & {text} if is_message else {*WORD.findall(text)}
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return NAMES & {*name.casefold().split("_")}
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name != "to_spark":
            return NAMES & {*name.casefold().split("_")}
    return set()


def _without_docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but the texts that stand by themselves: docstrings, of attributes too."""
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield child
            yield from _without_docstrings(child)
