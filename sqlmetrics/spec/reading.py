"""A spec as people give it to a function: read from its file, made of a dict, or a `Spec`."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, TypeAlias

from sqlmetrics.engines.output_files import SPECS
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec

AnySpec: TypeAlias = Spec | str | PathLike[str] | Mapping[str, Any]


def spec_of(spec: AnySpec) -> Spec:
    """The spec: the path of a YAML file is read as `Spec.read` does, a dict has the keys of one.

    Raises:
        SpecError: If it is none of these, or the spec is wrong.
    """
    if isinstance(spec, Spec):
        return spec
    if isinstance(spec, str | PathLike):
        return Spec.read(fspath(spec))
    if isinstance(spec, Mapping):
        return Spec(**{str(key): value for key, value in spec.items()})
    raise SpecError(
        f"spec: given {type(spec).__name__}; give the path of a YAML file, like 'search.yml', "
        "a Spec, or a dict of its keys"
    )


def read_if_spec(rankings: Any) -> Any:
    """What stands in the place of rankings; the spec, if it is the path of one."""
    if isinstance(rankings, str | PathLike) and fspath(rankings).casefold().endswith(SPECS):
        return Spec.read(fspath(rankings))
    return rankings
