"""Random inputs of the public commands: files, specs, options and environments, broken or odd."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.cli import COMMANDS, cli

ODD_TEXTS = (
    *("", " ", "0", "-1", "1", "2.5", "nan", "inf", "-inf", "1e999", "1e-999", "1,5", "0x10", "٣"),
    *("1_000", "null", "NULL", "true", "~", "[]", "{}", "''", '"', "'", "`", ";", "--", "/*", "\\"),
    *(
        "中文",
        "é",
        "\u202e",
        "\x7f",
        "a\tb",
        "a\nb",
        "\ufeff",
        "💩",
        "a" * 3000,
        "%s",
        "{0}",
        "{{ x }}",
    ),
    *("2026-01-01", "10000-01-01", "-0044-03-15", "infinity", "31.01.2026", "2026-02-30", "today"),
    *(
        "select 1",
        "1 = 1",
        "1 = 1 or",
        "query_id = 'q1'",
        "(select 1)",
        ")",
        "a.b.c",
        "..",
        ".",
        "/",
    ),
    *(
        "ndcg@10",
        "mrr",
        "ndcg@0",
        "ndcg@",
        "@",
        "nope",
        "ctr",
        "f(beta=2)@5",
        "ndcg(gain=",
        "ap,mrr",
    ),
    *("a=b", "=", "ties=average", "gain=table", "missing=zero", "k=", "system", "day", "country"),
    *("99999999999999999999", "18446744073709551616", "-99999999999999999999", "1e308"),
)
"""Values that somebody may give anywhere."""

FILES = ("runs", "labels", "queries", "sheet")
FORMATS = (
    ".csv",
    ".tsv",
    ".jsonl",
    ".json",
    "",
    ".run",
    ".parquet",
    ".csv.gz",
    ".jsonl.gz",
    ".txt.gz",
    ".csv.xz",
    ".txt.bz2",
    ".jsonl.zip",
)
SPECS = ("s.yml", "c.yml")

USUAL = (
    "evaluate runs.csv labels.csv -m mrr --system system --date day",
    "compare runs.csv labels.csv -m mrr --system system",
    "show s.yml",
    "sheet s.yml",
    "sample s.yml --size 2",
    "clicks c.yml",
)
OUTPUTS = ("made.csv", "made.html", "made", "made.parquet")
NEW = ("made", "made.duckdb", "made.yml")
ARGUMENTS: Mapping[str, Sequence[str]] = {
    "spec": SPECS,
    "log": SPECS,
    "what": ("metrics", "presets", "options", "dialects", "exports"),
    "tool": ("dbt", "superset", "cube", "malloy", "sqlmesh", "metabase"),
    "name": ("ndcg@10", "house", "ties", "trec_eval", "ctr"),
    "picture": ("deltas", "days", "averages"),
}
"""An argument of a command -> what may be given for it; of any other, a file."""

SPEC: Mapping[str, Any] = {
    "version": 1,
    "name": "fuzzed",
    "rankings": {"file": "runs.csv", "columns": {"system": "system", "date": "day"}},
    "labels": {"file": "labels.csv"},
    "queries": {"file": "queries.csv", "columns": {"segments": ["country"]}},
    "metrics": ["ndcg@3", "mrr", "recall@2"],
    "preset": "house",
    "conventions": {"ties": "id_asc", "missing": "zero"},
    "by": ["country"],
    "baseline": "s0",
    "output": {"relation": "m", "per_query": "mq"},
    "checks": [
        {"metric": "mrr", "min": 0.1, "system": "s1", "segment": {"country": "x"}},
        {"metric": "ndcg@3", "max_drop": 0.5, "against": "s0"},
    ],
}
CLICKS: Mapping[str, Any] = {
    "version": 1,
    "name": "log",
    "clicks": {
        "daily": True,
        "log": {
            "file": "log.csv",
            "columns": {
                **{name: name for name in ("request", "query", "item", "position", "user")},
                "clicked": "clicked",
                "time": "day",
            },
        },
        "labels": {"grades": {"click": 1}, "pool": "impression"},
    },
    "metrics": ["ndcg@3", "ctr"],
    "output": {"relation": "cm"},
}


@dataclass
class Fuzz:
    """What one seed makes: the files of a folder, and commands to be run there.

    Attributes:
        seed: The seed.
        folder: Where the files are.
    """

    seed: int
    folder: Path
    lot: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.lot = random.Random(self.seed)

    def files(self) -> None:
        """Write tables and specs; some of them are odd."""
        tables = {**self._tables(), "log": self._log()}
        for name, rows in tables.items():
            for suffix in dict.fromkeys((".csv", self.lot.choice(FORMATS))):
                content = _encoded(rows, suffix)
                if self.lot.random() < 0.4:
                    content = self.spoilt(content)
                (self.folder / f"{name}{suffix}").write_bytes(content)
        for name, spec in zip(SPECS, (SPEC, CLICKS), strict=True):
            text = json.dumps(self._odd_spec(spec), ensure_ascii=self.lot.random() < 0.5)
            content = text.encode("utf-8", "replace")
            if self.lot.random() < 0.15:
                content = self.spoilt(content)
            (self.folder / name).write_bytes(content)

    def commands(self, number: int) -> Iterator[list[str]]:
        """So many command lines."""
        names = [name for names in COMMANDS.values() for name in names]
        verbs = [name for name in names if name not in ("demo", "doctor", "debug")]
        for _ in range(number):
            is_replacing = self.lot.random() < 0.15
            yield self._replacing() if is_replacing else self._command(self.lot.choice(verbs))

    def _replacing(self) -> list[str]:
        """A usual command whose output is the place of a file that is there."""
        line = self.lot.choice(USUAL).split()
        flags = ["--overwrite"] if self.lot.random() < 0.5 else []
        return [*line, "--out", self.lot.choice(self._protected_files()), *flags]

    def spoilt(self, content: bytes) -> bytes:
        """Bytes that were cut, changed, doubled, packed, or written in another encoding."""
        position = self.lot.randrange(len(content) + 1)
        odd = self.lot.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
        ways: tuple[Callable[[], bytes], ...] = (
            lambda: b"",
            lambda: content[:position],
            lambda: content[position:],
            lambda: content[:position] + odd + content[position:],
            lambda: content[:position] + b"\0\xff" + content[position + 2 :],
            lambda: content + content,
            lambda: gzip.compress(content)[: self.lot.choice((20, 60, 10_000))],
            lambda: content.decode("utf-8", "replace").encode("utf-16"),
            lambda: b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"),
            lambda: content.replace(b",", b";").replace(b".", b","),
            lambda: self._odd_cell(content, odd),
            lambda: self._odd_cell(content, odd),
        )
        return self.lot.choice(ways)()

    def _odd_cell(self, content: bytes, odd: bytes) -> bytes:
        mark = b"\t" if content.count(b"\t") > content.count(b",") else b","
        cells = content.split(mark)
        cells[self.lot.randrange(len(cells))] = odd
        return mark.join(cells)

    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        lot = self.lot
        queries, systems, days = (lot.randint(1, 4) for _ in range(3))
        ids = [
            (f"q{q}", f"s{s}", f"2026-01-0{1 + d}")
            for q in range(queries)
            for s in range(systems)
            for d in range(days)
        ]
        runs = [
            {
                "query_id": q,
                "item_id": f"d{i}",
                "score": round(lot.random(), 3),
                "system": s,
                "day": d,
            }
            for q, s, d in ids
            for i in range(lot.randint(1, 4))
        ]
        labels = [
            {"query_id": f"q{q}", "item_id": f"d{i}", "grade": lot.randint(0, 3)}
            for q in range(queries)
            for i in range(3)
        ]
        query_rows = [
            {"query_id": f"q{q}", "country": lot.choice("xy"), "text": "t"} for q in range(queries)
        ]
        sheet = [
            {"query_id": "q0", "item_id": f"e{i}", "grade": lot.choice((0, 1, ""))}
            for i in range(3)
        ]
        return {"runs": runs, "labels": labels, "queries": query_rows, "sheet": sheet}

    def _log(self) -> list[dict[str, Any]]:
        lot = self.lot
        return [
            {
                "request": f"r{request}",
                "query": f"q{request % 3}",
                "item": f"d{position}",
                "position": position,
                "user": f"u{request % 4}",
                "clicked": lot.randint(0, 1),
                "day": f"2026-01-0{1 + request % 3} 10:00:00",
            }
            for request in range(lot.randint(1, 12))
            for position in range(1, lot.randint(2, 5))
        ]

    def _odd_spec(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A spec in which up to three values are odd, missing or too many."""
        odd_spec: dict[str, Any] = json.loads(json.dumps(spec))
        for _ in range(self.lot.choice((0, 1, 1, 1, 2, 3))):
            mapping = odd_spec
            while True:
                key = self.lot.choice(list(mapping))
                if isinstance(mapping[key], dict) and mapping[key] and self.lot.random() < 0.8:
                    mapping = mapping[key]
                    continue
                break
            way = self.lot.random()
            if way < 0.2:
                del mapping[key]
            elif way < 0.3:
                mapping[self.lot.choice((*ODD_TEXTS, self._misspelt(key)))] = mapping.pop(key)
            else:
                mapping[key] = self._odd_value(mapping[key])
            if not odd_spec:
                break
        return odd_spec

    def _odd_value(self, value: Any) -> Any:
        if isinstance(value, list) and value and self.lot.random() < 0.5:
            return [*value, self._odd_value("")]
        if isinstance(value, str) and value and self.lot.random() < 0.4:
            return self._misspelt(value)
        odd: tuple[Any, ...] = (
            *ODD_TEXTS,
            None,
            True,
            [],
            {},
            0,
            -1,
            1e308,
            10**30,
            [[]],
            {"a": {}},
        )
        return self.lot.choice(odd)

    def _misspelt(self, text: str) -> str:
        """A text with two letters in each other's place, one that is missing, or in capitals."""
        position = self.lot.randrange(max(1, len(text) - 1))
        start, first, rest = text[:position], text[position : position + 1], text[position + 1 :]
        ways = (start + rest[:1] + first + rest[1:], start + rest, text.upper())
        return self.lot.choice(ways)

    def _command(self, name: str) -> list[str]:
        command = cli.commands[name]
        line = [name]
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                number = self.lot.choice((1, 2, 2, 3)) if parameter.nargs == -1 else 1
                line += [self._argument(str(parameter.name), name) for _ in range(number)]
        options = [
            option
            for option in command.params
            if isinstance(option, click.Option) and option.name != "debug"  # it shows tracebacks
        ]
        for option in self.lot.sample(options, min(len(options), self.lot.choice((0, 1, 2, 4)))):
            line.append(option.opts[-1])
            if not (option.is_flag or option.count):
                line.append(self._value(option, name))
        if "-m" not in line and "--metrics" not in line and self.lot.random() < 0.7:
            line += ["-m", "mrr,ndcg@3"] if any("-m" in option.opts for option in options) else []
        needed = {"--value": "0.5", "--size": "2", "--labels": "labels.csv", "--out": "made"}
        for option in options:
            if option.required and option.opts[-1] not in line:
                line += [option.opts[-1], needed.get(option.opts[-1], "1")]
        return line

    def _argument(self, role: str, command: str) -> str:
        if self.lot.random() < 0.06:
            return self._safe(self.lot.choice(ODD_TEXTS))
        new = command == "simulate" or role in ("file", "folder")
        usual = NEW if new else ARGUMENTS.get(role, ())
        if not usual and self.lot.random() < 0.12:
            usual = SPECS
        return self.lot.choice(usual or self._table_files())

    def _table_files(self) -> list[str]:
        """The files of one table, in whichever format."""
        files = sorted(path.name for path in self.folder.iterdir() if path.suffix != ".yml")
        stem = self.lot.choice(FILES)
        return [file for file in files if file.startswith(stem)] or files

    def _value(self, option: click.Option, command: str) -> str:
        name = option.opts[-1]
        if isinstance(option.type, click.Choice) and self.lot.random() < 0.9:
            return str(self.lot.choice(list(option.type.choices)))
        if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
            return self.lot.choice(("0", "1", "2", "3", "0.5", "-1", "x", "nan", "1e3"))
        usual = {
            "--db": ("m.duckdb", "runs.csv", "empty.duckdb"),
            "--connection": ("sqlite:///m.db", "sqlite://", "m.duckdb", "duckdb:///m.duckdb"),
            "--labels": ("labels.csv", "runs.csv"),
            "--queries": ("queries.csv",),
            "--start": ("2026-01-01", "today", "-1 day"),
            "--end": ("2026-01-03", "2026-01-01"),
            "--by": ("country", "system"),
            "--system": ("system",),
            "--date": ("day",),
            "--baseline": ("s0", "s1", "0s"),
            "--out": (*OUTPUTS, *self._protected_files()),
            "--junit": ("made.xml", *self._protected_files()),
            "--profile": ("made.json", *self._protected_files()),
            "--publish": ("made.duckdb", "made"),
            "--job": ("made",),
            "--memory": ("200MB",),
            "--checkpoint": ("made",),
            "--where": ("query_id <> 'q0'",),
        }.get(name, ())
        if usual and self.lot.random() < 0.8:
            return self.lot.choice(usual)
        return self._safe(self.lot.choice(ODD_TEXTS)) if command else ""

    def _protected_files(self) -> Sequence[str]:
        """What no output may replace; now and then the file itself that the command reads."""
        names = sorted(path.name for path in self.folder.iterdir() if path.is_file())
        return (*self.lot.sample(names, min(3, len(names))), "store.duckdb")

    def _safe(self, text: str) -> str:
        """A text that leads out of the folder by no path."""
        return "made" if text in ("/", "..", ".") else text.replace("\0", "")


