"""A metric as it is asked for: the texts that name it, its settings, cutoff and column."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.arithmetic import NAMED, read_formula
from sqlmetrics.catalog.conventions import OPTIONS, problems_of, read
from sqlmetrics.catalog.metric import (
    DISCOUNTED,
    NO_FILES,
    OF,
    Metric,
    Parameter,
    at_cutoff,
    catalog,
    column_at_cutoff,
    listed,
    metric_of,
    spellings,
)
from sqlmetrics.catalog.online import ONLINE, function_named, of_column
from sqlmetrics.catalog.option import Choice, Value, is_number, plain
from sqlmetrics.catalog.tool_names import DOTTED, called_by_tools, whose
from sqlmetrics.errors import SpecError, nearest, shortened, unknown
from sqlmetrics.sql.dialects import is_reserved

Setting = Parameter | Value

GROUPS = {
    "candidates": (
        "ndcg(ideal=labels_at_k)",
        "ndcg(ideal=shown_at_k)",
        "dcg",
        "recall(recall_denominator=r)",
    ),
    "iprec_at_recall": tuple(f"iprec(recall={tenth / 10:g})" for tenth in range(11)),
}
"""Names for several metrics that say more side by side."""

WITH_SETTINGS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "err_ia": ("alpha_dcg", {"discount": "reciprocal"}),
    "nerr_ia": ("alpha_ndcg", {"discount": "reciprocal"}),
    "ncrr": ("ndcg", {"gain": "binary", "discount": "reciprocal"}),
    "gm_map": ("ap", {"average": "geometric"}),
    "gm_bpref": ("bpref", {"average": "geometric"}),
    "rbo_a": ("tied_rbo", {"rbo_ties": "a"}),
    "rbo_b": ("tied_rbo", {"rbo_ties": "b"}),
    "rbo_w": ("tied_rbo", {"rbo_ties": "w"}),
    "r_cap": ("recall", {"recall_denominator": "min_k_r"}),
    "recall_cap": ("recall", {"recall_denominator": "min_k_r"}),
}
"""Names for a metric with settings: its name, and what is not said otherwise.

The shortest one that fits is a measure's own name, however it was asked for."""

READ_AS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    **WITH_SETTINGS,
    "relative_p": ("precision", {"precision_denominator": "min_k_r"}),
    "relative_precision": ("precision", {"precision_denominator": "min_k_r"}),
}
"""These and more, by which a metric with settings is asked for, but not called."""

AT_RECALL = re.compile(
    r"\s*iprec(?:_at_recall_|(?:\((?P<inside>.*)\))?\s*@\s*)(?P<level>[01]?\.\d+)\s*",
    re.IGNORECASE,
)
"""How trec_eval (`iprec_at_recall_0.10`) and ir_measures (`IPrec@0.1`) write `iprec`."""

LONGEST = 1_000
LONGEST_NAME = 50
RESERVED = re.compile(
    r"metric_date|date|day|system|query_id|query|item_id|item|spec|weight|rank|score|grade|stage|run"
    r"|metric|k|name|value|difference|baseline|segment|(segment|baseline)_\w+|queries|skipped|missing"
    r"|(is|n|sum|pair)_\w+|difference_\w+|computed_at|run_id|definition_hash|all|\w*(numerator|denominator|ci_\w+)"
)
"""Columns beside those of metrics, which a formula's name would hide."""
LARGEST_CUTOFF = 2**31 - 1
"""What fits the fact table's column k."""


