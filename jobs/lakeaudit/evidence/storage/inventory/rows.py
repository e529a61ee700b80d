"""How the columns of one data file become VERSION rows: one per object version, rejected rows among them.

A row that cannot be understood has its first fault in `reject`, after the file's name, and nothing else but its source.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakeaudit.evidence.storage.inventory.columns import (
    BY_NAME,
    USED,
    fault_sql,
    stranger_sql,
    value_sql,
)
from lakeaudit.keys import NULL_VERSION
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, literal, literals
from lakeaudit.schemas import VERSION
from lakeaudit.storage_classes import KNOWN_CLASSES, StorageClasses

LINE_FAULT = "__fault"
"""A column of raw rows: what is wrong with a line as a whole; null: nothing."""
_KEY = "__key"
"""The key that was made of the column `key`; null where it is malformed."""
_ARCHIVE_TIERS = ("ARCHIVE_ACCESS", "DEEP_ARCHIVE_ACCESS", "ARCHIVE", "DEEP_ARCHIVE")


@dataclass(frozen=True)
class RawRows:
    """Rows of a data file as the file has them.

    Attributes:
        rows: columns named as in ORC and Parquet.
        kinds: by column the kind of its type in the file: text, flag, number or time.
        key: the key as SQL, made of the column `key`.
        has_line_faults: there is a column `LINE_FAULT`.
    """

    rows: Rows
    kinds: Mapping[str, str]
    key: str = "key"
    has_line_faults: bool = False


@dataclass(frozen=True)
class VersionMapper:
    """Makes VERSION rows of the raw rows of one data file.

    Attributes:
        source: id of the source.
        bucket: the bucket that the report is about; rows of another are rejected.
        file_name: goes before the fault of a rejected row.
        all_versions: the report has versions; else every row is the latest one and no delete marker.
        classes: what is known of the bucket's storage classes.
    """

    source: str
    bucket: str
    file_name: str
    all_versions: bool
    classes: StorageClasses = KNOWN_CLASSES

    def versions(self, con: Connection, raw: RawRows) -> Relation:
        """VERSION rows, rejected ones among them."""
        given = {
            name: f"CASE WHEN __reject IS NULL THEN {value} END" for name, value in self._values(raw).items()
        }
        reject = f"{literal(f'{self.file_name}: ')} || coalesce({', '.join(self._faults(raw))})"
        keyed = duck.query(con, f"SELECT *, {raw.key} AS {_KEY} FROM raw", raw=raw.rows)
        checked = duck.query(con, f"SELECT *, {reject} AS __reject FROM keyed", keyed=keyed)
        return duck.conform(
            con, checked, VERSION, given | {"source": literal(self.source), "reject": "__reject"}
        )

    def _faults(self, raw: RawRows) -> Iterator[str]:
        """The faults a row may have, in the order in which one is named."""
        if raw.has_line_faults:
            yield LINE_FAULT
        yield stranger_sql(self.bucket)
        yield "CASE WHEN key IS NULL OR key = '' THEN 'row without a key' END"
        for known in USED:
            kind = raw.kinds.get(known.name)
            fault = fault_sql(known, kind, _value(raw, known.name)) if kind else None
            if fault and known.name != "bucket":
                yield fault

    def _values(self, raw: RawRows) -> dict[str, str]:
        """SQL for the columns of VERSION: one spelling for each value."""
        column = {known.name: _value(raw, known.name) for known in USED}
        if not self.all_versions:
            column |= {"is_latest": "true", "is_delete_marker": "false"}
        encryption = column["encryption_status"]
        return {
            "bucket": column["bucket"],
            "key": column["key"],
            "version_id": f"nullif({column['version_id']}, {literal(NULL_VERSION)})",
            "is_latest": column["is_latest"],
            "is_delete_marker": column["is_delete_marker"],
            "size": column["size"],
            "etag": _without_quotes(column["e_tag"]),
            "modified_at": column["last_modified_date"],
            "storage_class": column["storage_class"],
            "archived": self._archived(column["storage_class"], column["intelligent_tiering_access_tier"]),
            "multipart": column["is_multipart_uploaded"],
            "checksum": "NULL",
            "encryption": f"CASE WHEN {encryption} = 'NOT-SSE' THEN 'NONE' ELSE {encryption} END",
        }

    def _archived(self, storage_class: str, tier: str) -> str:
        """Whether an object must be restored before it can be read; null where class or tier are not known."""
        return self.classes.sql(storage_class, f"upper({tier}) IN ({literals(_ARCHIVE_TIERS)})")


def _value(raw: RawRows, name: str) -> str:
    """SQL of a column's value; what the file lacks is null."""
    if name == "key":
        return f"nullif({_KEY}, '')"
    kind = raw.kinds.get(name)
    return "CAST(NULL AS VARCHAR)" if kind is None else value_sql(BY_NAME[name], kind)


def _without_quotes(etag: str) -> str:
    """`trim` is dear, and few stores write quotes."""
    return f"CASE WHEN contains({etag}, '\"') THEN nullif(trim({etag}, '\"'), '') ELSE {etag} END"
