"""Metrics of the user's own: a folder of files, each what a template of the package is."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, name_problem
from sqlmetrics.catalog.metric import (
    AGE,
    COLUMN_KINDS,
    DAY,
    NO_FILES,
    Metric,
    build_metric,
    catalog,
    label_column,
    limits,
    query_column,
    split_header,
)
from sqlmetrics.catalog.option import is_number
from sqlmetrics.errors import SpecError, shortened, unknown
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import number

# A template of the user's own: what may be in it, what it sees, and its SQL.
#
# It is a stranger's text. Jinja runs it in its sandbox, but only after its syntax tree was read: no
# loops, no variables, no other templates, no names but `m`. What it gives must be one expression
# over
# the columns that it was given.

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
            self._names.update(column.casefold() for column in _NAMES.findall(str(value)))
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
        names.update(
            column.casefold() for column in _NAMES.findall(own_text) if column not in stand_ins
        )
        if method.__name__ in ("in_top", "in_hits", "in_relevant", "first_hit"):
            first, *rest = texts
            return method(first, *map(_in_parentheses, rest))
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


ENDING = ".sql.jinja"
PACKAGE = "package:"
GROUP = "sqlmetrics.metrics"
"""The group of entry points by which packages bring metrics along."""
LARGEST = 20_000
"""So many bytes a file has at most."""
MOST_FILES = 200
MOST_EXAMPLES = 50

DEFAULTS: Mapping[str, Any] = {
    "range": "any number",
    "better": "none",
    "unit": "",
    "cutoff": "optional",
    "source": "a file of your own",
    "options": [],
    "parameters": {},
    "limits": {},
    "parts": {},
    "items": {},
    "labels": {},
    "queries": {},
    "functions": {},
    "needs": [],
    "undefined": "never",
    "micro": False,
    "count": False,
    "listed": True,
}
"""What a header need not say, with what holds then."""

REQUIRED: Mapping[str, str] = {
    "formula": 'formula = "..."',
    "over": 'over = "ranked"',
    "examples": "[[examples]] with list, labels, k and the value worked out",
}
"""What a header must say -> how it is written."""
KEYS = ("title", "empty", *REQUIRED, *DEFAULTS)
CHOICES: Mapping[str, Sequence[str]] = {
    "over": tuple(WORDS),
    "better": ("higher", "lower", "none"),
    "cutoff": ("required", "optional", "none"),
    "unit": ("", "share", "rank", "count", "bits"),
    "undefined": ("never", "zero", "skip", "no_relevant"),
}
TABLES: Mapping[str, Sequence[str]] = {
    "items": ("item_features",),
    "labels": ("ranked", "labels", "ideal", "item_features"),
    "queries": tuple(WORDS),
}
"""Tables whose columns a header names -> the relations that have them."""
NEEDS = ("items", "items.category", "items.popularity", "items.users", "items.vector")
METRIC_OPTIONS = ("gain", "discount", "rounding", "ideal")
EMPTY = {
    "never": "an empty list gives 0",
    "zero": "0 where it is undefined",
    "skip": "undefined, and left out of the mean, for an empty list",
    "no_relevant": "undefined for a query without relevant labels (option no_relevant)",
}
EXAMPLE_KEYS = ("list", "labels", "items", "query", "k", "value", "why")


class MetricFiles:
    """Metrics of the user's own.

    Args:
        paths: The files and folders that they were read from.
        metrics: Name -> metric.
    """

    def __init__(
        self, paths: tuple[str, ...] = (), metrics: Mapping[str, Metric] = NO_FILES
    ) -> None:
        self.paths = paths
        self.metrics = dict(metrics)

    @classmethod
    def read(cls, paths: object) -> MetricFiles:
        """The metrics of folders and files.

        Args:
            paths: A folder, whose files end in `.sql.jinja`; a file; `package:NAME` for the
                folder of an installed package; or several of these.

        Raises:
            SpecError: With all that is wrong with the files.
        """
        if isinstance(paths, MetricFiles):
            return paths
        if isinstance(paths, str | os.PathLike):
            paths = [paths]
        if not isinstance(paths, list | tuple) or not all(
            isinstance(path, str | os.PathLike) for path in paths
        ):
            raise SpecError(f"metrics_from must be a folder, or a list of folders; given {paths!r}")
        metrics: dict[str, Metric] = {}
        problems: list[str] = []
        for file in [file for path in paths for file in _files(_placed(str(path)))]:
            try:
                metric = read_metric_file(file)
            except SpecError as error:
                problems += error.problems
                continue
            other = metrics.setdefault(metric.name, metric)
            if other.template != metric.template or other != metric:
                problems.append(f"{other.file} and {file} are different metrics of one name")
        if problems:
            raise SpecError(problems)
        return cls(tuple(str(path) for path in paths), _with_parts(metrics))

    @classmethod
    def of(cls, measure: Measure) -> MetricFiles:
        """The files that a metric, or a formula over metrics, is made of."""
        metrics = [part.metric for part in measure.components if part.metric.template]
        return cls(metrics={metric.name: metric for metric in metrics})


def read_metric_file(file: Path) -> Metric:
    """The metric of a file.

    Raises:
        SpecError: If it is none.
    """
    name = file.name.removesuffix(ENDING)
    try:
        text = _text(file)
        header, template = split_header(text)
        problems = [*filter(None, [name_problem(name)]), *_problems(header)]
        lines_above = text.count("\n") - template.count("\n")
        macros = read_template("\n" * lines_above + template)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{file}: it cannot be read: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(
            f'{file}: its header is not TOML: {error}; texts stand in quotes, like over = "ranked"'
        ) from None
    except ValueError as error:
        raise SpecError(f"{file}: {error}") from None
    if macros and header.get("over") != "query":
        problems.append('macros numerator and denominator need over = "query"')
    if header.get("micro") and not macros:
        problems.append("micro is for a ratio: write macros numerator and denominator")
    if header.get("functions") and not problems:
        problems = [*_distrust(file.parent, header["functions"])]
    if problems:
        raise SpecError([f"{file}: {problem}" for problem in problems])
    return _metric(name, header, template, macros, file)


def _metric(
    name: str, header: Mapping[str, Any], template: str, macros: tuple[str, ...], file: Path
) -> Metric:
    """The metric of a header, with what it need not say."""
    values = {
        "title": name.replace("_", " ").capitalize(),
        "empty": EMPTY[header.get("undefined", "never")],
        **DEFAULTS,
        **header,
    }
    of_items, of_labels, of_queries = (
        {column.casefold(): f"{kind}_{column}" for column, kind in values.pop(table).items()}
        for table in TABLES
    )
    values["needs"] = [
        *values["needs"],
        *(f"items.{role}" for role in of_items.values()),
        *(f"labels.{role}" for role in of_labels.values()),
        *(f"{'day' if name == DAY else 'queries'}.{role}" for name, role in of_queries.items()),
    ]
    values["functions"] = {name: (*words,) for name, words in values["functions"].items()}
    if values["over"] == "item_features" and not any(n[:5] == "items" for n in values["needs"]):
        values["needs"].append("items")
    if values["over"].startswith("ideal"):  # gains decide what is best
        values["options"] = [*dict.fromkeys([*values["options"], "gain"])]
    metric = build_metric(name, values, macros)
    is_list = metric.over == "ranked"
    return replace(
        metric,
        template=template,
        file=str(file),
        every_item=is_list,
        named_columns={
            **of_items,
            **{name: label_column(role) for name, role in of_labels.items()},
            **{name: query_column(role) for name, role in of_queries.items()},
        },
    )


def _distrust(folder: Path, functions: Mapping[str, Any]) -> Iterator[str]:
    """Why functions of a file's own may not be called; nothing if its folder is trusted."""
    from sqlmetrics.engines.profiles import TRUSTED, is_trusted

    if not is_trusted(folder):
        yield (
            f"it calls {shortened(', '.join(functions), 60)}, and a function of a database can "
            f"read files; set {TRUSTED}={shlex.quote(os.path.realpath(folder))} if you trust the "
            "folder"
        )


