"""The records of Hadoop's committers: claims, totals and faults; their contract is in `test_records`."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.committers import S3ACommitterManifest
from lakeaudit.evidence.manifest.committers import reader as committers
from lakeaudit.evidence.manifest.file_list.read_lines import Fault
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import Declared, Record
from lakeaudit.evidence.manifest.records.totals import tag_of
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.records import JOB, MILLIS, NAMES, pending, pending_set, success, task_manifest

HOME = Location("lake", "wh/t")
AT = datetime(2026, 11, 23, tzinfo=UTC)
MANIFEST = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"


def rows(
    marker: Any, tasks: dict[str, Any] | None = None, kind: RecordKind = committers.S3A
) -> list[tuple[str, Any]]:
    contents = {"_SUCCESS": marker, **(tasks or {})}
    files = {name: File(HOME.join(name), 1, AT) for name in contents}
    record = Record(files["_SUCCESS"], HOME, "t", tuple(files[name] for name in tasks or {}))
    held = {
        files[name].place: c if isinstance(c, bytes) else json.dumps(c).encode()
        for name, c in contents.items()
    }
    told = kind.understand(record, lambda file: held[file.place])
    return [(str(row["path"]), row.get("size")) for row in told if not isinstance(row, Declared)]


WRITE = "c07b1e19-2e34-405e-8383-d86729d62a42"
NAMED = [(f"s3://lake/wh/t/{name}", None) for name in NAMES]


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (success(HOME, NAMES), NAMED),
        (b"", []),  # FileOutputCommitter's
        (success(HOME, NAMES, success=False), []),
        (
            {k: v for k, v in success(HOME, NAMES).items() if k not in ("success", "jobId")},
            NAMED,
        ),  # Hadoop 3.1
        (success(HOME, NAMES, MANIFEST), []),  # the other kind's
    ],
)
def test_markers(marker: Any, expected: list[tuple[str, None]]) -> None:
    assert rows(marker) == expected


@pytest.mark.parametrize(
    ("marker", "fault"),
    [
        (success(HOME, NAMES, name="org.apache.hadoop.fs.s3a.commit.files.SuccessData/2"), "SuccessData/2"),
        ({"done": True}, "has the format 'None'"),
        (success(HOME, NAMES, timestamp="now"), "no time as timestamp"),
        (success(HOME, NAMES, timestamp=10**30), "no time as timestamp"),
        (success(HOME, NAMES, filenames="x"), "no list of texts as filenames"),
        (success(HOME, NAMES, filenames=[1]), "no list of texts as filenames"),
        (success(HOME, NAMES, committer=None), "no text as committer"),
        (b"done at noon", "is not JSON"),
        (b"\n", "has only blanks"),
    ],
)
def test_markers_that_are_not_understood(marker: Any, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        rows(marker)


TASK = f"__magic_job-{JOB}/job-{JOB}/00/task_2026_0001_m_000000.pendingset"
ATTEMPT = f"__magic_job-{JOB}/job-{JOB}/00/tasks/attempt_0/__base/part-0.pending"


def test_what_tasks_of_the_job_left_ought_to_be_there() -> None:
    """An attempt's own record says no length: another attempt may have committed its key."""
    left = {TASK: pending_set(HOME, NAMES), ATTEMPT: pending(HOME, "part-0", 7)}
    assert rows(success(HOME, ()), left) == [
        ("s3://lake/wh/t/d=1/a.bin", 3),
        ("s3://lake/wh/t/d=2/b c.bin", 5),
        ("s3://lake/wh/t/part-0", None),
    ]


