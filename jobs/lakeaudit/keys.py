"""Identify objects by bucket and key, and find the locations that contain them.

An object is identified by (bucket, key): `s3://`, `s3a://` and `gs://` are equivalent; a local file has the bucket ""
and its absolute path without the leading slash; in Azure the bucket is `container@account` for both the `abfss` and the
`wasbs` name. Keys are raw: nothing is decoded, normalised or case-folded, so double slashes, dots and text that looks
like a percent-escape stay. A location is a path boundary: `orders` never contains `orders_2`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

GOOGLE = "gs://"
S3_SCHEMES = ("s3://", "s3a://", "s3n://", GOOGLE)
"""Equivalent schemes: `gs://` is a bucket of Google's, which is read with the API of S3."""

AZURE_NAME = r"(?:abfss?|wasbs?)://([a-z0-9$][a-z0-9-]*)@([a-z0-9]{3,24})\.(?:dfs|blob)\.core\.windows\.net"
"""Names in Hadoop's two file systems of a container (group 1) in an account (group 2) of Azure's public cloud."""
_AZURE = re.compile(rf"{AZURE_NAME}(?:/(.*))?", re.DOTALL)
AZURE_BUCKET = r"[a-z0-9$][a-z0-9-]*@[a-z0-9]{3,24}"


class Location(NamedTuple):
    """A set of keys: everything below `key` in `bucket`; an empty key is the whole bucket."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: str) -> "Location":
        """Read `s3://bucket/key`, an Azure name, `file:///path` or `/path`; else ValueError.

        A trailing slash is dropped. In S3 a second one names an empty folder: `s3://b/x//` contains `x//y`, not `x/y`.
        """
        identity = identify(uri)
        if identity is None or identity[0] == MOUNTS:
            raise ValueError(f"not an s3:// or local location: {uri!r}")
        place = cls(identity[0], identity[1].removesuffix("/"))
        return place if place.is_in_s3 and place.key.strip("/") else cls(place.bucket, place.key.rstrip("/"))

    @property
    def is_local(self) -> bool:
        return self.bucket == ""

    @property
    def is_azure(self) -> bool:
        """Return whether it is in a container of Azure: no other bucket's name has an @."""
        return is_azure(self.bucket)

    @property
    def is_in_s3(self) -> bool:
        """Return whether it is read with the API of S3."""
        return not self.is_local and not self.is_azure

    @property
    def uri(self) -> str:
        return uri_of(self.bucket, self.key)

    @property
    def spark_path(self) -> str:
        """Return the location's name in Hadoop's file systems."""
        return self.uri if self.is_local or self.is_azure else f"s3a://{self.bucket}/{self.key}"

    @property
    def path_or_uri(self) -> str:
        """Return the location as people type it and libraries open it: a local one as a path."""
        return self.spark_path if self.is_local else self.uri

    @property
    def prefix(self) -> str:
        """Return the common prefix of all keys inside."""
        return f"{self.key}/" if self.key else ""

    @property
    def depth(self) -> int:
        return self.key.count("/") + 1 if self.key else 0

    def holds(self, bucket: str, key: str) -> bool:
        """Return whether (bucket, key) is inside, at a path boundary."""
        return bucket == self.bucket and key.startswith(self.prefix)

    def contains(self, place: "Location") -> bool:
        """Return whether a location is this one or inside of it."""
        return place == self or self.holds(*place)

    def join(self, *parts: str) -> "Location":
        return Location(self.bucket, "/".join([*([self.key] if self.key else []), *parts]))


MOUNTS = "dbfs:"
"""The bucket of a path that a workspace has mounted: `dbfs:/mnt/prod/x` is (`dbfs:`, `mnt/prod/x`)."""

LOCAL_ELSEWHERE = "file:"
"""The bucket of a local path in a table on object storage: the path is not on this host."""

Aliases = tuple[tuple[Location, Location], ...]
"""(other name of a location, the location itself), the longest name first."""


def true_place(aliases: Aliases, bucket: str, key: str) -> tuple[str, str]:
    """Return (bucket, key) with the bucket's own name. `evidence.aliases` has the equivalent SQL."""
    for alias, place in aliases:
        if alias.holds(bucket, key) or (alias.bucket, alias.key) == (bucket, key):
            below = key[len(alias.prefix) :]
            return place.bucket, f"{place.prefix}{below}" if below else place.key
    return bucket, key


def moved(aliases: Aliases, maps: Aliases) -> Aliases:
    """Combine both: `maps` also apply to other names of the locations that they move."""
    through = [(alias, Location(*true_place(maps, *place))) for alias, place in aliases]
    inside = [
        (alias.join(old.key[len(place.prefix) :]) if place != old else alias, new)
        for alias, place in aliases
        for old, new in maps
        if place.contains(old)
    ]
    named = {**dict(through), **dict(maps), **dict(inside)}
    return tuple(sorted(named.items(), key=lambda pair: (-len(pair[0].key), pair)))