def _text(file: Path) -> str:
    size = file.stat().st_size
    if size > LARGEST:
        raise ValueError(f"it has {size:,} bytes; a metric file has at most {LARGEST:,}")
    text = file.read_text(encoding="utf-8")
    if not text.startswith("{#") or "#}" not in text:
        raise ValueError(
            "it must begin with its header, between {# and #}; sqlmetrics metric new writes one"
        )
    return text


def _placed(path: str) -> Path:
    """A path; of `package:NAME` the folder of the package that an entry point of NAME names."""
    if not path.startswith(PACKAGE):
        return Path(path)
    entry_points = metadata.entry_points(group=GROUP)
    modules = {entry_point.name: entry_point.module for entry_point in entry_points}
    name = path.removeprefix(PACKAGE)
    if name not in modules:
        known_names = unknown("package", name, modules) if modules else f"no package {name!r}"
        raise SpecError(f"metrics_from: {known_names}; packages have an entry point of {GROUP}")
    try:
        module = find_spec(modules[name])  # its code is not run, as far as it is no subpackage
    except ImportError:
        module = None
    folders = module.submodule_search_locations if module else None
    if not folders:
        raise SpecError(f"metrics_from: {path}: {modules[name]} is not a package with files")
    return Path(folders[0])


def _files(path: Path) -> Iterator[Path]:
    """The metric files of a folder, or the file itself."""
    if path.is_file():
        if not path.name.endswith(ENDING):
            raise SpecError(f"metrics_from: {str(path)!r} does not end in {ENDING}")
        yield path
        return
    if not path.is_dir():
        raise SpecError(f"metrics_from: there is no folder {str(path)!r}")
    files = sorted(file for file in path.iterdir() if file.name.endswith(ENDING) and file.is_file())
    if not files:
        raise SpecError(
            f"metrics_from: no file in {str(path)!r} ends in {ENDING}; "
            f"sqlmetrics metric new NAME --folder {path} writes one"
        )
    if len(files) > MOST_FILES:
        raise SpecError(
            f"metrics_from: {str(path)!r} has {len(files):,} files; the most are {MOST_FILES}"
        )
    yield from files