def _zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("rows.jsonl", content)
    return buffer.getvalue()


PACKS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zip": _zipped,
}


def _encoded(rows: list[dict[str, Any]], suffix: str) -> bytes:
    """Rows in a format."""
    inner, _, ending = suffix.rpartition(".")
    if ending in PACKS:
        return PACKS[ending](_encoded(rows, inner))
    names = list(rows[0]) if rows else ["query_id", "item_id"]
    if suffix == ".parquet":
        buffer = io.BytesIO()
        texts = {name: [row[name] for row in rows] for name in names}
        columns = {
            name: values if len({type(value) for value in values}) == 1 else list(map(str, values))
            for name, values in texts.items()
        }
        pq.write_table(pa.table(columns), buffer)
        return buffer.getvalue()
    if suffix == ".json":
        return json.dumps(rows).encode()
    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if suffix in ("", ".run", ".txt"):
        lines = (
            f"{row['query_id']} Q0 {row['item_id']} 1 {row['score']} {row['system']}\n"
            if "score" in row
            else " ".join(map(str, row.values())) + "\n"
            for row in rows
        )
        return "".join(lines).encode()
    mark = "\t" if suffix == ".tsv" else ","
    lines = (mark.join(map(str, row.values())) for row in rows)
    return ("\n".join([mark.join(names), *lines]) + "\n").encode()
