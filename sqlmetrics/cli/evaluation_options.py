"""What commands are told that evaluate rankings against labels: tables, metrics, conventions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import click

from sqlmetrics.cli import completion
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.segments import KINDS

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

COLUMNS = {
    "query": "the query's column  [default: query_id]",
    "item": "the item's column  [default: item_id]",
    "score": "the column of scores  [default: score]",
    "rank": "the column of ranks 1..n, instead of scores",
    "grade": "the labels' column of grades  [default: grade]",
    "group": "the labels' column of groups: subtopics, nuggets, evidence sets",
    "system": "the column of the ranker, model or run",
    "date": "the column of the day",
    "weight": "the column of query weights",
}


_TABLES = (
    click.option("--where", metavar="CONDITION", help="Only these rows of the rankings."),
    click.option(
        "--grades",
        multiple=True,
        metavar="TEXT=NUMBER",
        help="The number of a grade that is a text, like high=3.",
    ),
    *(click.option(f"--{role}", metavar="COLUMN", help=text) for role, text in COLUMNS.items()),
    click.option(
        "--time-zone", metavar="ZONE", help="Whose days times with a zone have.  [default: UTC]"
    ),
    click.option(
        "--label-column",
        "label_columns",
        multiple=True,
        metavar="ROLE=COLUMN",
        help="A column that the labels name differently, like query=qid.",
    ),
    click.option(
        "--separator",
        metavar="MARK",
        help="What is between the values of CSV files, like ; or tab; else their header shows it.",
    ),
    click.option("--decimal", metavar="MARK", help="The decimal mark of CSV files: . or a comma."),
    click.option(
        "--metrics-from",
        multiple=True,
        type=click.Path(),
        metavar="FOLDER",
        help="Metrics of your own, a file each: see metric new.",
    ),
    click.option(
        "--skip-bad",
        is_flag=True,
        default=None,
        help="Leave out files of rankings that cannot be read or have broken lines.",
    ),
)


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a command is told of its tables: conditions, grades, columns."""
    for option in reversed(_TABLES):
        command = option(command)
    return command


def segment_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--segment`, as texts for `given_options`."""
    return click.option(
        "--segment",
        "segments",
        multiple=True,
        metavar="NAME=CONDITION",
        help="Segment by a condition, or by traffic, relevant_labels, query_length.",
    )(command)


def metrics_option(about: str, complete: completion.Completer = completion.metrics) -> Decorator:
    """`-m`: metrics, several behind commas."""
    return click.option(
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


def preset_option(about: str = "A tool to agree with: see list presets.") -> Decorator:
    """`--preset`."""
    return click.option("--preset", metavar="NAME", shell_complete=completion.presets, help=about)


def convention_option(about: str = "Overrides the preset: see list options.") -> Decorator:
    """`-c`, as texts for `given_options`."""
    return click.option(
        "-c",
        "--convention",
        "conventions",
        multiple=True,
        metavar="OPTION=VALUE",
        shell_complete=completion.conventions,
        help=about,
    )


_CHECK_SHARE = "sqlmetrics.check_share"


def check_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--skip-input-checks` and `--check-share`; see `input_check`."""
    about = "Do not look for bad input first."
    share = click.option(
        "--check-share",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="SHARE",
        expose_value=False,
        callback=lambda context, _, value: context.meta.update({_CHECK_SHARE: value}),
        help="Look for bad input in this share of the queries, like 0.01; the notes say so.",
    )
    return click.option("--skip-input-checks", is_flag=True, help=about)(share(command))


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


def given_options(command: Callable[..., None]) -> Callable[..., None]:
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
    label_columns: tuple[str, ...],
    grades: tuple[str, ...],
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
        "segments": segments_given(options.get("segments", ())),
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


def segments_given(texts: tuple[str, ...]) -> dict[str, str]:
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
        raise SpecError(f"{text!r} is no table; write it like {{1: 1, 2: 3}}") from None
