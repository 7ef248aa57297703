"""`init`: a spec to start from, in which every key has an example that is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from command import sqlmetrics
from schema_paths import paths

import sqlmetrics as sm
from sqlmetrics.cli import learn

EXAMPLE = learn.example()
OPTIONAL = re.compile(r"^( *)#(?=\S)")
"""A # right before a key leaves it out; prose has a space behind its #."""

CSV = ("separator", "decimal")
"""Keys of any table that is a CSV file."""

INSTEAD = {
    "rankings.relation": ("file: rankings.parquet", "relation: analytics.rankings"),
    "rankings.sql": ("file: rankings.parquet", 'sql: "select * from analytics.rankings"'),
    "rankings.columns.rank": ("score: score", "rank: position"),
    "labels.relation": ("file: labels.parquet", "relation: analytics.labels"),
    "labels.sql": ("file: labels.parquet", "sql: select * from analytics.labels"),
    "queries.relation": ("file: queries.parquet", "relation: analytics.queries"),
    "queries.sql": ("file: queries.parquet", "sql: select * from analytics.queries"),
    "items.relation": ("file: items.parquet", "relation: analytics.items"),
    "items.sql": ("file: items.parquet", "sql: select * from analytics.items"),
} | {
    f"{table}.{key}": (f"file: {table}.parquet", f"file: {table}.csv\n  {key}: ','")
    for table in ("rankings", "labels", "queries", "items")
    for key in CSV
}
"""Keys that stand in the place of another one: its line, and theirs."""


OPEN = ("conventions", "labels.grades", "clicks.labels.grades", "segments")
"""Keys whose own keys are the user's."""

OF_CLICKS = ("clicks", "online")
"""Keys that are explained in the example of a click log."""


def uncommented(text: str) -> str:
    """The example with all that can be left out."""
    return "\n".join(OPTIONAL.sub(r"\1", line) for line in text.splitlines())


def blocks() -> dict[str, str]:
    """Every optional block's first line -> the example with that block alone."""
    lines, examples, start = EXAMPLE.splitlines(), {}, 0
    while start < len(lines):
        end = start + 1
        if OPTIONAL.match(lines[start]):
            while (
                end < len(lines)
                and OPTIONAL.match(lines[end])
                and depth(lines[end]) > depth(lines[start])
            ):
                end += 1
            block = [OPTIONAL.sub(r"\1", line) for line in lines[start:end]]
            name = f"{start + 1}: {lines[start].strip(' #')}"
            examples[name] = "\n".join([*lines[:start], *block, *lines[end:]])
        start = end
    return examples


def depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def key_paths(text: str) -> set[str]:
    """The paths of all keys of a YAML text."""

    def walk(node: object, path: str = "") -> set[str]:
        if not isinstance(node, dict) or path in OPEN:
            return set()
        values = {f"{path}.{key}".strip("."): value for key, value in node.items()}
        return set(values).union(*(walk(value, name) for name, value in values.items()))

    return walk(yaml.safe_load(text))


def read(text: str, folder: Path) -> sm.Spec:
    (folder / "spec.yml").write_text(text, encoding="utf-8")
    return sm.Spec.read(folder / "spec.yml")


def test_the_example_is_a_spec_as_it_stands(tmp_path: Path) -> None:
    spec = read(EXAMPLE, tmp_path)
    assert spec.title == "search_quality"
    assert "from read_parquet(" in sm.compile(spec)


@pytest.mark.parametrize("name", blocks())
def test_every_optional_block_is_accepted(name: str, tmp_path: Path) -> None:
    assert read(blocks()[name], tmp_path)


def test_all_blocks_go_together(tmp_path: Path) -> None:
    text = uncommented(EXAMPLE).replace("    weight: traffic\n", "", 1)  # the queries have it too
    assert "my" not in sm.compile(read(text, tmp_path))


@pytest.mark.parametrize("key", INSTEAD)
def test_what_can_stand_instead_is_accepted(key: str, tmp_path: Path) -> None:
    line, instead = INSTEAD[key]
    text = uncommented(EXAMPLE).replace("    weight: traffic\n", "", 1)
    assert line in text
    changed = text.replace(line, instead)
    assert key in key_paths(changed)
    read(changed, tmp_path)


def test_grades_may_stand_in_the_rankings(tmp_path: Path) -> None:
    spec = yaml.safe_load(EXAMPLE)
    del spec["labels"]
    spec["rankings"]["columns"]["grade"] = "relevance"
    read(yaml.safe_dump(spec), tmp_path)


