"""Decide which storage classes have to be restored before an object can be read. Pure.

Every cloud has its own names, which are valid only at its endpoints: at a private endpoint `COLD` is a pool like any
other. The names of Amazon S3 are valid everywhere, since they belong to the protocol. Names are compared without case
and punctuation. An unknown class is neither readable nor archived until the lake file defines it (`buckets`,
`storage_classes`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from lakeaudit.keys import TIERED_CLASSES

ClassKind = Literal["readable", "archived"]

STANDARD = "STANDARD"
"""The class of an object if the response of S3's API does not name one (S3 API reference, HeadObject)."""


class Names(NamedTuple):
    """The classes of one cloud."""

    readable: tuple[str, ...]
    archived: tuple[str, ...] = ()


OF_S3 = Names(
    (
        *(STANDARD, "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "GLACIER_IR", "EXPRESS_ONEZONE"),
        *("OUTPOSTS", "SNOW", "FSX_OPENZFS", "FSX_ONTAP"),
    ),
    ("GLACIER", "DEEP_ARCHIVE"),
)
OF_CLOUDS: Mapping[str, Names] = {
    "Alibaba OSS": Names(("IA",), ("Archive", "ColdArchive", "DeepColdArchive")),
    "Tencent COS": Names(("MAZ_STANDARD", "MAZ_STANDARD_IA"), ("ARCHIVE", "MAZ_ARCHIVE")),
    "Huawei OBS": Names(("WARM",), ("COLD",)),
    "Google": Names(
        ("NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY"),
    ),
}
"""Names that each cloud adds to those of S3. Google reads every class immediately, also those of S3's names."""
EVERY_ARCHIVE = tuple(name for names in (OF_S3, *OF_CLOUDS.values()) for name in names.archived)
"""Names that denote an archive class in some store."""
_HOSTS: Mapping[str, str] = {
    "aliyuncs.com": "Alibaba OSS",
    "myqcloud.com": "Tencent COS",
    "tencentcos.cn": "Tencent COS",
    "myhuaweicloud.com": "Huawei OBS",
    "myhuaweicloud.eu": "Huawei OBS",
    "otc.t-systems.com": "Huawei OBS",
    "googleapis.com": "Google",
}
"""Clouds by the domain of their endpoints."""


def _plain(name: str) -> str:
    return re.sub("[^A-Z0-9]", "", name.upper())


_TIERED = {_plain(name) for name in TIERED_CLASSES}


def is_tiered(name: str) -> bool:
    """Return whether a class moves objects between tiers itself."""
    return _plain(name) in _TIERED


def cloud_of(endpoint: str | None) -> str | None:
    """Return the cloud of an endpoint, one of OF_CLOUDS; None: Amazon's or a private endpoint."""
    host = urlsplit(endpoint or "").hostname or ""
    return next((cloud for end, cloud in _HOSTS.items() if host == end or host.endswith(f".{end}")), None)


@dataclass(frozen=True)
class StorageClasses:
    """The classes of one bucket: those of its store, overridden by those of the lake file (`own`, by name).

    `cloud`: the cloud of the bucket's endpoint; None: another endpoint, where the names of S3 are valid.
    """

    own: Mapping[str, ClassKind] = field(default_factory=dict)
    cloud: str | None = None
    _answers: dict[str | None, bool | None] = field(default_factory=dict, compare=False, repr=False)
    """Cache of results: a listing calls `archived` for each object."""

    def archived(self, name: str | None) -> bool | None:
        """Return whether objects of a class have to be restored before they can be read; None: not known."""
        if name not in self._answers:
            tiered = name is None or is_tiered(name)
            self._answers[name] = None if tiered else self._meanings().get(_plain(name or ""))
        return self._answers[name]

    def _names(self) -> dict[str, bool]:
        """Return by the cloud's name of each class whether it is archived."""
        of_cloud = OF_CLOUDS[self.cloud] if self.cloud else Names(())
        archived = dict.fromkeys((*OF_S3.archived, *of_cloud.archived), self.cloud != "Google")
        return dict.fromkeys((*OF_S3.readable, *of_cloud.readable), False) | archived

    def _meanings(self) -> dict[str, bool]:
        """Return by the plain form of each name whether the class is archived."""
        known = {_plain(name): is_archived for name, is_archived in self._names().items()}
        return known | {_plain(name): kind == "archived" for name, kind in self.own.items()}

    def sql(self, column: str, tiered: str = "NULL") -> str:
        """Return `archived` as SQL over a column of class names; `tiered` is the value for tiered classes.

        The plain form of a name appears once: DuckDB computes an expression that two branches of a CASE share for every
        row.
        """
        meant = self._meanings()
        written = {name: meant[_plain(name)] for name in self._names()}
        # nearly all objects are of this class, and an IN compares with every name
        usual = f" WHEN {column} = '{_USUAL}' THEN {str(meant[_USUAL]).lower()}" if _USUAL in meant else ""
        known = ", ".join(f"'{name}': {str(archived).lower()}" for name, archived in meant.items())
        plain = f"regexp_replace(upper({column}), '[^A-Z0-9]', '', 'g')"
        return (
            f"CASE{usual} WHEN {column} IN ({_texts(TIERED_CLASSES)}) THEN {tiered}"
            f" WHEN {column} IN ({_texts(_of(written, False))}) THEN false"
            f" WHEN {column} IN ({_texts(_of(written, True))}) THEN true"
            f" ELSE MAP {{{known}}}[{plain}] END"
        )

    @property
    def identity(self) -> tuple[tuple[tuple[str, ClassKind], ...], str | None]:
        """Return everything that determines the results."""
        return tuple(sorted(self.own.items())), self.cloud


_USUAL = "STANDARD"
_HOURS = {"DEEP_ARCHIVE": "12 hours, or 48 at the bulk rate"}
_SOONER = "3 to 5 hours, or 5 to 12 at the bulk rate"
"""Duration of a restore (S3 User Guide, "Archive retrieval options")."""


def restore_takes(name: str) -> str:
    """Return the duration of a restore from an archive class."""
    return _HOURS.get(name, _SOONER)


KNOWN_CLASSES = StorageClasses()
"""Classes without a lake file and an endpoint."""


def unknown_class_warnings(classes: Iterable[str]) -> list[str]:
    """Return one warning per bucket about unknown classes, given as `bucket/class`."""
    by_bucket: dict[str, list[str]] = {}
    for bucket, name in (each.rsplit("/", 1) for each in sorted(set(classes))):
        by_bucket.setdefault(bucket, []).append(name)
    return [
        f"{bucket}: it is not known whether objects of the storage class {', '.join(names)} can be read without a "
        f"restore: add `storage_classes: {{{names[0]}: readable}}` or `archived` to its rule in `buckets`"
        for bucket, names in by_bucket.items()
    ]


def _of(classes: Mapping[str, bool], archived: bool) -> list[str]:
    return [name for name, is_archived in classes.items() if is_archived is archived]


def _texts(names: Iterable[str]) -> str:
    return ", ".join("'" + name.replace("'", "''") + "'" for name in names) or "NULL"