@dataclass(frozen=True)
class Measure:
    """A metric as it was asked for: its cutoff and the settings that were spelled out.

    >>> str(parse("nDCG(dcg='exp-log2')@10"))
    'ndcg(gain=exp)@10'
    >>> parse("recall(rel=2)@50").column
    'recall_rel2_at_50'
    >>> str(parse("recall_cap(rel=2)@10")), str(parse("recall(recall_denominator=min_k_r)@10"))
    ('r_cap(rel=2)@10', 'r_cap@10')
    """

    metric: Metric
    settings: tuple[tuple[str, Setting], ...] = ()
    k: int | None = None

    def __str__(self) -> str:
        return at_cutoff(self.name, self.k)

    @property
    def name(self) -> str:
        """The canonical text without the cutoff: `ndcg`, `recall(rel=2)`, `err_ia`."""
        name, settings = self._spelled
        texts = [*self.metric.operands, *(f"{key}={plain_text(value)}" for key, value in settings)]
        return name + (f"({', '.join(texts)})" if texts else "")

    @property
    def text(self) -> str:
        """What `parse` reads it from: of a number made of several metrics its formula too."""
        return f"{self} = {self.metric.formula}" if self.metric.arithmetic else str(self)

    @property
    def components(self) -> tuple[Measure, ...]:
        """The metrics whose values it is made of: itself, unless it is arithmetic over others."""
        return self.metric.arithmetic.components if self.metric.arithmetic else (self,)

    @property
    def column(self) -> str:
        """The name of its column: `ndcg_at_10`, `recall_rel2_at_50`, `rbp_p0p8`."""
        name, settings = self._spelled
        words = [name, *re.findall(r"\w+", "".join(self.metric.operands[:1]).casefold())]
        words += [DISCOUNTED] * self.metric.is_discounted
        for key, value in settings:
            words.append(f"{key}{word(value)}" if is_number(value) else f"{key}_{word(value)}")
        return column_at_cutoff("_".join(words), self.k)

    @property
    def _spelled(self) -> tuple[str, Sequence[tuple[str, Setting]]]:
        """Its shortest name, and the settings that this does not say."""
        explicit_settings = dict(self.settings)
        fitting = {
            name: implied_settings
            for name, (metric, implied_settings) in WITH_SETTINGS.items()
            if metric == self.metric.name and implied_settings.items() <= explicit_settings.items()
        }
        if not fitting:
            is_function = bool(self.metric.operand)
            return self.metric.name.removesuffix(OF * is_function), self.settings
        name = min(fitting, key=len)
        return name, [(key, value) for key, value in self.settings if key not in fitting[name]]

    def setting(self, name: str) -> Setting | None:
        """The value of one setting, None if its text does not set it."""
        return dict(self.settings).get(name)

    def without(self, defaults: Mapping[str, Value]) -> Measure:
        """The same without the settings that say what holds anyway."""
        remaining_settings = [
            (key, value) for key, value in self.settings if defaults.get(key) != value
        ]
        return replace(self, settings=tuple(remaining_settings))

    def having(self, name: str, value: Value) -> Measure:
        """The same with one setting more, in the metric's own order."""
        changed_settings = dict(self.settings) | {name: value}
        return replace(self, settings=_ordered(self.metric, changed_settings))

    def uncut(self) -> Measure:
        """The same over the whole list."""
        return replace(self, k=None)

    @property
    def _average(self) -> Choice | None:
        """How its values of queries become one number, where its text says so."""
        average = self.setting("average")
        return None if average is None else OPTIONS["average"].choice(average)

    @property
    def quantile(self) -> float | None:
        """Which quantile of the values of queries its summary is; None for a mean or a sum.

        >>> parse("ndcg(average=p10)@10").quantile
        0.1
        """
        return None if self._average is None else self._average.quantile

    @property
    def is_geometric(self) -> bool:
        """Whether its summary is the geometric mean of the values of queries.

        >>> parse("gm_map").is_geometric, parse("map").is_geometric
        (True, False)
        """
        return bool(self._average and self._average.geometric)

    @property
    def no_mean(self) -> str:
        """What its summary is of the values of queries; empty for a mean or a sum.

        >>> parse("ndcg(average=p10)@10").no_mean, parse("gm_map").no_mean, parse("map").no_mean
        ('a quantile (p10)', 'the geometric mean', '')
        """
        if self.is_geometric:
            return "the geometric mean"
        return "" if self.quantile is None else f"a quantile ({self.setting('average')})"

    @property
    def adds_up(self) -> bool:
        """Whether its summary is made of sums, which can be put together over days."""
        return not (self.no_mean or self.metric.pooled)

    @property
    def formula(self) -> Measure:
        """The same without a cutoff, and without the settings that touch its mean alone."""
        return self.part(self.metric).uncut()

    def part(self, metric: Metric) -> Measure:
        """Another metric with as much of this one's column, settings and cutoff as it takes."""
        if self.metric.operand and metric.operand:
            metric = metric.of_column(self.metric.operands[0], metric.better)
        formula = {*metric.parameters, *metric.options, "ties"}
        inherited = {key: value for key, value in self.settings if key in formula}
        k = self.k if metric.cutoff != "none" else None
        return Measure(metric, _ordered(metric, inherited), k)


