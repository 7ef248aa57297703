"""The JSON schema of spec files and the page about them: current, complete, and right."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import peer
from marked import by_turns
from schema_paths import SCHEMA, nodes, resolved

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.cli import learn
from sqlmetrics.spec.schema import METRIC, schema_text

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "sqlmetrics" / "spec" / "spec.schema.json"
PAGE = ROOT / "docs" / "spec.md"
UPDATE = os.environ.get("UPDATE_GOLDEN") == "1"

MINIMAL: dict[str, Any] = {
    "rankings": {"file": "runs.parquet"},
    "labels": {"relation": "truth"},
    "metrics": ["ndcg@10"],
}


def test_the_file_is_current() -> None:
    if UPDATE:
        FILE.write_text(schema_text(sm.Spec), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == schema_text(sm.Spec)
    assert learn.schema_text() == schema_text(sm.Spec)


def test_every_key_has_a_description() -> None:
    assert [path for path, node, _ in nodes(SCHEMA) if not node["description"]] == []


def test_every_option_choice_and_preset_is_there() -> None:
    properties = SCHEMA["properties"]
    assert properties["preset"]["enum"] == list(PRESETS)
    options = properties["conventions"]["properties"]
    assert list(options) == list(OPTIONS)
    for name, option in OPTIONS.items():
        assert all(f"{c.name}: {c.meaning}" in options[name]["description"] for c in option.choices)


def test_the_keys_are_the_spec_s() -> None:
    assert list(SCHEMA["properties"]) == list(sm.Spec.model_fields)


METRICS = ["ndcg@10", " NDCG ( gain = linear ) @ 20", "P.5,10", "ndcg_cut_10", "ndcg_cut.10", "map"]
METRICS += ["nDCG(dcg='exp-log2')@10", "ndcg(gain={1: 1, 2: 3})@5", "P_5,10", "RR(rel=0.5)"]


@pytest.mark.parametrize("text", METRICS + [metric.name for metric in listed()])
def test_the_pattern_lets_metrics_pass(text: str) -> None:
    assert re.search(METRIC, text)


@pytest.mark.parametrize("text", ["", "10", "ndcg@", "ndcg@k", "ndcg(", "ndcg@10 recall@5", "@10"])
def test_the_pattern_holds_back_what_cannot_be_read(text: str) -> None:
    assert not re.search(METRIC, text)
    with pytest.raises(sm.SpecError):
        parse(text)


RIGHT: dict[str, dict[str, Any]] = {
    "minimal": {},
    "one metric as text": {"metrics": "mrr"},
    "one segment as text": {"by": "country"},
    "a list of values": {"conventions": {"average_over": ["labels", "hits"]}},
    "a gain table": {"conventions": {"gain": {1: 1, 2: 3.5}}},
    "gain tables": {"conventions": {"gain": ["exp", {1: 1}]}},
    "gains from grade 0 on": {"conventions": {"gain": [0, 1, 3.5]}},
    "a number": {"conventions": {"depth": 100}},
    "a fraction": {"conventions": {"min_score": -0.5}},
    "no number": {"conventions": {"depth": "none"}},
    "words as grades": {"labels": {"file": "l.csv", "grades": {"high": 3, "none": 0}}},
    "ranks": {"rankings": {"file": "r.csv", "columns": {"rank": "pos"}}},
    "nothing for a word": {"rankings": {"file": "r.csv", "decimal": None}},
    "nothing for a column": {"rankings": {"file": "r.csv", "columns": {"system": None}}},
}

WRONG: dict[str, dict[str, Any]] = {
    "an unknown key": {"metric": ["mrr"]},
    "an unknown column role": {"rankings": {"file": "r.csv", "columns": {"sku": "item"}}},
    "no metrics": {"metrics": []},
    "a metric that cannot be read": {"metrics": ["ndcg@"]},
    "a number as metric": {"metrics": [10]},
    "an unknown preset": {"preset": "trec"},
    "an unknown option": {"conventions": {"tie": "id_asc"}},
    "an unknown choice": {"conventions": {"ties": "id"}},
    "a list where one holds for all": {"conventions": {"ties": ["id_asc", "id_desc"]}},
    "an empty list": {"conventions": {"gain": []}},
    "table without the table": {"conventions": {"gain": "table"}},
    "a negative gain": {"conventions": {"gain": {1: -1}}},
    "a fraction of a rank": {"conventions": {"depth": 2.5}},
    "a border that is not a number": {"conventions": {"min_score": "high"}},
    "a depth of 0": {"conventions": {"depth": 0}},
    "two places": {"rankings": {"file": "r.csv", "relation": "r"}},
    "no place": {"rankings": {"columns": {"score": "s"}}},
    "score and rank": {"rankings": {"file": "r", "columns": {"score": "s", "rank": "r"}}},
    "a text as table": {"labels": "labels.parquet"},
    "data in memory": {"rankings": {"data": "r"}},
    "another version": {"version": 2},
    "labels twice": {"rankings": {"file": "r.csv", "columns": {"grade": "g"}}},
}


def accepted(fields: dict[str, Any]) -> bool:
    """Whether `Spec` itself accepts it, as it comes from a file."""
    try:
        sm.Spec(**fields)
    except sm.SpecError:
        return False
    return True


def as_json(fields: dict[str, Any]) -> Any:
    """As an editor sees it: all keys are texts."""
    return json.loads(json.dumps(fields))


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_spec_accepts_the_schema_accepts(name: str) -> None:
    fields = MINIMAL | RIGHT[name]
    assert accepted(fields)
    validator = peer("jsonschema").Draft7Validator(SCHEMA)
    assert [error.message for error in validator.iter_errors(as_json(fields))] == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_the_schema_refuses(name: str) -> None:
    fields = MINIMAL | WRONG[name]
    assert name == "data in memory" or not accepted(fields)
    assert not peer("jsonschema").Draft7Validator(SCHEMA).is_valid(as_json(fields))


@pytest.mark.parametrize("stay", [5, "30s", " 1.5 m", "30", "a day", -1])
def test_a_duration_is_a_number_or_has_a_unit(stay: object) -> None:
    columns = {"clicked": "is_clicked", "dwell": "seconds"}
    clicks = {"log": {"file": "l.csv", "columns": columns}, "cleaning": {"min_dwell": stay}}
    fields = {"clicks": clicks, "metrics": ["mrr"]}
    assert accepted(fields) == (stay in (5, "30s", " 1.5 m"))
    assert peer("jsonschema").Draft7Validator(SCHEMA).is_valid(as_json(fields)) == accepted(fields)


@pytest.mark.parametrize("key", ["rankings", "labels", "metrics"])
def test_what_must_be_there(key: str) -> None:
    fields = {name: value for name, value in MINIMAL.items() if name != key}
    assert not accepted(fields)
    assert not peer("jsonschema").Draft7Validator(SCHEMA).is_valid(as_json(fields))


def test_the_schema_is_one_and_accepts_the_example() -> None:
    validators = peer("jsonschema")
    validators.Draft7Validator.check_schema(SCHEMA)
    everything = re.sub(r"(?m)^( *)#(?=\S)", r"\1", learn.example())
    for text in (learn.example(), everything):
        validators.Draft7Validator(SCHEMA).validate(as_json(yaml.safe_load(text)))


# -- the page -------------------------------------------------------------------------


def takes(node: dict[str, Any]) -> str:
    """What a key takes, in words."""
    if "const" in node:
        return str(node["const"])
    if "pattern" in node:
        return "a metric" if node["pattern"] == METRIC else "seconds, or like `30m`"
    if "enum" in node:
        values = [value for value in node["enum"] if value is not None]
        return ", ".join(f"`{value}`" for value in values) if len(values) < 13 else "a preset"
    if "anyOf" in node:
        first, second = map(resolved, node["anyOf"][:2])
        return f"{takes(first)}, or {'a list' if 'items' in second else takes(second)}"
    if "properties" in node or "additionalProperties" in node:
        inner = takes(node.get("additionalProperties") or {"type": "number"})
        return "keys" if "properties" in node else f"text: {inner.removeprefix('a ')}"
    kind = node["type"] if isinstance(node["type"], str) else node["type"][0]
    words = {"string": "text", "array": "a list", "boolean": "true or false"}
    return (words | {"integer": "a whole number", "number": "a number"})[kind]


def table() -> str:
    """The page's table of all keys."""
    rows = [["key", "takes", "default", "meaning"], ["---"] * 4]
    for path, node, is_needed in nodes(SCHEMA):
        default = "needed" if is_needed else str(node.get("default", " ")).replace("False", "false")
        meaning = node["description"].splitlines()[0].replace("|", "\\|")
        rows.append([f"`{path}`", takes(node), default, meaning])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def example(name: str) -> str:
    """The end of an explanation: what it says of its example."""
    text = sm.explain(name)
    return text[text.index("Example") :]


@by_turns(1.8)
def test_the_pages_are_current() -> None:
    examples = {"metric": "ndcg@3", "option": "ties", "online": "p_skip"}
    blocks = {f"explain_{key}": f"```text\n{example(name)}\n```" for key, name in examples.items()}
    for page, fresh in {"spec-keys.md": {"spec": table()}, "explain.md": blocks}.items():
        path = PAGE.with_name(page)
        text = path.read_text(encoding="utf-8")
        for key, content in fresh.items():
            pattern = rf"<!-- generated: {key} -->.*?<!-- end -->"
            assert re.search(pattern, text, re.DOTALL), key
            block = f"<!-- generated: {key} -->\n{content}\n<!-- end -->"
            text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
        if UPDATE:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text


def yamls() -> list[str]:
    """The YAML on the page."""
    return re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("block", yamls())
def test_the_page_s_yaml_is_accepted(block: str, tmp_path: Path) -> None:
    """A block is a spec, or keys to be added to the first one."""
    first = yaml.safe_load(yamls()[0])
    (tmp_path / "search_quality.yml").write_text(yaml.safe_dump(first | yaml.safe_load(block)))
    assert sm.compile(sm.Spec.read(tmp_path / "search_quality.yml"))
