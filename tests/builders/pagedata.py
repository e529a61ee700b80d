"""Rows as the result tables hold them, for the report page: lakes that are healthy, broken, blind or hostile."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeaudit.kinds import KINDS
from lakeaudit.report.page_data import History, PageData, page_data

Row = dict[str, Any]

NOW = datetime(2026, 3, 2, 3, 12, 9, tzinfo=UTC)
CUT = datetime(2026, 3, 1, 1, 0, 0, tzinfo=UTC)
LAKE = "conf/shop.yaml"
RUN_ID = "20260302T031044Z-7f3a"
TABLES = ("sales.orders", "sales.order_lines", "raw.events", "crm.customers", "ref.countries")

HOSTILE = (
    '<script>document.title="owned"</script>',
    '"><img src="https://evil.example/x.png" onerror="document.title=\'owned\'">',
    "</script><script>document.title='owned'</script>",
    "</style><style>body{display:none}</style>",
    "javascript:alert(1)//https://evil.example/",
    "line\nbreak\ttab\rreturn\x1b[31mred\x00nul",
    "invoice_\u202egpj.exe",
    "zero\u200bwidth\ufeffbom\u2028separator\u00a0nbsp\u00adshy",
    "it's $(reboot) `id` \\ 100% {{ 7*7 }} {% raw %}",
    "dt=\u05d0\u05d1\u05d2/123/\u0645\u0644\u0641.parquet",
    " leading and trailing ",
    "emoji \U0001f469\u200d\U0001f4bb and \U000e0041 tag",
    "a" * 700,
)
"""Keys that bite: markup, links, scripts, control and bidirectional characters, template syntax, shell syntax."""


def run(**given: Any) -> Row:
    sources = [
        source("storage", "s3_inventory", "s3://inv/lake/daily/2026-03-01T01-00Z/manifest.json", 1_204_118),
        source(
            "manifest", "delta", "s3://lake/warehouse/", 1_198_402, identity="5 tables, sales.orders@4211"
        ),
        source(
            "metastore",
            "s3guard",
            "shop-s3guard",
            1_201_007,
            identity="arn:aws:dynamodb:us-east-1:0:table/shop",
        ),
    ]
    return {
        "run_id": RUN_ID,
        "lake": "shop",
        "as_of": NOW - timedelta(seconds=85),
        "started_at": NOW - timedelta(seconds=85),
        "finished_at": NOW - timedelta(seconds=4),
        "status": "complete",
        "sources": sources,
        "tables_expected": len(TABLES),
        "tables_audited": len(TABLES),
        "error": None,
        "version": "0.1.0",
        "gates": None,
        **given,
    }


def source(role: str, kind: str, location: str, rows: int | None, **given: Any) -> Row:
    return {
        "role": role,
        "kind": kind,
        "location": location,
        "identity": "md5 0c1f7a2b9d3e4f5061728394a5b6c7d8",
        "cut_from": CUT,
        "cut_to": CUT + timedelta(hours=3, minutes=41),
        "rows": rows,
        "rejected": 0,
        "seconds": 11.8,
        **given,
    }


def covered(table: str, axis: str = "content", files: int = 1000, **given: Any) -> Row:
    """A coverage row; `consistent` is what the other outcomes leave of the files."""
    others = {
        name: given.pop(name, 0)
        for name in ("findings", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
    }
    consistent = files - sum(others.values())
    judgeable = files - others["out_of_window"]
    decided = consistent + others["findings"] + others["ignored"]
    return {
        "run_id": RUN_ID,
        "lake": "shop",
        "table_name": table,
        "axis": axis,
        "status": "complete",
        "reason": None,
        "table_version": 4211,
        "storage_cut_from": CUT,
        "storage_cut_to": CUT + timedelta(hours=3),
        "history_horizon": CUT - timedelta(days=30),
        "files": files,
        "bytes": files * 104_857_600,
        "consistent": consistent,
        **others,
        "unconfirmed": 0,
        "refuted": 0,
        "decided_share": decided / judgeable if judgeable else None,
        **given,
    }


def off(table: str, axis: str, reason: str) -> Row:
    return covered(table, axis, files=0, status="off", reason=reason)


def finding(kind: str, key: str | None, **given: Any) -> Row:
    known = KINDS[kind]
    nothing = dict.fromkeys(
        (
            "owner",
            "group_id",
            "related_key",
            "commit_id",
            "storage_class",
            "recovery",
            "recovery_version_id",
            "recoverable_until",
            "cause",
            "cause_at",
            "cause_principal",
            "discrepancy_id",
            *(
                f"{role}_{what}"
                for role in ("manifest", "metastore", "storage")
                for what in ("size", "etag", "version_id", "time")
            ),
        )
    )
    return {
        **nothing,
        "run_id": RUN_ID,
        "as_of_date": NOW.date(),
        "lake": "shop",
        "table_name": "sales.orders",
        "axis": known.axis,
        "kind": kind,
        "severity": known.severity,
        "subject_type": "file" if key is not None else "table",
        "subject": f"s3://lake/{key}" if key is not None else "sales.orders",
        "bucket": "lake",
        "key": key,
        "category": "data",
        "partition_path": "dt=2026-02-28",
        "table_version": 4211,
        "manifest_kind": "delta",
        "rows_at_stake": 18_204,
        "bytes_at_stake": 104_912_331,
        "files": 1,
        "recoverable": "unknown",
        "confirmation": "live",
        "explanation": known.words.capitalize() + ".",
        **given,
    }


def dropped(at: int, **given: Any) -> Row:
    day = 1 + at % 28
    key = f"warehouse/orders/dt=2026-02-{day:02}/part-{at:04}-9b1d27c4-5a0f-4d7e-9b0a-3f6f1f0c{at:04}.snappy.parquet"
    base = {
        "key": key,
        "subject": f"s3://lake/{key}",
        "partition_path": f"dt=2026-02-{day:02}",
        "manifest_size": 104_912_331 + at,
        "manifest_time": CUT - timedelta(hours=30 + at),
        "metastore_size": 104_912_331 + at,
        "metastore_etag": "9e107d9d372bb6826bd81d3542a419d6",
        "metastore_time": CUT - timedelta(hours=30),
        "bytes_at_stake": 104_912_331 + at,
        "recoverable": "yes",
        "recovery": "delete_marker",
        "recovery_version_id": "hT9.w0eSd4V7uCkX2fQ1",
        "recoverable_until": NOW + timedelta(days=2, hours=at),
        "commit_id": "00000000000000004187.json",
        "explanation": "Version 4187 added it, version 4211 lists it; the latest version is a delete marker.",
    }
    return finding("dropped", **{**base, **given})


_GROUP = ("kind", "severity", "table_name", "owner", "partition_path", "recoverable")


def totals(findings: Iterable[Row]) -> list[Row]:
    """The aggregates over the findings, as the results query makes them: null where every part is null."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in findings:
        groups.setdefault(tuple(row[name] for name in _GROUP), []).append(row)
    return [_total(group, rows) for group, rows in groups.items()]


