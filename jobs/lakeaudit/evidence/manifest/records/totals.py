"""Compare the totals that jobs declare with the files of storage that have the job's UUID in their names.

Every write of Spark draws a UUID for the names of its files. So the files of a job can be counted, even if its record
names only some of them. Named files are judged one by one; this module handles those without a known name.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.manifest.file_list.fold import EVENTS
from lakeaudit.evidence.protocol import Batches, BufferedRows, Context, Totals
from lakeaudit.evidence.storage.versions import BELOW, CURRENT
from lakeaudit.keys import TEMPORARY
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import DECLARED

JOBS = pa.schema(
    [
        ("table_name", pa.string()),
        ("commit_id", pa.string()),  # the job's id
        ("bucket", pa.string()),
        ("path", pa.string()),  # key of the folder that it wrote
        ("ended_at", pa.timestamp("us")),
        ("files", pa.int64()),  # that it committed
        ("bytes", pa.int64()),
        ("tag", pa.string()),  # UUID in the names of its files; null: they have none
        ("marker", pa.string()),  # key of its record, if that is a marker in the folder of its files
    ]
)
"""The totals of one job; rows of kind `jobs`."""

TAGGED = pa.schema(
    [
        ("source", pa.string()),
        ("bucket", pa.string()),
        ("tag", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
"""Current files of storage by the UUID in their names; rows of kind `tagged`."""

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TAG = f"regexp_extract(regexp_extract(key, '[^/]*$'), '{_UUID}')"
"""SQL for the UUID in an object's name; "" if there is none."""


def tag_of(names: Sequence[str]) -> str | None:
    """Return the UUID in the names of all these files; None if one has none, or another."""
    tags = {found[0] if (found := re.search(_UUID, name.rpartition("/")[2])) else None for name in names}
    return tags.pop() if len(tags) == 1 else None


VISIBLE = f"NOT regexp_matches(key, {duck.pattern(TEMPORARY)}) AND NOT regexp_matches(key, '(^|/)[._][^/]*$')"


def tagged(con: Connection, objects: Rows, homes: pa.Table) -> Rows:
    """Return TAGGED rows of some rows of storage below any of `homes` (bucket, prefix)."""
    sql = f"""
        SELECT source, objects.bucket, {TAG} AS tag, count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes
        FROM {BELOW}
        WHERE {CURRENT} AND {VISIBLE} AND {TAG} <> '' GROUP BY ALL
    """
    return duck.conform(con, duck.query(con, sql, objects=objects, homes=homes), TAGGED)


def sum_by_tag(con: Connection, rows: Rows) -> Rows:
    """Return TAGGED rows with one row for each source and UUID."""
    sql = "SELECT source, bucket, tag, sum(files) AS files, sum(bytes) AS bytes FROM input GROUP BY ALL"
    return duck.conform(con, duck.query(con, sql, input=rows), TAGGED)


@dataclass(frozen=True)
class FileCounts:
    """Counts the files and bytes of jobs in storage, by bucket and id."""

    jobs: Sequence[Mapping[str, object]]
    there: Mapping[tuple[object, object], tuple[int, int]]

    def of(self, job: Mapping[str, object]) -> tuple[int, int]:
        return self.there.get((job["bucket"], job["tag"]), (0, 0))

    @property
    def short(self) -> list[Mapping[str, object]]:
        """Return the jobs of which storage has fewer files or bytes than they committed."""
        return [
            job
            for job in self.jobs
            if _lacks(job["files"], self.of(job)[0]) or _lacks(job["bytes"], self.of(job)[1])
        ]


def _lacks(declared: object, there: int) -> bool:
    return isinstance(declared, int) and there < declared


