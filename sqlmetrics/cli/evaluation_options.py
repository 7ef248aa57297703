"""What commands are told that evaluate rankings against labels: tables, metrics, conventions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.options import (
    COLUMNS,
    CONVENTIONS,
    INPUT_DATA,
    Decorator,
    decorate,
    metrics_from_option,
    option,
)
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.segments import KINDS

COLUMN_TEXTS = {
    "query": "Query column.  [default: query_id]",
    "item": "Item column.  [default: item_id]",
    "score": "Score column.  [default: score]",
    "rank": "Rank column (1 to n), used in place of the score.",
    "grade": "Grade column of the labels.  [default: grade]",
    "group": "Group column of the labels: subtopics, nuggets or evidence sets.",
    "system": "System column: the ranker, model or run.",
    "date": "Day column.",
    "weight": "Query weight column.",
}


def column_option(role: str, **attributes: Any) -> Decorator:
    """The option that names the column of a role."""
    return option(
        f"--{role}", metavar="COLUMN", heading=COLUMNS, help=COLUMN_TEXTS[role], **attributes
    )


OF_LABELS = ("grade", "group")
"""The columns that labels alone have."""

_COLUMNS = {role: column_option(role) for role in COLUMN_TEXTS}

_RANKINGS = (
    option(
        "--where",
        metavar="CONDITION",
        help="SQL condition on the rows of the rankings.",
        heading=INPUT_DATA,
    ),
    *(column for role, column in _COLUMNS.items() if role not in OF_LABELS),
    option(
        "--time-zone",
        metavar="ZONE",
        help="Time zone that decides the day of a timestamp.  [default: UTC]",
        heading=COLUMNS,
    ),
    option(
        "--separator",
        metavar="MARK",
        help="CSV delimiter, such as ; or tab.  [default: detected from the header]",
        heading=INPUT_DATA,
    ),
    option(
        "--decimal",
        metavar="MARK",
        help="Decimal mark of CSV files: . or ,",
        heading=INPUT_DATA,
    ),
    option(
        "--skip-bad",
        is_flag=True,
        default=None,
        help="Skip ranking files that cannot be read or have broken lines.",
        heading=INPUT_DATA,
    ),
)

_LABELS = (
    option(
        "--grades",
        multiple=True,
        metavar="TEXT=NUMBER",
        help="Number for a grade written as text, such as high=3.",
        heading=INPUT_DATA,
    ),
    *(_COLUMNS[role] for role in OF_LABELS),
    option(
        "--label-column",
        "label_columns",
        multiple=True,
        metavar="ROLE=COLUMN",
        help="Column that has another name in the labels, such as query=qid.",
        heading=COLUMNS,
    ),
    metrics_from_option,
)


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a command is told of its tables: conditions, grades, columns."""
    return decorate(command, *_RANKINGS, *_LABELS)


def judged_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command on the labels of judges, which weighs and groups nothing."""
    needless = (_COLUMNS["weight"], _COLUMNS["group"], metrics_from_option)
    return decorate(command, *(o for o in (*_RANKINGS, *_LABELS) if o not in needless))


def ranking_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that reads no labels."""
    return decorate(command, *_RANKINGS)