def outside_local(places: Iterable[Location]) -> Aliases:
    """Return aliases that make a local path a location of this host only inside these local locations.

    The writer of a manifest on object storage must not choose which files of the audit's host are read.
    """
    known = sorted({place for place in places if place.is_local}, key=lambda place: (-len(place.key), place))
    return (*((place, place) for place in known), (Location("", ""), Location(LOCAL_ELSEWHERE, "")))


def origins(maps: Aliases, place: Location) -> tuple[Location, ...]:
    """Return the locations whose keys belong to `place` according to `maps`."""
    whole = [
        old.join(place.key[len(new.prefix) :]) if new != place else old
        for old, new in maps
        if new.contains(place)
    ]
    return (*whole, *(old for old, new in maps if new != place and place.contains(new)))


def identify(uri: str) -> tuple[str, str] | None:
    """Return (bucket, key) of a raw, not percent-encoded URI; None: it is not local, mounted or in a known store."""
    for scheme in S3_SCHEMES:
        if uri.startswith(scheme):
            bucket, _, key = uri[len(scheme) :].partition("/")
            return (bucket, key) if bucket and "@" not in bucket else None
    if azure := _AZURE.fullmatch(uri):
        return f"{azure[1]}@{azure[2]}", azure[3] or ""
    if uri.startswith(f"{MOUNTS}/"):
        return MOUNTS, uri[len(MOUNTS) :].lstrip("/")
    if uri.startswith("file:"):
        path = uri[len("file:") :]
        path = path.removeprefix("//")
        return ("", path[1:]) if path.startswith("/") else None
    return ("", uri[1:]) if uri.startswith("/") else None


_ELSEWHERE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)/?(.*)", re.DOTALL)


def elsewhere(uri: str) -> tuple[str, str] | None:
    """Return (scheme and authority, key) of a raw URI of an unknown store, such as `hdfs://nn:8020/wh/x`.

    Only `maps` can map it to a location. Delta's logs are read by the same rule (`evidence.manifest.delta.log.paths`).
    """
    if uri.startswith((*S3_SCHEMES, "file:", MOUNTS)) or identify(uri) is not None:
        return None
    match = _ELSEWHERE.fullmatch(uri)
    return None if match is None else (match[1], match[2])


def place_by_name(aliases: Aliases, uri: str) -> tuple[str, str] | None:
    """Return (bucket, key) of a raw URI with the bucket's own name; None: it is in an unknown store."""
    known, other = identify(uri), elsewhere(uri)
    if known is not None:
        return true_place(aliases, *known)
    place = None if other is None else true_place(aliases, *other)
    return None if place == other else place


def collapsed(key: str) -> str:
    """Return the key in the form of Hadoop's file systems: runs of slashes become one, and none leads."""
    return re.sub("//+", "/", key).lstrip("/")


def walked(key: str) -> str:
    """Return the key that Hadoop's Path opens: empty parts and `.` are dropped, and `..` is followed."""
    parts: list[str] = []
    for part in key.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def without_dots(key: str) -> str:
    """Return the key of a raw path: `walked` if it has a part `.` or `..`, else unchanged."""
    return walked(key) if {".", ".."} & {*key.split("/")} else key


def is_azure(bucket: str) -> bool:
    """Return whether a bucket is a container of Azure; names of unknown stores contain a scheme."""
    return "@" in bucket and "/" not in bucket


def in_known_store(bucket: str) -> bool:
    """Return whether a bucket is in a known store or the local disk; others have their scheme as the bucket."""
    return not (bucket.endswith(":") or "://" in bucket)


_OF_AWS = re.compile(
    r"(?:.*\.)?(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu|api\.aws|amazonwebservices\.com\.cn"
    r"|c2s\.ic\.gov|sc2s\.sgov\.gov|csp\.hci\.ic\.gov|cloud\.adc-e\.uk)"
)
"""Hosts of AWS in all of its partitions."""


def is_of_aws(endpoint: str | None) -> bool:
    """Return whether an endpoint's URL is one of AWS, each of which serves a single service."""
    return _OF_AWS.fullmatch(urlsplit(endpoint or "").hostname or "") is not None


def uri_of(bucket: str, key: str) -> str:
    """Return the form of a key for people: `s3://bucket/key`, Azure's `abfss` name, or the local path.

    A key of an unknown store keeps its scheme.
    """
    if is_azure(bucket):
        return f"abfss://{bucket}.dfs.core.windows.net/{key}"
    if not in_known_store(bucket):
        return f"{bucket}/{key}"
    return f"s3://{bucket}/{key}" if bucket else f"/{key}"