def totals(
    ctx: Context,
    kind: str,
    claimed: BufferedRows,
    counted_by: BufferedRows | None,
    tables: Sequence[str],
    doubts: Mapping[str, str],
) -> Totals:
    """Return the files that the jobs of `claimed` declare and storage lacks.

    Args:
        ctx: the run.
        kind: of the manifest.
        claimed: JOBS rows, and the events of the same records.
        counted_by: TAGGED rows of storage; None if it was not read.
        tables: those that could have such jobs.
        doubts: why the jobs of some tables are not all known.
    """
    jobs = [row for batch in claimed.batches("jobs") for row in batch.to_pylist() if row["tag"]]
    newest = {(job["bucket"], job["tag"]): job for job in jobs}
    if counted_by is None:
        return Totals(dict.fromkeys(tables, 0), DECLARED.empty_table(), doubts)
    counted = FileCounts([*newest.values()], _there(ctx, counted_by, list(newest)))
    missing = _missing_by_job(ctx, claimed, counted.short)
    counts = Counter(dict.fromkeys(tables, 0)) + Counter(str(job["table_name"]) for job in counted.jobs)
    rows = [
        _declared_row(kind, job, *counted.of(job), missing.get(str(job["commit_id"]), 0))
        for job in counted.short
    ]
    short = pa.Table.from_pylist(rows, DECLARED)
    return Totals({name: counts[name] for name in tables}, short, doubts)


def _declared_row(
    kind: str, job: Mapping[str, object], files: int, size: int, named: int
) -> dict[str, object]:
    return {
        **{name: job[name] for name in ("table_name", "commit_id", "bucket", "path", "ended_at", "files", "bytes")},
        "manifest_kind": kind, "files_there": files, "files_named": named, "replaced": "no",
        # the bytes of the named ones are unknown
        "bytes_there": None if named else size, "marker": job["marker"],
        "detail": f"files with {job['tag']} in their names were counted",
    }  # fmt: skip


def _there(
    ctx: Context, counted: BufferedRows, jobs: Sequence[tuple[object, object]]
) -> dict[tuple[object, object], tuple[int, int]]:
    """Return the files and bytes of these jobs; if several sources have a job's files, the one with the most counts."""
    requested = duck.small(pa.schema([("bucket", pa.string()), ("tag", pa.string())]), jobs)
    met = ctx.engine.meet([counted], partial(_of_jobs, requested), _sum_files)
    there: dict[tuple[object, object], tuple[int, int]] = {}
    for batch in met.batches("files_there"):
        for row in batch.to_pylist():
            key = row["bucket"], row["tag"]
            there[key] = max(there.get(key, (0, 0)), (row["files"], row["bytes"] or 0))
    return there


def _of_jobs(requested: pa.Table, con: Connection, kind: str, rows: Rows) -> Batches:
    if kind == "tagged":
        sql = "SELECT * FROM input SEMI JOIN requested USING (bucket, tag)"
        yield "tagged", duck.query(con, sql, input=rows, requested=requested)


def _sum_files(con: Connection, rows: Mapping[str, Rows]) -> Batches:
    if "tagged" in rows:
        yield "files_there", sum_by_tag(con, rows["tagged"])


def _missing_by_job(
    ctx: Context, claimed: BufferedRows, short: Sequence[Mapping[str, object]]
) -> dict[str, int]:
    """Count by job the files in its records that storage lacks; storage is read only if a job lacks any."""
    if not short:
        return {}
    jobs, tags = ({str(job[name]) for job in short} for name in ("commit_id", "tag"))
    met = ctx.engine.meet([claimed, *ctx.stored_rows()], partial(_of_short, tuple(jobs), tuple(tags)), _unmet)
    missing: Counter[str] = Counter()
    for batch in met.batches("named"):
        for row in batch.to_pylist():
            missing[row["commit_id"]] += row["files"]
    return dict(missing)


def _of_short(
    jobs: tuple[str, ...], tags: tuple[str, ...], con: Connection, kind: str, rows: Rows
) -> Batches:
    if kind == "events":
        yield "events", duck.query(con, f"FROM input WHERE commit_id IN ({duck.literals(jobs)})", input=rows)
    elif kind == "versions":
        sql = f"FROM input WHERE {CURRENT} AND {TAG} IN ({duck.literals(tags)})"
        yield "versions", duck.query(con, sql, input=rows)


def _unmet(con: Connection, rows: Mapping[str, Rows]) -> Batches:
    if "events" in rows:
        present = rows.get("versions", EVENTS.empty_table())
        sql = """
            SELECT commit_id, count(DISTINCT (bucket, key)) AS files
            FROM events ANTI JOIN present USING (bucket, key) WHERE fault IS NULL GROUP BY commit_id
        """
        yield "named", duck.query(con, sql, events=rows["events"], present=present)