def parse(text: str) -> Measure:
    """A metric's text as a `Measure`; `str()` of it is the canonical text.

    Args:
        text: `ndcg@10`, `recall(rel=2)@50`, the notation of ir_measures
            (`nDCG(dcg='exp-log2')@10`) or trec_eval (`ndcg_cut_10`, `P.5`), or the name of a
            column (`ndcg_at_10`); upper and lower case are the same. Or a name of your own for
            arithmetic over metrics: `north_star = 0.7 * ndcg@10 + 0.3 * recall@100`.

    Raises:
        SpecError: If the text cannot be read, or the metric, a setting, a value or the
            cutoff is wrong; it names the nearest known one.
    """
    return parse_beside(text, NO_FILES)


def parse_beside(text: str, files: Mapping[str, Metric]) -> Measure:
    """The same beside metrics of the user's own: name -> metric of a file."""
    if not isinstance(text, str):
        raise SpecError(f"a metric must be a text like ndcg@10, given {shortened(repr(text))}")
    if len(text) > LONGEST:
        raise SpecError(
            f"the text of a metric has at most {LONGEST} characters, given {len(text):,}"
        )
    if named := NAMED.fullmatch(text):
        return _composite(named["name"], named["formula"], text, files)
    written_name, written_settings, k = _split(function_named(text, files), text, files)
    name, implied_settings = READ_AS.get(written_name.casefold(), (written_name, {}))
    settings = _translated({**implied_settings, **written_settings})
    metric = of_column(_named(name, settings, k, text, files), settings, text)
    problems = _setting_problems(metric, settings, text) + _cutoff_problems(metric, k, text)
    if problems:
        raise SpecError(problems)
    spelled = {key: value for key, value in settings.items() if metric.parameters.get(key) != value}
    return Measure(metric, _ordered(metric, spelled), k)


def name_problem(name: str) -> str:
    """Why a metric of the user's own cannot have a name; empty if it can."""
    if name in {*ONLINE, *READ_AS, *GROUPS} or _is_metric(name) or _is_metric(f"{name}@1"):
        return f"{name!r} already has a meaning here; choose another name"
    if len(name) > LONGEST_NAME or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return f"a name has at most {LONGEST_NAME} characters: a to z, digits and _"
    if RESERVED.fullmatch(name):
        return f"a column is already called {name!r}; choose another name"
    return f"{name!r} is a keyword of SQL; choose another name" if is_reserved(name) else ""


def _composite(name: str, formula: str, text: str, files: Mapping[str, Metric]) -> Measure:
    """A number made of several metrics, under a name of its own."""
    name = name.casefold()
    problem = f"{name!r} is the metric of {files[name].file}" if name in files else ""
    if problem := problem or name_problem(name):
        raise SpecError(f"metric {text!r}: {problem}")
    arithmetic = read_formula(text, formula, lambda metric: parse_beside(metric, files))
    if len(str(arithmetic)) > LONGEST - len(f"{name} = "):  # what is printed can be read again
        raise SpecError(
            f"metric {text!r}: the formula, with its metrics written out, has more than "
            f"{LONGEST:,} characters; shorten it"
        )
    pooled = [str(measure) for measure in arithmetic.components if measure.metric.pooled]
    if pooled:
        raise SpecError(
            f"metric {text!r}: {pooled[0]} has no value for a single query, so a formula "
            "cannot use it"
        )
    return Measure(
        Metric(
            name=name,
            title=name.replace("_", " ").capitalize(),
            formula=str(arithmetic),
            range=arithmetic.range,
            better=arithmetic.better,
            cutoff="none",
            over="metrics",
            empty="undefined, and left out of the mean, where one of its metrics is undefined "
            "or a divisor is 0",
            source="a formula from your spec",
            needs=tuple(dict.fromkeys(n for m in arithmetic.components for n in m.metric.needs)),
            undefined="skip",
            expected="always",
            listed=False,
            arithmetic=arithmetic,
        )
    )


