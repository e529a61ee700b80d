"""Missing or torn files of a table's metadata: their names and their explanations."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.advice import format_advice, next_steps
from lakeaudit.checks.lineage import lost_metadata
from lakeaudit.checks.lineage.lost_metadata import is_cut_from, is_whole
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.spark_sink import reader as spark_sink
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.storage.lifecycle import Lifecycle, VersionExpiry
from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.source_answers import STORED, SourceAnswer
from lakeaudit.findings.finding_rows import FINDING_ROWS, with_losses
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS, NEWER_TORN, SET_ASIDE
from lakeaudit.rules.lineage_rules import LINEAGE
from lakeaudit.rules.rule import Rule
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.connections import connection
from tests.builders.delta_lake import table
from tests.builders.results import finding

LOG = "orders/_delta_log"


@pytest.mark.parametrize(
    ("there", "lost"),
    [
        (["0", "1", "2"], []),
        (["0", "2"], [("1", "the file of batch 1 is missing", 1)]),
        (["0", "4"], [("1", "the files of batches 1 to 3 of the sink's log are missing", 3)]),
        (
            ["10", "11"],
            [("9.compact", "9.compact is missing; this file lists the files of batches 0 to 9", 10)],
        ),
        (["9.compact", "10", "12"], [("11", "the file of batch 11 is missing", 1)]),
        (
            ["9.compact", "20"],
            [("19.compact", "19.compact is missing; this file lists the files of batches 0 to 19", 10)],
        ),
        (
            ["9.compact", "22"],
            [
                ("19.compact", "19.compact is missing; this file lists the files of batches 0 to 19", 10),
                ("20", "the files of batches 20 to 21 of the sink's log are missing", 2),
            ],
        ),
        (
            ["2.compact", "6"],
            [("5.compact", "5.compact is missing; this file lists the files of batches 0 to 5", 3)],
        ),
    ],
)
def test_the_lost_file_of_a_sinks_log_is_named(
    tmp_path: Path, there: list[str], lost: list[tuple[str, str, int]]
) -> None:
    """Every compaction has all batches before it, so a lost one cannot be detected from the batches alone."""
    events = table("events", tmp_path)
    folder = events.location.join("_spark_metadata")
    files = [File(folder.join(name), 10, datetime(2026, 11, 1, tzinfo=UTC)) for name in there]
    found = spark_sink._log(events, {folder: files})
    assert [
        (Location.parse(hole.subject).key.rpartition("/")[2], hole.reason, hole.count) for hole in found.holes
    ] == lost


ABSENT: dict[str, Any] = {
    **dict.fromkeys(("l_version_id", "l_older_version_id", "l_older_since", "l_older_class", "l_older_beneath_marker")),
    "l_presence": "absent", "l_delete_marker": True, "l_versions_known": True,
}  # fmt: skip
THERE: dict[str, Any] = ABSENT | {
    **dict.fromkeys(("l_etag", "l_modified_at")), "l_presence": "present", "l_size": 9, "l_archived": False,
    "l_storage_class": "STANDARD",
}  # fmt: skip
COLD: dict[str, Any] = {"l_storage_class": "GLACIER", "l_archived": True}
FIRST = "must be restored first, which takes 3 to 5 hours, or 5 to 12 at the bulk rate"


@pytest.mark.parametrize(
    ("answer", "recoverable", "words"),
    [
        (ABSENT, "no", ["storage keeps no object version of this file"]),
        (ABSENT | {"l_older_version_id": "v"}, "yes", ["storage keeps the object version v of this file"]),
        (
            ABSENT | {"l_older_version_id": "v", "l_older_class": "GLACIER"}, "yes",
            ["storage keeps the object version v of this file", f"the version to restore is in GLACIER and {FIRST}"],
        ),
        (THERE, "no", ["storage keeps no older object version of this file"]),
        (THERE | COLD, "yes", [f"the file is in GLACIER and {FIRST}"]),
        (THERE | COLD | {"l_older_version_id": "v"}, "yes", [f"the file is in GLACIER and {FIRST}"]),
    ],
    ids=["gone", "gone, a version is left", "gone, an archived version is left", "torn", "archived", "archived again"],
)  # fmt: skip
def test_what_has_to_be_restored_from_an_archive_is_named(
    answer: dict[str, Any], recoverable: str, words: list[str]
) -> None:
    row = finding("missing_metadata", f"{LOG}/1.json")
    told = row | lost_metadata._columns(Clients(), row, answer)
    assert (told["recoverable"], [*lost_metadata._versions(told, [told])]) == (recoverable, words)


PARQUET = b"PAR1" + b"\0" * 20 + b"PAR1"


@pytest.mark.parametrize(
    ("name", "content", "whole"),
    [
        ("1.json", b'{"add": {}}\n{"commitInfo": {}}\n', True),
        ("1.json", b'{"add": {}}\n{"commitInf', False),
        ("1.json", b"[1]", False),
        ("1.json", b"", False),
        ("1.json", b"\n \n", False),
        ("v2.metadata.json", b'{\n "format-version": 2\n}', True),
        ("1.checkpoint.parquet", PARQUET, True),
        ("1.checkpoint.parquet", PARQUET[:-4], False),
        ("1.checkpoint.parquet", b"PAR1", False),
        ("m0.avro", b"Obj\x01rest", True),
        ("m0.avro", b"rest", False),
        ("9.compact", b"v1\n{}", False),
    ],
)
def test_only_what_has_the_form_of_its_name_is_whole(name: str, content: bytes, whole: bool) -> None:
    assert is_whole(f"{LOG}/{name}", content) is whole


def missing_file(name: str, **given: Any) -> dict[str, Any]:
    row = finding("missing_metadata", f"{LOG}/{name}", recoverable="unknown", storage_size=None)
    return dict.fromkeys(FINDING_ROWS.names) | row | given


TORN = missing_file(
    f"{5:020}.checkpoint.parquet", storage_size=7, explanation=f"it is torn; hides {SET_ASIDE}"
)
WAYS = [
    (TORN, "aws s3 mv s3://lake/orders/_delta_log/00000000000000000005.checkpoint.parquet "),
    (TORN | {"storage_size": None}, None),
    (TORN | {"explanation": "it is torn; hides every file that the table lists"}, None),
    (
        missing_file("1.json", recoverable="yes", recovery="older_version", recovery_version_id="v"),
        "aws s3api copy-object ",
    ),
    (missing_file("1.json", recoverable="unknown", recovery_version_id="v"), None),
]


@pytest.mark.parametrize(("row", "command"), WAYS)
def test_only_a_checkpoint_that_nobody_needs_is_set_aside(row: dict[str, Any], command: str | None) -> None:
    step = next_steps.way_back(row)
    assert (None if step is None else step.command.startswith(command or "?")) == (
        None if command is None else True
    )


def test_a_commit_overwritten_by_other_content_is_restored() -> None:
    row = missing_file("1.json", recoverable="yes", recovery="older_version", recovery_version_id="v") | {
        "kind": "overwritten_commit"
    }
    assert "get-object" in next_steps.way_back(row).command  # type: ignore[union-attr]
    torn = next_steps.way_back(row | {"explanation": f"written twice; {NEWER_TORN}"})
    assert torn is not None
    assert "copy-object" in torn.command


STATE = missing_file(
    "metadata/00004-x.metadata.json", subject_type="file", category="log", explanation="points elsewhere"
)
NAMES = (
    *("version_id", "older_version_id", "older_since", "older_size", "older_beneath_marker"),
    *("delete_marker", "etag", "modified_at", "storage_class", "archived", "older_class"),
)
ANSWER: dict[str, Any] = {
    **{f"l_{name}": None for name in NAMES},
    "l_presence": "present",
    "l_size": 7,
    "l_versions_known": True,
}
SINCE = datetime(2026, 11, 21, 10, 30)  # noqa: DTZ001 - times of an audit are UTC without a zone
OLDER: dict[str, Any] = {"l_older_version_id": "v1", "l_older_size": 9, "l_older_since": SINCE}
OLD_AFTER_TEN_DAYS = VersionExpiry("old", Location("lake", ""), 10)
NOW: list[tuple[dict[str, Any], dict[str, Any], bytes, tuple[str, str | None], str]] = [
    ({"lost_state": 4}, {}, b'{"a": 1}', ("unknown", None), "its file exists"),
    ({"lost_state": None}, {}, b'{"a": 1}', ("unknown", None), "its file exists"),
    ({"lost_state": 4}, OLDER, b'{"a": 1}', ("unknown", None), "its file exists"),
    ({"lost_state": 4}, {}, b'{"a": ', ("no", None), "keeps no older object version"),
    ({"lost_state": 4}, {"l_size": 1 << 30}, b'{"a": 1}', ("no", None), "keeps no older object version"),
    ({"lost_state": 4}, {"l_presence": "absent"}, b"", ("no", None), "keeps no object version"),
    ({"lost_state": 4}, {"l_presence": "absent"} | OLDER, b"", ("yes", "v1"), "keeps the object version v1"),
    ({}, {}, b'{"a": 1}', ("no", None), "keeps no older object version"),
]


@pytest.mark.parametrize(("state", "answer", "content", "expected", "words"), NOW)
def test_a_state_whose_file_is_there_has_nothing_to_restore(
    monkeypatch: pytest.MonkeyPatch, state: Any, answer: Any, content: bytes, expected: Any, words: str
) -> None:
    monkeypatch.setattr(lost_metadata, "read_bytes", lambda *_: content)
    audit: Any = SimpleNamespace(
        scope=[table("orders", "s3://lake/orders")],
        confirms=lambda _: True,
        context=SimpleNamespace(clients=None),
        look=lambda _: SimpleNamespace(to_pylist=lambda: [ANSWER | answer]),
        con=connection(),
        lifecycles=SimpleNamespace(of=lambda _: [Lifecycle("lake", older=(OLD_AFTER_TEN_DAYS,))]),
    )
    (row,) = lost_metadata.with_versions(audit, [STATE | state])
    assert (row["recoverable"], row["recovery_version_id"]) == expected
    assert words in row["explanation"]
    ends = "on 2026-12-02 or later, lifecycle rule old deletes the version that can be restored"
    has_end = ends in row["explanation"]
    assert has_end is (row.get("recoverable_until") is not None)
    assert has_end is (row["recovery_version_id"] is not None)


@pytest.mark.parametrize(
    ("row", "back"),
    [
        (missing_file("1.json"), True),
        (TORN, False),
        (missing_file("1.json", storage_size=7), False),
        (missing_file("2.json"), False),
    ],
)
def test_a_torn_file_is_not_back(row: dict[str, Any], back: bool) -> None:
    key = TORN["key"] if row is TORN else f"{LOG}/1.json"
    told = Explanation(
        f"s3://lake/{key}", "lake", key, "orders", [SourceAnswer(STORED, "present", {"size": 7})], None,
        [row], [], [], [], [],
    )  # fmt: skip
    assert told.is_restored is back


def test_files_of_a_table_that_lost_a_state_are_not_called_useless() -> None:
    debris = (
        "2 files; no version lists these files; query engines use the table's metadata, so an unlisted file only "
        "costs storage; the format's own clean-up removes it"
    )
    rows = [
        dict.fromkeys(FINDING_ROWS.names) | {"table_name": name, "kind": kind, "explanation": words}
        for name, kind, words in (
            ("a", "uncommitted", debris), ("a", "missing_metadata", "gone"), ("b", "uncommitted", debris),
            ("c", "uncommitted", debris), ("c", "overwritten_commit", "twice"), (None, "unreadable_evidence", "x"),
        )
    ]  # fmt: skip
    con = connection()
    told = duck.rows_of(with_losses(con, pa.Table.from_pylist(rows, FINDING_ROWS)))
    con.close()
    words = {row["table_name"]: row["explanation"] for row in told if row["kind"] == "uncommitted"}
    assert words["b"] == debris
    for name in "ac":
        assert words[name].startswith("2 files; no version lists these files; a version of the table is lost")
        assert "only costs storage" not in words[name]


@pytest.mark.parametrize(
    ("content", "now", "cut"),
    [
        (b'{"a": 1}\n{"b": 2}\n', b'{"a": 1}\n', True),
        (b'{"a": 1}\n', b'{"a": 1}\n', False),
        (b'{"a": 1}\n\n', b'{"a": 1}', False),
        (b'{"c": 1}\n{"b": 2}\n', b'{"a": 1}\n', False),
    ],
)
def test_only_a_longer_version_with_the_same_begin_is_what_a_file_was_cut_from(
    content: bytes, now: bytes, cut: bool
) -> None:
    assert is_cut_from(content, now) is cut


TERMS = {
    "delta": (
        *(
            "VACUUM",
            "checkpoint",
            "txnAppId",
            "_delta_log",
            "_last_checkpoint",
            "RESTORE",
            "OPTIMIZE",
            "UniForm",
        ),
        *("new commit", ".crc"),
    ),
    "iceberg": (
        *(
            "metadata.json",
            "remove_orphan_files",
            "expire_snapshots",
            "rollback_to_snapshot",
            "register_table",
        ),
        *("set_current_snapshot", "new snapshot", "DeleteFiles"),
    ),
    "hudi": ("instant", "hoodie", "cleaner", "savepoint", "insert_overwrite"),
}
"""Terms of one format that say nothing to readers of another one."""
OF_STATES = (
    *("missing_metadata", "overwritten_commit", "lost_commit", "incomplete_commit", "stale_pointer"),
    *("table_missing", "rows_changed_by_rewrite", "ineffective_removal", "unreadable_content"),
)
GENERAL = {("incomplete_commit", "hudi"), ("stale_pointer", "hudi")}
"""Kinds whose advice for a format is the advice for any format."""
BEYOND = ("only costs storage", "there again", "othing is lost", "o row is lost", "is back")
"""Statements that no advice can make."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("manifest", ["delta", "iceberg", "hudi", "previous", "spark_sink"])
@pytest.mark.parametrize("recoverable", ["yes", "no"])
def test_advice_has_the_terms_of_its_own_format_alone(kind: str, manifest: str, recoverable: str) -> None:
    if kind == "clone_at_risk":  # shallow clones are Delta's alone
        return
    told = next_steps.to_do(kind, recoverable, manifest)
    assert told
    others = [term for name, terms in TERMS.items() if name != manifest for term in terms]
    assert not [term for term in others if term in told]
    assert not [words for words in BEYOND if words in told]