def test_every_key_of_a_spec_has_an_example() -> None:
    # of labels that stand in the rankings, of files that have to be there, and of several systems
    not_alone = ("rankings.columns.grade", "rankings.grades", "metrics_from")
    not_alone += ("rankings.fuse", "rankings.fused_only")
    example_keys = key_paths(uncommented(EXAMPLE)) | {*INSTEAD, *not_alone}
    spec_keys = {path for path in paths() if path.partition(".")[0] not in OF_CLICKS}
    assert example_keys == {path for path in spec_keys if "[]" not in path}
    for key in (*INSTEAD, *not_alone):
        assert re.search(rf"# .*\b{key.rsplit('.', 1)[-1]}: ", EXAMPLE), key


def test_the_example_of_a_click_log_is_a_spec(tmp_path: Path) -> None:
    text = learn.example("clicks")
    assert read(text, tmp_path).online[0] == "ctr@5"
    full_text = uncommented(text)
    assert read(full_text, tmp_path).clicks is not None
    example_keys = {path for path in key_paths(full_text) if path.startswith("clicks.")}
    spec_keys = {path for path in paths() if path.startswith("clicks.")}
    assert example_keys <= spec_keys
    for table in ("impressions", "events", "requests", "cleaning"):
        mine = {path for path in spec_keys if path.startswith(f"clicks.{table}.")}
        places = {f"clicks.{table}.{key}" for key in ("relation", "sql", "where", *CSV)}
        assert mine - example_keys <= places, table


def test_every_key_of_the_example_has_a_comment_above() -> None:
    """Except the names of columns and places, which say what they are."""
    lines = EXAMPLE.splitlines()
    for at, line in enumerate(lines):
        if re.match(r"#?[a-z_]+:", line) and not line.startswith("version"):
            assert lines[at - 1].startswith("# ") or "#" in line.partition(": ")[2], line


def test_init_writes_it_and_says_what_is_next(tmp_path: Path) -> None:
    out = sqlmetrics("init", folder=tmp_path).stdout
    assert (tmp_path / "sqlmetrics.yml").read_text(encoding="utf-8") == EXAMPLE
    assert (tmp_path / learn.SCHEMA).read_text(encoding="utf-8") == learn.schema_text()
    first = EXAMPLE.splitlines()[0]
    assert first == f"# yaml-language-server: $schema={learn.SCHEMA}"
    commands = [line.split()[1:] for line in out.splitlines() if line.startswith("  sqlmetrics ")]
    assert ["compile", "sqlmetrics.yml"] in commands
    for command in commands:
        is_about_data = command[0] == "validate"  # and there is none yet
        completed = sqlmetrics(*command, folder=tmp_path, expect=2 if is_about_data else 0)
        assert ("there is no file 'rankings.parquet'" in completed.stderr) == is_about_data


def test_init_does_not_write_over_a_file(tmp_path: Path) -> None:
    spec, schema = tmp_path / "my spec.yml", tmp_path / learn.SCHEMA
    spec.write_text("mine")
    schema.write_text("{}")
    completed = sqlmetrics("init", "my spec.yml", folder=tmp_path, expect=2)
    assert "'my spec.yml' already exists; --overwrite replaces it" in completed.stderr
    assert (completed.stdout, spec.read_text()) == ("", "mine")
    out = sqlmetrics("init", "other.yml", folder=tmp_path).stdout
    assert f"Left {learn.SCHEMA} as it was" in out
    assert schema.read_text() == "{}"
    out = sqlmetrics("init", "my spec.yml", "--force", folder=tmp_path).stdout
    assert "sqlmetrics compile 'my spec.yml'" in out
    assert spec.read_text(encoding="utf-8") == EXAMPLE
    assert schema.read_text(encoding="utf-8") == learn.schema_text()


@pytest.mark.parametrize(
    ("file", "message", "code"),
    [(".", "is a folder; give the name of a file", 2), ("no/x.yml", "cannot write 'no/x.yml'", 3)],
)
def test_where_it_cannot_be_written(file: str, message: str, code: int, tmp_path: Path) -> None:
    assert message in sqlmetrics("init", file, folder=tmp_path, expect=code).stderr
    assert list(tmp_path.iterdir()) == []


def test_init_prints_the_schema(tmp_path: Path) -> None:
    assert sqlmetrics("init", "--schema", folder=tmp_path).stdout == learn.schema_text()
    assert list(tmp_path.iterdir()) == []