def _total(group: tuple[Any, ...], rows: Sequence[Row]) -> Row:
    def values(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    sums = {
        name: sum(values(name)) if values(name) else None
        for name in ("files", "rows_at_stake", "bytes_at_stake")
    }
    names = dict(zip(_GROUP, group, strict=True))
    return {
        **names,
        "findings": len(rows),
        **sums,
        "recoverable_until": min(values("recoverable_until"), default=None),
    }


def page(
    findings: Sequence[Row], coverage: Sequence[Row], demo: Mapping[str, Any] | None = None, **changes: Any
) -> PageData:
    history = changes.pop("history", History([], []))
    return page_data(LAKE, run(**changes), coverage, findings, totals(findings), NOW, demo, history)


def change(table: str, kind: str, severity: str, number: int, days: int = 0, **given: Any) -> Row:
    """Discrepancies to which the same happened."""
    told = {
        "transition": "opened",
        "resolution": None,
        "files": number,
        "rows": None,
        "bytes": None,
        "unstated": {"files": 0, "rows": 0, "bytes": 0},
        "by_cause": {},
    }
    about = {"table": table, "kind": kind, "severity": severity, "number": number}
    return about | told | {"since": CUT - timedelta(days=days)} | given


def whole_coverage() -> list[Row]:
    rows = []
    for at, table in enumerate(TABLES):
        files = 240_000 // (1 + at * 3)
        rows += [
            covered(table, "content", files, out_of_window=41 * (at == 0)),
            covered(table, "leftover", files),
        ]
        rows += [covered(table, "duplicate", files)]
        rows += (
            [covered(table, "metastore", files)]
            if at < 3
            else [off(table, "metastore", "no metadata store covers it")]
        )
    return rows


def healthy() -> PageData:
    """Everything decided, nothing above info."""
    leftovers = [
        finding(
            "unvacuumed",
            "warehouse/orders/dt=2026-01-02/",
            subject_type="prefix",
            files=38,
            rows_at_stake=None,
            confirmation="not_needed",
            recoverable=None,
            partition_path="dt=2026-01-02",
        ),
    ]
    return page(leftovers, whole_coverage())


def broken() -> PageData:
    """Some twenty faults of many kinds, and one table judged in part."""
    etags = {
        "manifest_etag": "9e107d9d372bb6826bd81d3542a419d6",
        "storage_etag": "e4d909c290d0fb1ca068ffaddf22cbd0-12",
    }
    sizes = {
        "manifest_size": 88_120_441,
        "storage_size": 61_341_696,
        "manifest_time": CUT - timedelta(days=3),
        "storage_time": CUT,
    }
    lines = {"table_name": "sales.order_lines", "partition_path": "region=eu/dt=2026-02-27"}
    events = {
        "table_name": "raw.events",
        "partition_path": "hour=2026-02-28T14",
        "manifest_kind": "file_list",
    }
    faults = [
        *(dropped(at) for at in range(9)),
        dropped(11, recoverable="no", recovery=None, recovery_version_id=None, recoverable_until=None),
        finding(
            "size_mismatch",
            "warehouse/order_lines/region=eu/dt=2026-02-27/part-00003.parquet",
            **lines,
            **sizes,
            **etags,
            explanation="The writer recorded 88,120,441 bytes; storage serves 61,341,696, written later.",
        ),
        finding(
            "lost_commit",
            "warehouse/events/hour=2026-02-28T14/part-00071.json.gz",
            **events,
            rows_at_stake=None,
            recoverable=None,
            explanation="Job etl-4471 recorded the file; no version of the table since then lists it.",
        ),
        finding("tombstoned", "warehouse/orders/dt=2026-02-11/part-00012.parquet", confirmation="limit"),
        finding(
            "metastore_stale",
            "warehouse/orders/dt=2026-02-12/part-00013.parquet",
            metastore_size=12,
            storage_size=7_340_032,
        ),
        finding(
            "phantom", "warehouse/events/hour=2026-02-27T03/part-00001.json.gz", **events, rows_at_stake=None
        ),
        finding(
            "duplicate_content",
            "warehouse/events/hour=2026-02-28T15/part-00009.json.gz",
            **events,
            confirmation="not_needed",
            related_key="warehouse/events/hour=2026-02-28T15/part-00002.json.gz",
            recoverable=None,
        ),
        finding(
            "uncommitted",
            "warehouse/order_lines/region=us/dt=2026-02-20/",
            subject_type="prefix",
            files=14,
            rows_at_stake=None,
            table_name="sales.order_lines",
            partition_path="region=us/dt=2026-02-20",
            confirmation="not_needed",
            recoverable=None,
        ),
        finding(
            "temporary",
            "warehouse/orders/_temporary/0/",
            subject_type="prefix",
            files=212,
            rows_at_stake=None,
            partition_path=None,
            confirmation="not_needed",
            recoverable=None,
        ),
        finding(
            "unreadable_evidence",
            None,
            table_name=None,
            subject_type="source",
            subject="s3guard:shop-s3guard",
            files=None,
            partition_path=None,
            rows_at_stake=None,
            bytes_at_stake=None,
            confirmation="not_needed",
            recoverable=None,
            explanation="3 rows could not be understood, among them one without a parent.",
        ),
    ]
    coverage = whole_coverage()
    coverage[0] = covered(
        "sales.orders", "content", 240_000, findings=10, out_of_window=41, moved_on=3, refuted=2
    )
    coverage[3] = covered(
        "sales.orders",
        "metastore",
        240_000,
        status="partial",
        undecided=11_406,
        findings=2,
        unconfirmed=1,
        reason="3 rows of s3guard:shop-s3guard were rejected, so missing entries prove nothing",
    )
    coverage += [
        off(
            "finance.ledger",
            "content",
            "the Delta log needs reader feature variantType, which is not understood",
        )
    ]
    coverage += [
        covered(
            "finance.ledger",
            "leftover",
            812,
            status="partial",
            undecided=812,
            reason="the table's log was not read",
        )
    ]
    sources = [dict(row) for row in run()["sources"]]
    sources[2]["rejected"] = 3
    gates = [f"gate `sources`: few rows cannot be read (not so: {HOSTILE[0]}, warning)"]
    lost = change(
        "sales.orders",
        "dropped",
        "critical",
        10,
        rows=21_448,
        bytes=5 << 20,
        unstated={"files": 0, "rows": 1, "bytes": 0},
    )
    given_up = {"transition": "resolved", "resolution": "reference_removed"}
    history = History([
        lost, change("crm.customers", "dropped", "error", 2, 9, **given_up),
        change(HOSTILE[0], "overwritten", "warning", 1, 3, transition="reopened", rows=50),
    ], [{**lost, "transition": "open"},
        change("crm.customers", "archived", "error", 1, 5, transition="open")])  # fmt: skip
    audited: dict[str, Any] = {"tables_expected": 6, "tables_audited": 5, "history": history}
    return page(faults, coverage, status="partial", sources=sources, gates=gates, **audited)


def crowded(number: int = 12_000) -> PageData:
    """More findings than a page shows, over 28 partitions."""
    names = ("sales.orders", "sales.order_lines")
    faults = [
        dropped(at, severity=("critical", "error", "warning")[at % 3], table_name=names[at % 2])
        for at in range(number)
    ]
    return page(faults, whole_coverage())


def undecided() -> PageData:
    """No axis of any table was decided, and no finding."""
    coverage = [
        covered(
            TABLES[0],
            files=900,
            status="partial",
            undecided=900,
            reason="the newest inventory is 9 d old, max_age is 3d",
        ),
        covered(TABLES[1], files=300, out_of_window=300),
        off(TABLES[2], "content", "no manifest is configured"),
        covered(
            TABLES[3],
            files=77,
            status="partial",
            uncovered=77,
            reason="no storage source covers s3://lake/crm/",
        ),
    ]
    return page([], coverage, status="partial", tables_expected=4, tables_audited=4)


def hostile() -> PageData:
    """Every column that takes text from outside takes HOSTILE."""
    faults = [
        dropped(
            at,
            key=text,
            subject=f"s3://lake/{text}",
            table_name=text,
            partition_path=text,
            explanation=text,
            recovery_version_id=text,
            storage_etag=text,
            manifest_version_id=text,
            related_key=text,
            commit_id=text,
            cause_principal=text,
            storage_class=text,
        )
        for at, text in enumerate(HOSTILE)
    ]
    coverage = [covered(text, files=10, status="partial", undecided=5, reason=text) for text in HOSTILE]
    sources = [source("storage", "listing", text, 1, identity=text) for text in HOSTILE]
    acts = {"seed": 7, "matched": False, "broken": [{"act": text, "key": text} for text in HOSTILE]}
    return page(faults, coverage, acts, sources=sources, error=HOSTILE[0], status="failed")