def segment_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--segment`, as texts for `with_arguments`."""
    return option(
        "--segment",
        "segments",
        multiple=True,
        metavar="NAME=CONDITION",
        help="Segment by a condition, or by traffic, relevant_labels or query_length.",
        heading=INPUT_DATA,
    )(command)


METRIC = "Metric such as ndcg@10; commas separate several."


def metrics_option(
    about: str = METRIC, complete: completion.Completer = completion.metrics
) -> Decorator:
    """`-m`: metrics, several behind commas."""
    return option(
        "-m",
        "--metric",
        "metrics",
        multiple=True,
        callback=_metrics,
        shell_complete=complete,
        help=about,
    )


def _metrics(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Metrics behind commas, as Python takes them: P.5,10 is one text."""
    if not texts:
        return ()
    from sqlmetrics.catalog.measure import metric_texts

    return metric_texts(texts)


def preset_option(
    about: str = "Conventions of a tool, such as trec_eval (see list presets).",
) -> Decorator:
    """`--preset`."""
    return option(
        "--preset",
        heading=CONVENTIONS,
        metavar="NAME",
        shell_complete=completion.presets,
        help=about,
    )


CONVENTION = "Set one convention (see list options); overrides the preset."


def convention_option(about: str = CONVENTION) -> Decorator:
    """`-c`, as texts for `with_arguments`."""
    return option(
        "-c",
        "--convention",
        "conventions",
        multiple=True,
        metavar="OPTION=VALUE",
        heading=CONVENTIONS,
        shell_complete=completion.conventions,
        help=about,
    )


def dialect_option(default: str) -> Decorator:
    """`--dialect`."""
    about = f"SQL dialect (see list dialects).  [default: {default}]"
    return option("--dialect", shell_complete=completion.dialects, help=about)


_CHECK_SHARE = "sqlmetrics.check_share"


def check_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--skip-input-checks` and `--check-share`; see `input_check`."""
    about = "Skip the input checks."
    share = option(
        "--check-share",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="SHARE",
        expose_value=False,
        callback=lambda context, _, value: context.meta.update({_CHECK_SHARE: value}),
        help="Share of the queries whose input is checked, such as 0.01.",
        heading=INPUT_DATA,
    )
    return option("--skip-input-checks", is_flag=True, heading=INPUT_DATA, help=about)(
        share(command)
    )


def input_check(skipped: bool) -> bool | float:
    """What `check` is by the options of a command: whether, or of which share of the queries.

    Raises:
        UsageError: If both are given.
    """
    context = click.get_current_context(silent=True)
    share: float | None = context.meta.get(_CHECK_SHARE) if context else None
    if skipped and share is not None:
        raise click.UsageError("give --skip-input-checks or --check-share, not both")
    return not skipped if share is None else share


def with_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Hand over what a command does not take by name as `given`: arguments of `evaluate`'s like.

    Options that were not given are not in it.
    """
    own_names = signature(command).parameters.keys()

    @wraps(command)
    def called(**options: Any) -> None:
        own_options = {name: value for name, value in options.items() if name in own_names}
        evaluation_options = {
            name: value for name, value in options.items() if name not in own_names
        }
        command(**own_options, arguments=_arguments(**evaluation_options))

    return called


def _arguments(
    *,
    label_columns: tuple[str, ...] = (),
    grades: tuple[str, ...] = (),
    conventions: tuple[str, ...] = (),
    skip_input_checks: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """The options that were given, as arguments of `evaluate` and its like.

    Raises:
        SpecError: If one is not of its form.
    """
    parsed_options = {
        "check": input_check(skip_input_checks),
        "segments": segment_conditions(options.get("segments", ())),
        "label_columns": pairs(label_columns, "--label-column"),
        "grades": {text: grade_number(n) for text, n in pairs(grades, "--grades").items()},
        **{name: convention_value(text) for name, text in pairs(conventions, "-c").items()},
    }
    texts = {key: value for key, value in options.items() if key != "segments"}
    set_options = {key: value for key, value in texts.items() if value not in (None, ())}
    return set_options | {
        name: value for name, value in parsed_options.items() if value or name == "check"
    }


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Texts like NAME=VALUE as a dict.

    Raises:
        SpecError: If one has no equals sign or no name.
    """
    split = [text.partition("=") for text in texts]
    for (name, equal, _), text in zip(split, texts, strict=True):
        if not equal or not name:
            raise SpecError(f"{option} takes NAME=VALUE, given {text!r}")
    return {name.strip(): value.strip() for name, _, value in split}


def segment_conditions(texts: tuple[str, ...]) -> dict[str, str]:
    """Segments by their names; one of a kind that needs no name is called by the kind.

    Raises:
        SpecError: If a condition has no name.
    """
    condition_by_name = {}
    for text in texts:
        name, _, condition = (text, "", text) if text in KINDS else text.partition("=")
        if not condition or not name.strip().isidentifier():
            raise SpecError(
                f"--segment takes NAME=CONDITION, or {', '.join(KINDS)}, given {text!r}"
            )
        condition_by_name[name.strip()] = condition.strip()
    return condition_by_name


def grade_number(text: str) -> float:
    """The number that a grade's text stands for."""
    try:
        if "_" in text:  # Python reads 1_000
            raise ValueError
        return float(text)
    except ValueError:
        raise SpecError(f"--grades takes TEXT=NUMBER, given {text!r} for the number") from None


def convention_value(text: str) -> object:
    """A convention's value: a name, several behind commas, or a table {1: 3}."""
    import ast

    if not text.startswith("{"):
        return text.split(",") if "," in text else text
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise SpecError(f"{text!r} is not a table of gains; write it like {{1: 1, 2: 3}}") from None
