"""Which storage classes have to be restored before an object can be read. Pure.

Every cloud names its own: Amazon S3, Alibaba OSS (`ColdArchive`), Tencent COS (`MAZ_STANDARD`), Huawei OBS (`COLD`),
Google (`ARCHIVE`, which is read at once). Names are compared without case and underscores. A class that nobody knows is
neither readable nor archived until the lake file says so (`buckets`, `storage_classes`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from lakeaudit.keys import ARCHIVE_CLASSES, TIERED_CLASSES

ClassKind = Literal["readable", "archived"]

READABLE = (
    *("STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "GLACIER_IR", "EXPRESS_ONEZONE"),
    *("OUTPOSTS", "SNOW", "FSX_OPENZFS", "FSX_ONTAP"),
    *("IA", "MAZ_STANDARD", "MAZ_STANDARD_IA", "WARM"),  # OSS, COS, OBS
    *("NEARLINE", "COLDLINE", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY"),  # Google
)
_GOOGLE = re.compile(r"(.*\.)?googleapis\.com")


def _plain(name: str) -> str:
    return re.sub("[^A-Z0-9]", "", name.upper())


_KNOWN = {_plain(name): kind == "archived" for kind, names in (("readable", READABLE), ("archived", ARCHIVE_CLASSES))
          for name in names}  # fmt: skip
_TIERED = {_plain(name) for name in TIERED_CLASSES}


def is_tiered(name: str) -> bool:
    """Whether a class moves objects between tiers itself."""
    return _plain(name) in _TIERED


@dataclass(frozen=True)
class StorageClasses:
    """The classes of one bucket: what everybody knows, and before that what the lake file says (`own`, by name).

    `of_google`: the bucket is reached at Google's endpoint, where every class is read at once.
    """

    own: Mapping[str, ClassKind] = field(default_factory=dict)
    of_google: bool = False
    _answers: dict[str | None, bool | None] = field(default_factory=dict, compare=False, repr=False)
    """What was answered before: a listing asks for each of its objects."""

    def archived(self, name: str | None) -> bool | None:
        """Whether objects of a class have to be restored before they can be read; None: not known."""
        if name not in self._answers:
            self._answers[name] = self._archived(name)
        return self._answers[name]

    def _archived(self, name: str | None) -> bool | None:
        if name is None or is_tiered(name):
            return None
        own = {_plain(each): kind == "archived" for each, kind in self.own.items()}
        known = _KNOWN.get(_plain(name))
        return own.get(_plain(name), False if self.of_google and known else known)

    def sql(self, column: str) -> str:
        """The same as SQL over a column of class names; common spellings are compared as they are."""
        own = {_plain(name): kind == "archived" for name, kind in self.own.items()}
        base = dict.fromkeys(_KNOWN, False) if self.of_google else _KNOWN
        meant = {**base, **own}
        written = {name: meant[_plain(name)] for name in (*READABLE, *ARCHIVE_CLASSES)}
        plain = f"regexp_replace(upper({column}), '[^A-Z0-9]', '', 'g')"
        return (
            f"CASE WHEN {column} IN ({_texts(_of(written, False))}) THEN false"
            f" WHEN {column} IN ({_texts(_of(written, True))}) THEN true"
            f" WHEN {plain} IN ({_texts(_of(meant, False))}) THEN false"
            f" WHEN {plain} IN ({_texts(_of(meant, True))}) THEN true END"
        )

    @property
    def identity(self) -> tuple[tuple[tuple[str, ClassKind], ...], bool]:
        """Everything that answers follow from."""
        return tuple(sorted(self.own.items())), self.of_google


KNOWN_CLASSES = StorageClasses()
"""What is known of classes where no lake file and no endpoint says more."""


def is_google(endpoint: str | None) -> bool:
    """Whether an endpoint is Google's own."""
    return endpoint is not None and _GOOGLE.fullmatch(urlsplit(endpoint).hostname or "") is not None


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
