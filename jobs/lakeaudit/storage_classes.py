"""Which storage classes have to be restored before an object can be read. Pure.

Every cloud has names of its own, which hold at its endpoints alone: at a private endpoint `COLD` is a pool like any
other. The names of Amazon S3 hold everywhere, since they belong to the protocol. Names are compared without case and
punctuation. A class that is not known is neither readable nor archived until the lake file says so
(`buckets`, `storage_classes`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from lakeaudit.keys import TIERED_CLASSES

ClassKind = Literal["readable", "archived"]

STANDARD = "STANDARD"
"""The class of an object for which a response of S3's API names none (S3 API reference, HeadObject)."""


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
"""What each cloud adds to the names of S3. Google reads every class at once, those of S3's names too."""
EVERY_ARCHIVE = tuple(name for names in (OF_S3, *OF_CLOUDS.values()) for name in names.archived)
"""Names that some store takes for an archive class."""
_HOSTS: Mapping[str, str] = {
    "aliyuncs.com": "Alibaba OSS",
    "myqcloud.com": "Tencent COS",
    "tencentcos.cn": "Tencent COS",
    "myhuaweicloud.com": "Huawei OBS",
    "myhuaweicloud.eu": "Huawei OBS",
    "otc.t-systems.com": "Huawei OBS",
    "googleapis.com": "Google",
}
"""By the end of an endpoint's host the cloud that serves it."""


def _plain(name: str) -> str:
    return re.sub("[^A-Z0-9]", "", name.upper())


_TIERED = {_plain(name) for name in TIERED_CLASSES}


def is_tiered(name: str) -> bool:
    """Whether a class moves objects between tiers itself."""
    return _plain(name) in _TIERED


def cloud_of(endpoint: str | None) -> str | None:
    """The cloud whose own endpoint a URL is, one of OF_CLOUDS; None: Amazon's, or a private one."""
    host = urlsplit(endpoint or "").hostname or ""
    return next((cloud for end, cloud in _HOSTS.items() if host == end or host.endswith(f".{end}")), None)


@dataclass(frozen=True)
class StorageClasses:
    """The classes of one bucket: what its store says, and before that what the lake file says (`own`, by name).

    `cloud`: the bucket is reached at this cloud's own endpoint; None: at another, where the names of S3 hold.
    """

    own: Mapping[str, ClassKind] = field(default_factory=dict)
    cloud: str | None = None
    _answers: dict[str | None, bool | None] = field(default_factory=dict, compare=False, repr=False)
    """What was answered before: a listing asks for each of its objects."""

    def archived(self, name: str | None) -> bool | None:
        """Whether objects of a class have to be restored before they can be read; None: not known."""
        if name not in self._answers:
            tiered = name is None or is_tiered(name)
            self._answers[name] = None if tiered else self._meanings().get(_plain(name or ""))
        return self._answers[name]

    def _names(self) -> dict[str, bool]:
        """By the name of a class, as its cloud writes it, whether it is archived."""
        of_cloud = OF_CLOUDS[self.cloud] if self.cloud else Names(())
        archived = dict.fromkeys((*OF_S3.archived, *of_cloud.archived), self.cloud != "Google")
        return dict.fromkeys((*OF_S3.readable, *of_cloud.readable), False) | archived

    def _meanings(self) -> dict[str, bool]:
        """By the plain form of a name whether the class is archived."""
        known = {_plain(name): is_archived for name, is_archived in self._names().items()}
        return known | {_plain(name): kind == "archived" for name, kind in self.own.items()}

    def sql(self, column: str, tiered: str = "NULL") -> str:
        """The same as SQL over a column of class names; `tiered` answers for classes that move objects themselves.

        The plain form of a name appears once: what two branches of a CASE share, DuckDB computes for every row.
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
        """Everything that answers follow from."""
        return tuple(sorted(self.own.items())), self.cloud


_USUAL = "STANDARD"
_HOURS = {"DEEP_ARCHIVE": "12 hours, or 48 at the bulk rate"}
_SOONER = "3 to 5 hours, or 5 to 12 at the bulk rate"
"""How long a restore takes (S3 User Guide, "Archive retrieval options")."""


def restore_takes(name: str) -> str:
    """How long it takes until an object of an archive class can be read."""
    return _HOURS.get(name, _SOONER)


KNOWN_CLASSES = StorageClasses()
"""What is known of classes where no lake file and no endpoint says more."""


def unknown_class_warnings(found: Iterable[str]) -> list[str]:
    """One line a bucket about classes (`bucket/class`) of which nothing is known."""
    by_bucket: dict[str, list[str]] = {}
    for bucket, name in (each.rsplit("/", 1) for each in sorted(set(found))):
        by_bucket.setdefault(bucket, []).append(name)
    return [
        f"{bucket}: it is not known whether objects of the storage class {', '.join(names)} can be read without a "
        f"restore: write `storage_classes: {{{names[0]}: readable}}` or `archived` into its rule below `buckets`"
        for bucket, names in by_bucket.items()
    ]


def _of(classes: Mapping[str, bool], archived: bool) -> list[str]:
    return [name for name, is_archived in classes.items() if is_archived is archived]


def _texts(names: Iterable[str]) -> str:
    return ", ".join("'" + name.replace("'", "''") + "'" for name in names) or "NULL"
