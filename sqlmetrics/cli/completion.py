"""What a shell completes: names behind options, beside the verbs and options that click knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, shell_complete

VARIABLE = "_SQLMETRICS_COMPLETE"
"""A shell sets it to ask: for its script, or for what may follow."""

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def answered(group: click.Group) -> int | None:
    """The exit code if a shell asks what may follow, None if it runs a command."""
    request = os.environ.get(VARIABLE)
    return shell_complete(group, {}, "sqlmetrics", VARIABLE, request) if request else None


def _items(names: Iterable[str], begun: str) -> list[CompletionItem]:
    folded = begun.casefold()
    return [CompletionItem(name) for name in names if name.casefold().startswith(folded)]


def metrics(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Metrics, those with a cutoff at 10 as the commonest."""
    from sqlmetrics.catalog.measure import WITH_SETTINGS
    from sqlmetrics.catalog.metric import listed

    ends = {"required": ("@10",), "optional": ("@10", ""), "none": ("",)}
    names = [metric.name + end for metric in listed() for end in ends[metric.cutoff]]
    return _items([*names, *(f"{name}@10" for name in WITH_SETTINGS)], begun)


def click_metrics(
    context: click.Context, option: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Metrics of lists, and those of a click log itself."""
    from sqlmetrics.catalog.online import ONLINE

    names = [name + "(" * (metric.setting == "action") for name, metric in ONLINE.items()]
    return [*_items(names, begun), *metrics(context, option, begun)]


def presets(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Presets, with what they reproduce."""
    from sqlmetrics.catalog.presets import PRESETS

    return [
        CompletionItem(preset.value, help=PRESETS[preset.value].note)
        for preset in _items(PRESETS, begun)
    ]


def conventions(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """OPTION=VALUE, the values once the option is there."""
    from sqlmetrics.catalog.conventions import OPTIONS

    name, equal, _value = begun.partition("=")
    if not equal or name not in OPTIONS:
        return _items([f"{option}=" for option in OPTIONS], begun)
    return _items([f"{name}={choice.name}" for choice in OPTIONS[name].choices], begun)


def dialects(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Dialects."""
    from sqlmetrics.sql.dialects import DIALECTS

    return _items(DIALECTS, begun)


def exports(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """The tools that a spec is exported for, with what they get."""
    from sqlmetrics.jobs.exports.formats import FORMATS

    return [
        CompletionItem(tool.value, help=FORMATS[tool.value].about)
        for tool in _items(FORMATS, begun)
    ]


def explained(context: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    """What can be explained: metrics, options and presets."""
    from sqlmetrics.catalog.conventions import OPTIONS

    options = _items(OPTIONS, begun)
    return [*metrics(context, option, begun), *options, *presets(context, option, begun)]
