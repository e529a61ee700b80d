"""Parse server access logs of S3: one line for each request, from the left, since client-written fields come last.

Up to the turnaround time every field is strict. Referer and user agent may hold anything, quotation marks too. Keys are
URL-encoded twice, those of lifecycle actions once; if the path of the request differs, the path counts (Amazon S3 User
Guide, "Server access log format").
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.aliases import true_columns
from lakeaudit.evidence.events import event_files
from lakeaudit.evidence.events.access_log import S3AccessLog
from lakeaudit.evidence.events.event_files import Window, contents, events_of
from lakeaudit.evidence.files import File
from lakeaudit.evidence.protocol import Batches, Context, Events, Probed, note_row
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import REQUEST

NAME = re.compile(
    r"(?P<year>20\d\d)-(?P<month>\d\d)-(?P<day>\d\d)-(?P<hour>\d\d)-(?P<minute>\d\d)-\d\d-[0-9A-Za-z]+(\.gz)?\Z"
)
TOGETHER = 8 << 20
"""The number of characters of small files that are parsed at once."""

ACTIONS = {
    "REST.PUT.OBJECT": "put",
    "REST.POST.OBJECT": "put",
    "REST.POST.UPLOAD": "put",
    "REST.COPY.OBJECT": "copy",
    "REST.DELETE.OBJECT": "delete",
    "BATCH.DELETE.OBJECT": "delete",
    "S3.EXPIRE.OBJECT": "expire",
    "S3.CREATE.DELETEMARKER": "expire",
    "REST.POST.RESTORE": "restore",
}
"""Operations that change the object of a key; the completion of a multipart upload writes its object."""
READS = {"REST.GET.OBJECT": "get", "REST.HEAD.OBJECT": "head", "REST.GET.BUCKET": "list"}
TRANSITION = "S3.TRANSITION"

_WORD = "([^ ]+)"
_OPERATION = r"^[^ ]+ [^ ]+ \[[^\]]*\] [^ ]+ [^ ]+ [^ ]+ ([A-Z0-9]+\.[^ ]+) "
"""It has no other groups, because groups take most of the time of a regular expression."""
_HEAD = rf"{_WORD} {_WORD} \[([^\]]*)\] {_WORD} {_WORD} {_WORD} ([A-Z0-9]+\.[^ ]+)"
_URI = r'("[A-Z]+ [^ ]+ HTTP/[0-9.]+"|"-"|-)'
_LINE = rf"^{_HEAD} {_WORD} {_URI} ([0-9]{{3}}|-) {' '.join([_WORD] * 5)}( .*)?$"
_FIELDS = (
    *("owner", "bucket", "at", "ip", "requester", "request_id", "operation", "key", "uri", "status", "error"),
    *("sent", "size", "took", "turnaround", "tail"),
)


def read(source: S3AccessLog, ctx: Context, source_id: str) -> Events:
    """Return the logs of the window; files are read only once a finding needs an explanation."""
    return events_of(source, ctx, source_id, NAME, partial(_read, clients=ctx.clients, source_id=source_id))


def probe(source: S3AccessLog, clients: Clients, now: datetime) -> Probed:
    """See `registry.EventsKind`."""
    return event_files.probe(source, clients, now, NAME)


def _read(
    con: Connection,
    *,
    clients: Clients,
    source_id: str,
    files: Sequence[File],
    window: Window,
    reads: bool,
) -> Batches:
    for texts, notes in _together(clients, source_id, files):
        lines = pa.table({"line": pa.array(_lines(texts), pa.string())})
        rows = requests(con, lines, source_id, clients.aliases, reads=reads)
        times = f"{duck.literal(_second(window[0]))} AND {duck.literal(window[1])}"
        within = f'reject IS NOT NULL OR "at" BETWEEN {times}'
        yield "requests", duck.table(duck.query(con, f"SELECT * FROM input WHERE {within}", input=rows))
        for note in notes:
            yield "notes", note


def _lines(texts: Sequence[str]) -> list[str]:
    return [line.removesuffix("\r") for text in texts for line in text.split("\n") if line.strip()]


def _second(at: datetime) -> datetime:
    """Return the time without microseconds: lines have whole seconds."""
    return at.replace(microsecond=0)


def _together(
    clients: Clients, source_id: str, files: Sequence[File]
) -> Iterator[tuple[list[str], list[pa.Table]]]:
    """Yield lines of several files, and NOTE rows of the parts that could not be read."""
    texts: list[str] = []
    notes: list[pa.Table] = []
    for content in contents(clients, files):
        texts.append(content.text)
        if content.lacks:
            notes.append(note_row(source_id, content.file.place.uri, content.lacks, count=1))
        if sum(map(len, texts)) >= TOGETHER:
            yield texts, notes
            texts, notes = [], []
    yield texts, notes


def requests(con: Connection, lines: pa.Table, source_id: str, aliases: Aliases, *, reads: bool) -> Relation:
    """Return REQUEST rows of lines; reads, which are nearly all, only if `reads`. Invalid lines are rejected."""
    operations = [*ACTIONS, *(READS if reads else ())]
    names = "[" + ", ".join(f"'{name}'" for name in _FIELDS) + "]"
    of_use = f"operation IN ({duck.literals(operations)}) OR starts_with(operation, '{TRANSITION}')"
    sql = f"""
        WITH heads AS (
            SELECT line, regexp_extract(line, '{_OPERATION}', 1) AS operation
            FROM lines),
        parsed AS (
            SELECT line, regexp_extract(line, '{_LINE}', {names}) AS f FROM heads
            WHERE operation = '' OR {of_use}),
        decoded AS (SELECT *, {_KEYS} FROM parsed),
        requests AS (SELECT *, {_COLUMNS} FROM (SELECT *, {_KEY} AS raw_key FROM decoded))
        SELECT *, CASE WHEN f.operation = '' OR sent_at IS NULL OR raw_key IS NULL
            THEN 'no line of an access log: ' || regexp_replace(left(line, 200), '[?].*', '?...') END AS reject
        FROM requests
    """
    rows = duck.query(con, sql, lines=lines)
    bucket, key = true_columns(aliases, "f.bucket", "raw_key")
    given = {"source": duck.literal(source_id), "bucket": bucket, "key": key, "at": "sent_at"}
    whole = duck.conform(con, rows, REQUEST, given)
    nothing = [name for name in REQUEST.names if name not in ("source", "reject")]
    blank = ", ".join(
        f"CASE WHEN reject IS NULL THEN {duck.quoted(name)} END AS {duck.quoted(name)}" for name in nothing
    )
    return duck.query(con, f"SELECT * REPLACE ({blank}) FROM input", input=whole)


def _unquoted(text: str) -> str:
    """Return SQL of URL-decoded text; null where that is not text. A space may be written as a plus."""
    return f"TRY(url_decode(replace({text}, '+', ' ')))"


_PARAMETER = "regexp_extract(f.uri, '[?&]{}=([^& ]*)', 1)"
_KEYS = f"""
    {_unquoted("f.key")} AS once, {_unquoted(_unquoted("f.key"))} AS twice,
    TRY(url_decode(regexp_extract(f.uri, '^"[A-Z]+ ([^ ?]*)', 1))) AS path,
    regexp_extract(f.tail, '^ (?:"-"|-) (?:"-"|-) ([^ ]+)', 1) AS named_version,
    {_PARAMETER.format("versionId")} AS asked_version"""
_KEY = f"""
    CASE WHEN f.operation = 'REST.GET.BUCKET' THEN {_unquoted(_PARAMETER.format("prefix"))}
        WHEN starts_with(f.operation, 'S3.') THEN once
        WHEN ends_with(path, '/' || twice) THEN twice WHEN ends_with(path, '/' || once) THEN once ELSE twice END"""
_REFERER = """regexp_extract(f.tail, '^ "(https?://[^ "]*/hadoop/1/[^ "]*)"', 1)"""
"""The referer of Hadoop's S3A client (hadoop-aws, "Auditing")."""