def _with_parts(metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    """The metrics with those of their parts that are files too."""
    problems = []
    complete = {}
    for metric in metrics.values():
        names = [*dict.fromkeys(part.partition("@")[0] for part in metric.parts.values())]
        needs, functions = dict.fromkeys(metric.needs), dict(metric.functions)
        part_metrics = {name: metrics[name] for name in names if name in metrics}
        for name in names:
            part = part_metrics.get(name) or catalog().get(name)
            if part is None:
                problems.append(
                    f"{metric.file}: parts: {unknown('metric', name, [*catalog(), *metrics])}"
                )
            elif part.ratio:
                problems.append(
                    f"{metric.file}: parts: {name} is a ratio; name the sums that it is made of, "
                    f"or write a formula in the spec: my_metric = 0.5 * {name} + ..."
                )
            elif part.pooled or (part.parts and name in metrics) or part.over == "metrics":
                problems.append(f"{metric.file}: {name} can be no part: it has no sum of its own")
            else:
                needs |= dict.fromkeys(part.needs)
                functions |= part.functions
        complete[metric.name] = replace(
            metric, part_metrics=part_metrics, needs=(*needs,), functions=functions
        )
    if problems:
        raise SpecError(problems)
    return complete


def _problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a header."""
    yield from (unknown("key", shortened(key, 60), KEYS) for key in header if key not in KEYS)
    for key, example in REQUIRED.items():
        if key not in header:
            yield f"its header has no {key}; write {example}"
    wrong = [key for key in header if key in KEYS and not isinstance(header[key], _kind(key))]
    for key in wrong:
        yield f"{key} must be a {_KINDS[_kind(key)]}, given {_repr(header[key])}"
    if wrong:
        return
    for key, choices in CHOICES.items():
        if key in header and header[key] not in choices:
            yield f"{key}: {unknown('value', shortened(header[key], 60), choices)}"
    for key, names in (("options", METRIC_OPTIONS), ("needs", NEEDS)):
        unknown_names = [name for name in header.get(key, ()) if name not in names]
        yield from (f"{key}: {unknown('name', name, names)}" for name in unknown_names)
    yield from _number_problems(header)
    yield from _part_problems(header)
    yield from _column_problems(header)
    yield from _function_problems(header)
    yield from _example_problems(header)


def _kind(key: str) -> type:
    """What a key of the header holds."""
    return list if key == "examples" else type(DEFAULTS.get(key, ""))


_KINDS = {str: "text", list: "list", dict: "table", bool: "true or false"}


def _number_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the range and the parameters."""
    try:
        limits(header.get("range", "any number"))
    except ValueError:
        range_text = _repr(header["range"])
        yield f"range must be like '0 to 1', '0 or more' or 'any number', given {range_text}"
    parameters = header.get("parameters", {})
    for name, value in parameters.items():
        if name in OPTIONS or not name.isidentifier() or not is_number(value):
            yield f"parameters: {_repr(name)} must be a name of your own with a number"
    for name in header.get("limits", {}):
        if name not in parameters:
            yield f"limits: {unknown('parameter', name, parameters)}"


def _part_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the names of the parts."""
    parts, reserved_names = header.get("parts", {}), {*header.get("parameters", {}), "k"}
    for name, part in parts.items():
        if not name.isidentifier() or not isinstance(part, str) or name in reserved_names:
            yield f"parts: {_repr(name)} must be a name of your own for a metric"
    if parts and header.get("over") != "query":
        yield 'parts are for over = "query": arithmetic over other metrics'


def _column_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the columns of the items, the labels and the queries."""
    over = header.get("over", "")
    named = [(table, *pair) for table in TABLES for pair in header.get(table, {}).items()]
    names = [*COLUMNS.get(over, ()), *(name for _, name, _ in named)]
    for table, column, kind in named:
        if names.count(column) > 1:
            yield f"{table}: {_repr(column)} is the name of another column of the SQL"
        elif not re.fullmatch(r"[a-z_]\w*", column, re.ASCII):
            yield (
                f"{table}: {_repr(column)} must begin with a small letter and have no marks or "
                f"accents; select the column by such a name in the sql of the {table}"
            )
        elif kind not in (kinds := (*COLUMN_KINDS, *[AGE] * (table == "items"))):
            yield f"{table}: {column}: {unknown('kind', kind, kinds)}"
        elif over not in TABLES[table]:
            yield f"{table} are for over = {' or '.join(map(repr, TABLES[table]))}"


def _function_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the functions that some databases have."""
    if not header.get("functions"):
        return
    from sqlmetrics.sql.one_expression import EVERYWHERE  # which takes time to import

    for name, dialects in header["functions"].items():
        if not re.fullmatch(r"[a-zA-Z_]\w*", name, re.ASCII):
            yield f"functions: {_repr(name)} must be the plain name of a function"
        elif name.casefold() in EVERYWHERE:
            yield f"functions: {name} is the same on every database; leave it out"
        elif not (isinstance(dialects, list) and dialects):
            example = next(iter(DIALECTS))
            yield f'functions: {name}: give the databases that have it, like ["{example}"]'
        else:
            unknown_names = [dialect for dialect in dialects if dialect not in DIALECTS]
            yield from (
                f"functions: {name}: {unknown('dialect', shortened(str(dialect), 60), DIALECTS)}"
                for dialect in unknown_names
            )


def _example_problems(header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the examples: there must be one, and each must be whole."""
    examples = header.get("examples")
    if examples is None:
        return
    if not 0 < len(examples) <= MOST_EXAMPLES:
        yield f"give 1 to {MOST_EXAMPLES} [[examples]]: a list, its labels and the value worked out"
    for n, example in enumerate(examples, start=1):
        is_table = isinstance(example, Mapping)
        problems = _wrong_example(example, header) if is_table else ["write it as [[examples]]"]
        yield from (f"example {n}: {problem}" for problem in problems)


def _wrong_example(example: Mapping[str, Any], header: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one example."""
    known_keys = (*EXAMPLE_KEYS, *header.get("parameters", {}), *header.get("options", ()))
    yield from (unknown("key", key, known_keys) for key in example if key not in known_keys)
    items, labels = example.get("list"), example.get("labels", {})
    if not isinstance(items, list) or len({*map(str, items)}) < len(items):
        yield "list must name each item once, best first"
    grades = [*map(grade_of, labels.values())] if isinstance(labels, Mapping) else [None]
    if not all(map(is_number, grades)):
        yield "labels must be items with their grades, like {a = 3, b = {grade = 1, revenue = 9}}"
    query, known_columns = example.get("query", {}), header.get("queries", {})
    if not isinstance(query, Mapping):
        yield f"query must be what is known of it, like {{market = 'de'}}; given {_repr(query)}"
    elif missing := [name for name in query if name not in {*known_columns, DAY}]:
        columns = f"{unknown('column', missing[0], known_columns)}; " if known_columns else ""
        yield f"query: {columns}name {shortened(missing[0], 60)!r} under [queries] in the header"
    k = example.get("k", 1)
    if not isinstance(k, int) or k < 1:
        yield f"k must be a whole number from 1, given {_repr(k)}"
    value = example.get("value")
    if not (is_number(value) or value == "none"):
        yield f'value must be the number worked out, or "none" where there is none; given {value!r}'
    if header.get("cutoff") == "required" and "k" not in example:
        yield "it needs k"


def grade_of(label: Any) -> Any:
    """The grade of a label in an example, which may be a table with columns beside it."""
    return label.get("grade") if isinstance(label, Mapping) else label


def _repr(value: object) -> str:
    return shortened(repr(value), 100)
