"""YAML as people write it: keys in their order, lists below their key, long texts on lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """With lists indented below their key, and no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: ARG002
        """Indent lists as mappings."""
        return super().increase_indent(flow, False)

    def ignore_aliases(self, _: Any) -> bool:
        """Print what stands twice twice."""
        return True


class Flow(dict[str, Any]):
    """A mapping that is printed on one line."""


_Dumper.add_representer(
    Flow,
    lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True),
)


class Block(str):
    """A text of many lines, such as SQL, that is printed as it stands."""

    __slots__ = ()


_Dumper.add_representer(
    Block,
    lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|"),
)


class Quoted(str):
    """A text that is printed in double quotes, in which any letter may be escaped."""

    __slots__ = ()


_Dumper.add_representer(
    Quoted,
    lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", data, style='"'),
)


def yaml_text(value: Mapping[str, Any], *comments: str) -> str:
    """A document below its comment lines."""
    above = "".join(f"# {line}\n" for comment in comments for line in comment.splitlines())
    return above + yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=88, allow_unicode=True)
