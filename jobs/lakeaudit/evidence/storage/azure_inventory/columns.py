"""The columns of blob inventory reports and what is made of their values, as SQL of DuckDB.

Names follow Azure's documentation, "Custom schema fields supported for blob inventory". A row's name is
`container/path`. Directories of a hierarchical namespace, the empty blobs that stand for folders elsewhere (metadata
hdi_isfolder), snapshots and what was soft-deleted are rows too, and no files.
"""

from lakeaudit.evidence.storage.inventory.columns import ReportColumn
from lakeaudit.evidence.storage.report_rows import ANY, ReportForm
from lakeaudit.runtime.duck import literal

_HOLDS = {
    "Name": "text",
    "Last-Modified": "time",
    "Content-Length": "number",
    "ETag": "text",
    "Content-MD5": "text",
    "BlobType": "text",
    "AccessTier": "text",
    "Deleted": "flag",
    "VersionId": "text",
    "IsCurrentVersion": "flag",
    "Snapshot": "text",
    "hdi_isfolder": "flag",
    "Metadata": ANY,
}
KNOWN = tuple(ReportColumn(name, name.lower(), holds) for name, holds in _HOLDS.items())
QUESTIONS = {
    "Content-Length": "whether a file has the recorded size",
    "Last-Modified": "whether a file was written again, is left over, or is a copy",
    "Content-MD5": "whether a file has the recorded content, or another's",
    "AccessTier": "whether a file has to be rehydrated before reading",
}
"""Columns that a report may lack, and the fact that is unknown then."""
FOLDERS = ("hdi_isfolder", "metadata")
NO_FOLDERS = "the report has neither hdi_isfolder nor Metadata: it cannot tell empty files from folders"

_MD5 = 'lower(hex(TRY(from_base64("v_content-md5"))))'
_BYTES = "coalesce(octet_length(TRY(from_base64({content-md5}))), 0)"
_IS_FOLDER = (
    "coalesce(v_hdi_isfolder, false) "
    r"OR regexp_matches(coalesce(v_metadata, ''), '(?i)hdi_isfolder\W{1,6}true')"
)
_MAY_BE_FOLDER = 'NOT has_hdi_isfolder AND NOT has_metadata AND "v_content-length" = 0'


def form_of(account: str, *, versions: bool) -> ReportForm:
    """How rows of a report are read; with `versions` some of them are older ones."""
    of_versions = (
        "WHEN v_versionid IS NOT NULL THEN has_iscurrentversion AND coalesce(v_iscurrentversion, false)"
    )
    latest = f"CASE WHEN {_MAY_BE_FOLDER} THEN NULL {of_versions if versions else ''} ELSE true END"
    return ReportForm(
        known=KNOWN,
        required=("name",),
        given={
            "bucket": f"split_part(v_name, '/', 1) || {literal(f'@{account}')}",
            "key": "substr(v_name, strpos(v_name, '/') + 1)",
            "version_id": "v_versionid" if versions else "NULL",
            "is_latest": latest,
            "is_delete_marker": "false",
            "size": '"v_content-length"',
            "etag": "trim(v_etag, '\"')",
            "modified_at": '"v_last-modified"',
            "storage_class": "v_accesstier",
            "archived": "CASE WHEN has_accesstier THEN coalesce(lower(v_accesstier) = 'archive', false) END",
            # to append to a blob leaves the MD5 as it was
            "checksum": f"CASE WHEN lower(coalesce(v_blobtype, '')) <> 'appendblob' THEN 'md5:' || {_MD5} END",
        },
        faults=(
            "CASE WHEN NOT regexp_matches({name}, '(?s)^[a-z0-9$][a-z0-9-]*/.') THEN 'Name has no container' END",
            f"CASE WHEN {{content-md5}} IS NOT NULL AND {_BYTES} <> 16 THEN 'Content-MD5 is not an MD5' END",
        ),
        left_out=f"{_IS_FOLDER} OR coalesce(v_deleted, false) OR v_snapshot IS NOT NULL",
        millis=True,
    )