def metric_texts(metrics: Any) -> tuple[str, ...]:
    """The texts of metrics: of one text with commas, or of texts and objects of ir_measures.

    >>> metric_texts("ndcg@10, f(beta=2, rel=1)@5"), metric_texts(["P.5,10, 11pt_avg"])
    (('ndcg@10', 'f(beta=2, rel=1)@5'), ('P.5,10', '11pt_avg'))
    """
    is_single = isinstance(metrics, str | Mapping) or not isinstance(metrics, Iterable)
    texts = [metrics] if is_single else list(metrics)
    return tuple(part for text in texts for part in _parts(text))


def with_name(metrics: Any) -> Any:
    """Metrics that a mapping gives names to, as texts; whatever else stands there is left.

    >>> with_name({"north_star": "0.7 * ndcg@10 + 0.3 * mrr"})
    ['north_star = 0.7 * ndcg@10 + 0.3 * mrr']
    >>> with_name(["mrr", {"sum": "mrr + ap"}])
    ['mrr', 'sum = mrr + ap']
    """
    if isinstance(metrics, Mapping):
        wrong = [name for name, formula in metrics.items() if not isinstance(formula, str)]
        if wrong:
            raise SpecError(
                f"metrics: write the formula of {wrong[0]} as a text, like 0.7 * ndcg@10 + 0.3 * "
                f"mrr; given {metrics[wrong[0]]!r}"
            )
        return [f"{name} = {formula}" for name, formula in metrics.items()]
    if not isinstance(metrics, list | tuple):
        return metrics
    named = [with_name(metric) for metric in metrics]
    return [text for texts in named for text in (texts if isinstance(texts, list) else [texts])]


def _parts(metric: Any) -> list[str]:
    """What stands between commas, but for those within parentheses and of cutoffs (P.5,10)."""
    if isinstance(metric, Mapping):
        return with_name(metric)  # type: ignore[no-any-return]
    if not isinstance(metric, str):
        return [str(metric)]
    parts = re.split(r",(?![^()]*\))(?!\s*[\d.]+\s*(?:,|$))", metric)
    return [part.strip() for part in parts if part.strip()] or [metric]


def spelled_out(text: str) -> list[str]:
    """The texts of a group of metrics, or of several cutoffs as trec_eval writes them.

    >>> spelled_out("P.5,10"), spelled_out("ndcg@10")
    (['P_5', 'P_10'], ['ndcg@10'])
    >>> spelled_out("candidates@10")[2:]
    ['dcg@10', 'recall(recall_denominator=r)@10']
    """
    group = re.fullmatch(r"\s*([A-Za-z]\w*)(@.*)?", text)
    if group and group[1].casefold() in GROUPS:
        return [name + (group[2] or "") for name in GROUPS[group[1].casefold()]]
    several = re.fullmatch(r"\s*([A-Za-z]\w*?)([_.])(\d+(?:,\d+)+)\s*", text)
    if several is None or (several[2] == "." and several[1].casefold() not in DOTTED):
        return [text]
    return [f"{several[1]}_{cutoff}" for cutoff in several[3].split(",")]


def _split(
    text: str, metric_text: str, files: Mapping[str, Metric]
) -> tuple[str, dict[str, object], int | None]:
    """Name, settings as written, and cutoff; messages have the text as it was given."""
    if level := AT_RECALL.fullmatch(text):
        return (
            "iprec",
            {**_arguments(level["inside"] or "", metric_text), "recall": float(level[2])},
            None,
        )
    trec = re.fullmatch(r"\s*([A-Za-z]\w*?)(_at_|[_.])(\d{1,10})\s*", text, re.IGNORECASE)
    is_cut = trec and (trec[2] != "." or trec[1].casefold() in DOTTED)
    is_name = trec and (trec[1].casefold() in READ_AS or metric_of(trec[1], files))
    if trec and is_cut and is_name and not metric_of(text, files):
        return trec[1], {}, int(trec[3])
    body, at_sign, cutoff = text.rpartition("@") if re.search(r"@[^)]*$", text) else (text, "", "")
    if at_sign and not re.fullmatch(r"\s*\d{1,10}\s*", cutoff):
        hint = whose(metric_text)
        raise SpecError(
            f"metric {metric_text!r}: the cutoff must be a whole number from 1 to {LARGEST_CUTOFF}"
            + (f"; {hint}" if hint else "")
        )
    match = re.fullmatch(r"\s*(\d*[^\W\d]\w*)\s*(?:\((.*)\))?\s*", body, re.DOTALL)
    if match is None:
        hint = whose(metric_text)
        advice = f"; {hint}" if hint else "; write it like ndcg@10 or recall(rel=2)@50"
        raise SpecError(f"metric {metric_text!r} cannot be read{advice}")
    return match[1], _arguments(match[2] or "", metric_text), int(cutoff) if at_sign else None