@pytest.mark.parametrize("kind", OF_STATES)
@pytest.mark.parametrize("manifest", TERMS)
def test_each_format_has_its_advice_about_a_state(kind: str, manifest: str) -> None:
    """The advice for `unreadable_content` is that for any format: its file is data."""
    of_format = manifest in format_advice.DO.get(kind, {})
    assert of_format is not (kind == "unreadable_content" or (kind, manifest) in GENERAL)


@pytest.mark.parametrize("rule", LINEAGE, ids=lambda rule: rule.id)
def test_what_follows_from_a_witness_has_no_terms_of_one_format(rule: Rule) -> None:
    if rule.id == "content.checkpoint_short":  # only Delta has checkpoints
        return
    assert not [term for terms in TERMS.values() for term in terms if term in rule.because]
    assert not [words for words in BEYOND if words in rule.because]


def test_every_advice_of_a_format_is_for_a_kind_and_a_format_that_exist() -> None:
    for texts in (format_advice.DO, format_advice.NOT_BACK):
        assert set(texts) <= set(KINDS)
        assert {name for by in texts.values() for name in by} <= set(format_advice.NAMES)
    assert {kind.advice for kind in MANIFESTS.values()} == set(format_advice.NAMES)


@pytest.mark.parametrize("kind", ["redshift_unload", "databricks_commits", "previous"])
def test_a_kind_without_a_log_has_the_advice_of_plain_folders(kind: str) -> None:
    assert "log" not in next_steps.to_do("dropped", manifest_kind=kind).replace("`lakeaudit", "")
