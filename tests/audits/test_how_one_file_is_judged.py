"""docs/how-one-file-is-judged.md: runs the example of the page and compares every row and call that the page prints.

`UPDATE_PAGE=1 pytest tests/audits/test_how_one_file_is_judged.py` writes the present rows and calls into the page.
"""

import json
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.audit import kernel
from lakeaudit.confirm import suspects
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.rules import file_rules
from lakeaudit.runtime import duck
from tests.builders.artefacts import put

PAGE = Path(__file__).parents[2] / "docs" / "how-one-file-is-judged.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n```text\n)(.*?)(^```)", re.MULTILINE | re.DOTALL)
LOST = "part-2.parquet"
PACKAGE = "/jobs/lakeaudit/"
BEGIN = datetime(2026, 1, 5, 2, tzinfo=UTC)
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
META = {
    "id": "0a1b",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(SCHEMA),
    "partitionColumns": [],
    "configuration": {},
}
PAIR_COLUMNS = (
    *("key", "table_name", "category", "c_state", "c_certain", "c_size", "c_records", "c_claimed_at"),
    *("c_table_version", "s_presence", "s_source", "s_from", "s_margin", "m_state", "t_grace", "t_holed"),
)
VERDICT_COLUMNS = ("axis", "judged_table", "rule", "outcome", "kind", "severity", "suspected")
FINDING_COLUMNS = (
    *("table_name", "axis", "kind", "severity", "subject", "table_version", "rows_at_stake"),
    *("bytes_at_stake", "recoverable", "confirmation", "explanation"),
)

Blocks = dict[str, str]


def write_lake(folder: Path) -> Path:
    """Write a Delta table of two commits with one file each, delete the second file, and return the lake file."""
    table = folder / "lake" / "orders"
    start: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": META},
    ]
    commits = [start]
    for number in (1, 2):
        at = BEGIN + timedelta(minutes=number)
        name, millis = f"part-{number}.parquet", int(at.timestamp() * 1000)
        put(table / name, "x" * 1000, at)
        stats = json.dumps({"numRecords": 100})
        add = {"path": name, "partitionValues": {}, "size": 1000, "modificationTime": millis, "stats": stats}
        info = {"timestamp": millis, "operation": "WRITE"}
        commits.append([{"commitInfo": info}, {"add": {**add, "dataChange": True}}])
    for version, actions in enumerate(commits):
        lines = "".join(f"{json.dumps(action)}\n" for action in actions)
        put(table / "_delta_log" / f"{version:020}.json", lines, BEGIN + timedelta(minutes=version))
    (table / LOST).unlink()
    lake = folder / "lake.yaml"
    lake.write_text(
        f"version: 1\nlake: shop\nresults: {folder}/results\n"
        f"inventories: [{{kind: listing, location: {folder}/lake/}}]\n"
        f"tables: [{{name: sales.orders, location: {table}, manifests: [{{kind: delta}}]}}]\n"
    )
    return lake


class Recorder:
    """Records the rows of the example's files and the calls above the rules, as an audit passes them on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.as_posix().lstrip("/") + "/"
        self.blocks: Blocks = {}

    def printed_value(self, value: Any) -> str:
        """Return a value as the page prints it: without this test's folder, and without today's times."""
        if isinstance(value, datetime) and value.year * 100 + value.month > BEGIN.year * 100 + BEGIN.month:
            return "(now)"
        text = f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
        text = text.replace("/" + self.folder, "/").replace(self.folder, "")
        return re.sub(r"; storage as of \S+", "; storage as of (now)", text)

    def add(self, block: str, rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()) -> None:
        for row in rows:
            names = [name for name in columns or row if row.get(name) is not None]
            width = max(map(len, names))
            lines = [f"{name:<{width}}  {self.printed_value(row[name])}".rstrip() for name in names]
            known = self.blocks.get(block)
            self.blocks[block] = "\n".join([*([known] if known else []), *lines, ""])

    def read(self, chunks: Iterable[Any]) -> None:
        """Record the rows of both files from the listing and from the log."""
        for chunk in chunks:
            for name in ("part-1.parquet", LOST):
                rows = [{"kind of row": chunk.kind, **row} for row in of_file(chunk.batch.to_pylist(), name)]
                self.add("listed" if chunk.kind == "versions" else "logged", rows)

    def rule(self, rows: Any) -> None:
        """Record the rule and the calls above it; suspects are judged once more, by other calls."""
        if "rule" not in self.blocks:
            (row,) = of_file(duck.rows_of(rows))
            rule = file_rules.RULES[row["rule_content"]]
            self.add("rule", [{"rule_content": rule.id, "conditions": ", ".join(rule.when)}])
            frames = [each for each in traceback.extract_stack() if PACKAGE in each.filename]
            calls = [(each.filename.partition(PACKAGE)[2], each.name) for each in frames]
            calls.append(("rules/classify.py", "apply_rules"))
            assert len(calls) <= 12
            self.blocks["calls"] = "".join(f"{module:<29} {name}\n" for module, name in calls)


def of_file(rows: Iterable[Mapping[str, Any]], name: str = LOST) -> list[Mapping[str, Any]]:
    return [row for row in rows if str(row.get("key")).endswith(name)]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Blocks:
    """Run `audit --live` and `findings` on the example, and return the blocks of the page."""
    lake, recorder = str(write_lake(tmp_path)), Recorder(tmp_path)
    record_rows(recorder, monkeypatch)
    assert cli.main(["audit", lake, "--live"]) == 1
    capsys.readouterr()
    cli.main(["findings", lake, "--format", "jsonl"])
    recorder.add("finding", [json.loads(capsys.readouterr().out.splitlines()[0])], FINDING_COLUMNS)
    return recorder.blocks


def record_rows(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the results of the calls that the page describes."""

    def patch(place: Any, name: str, record: Callable[[Any], None]) -> None:
        original = getattr(place, name)

        def call(*args: Any, **options: Any) -> Any:
            result = original(*args, **options)
            record(result)
            return result

        monkeypatch.setattr(place, name, call)

    patch(InProcessEngine, "_read_all", recorder.read)
    patch(kernel, "pairs", lambda rows: recorder.add("pair", of_file(duck.rows_of(rows)), PAIR_COLUMNS))
    patch(kernel, "apply_rules", recorder.rule)
    patch(
        kernel,
        "candidates",
        lambda rows: recorder.add("suspect", of_file(duck.rows_of(rows)), VERDICT_COLUMNS),
    )
    patch(
        suspects,
        "confirm",
        lambda result: recorder.add("answer", of_file(result.answers.to_pylist())),
    )


def test_the_page_prints_the_rows_and_calls_of_an_audit(example: Blocks) -> None:
    page = PAGE.read_text("utf-8")
    if os.environ.get("UPDATE_PAGE"):
        page = BLOCK.sub(lambda block: block[1] + example[block[2]] + block[4], page)
        PAGE.write_text(page, "utf-8")
    assert {name: text for _, name, text, _ in BLOCK.findall(page)} == example
