"""Functions of a column of the items or the labels: `mean(price)@10`, `recall(revenue)@10`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import AGE, DISCOUNTED, OF, Metric, catalog, metric_of
from sqlmetrics.errors import SpecError, unknown

FUNCTION = re.compile(
    r"\s*(?P<name>[a-z_]+?)(?:_of)?\s*\(\s*(?P<age>age\s*\(\s*)?(?P<column>[a-z_][a-z0-9_]{0,62})"
    r"(?(age)\s*\))\s*(?=[,)])",
    re.IGNORECASE | re.ASCII,
)
"""How a function of a column begins: `mean(price`."""
_NAME = re.compile(r"\s*(?:\(\s*\))?\s*(?:@|$)")
"""What stands behind a name without settings."""
FUNCTIONS = tuple(name.removesuffix(OF) for name in catalog() if name.endswith(OF))
"""The functions of a column."""
DISCOUNTABLE = ("mean_of", "sum_of", "share_of")
"""Functions of which each value can weigh the discount of its rank."""
BETTERS = ("higher", "lower", "none")
"""Which values of a function of a column are better, if one says so."""


def is_function(text: str) -> bool:
    """Whether a text is of a function of a column, like `mean(price)`."""
    match = FUNCTION.match(text)
    return match is not None and _full_name(match["name"].casefold()) in catalog()


def _full_name(function: str) -> str:
    """What the catalogue calls a function; a part of one has a name that is no other metric's."""
    is_part = function in catalog() and bool(catalog()[function].operand)
    return function if is_part else f"{function}{OF}"


def function_named(text: str, files: Mapping[str, Metric]) -> str:
    """A function of a column in the words of other metrics.

    >>> function_named("Mean(price, better=lower)@10", {}), function_named("ndcg(rel=2)@10", {})
    ("mean_of(column='price', better=lower)@10", 'ndcg(rel=2)@10')
    """
    match = FUNCTION.match(text)
    function = match["name"].casefold() if match else _NAME.split(text)[0].strip().casefold()
    name = _full_name(function)
    if match is None:
        metric = catalog().get(name)
        if metric and not metric_of(function, files):
            raise SpecError(_lacks_column(metric, text))
        return text
    if name not in catalog() or match["column"] in _values_of(function):
        if not metric_of(function, files):
            raise SpecError(f"metric {text!r}: {unknown('function', function, FUNCTIONS)}")
        return text
    settings, words = _spelled_out(text[match.end() :], name)
    if re.match(r"[^)]*,\s*\w*\s*[,)]", settings):
        raise SpecError(
            f"metric {text!r}: after the column write {', '.join(words[:-1])} or {words[-1]}"
        )
    return f"{name}(column={_operand(match, catalog()[name], text)!r}{settings}"


def _lacks_column(metric: Metric, text: str) -> str:
    """That a function needs a column, with the nearest text that names one."""
    cutoff = "".join(text.partition("@")[1:])
    likely_form = f"{metric.example.partition('@')[0]}{cutoff}"
    return f"metric {text!r}: name a column of the {metric.operand_table}, like {likely_form}"


def _spelled_out(settings: str, name: str) -> tuple[str, list[str]]:
    """What follows the column, its words as settings; and what may stand there, for messages."""
    parameters = catalog()[name].parameters
    settings_by_word = {
        DISCOUNTED: f"{DISCOUNTED}=1" if name in DISCOUNTABLE else "",
        "equal": "equal=1" if "equal" in parameters else "",
        "relevant": "min_grade=1" if "min_grade" in parameters else "",
    }
    for word, setting in settings_by_word.items():
        if setting:
            settings = re.sub(rf",\s*{word}\s*(?=[,)])", f", {setting}", settings, flags=re.I)
    words = [word for word, setting in settings_by_word.items() if setting]
    if words:
        return settings, [
            *words,
            "min_grade=2",
            *["better=lower"] * (catalog()[name].better == "none"),
        ]
    return settings, [f"{key}=..." for key in catalog()[name].settings]


def _operand(match: re.Match[str], metric: Metric, text: str) -> str:
    """What stands first between the parentheses: a column, or the age of one."""
    if not match["age"]:
        return match["column"]
    if metric.operand_table != "items" or not metric.operand.startswith("number_"):
        raise SpecError(f"metric {text!r}: an age has only a mean, median, sum, min and max")
    return f"{AGE}({match['column']})"


def _values_of(name: str) -> set[str]:
    """The values of options that a metric has beside the function of its name: ndcg(linear)."""
    options = catalog()[name].options if name in catalog() else ()
    return {choice.name for option in options for choice in OPTIONS[option].choices}


def of_column(metric: Metric, settings: dict[str, Any], text: str) -> Metric:
    """The metric of the column that its text names, if it is a function of one.

    Args:
        metric: As the catalogue has it.
        settings: What stands between the parentheses; the column, `better` and `discounted` are
            taken out.
        text: The whole text, for messages.

    Raises:
        SpecError: If no column is named, or `better` is none of its values.
    """
    if not metric.operand:
        return metric
    if "column" not in settings:
        raise SpecError(_lacks_column(metric, text))
    column, better = settings.pop("column"), metric.better
    if better == "none":
        better = settings.pop("better", better)
    if better not in BETTERS:
        raise SpecError(f"metric {text!r}: {unknown('value of better', str(better), BETTERS)}")
    weighs = bool(settings.pop(DISCOUNTED, "discount" in settings)) and metric.name in DISCOUNTABLE
    return metric.of_column(str(column), str(better), discounted=weighs)