def _of_s3a(name: str) -> str:
    """Return SQL of a parameter of S3A's referer; null if it is missing."""
    value = f"regexp_extract({_REFERER}, '[?&]{name}=([^&]*)', 1)"
    return f"nullif(left({_unquoted(value)}, 200), '')"


_ACTION = " ".join(f"WHEN '{name}' THEN '{action}'" for name, action in (ACTIONS | READS).items())
_COLUMNS = f"""
    CASE WHEN starts_with(f.operation, '{TRANSITION}') THEN 'transition' ELSE CASE f.operation {_ACTION} END END
        AS action,
    CAST(try_strptime(f.at, '%d/%b/%Y:%H:%M:%S +0000') AS TIMESTAMP) AS sent_at,
    TRY_CAST(f.took AS BIGINT) AS took,
    CASE f.requester WHEN '-' THEN 'anonymous' ELSE f.requester END AS principal,
    nullif(f.request_id, '-') AS request_id, f.operation AS operation,
    TRY_CAST(f.status AS BIGINT) AS status,
    (f.status = '-' OR starts_with(f.status, '2')) AND f.error = '-' AS succeeded,
    nullif(concat_ws(' ', {_of_s3a("op")}, 'of ' || {_of_s3a("pr")}, 'in job ' || {_of_s3a("ji")}), '') AS job,
    CASE WHEN f.uri IN ('-', '"-"') THEN nullif(nullif(named_version, '-'), '')
        ELSE nullif({_unquoted("asked_version")}, '') END AS version_id"""