def test_what_another_job_left_is_its_own_affair() -> None:
    other = {TASK.replace("1111", "9999"): pending_set(HOME, NAMES)}
    assert rows(success(HOME, ()), other) == []
    assert rows(success(HOME, (), jobId=""), {TASK: pending_set(HOME, NAMES)}) == []


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        (pending_set(HOME, NAMES, version=4), "has the version 4"),
        (pending_set(HOME, NAMES, commits=[[]]), "no list of objects as commits"),
        (pending_set(HOME, NAMES, commits=[pending(HOME, "x", 1, destinationKey=None)]), "as destinationKey"),
        (b"{", "is not JSON"),
    ],
)
def test_records_of_tasks_that_are_not_understood(task: Any, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        rows(success(HOME, ()), {TASK: task})


def test_manifests_of_tasks() -> None:
    name = f"_temporary/{JOB}/00/manifests/task_2026_0001_m_000000-manifest.json"
    marker = success(HOME, (), MANIFEST)
    assert rows(marker, {name: task_manifest(HOME, NAMES)}, committers.MANIFEST) == [
        ("s3a://lake/wh/t/d=1/a.bin", 3), ("s3a://lake/wh/t/d=2/b c.bin", 5)
    ]  # fmt: skip
    with pytest.raises(Fault, match="has the format 'x'"):
        rows(marker, {name: task_manifest(HOME, NAMES, type="x")}, committers.MANIFEST)


def test_time_is_that_of_the_jobs_end() -> None:
    record = Record(File(HOME.join("_SUCCESS"), 1, AT), HOME, "t")
    told = committers.S3A.understand(record, lambda _: json.dumps(success(HOME, NAMES)).encode())
    row = next(row for row in told if not isinstance(row, Declared))
    assert row["committed_at"] == datetime.fromtimestamp(MILLIS / 1000, UTC).isoformat()
    assert row["job_id"] == JOB


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "iostatistics": {
                    "counters": {"committer_commits_completed": 140, "committer_bytes_committed": 9}
                }
            },
            (140, 9),
        ),
        ({"iostatistics": {"counters": {"committer_files_committed": 140}}}, (140, None)),
        ({"iostatistics": {"counters": {"committer_commits_completed": -1}}}, (None, None)),
        ({"iostatistics": {"counters": {"committer_commits_completed": "many"}}}, (None, None)),
        ({"iostatistics": None}, None),
        ({"iostatistics": {"counters": [1]}}, None),
    ],
)
def test_totals(given: dict[str, Any], expected: tuple[int | None, int | None] | None) -> None:
    record = Record(File(HOME.join("_SUCCESS"), 1, AT), HOME, "t")
    names = (f"part-0-{WRITE}-c000-{JOB}.parquet", f"d=1/part-1-{WRITE}-c000.parquet")
    told = [
        row for row in committers.S3A.understand(record, lambda _: json.dumps(success(HOME, names, **given)).encode())
        if isinstance(row, Declared)
    ]  # fmt: skip
    assert [(row.files, row.bytes) for row in told] == ([] if expected is None else [expected])
    assert all(
        (row.job, row.tag, row.path, row.marker) == (JOB, WRITE, HOME, "wh/t/_SUCCESS") for row in told
    )


@pytest.mark.parametrize(
    "names",
    [
        (),
        NAMES,
        (f"part-0-{WRITE}", f"part-0-{JOB}"),
        (f"part-0-{WRITE}", "part-r-00000"),
        (f"{WRITE}/part-0",),
    ],
)
def test_files_that_cannot_be_identified_by_their_names(names: tuple[str, ...]) -> None:
    assert tag_of(names) is None


def test_reports_of_every_folder_that_a_table_names_are_read_and_an_empty_one_is_reported(
    tmp_path: Path,
) -> None:
    folders = {name: tmp_path / name for name in ("old", "new", "nothing")}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / f"{'other' if name == 'nothing' else 'summary'}-{name}.json").write_text("{}")
    manifests = tuple(
        S3ACommitterManifest(kind="s3a_committer", reports=Location.parse(str(folder)))
        for folder in folders.values()
    )
    table = Table(name="t", location=HOME, manifests=manifests, settings=Settings())
    context = Context(InProcessEngine(), Clients(), as_of=AT, now=AT, live=True)
    (found,) = committers.S3A.find([table], context).found
    assert [record.file.name for record in found.records] == ["summary-old.json", "summary-new.json"]
    (told,) = found.warnings
    assert "nothing holds no report of a job" in told
    assert found.refused is None