def owner_of(places: Mapping[Location, str], bucket: str, key: str) -> str | None:
    """Return the label of the longest location that contains the key, like `prefix_match.attach_label` in SQL."""
    holding = [place for place in places if place.holds(bucket, key)]
    return places[max(holding, key=lambda place: place.depth)] if holding else None


END = r"\Z"
"""The end of a text: `$` also matches before a last line break. RE2 writes it `\\z`, see `duck.pattern`."""

TEMPORARY = (
    r"(^|/)(_temporary|_temporary-[^/]*|__magic[^/]*|__temp-data|\.spark-staging-[^/]*|\.hive-staging[^/]*"
    rf"|_impala_insert_staging|\.distcp\.tmp\.[^/]*)(/|{END})|\._COPYING_{END}"
)
"""Names that writers use for uncommitted work (FileOutputCommitter, the S3A committers, Spark's dynamic overwrite,
Hive, Impala, DistCp, `hadoop fs -put`)."""

OTHERS = (
    r"(^|/)(_symlink_format_manifest|_spark_metadata|\.hoodie|_checkpoints)/|(^|/)_?checkpoints?/([^/]+/)*"
    rf"(offsets|commits|sources|state|metadata)(/|{END})"
    rf"|^metadata/([^/]+\.(avro|stats|puffin)|[^/]*\.metadata\.json(\.gz)?|version-hint\.text){END}"
    rf"|^_delta_log/|(^|/)[^/]*manifest{END}"
    rf"|(^|/)\.hoodie_partition_metadata(\.[^/]*)?{END}"
    rf"|(^|/)(_SUCCESS|_metadata|_common_metadata|_(started|committed)_[0-9]+|\.[^/]+\.crc){END}"
)
"""Names of other files in a table's folder: manifests for Presto and Hive, the log of Spark's streaming sink, Hudi's
timeline and its partition markers, the checkpoints of streams that write the table, UniForm's Iceberg metadata next to
a Delta log, a Delta log in a table that is read by other manifests, the manifests of Redshift's UNLOAD, markers of
committers (Hadoop's, Databricks'), summaries of Parquet footers, and Hadoop's checksums on local disks."""

HIDDEN = rf"(^|/)[._][^/=]*(/|{END})|\._COPYING_{END}"
"""Names that readers of plain tables skip: a path part that begins with `.` or `_`, save `_x=` partitions."""

DELETION_VECTOR = rf"(^|/)deletion_vector_[0-9a-f-]+\.bin{END}"
"""A file of Delta's deletion vectors, written once under a UUID (PROTOCOL.md, "Deletion Vector Descriptor Schema")."""

PARQUET = rf"\.(parquet|parq){END}"
ORC = rf"\.orc{END}"
AVRO = rf"\.avro{END}"
PUFFIN = rf"\.puffin{END}"
"""Names of files by their format, as writers of tables give them."""

MARKER = rf"(/|_\$folder\$){END}"
"""A folder placeholder: `a/b/` (S3A, consoles) or `a/b_$folder$` (EMRFS, s3n)."""

HUDI_BASE = rf"(?:^|/)[^/_]+_[^/_]*_([0-9]{{14}}|[0-9]{{17}}|[0-9]{{20}})\.(?:parquet|orc|hfile){END}"
HUDI_LOG = rf"(?:^|/)\.[^/]+_([0-9]{{14}}|[0-9]{{17}}|[0-9]{{20}})\.log\.[0-9]+(?:_[^/]*)?{END}"
"""Keys of Hudi's base files and log files, with the instant in their names (`FSUtils` of Apache Hudi)."""

UNSEEN = rf"{HIDDEN}|{TEMPORARY}|{MARKER}"
"""Names that are not data for readers of plain tables: hidden files, temporary work, placeholders."""

NOT_HADOOP = rf"(^/)|(//)|(/{END})|((^|/)\.{{1,2}}(/|{END}))|(:)|(^{END})"
"""Keys that a Hadoop Path cannot contain: empty parts, `.` and `..`, and a colon, which Hadoop reads as a scheme when
it joins the parent and the child of a stored row."""

TIERED_CLASSES = ("INTELLIGENT_TIERING", "MAZ_INTELLIGENT_TIERING", "IntelligentTiering")
"""Classes that move objects between tiers themselves: the class alone does not say whether an object is archived."""
NULL_VERSION = "null"
"""The API's id of a version that was written without versioning; CSV inventories leave it empty, others null."""


def digest(*parts: str) -> str:
    """Return an id of these parts, the same in every process; `finding_rows.digest` computes it in SQL."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:32]


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded: no store has keys that cannot, but local names may be any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