def _arguments(settings_text: str, text: str) -> dict[str, object]:
    """`rel=2, gain=linear` as a dict; the values are Python literals or plain names."""
    try:
        call = ast.parse(f"_({settings_text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        pairs = [(str(word.arg).casefold(), _literal(word.value)) for word in call.keywords]
        if len(dict(pairs)) < len(pairs) or any(word.arg is None for word in call.keywords):
            raise ValueError
        return dict(pairs)
    except (SyntaxError, ValueError, TypeError):
        options = text.partition("(")[2].rpartition(")")[0]
        raise SpecError(
            f"metric {text!r}: {options!r} cannot be read; write options like (rel=2, gain=linear)"
        ) from None


def _literal(node: ast.expr) -> object:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _translated(written_settings: Mapping[str, object]) -> dict[str, Setting]:
    """ir_measures' spelling of settings in ours."""
    settings: dict[str, Setting] = {}
    for key, value in written_settings.items():
        setting = {"dcg": "gain", "gains": "gain", "max_rel": "max_grade"}.get(key, key)
        gains = {"exp-log2": "exp", "log2": "linear"} if key == "dcg" else {}
        if setting == "column":  # as it is written: some databases tell capitals apart
            settings[setting] = str(value)
        else:
            settings[setting] = read(setting, gains.get(str(value).casefold(), value))
    if len(settings) < len(written_settings):
        raise SpecError(f"gain is given twice: {', '.join(written_settings)}")
    return settings


def _named(
    name: str,
    settings: Mapping[str, Setting],
    k: int | None,
    text: str,
    files: Mapping[str, Metric],
) -> Metric:
    """The metric of a name; a few aliases hold only with certain settings."""
    full_name = f"{name}({', '.join(settings)})"
    match = (settings and metric_of(full_name)) or metric_of(name, files)
    if match is None:
        known_names = [*(metric.name for metric in listed()), *WITH_SETTINGS, *files]
        aliases = {
            alias.removesuffix("@k").casefold(): metric.name
            for metric in listed()
            for alias in metric.aliases
        }
        raise SpecError(_unknown_metric(name, known_names, aliases, whose(text), k))
    metric, needs_cutoff = match
    if needs_cutoff and k is None:
        raise SpecError(f"metric {text!r} needs a cutoff, like {name}_10 or {metric.name}@10")
    return metric


def _unknown_metric(
    name: str, known_names: list[str], aliases: Mapping[str, str], hint: str, k: int | None
) -> str:
    """Another tool's name is told; else ours are listed, and the guess may come from an alias."""
    if name.casefold() in ONLINE:
        return f"{name} is a metric of click logs: sqlmetrics clicks SPEC -m {name}"
    if hint:
        return f"unknown metric {name!r}; {hint}"
    near = nearest(name, [*known_names, *READ_AS, *aliases, *ONLINE])
    suggestion = spelled_otherwise(name, k) or (aliases.get(near, near) if near else None)
    message = f"known: {', '.join(sorted(known_names))}"
    if suggestion is not None:
        return f"unknown metric {name!r}; did you mean {suggestion!r}? {message}"
    return (
        f"unknown metric {name!r}; {message}; for a metric of your own name its folder by "
        "--metrics-from, or metrics_from in a spec"
    )


def spelled_otherwise(name: str, k: int | None = None) -> str:
    """The metric of a name with other marks, a cutoff at its end, or a tool's name; else "".

    >>> spelled_otherwise("r_precision"), spelled_otherwise("P5")
    ('rprec', 'precision@5')
    >>> spelled_otherwise("ndcg_burgess", 5), spelled_otherwise("ngcd", 5)
    ('ndcg(gain=exp)@5', '')
    """
    ending = re.fullmatch(r"(.*\D)(\d{1,4})", name)
    read = [(name, k), (ending[1].rstrip("_-"), int(ending[2]))] if ending else [(name, k)]
    for called, cutoff in read:
        ours = _without_marks().get(_letters(called))
        if ours is not None and _is_metric(candidate := _cut(ours, cutoff)):
            return candidate
    named = {name: ours for name, ours in called_by_tools().items() if "(" in ours}
    near = nearest(name, [*spellings(), *catalog(), *named]) or ""
    candidate = _cut(named.get(near, ""), k)
    return candidate if near in named and _is_metric(candidate) else ""


def _without_marks() -> Mapping[str, str]:
    """The letters of each spelling, of ours or of a tool -> our text of it."""
    ours = {alias.removesuffix("@k"): metric.name for alias, (metric, _) in spellings().items()}
    ours |= {name: name for name in catalog()}
    return {_letters(name): text for name, text in {**called_by_tools(), **ours}.items()}


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def _cut(text: str, k: int | None) -> str:
    return text if k is None else f"{text}@{k}"


def _is_metric(text: str) -> bool:
    try:
        return bool(parse(text))
    except SpecError:
        return False


def _setting_problems(metric: Metric, settings: Mapping[str, Setting], text: str) -> list[str]:
    problems = []
    for key, value in settings.items():
        if key in metric.parameters:
            requirement = metric.outside(key, value if is_number(value) else math.nan)  # type: ignore[arg-type]
            if requirement:
                problems.append(
                    f"metric {text!r}: {key} must be a number {requirement}, given {value!r}"
                )
        elif key == "ties" and value == "include" and not metric.of_set:
            sets = ", ".join(metric.name for metric in listed() if metric.of_set)
            problems.append(
                f"metric {text!r}: ties=include is only for metrics that ignore the order of the "
                f"top k ({sets}); leave it out of {Measure(metric)}"
            )
        elif key in OPTIONS and not _is_own(metric, key, value):
            problems.append(f"metric {text!r}: {key} applies to all metrics; set it outside them")
        elif key in metric.settings:
            problems += [f"metric {text!r}: {p}" for p in problems_of(key, value)]
        elif key in OPTIONS:
            problems.append(f"metric {text!r}: {Measure(metric)} has no option {key}")
        else:
            problems.append(f"metric {text!r}: {unknown('setting', key, metric.settings)}")
    return problems


def _is_own(metric: Metric, name: str, value: Setting) -> bool:
    """Whether a metric may set an option for itself: of ties only that their order is none."""
    orderless = ("average", *["include"] * metric.of_set)
    return OPTIONS[name].scope == "metric" or (name == "ties" and value in orderless)


def _cutoff_problems(metric: Metric, k: int | None, text: str) -> list[str]:
    if metric.cutoff == "none" and k is not None:
        return [f"metric {text!r}: {Measure(metric)} takes no cutoff"]
    if metric.cutoff == "required" and k is None:
        set_metric = f"set_{metric.name.replace('f1', 'f')}"
        alternative = f"; {set_metric} has none" if set_metric in catalog() else ""
        return [f"metric {text!r} needs a cutoff, like {text.strip()}@10{alternative}"]
    if k is not None and metric.deepest is not None and k > metric.deepest:
        reason = "the discounts of all ranks to the cutoff are added up"
        if metric.orders_groups:
            reason = "its ideal list is chosen item by item, and each item is one stage of the SQL"
        return [f"metric {text!r}: the cutoff must be at most {metric.deepest:,}: {reason}"]
    if k is not None and not 0 < k <= LARGEST_CUTOFF:
        return [f"metric {text!r}: the cutoff must be a whole number from 1 to {LARGEST_CUTOFF}"]
    return []


def _ordered(metric: Metric, values: Mapping[str, Setting]) -> tuple[tuple[str, Setting], ...]:
    return tuple((key, values[key]) for key in metric.settings if key in values)


def word(value: Setting) -> str:
    """A value as a part of a name.

    >>> word(0.5), word("exp")
    ('0p5', 'exp')
    """
    text = plain_text(value).replace(".", "p").replace("-", "m")
    return re.sub(r"\W+", "_", text).strip("_")


def plain_text(value: Setting) -> str:
    """A value as metrics' texts have it: numbers without a needless `.0`."""
    return plain(value) if isinstance(value, int | float) else str(value)
