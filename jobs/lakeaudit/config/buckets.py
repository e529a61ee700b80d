"""The `buckets` of a lake file: access, promises and other names of many buckets in one place.

Other names are replaced in the file's data before any check, so that later code knows one name of each place; names in
claims are replaced where they are read (`keys.true_place`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from lakeaudit.config.field_types import BucketAlias, BucketGlob, Place, Text
from lakeaudit.config.globs import glob_to_regex, is_pattern
from lakeaudit.config.parsers import parse_location
from lakeaudit.config.problems import ConfigProblem, Path, quoted
from lakeaudit.config.sources import S3Options
from lakeaudit.keys import MOUNTS, Aliases, Location, identify, true_place, uri_of
from lakeaudit.storage_classes import ClassKind


def _mapping_or_list(value: object) -> str:
    return "mapping" if isinstance(value, Mapping) else "list"


class BucketRule(S3Options):
    """The settings of the buckets whose names match; the first rule that matches a bucket applies to it."""

    match: BucketGlob
    aliases: Annotated[
        Annotated[tuple[BucketAlias, ...], Tag("list")] | Annotated[dict[Text, Place], Tag("mapping")],
        Discriminator(_mapping_or_list),
    ] = ()
    """Other names of the bucket; a mapping if they are names of several buckets, or of folders."""
    consistency: Literal["strong", "weak"] = "strong"
    """weak: a listing may lag behind writes, and a 404 may be an old answer."""
    storage_classes: Mapping[Text, ClassKind] = Field(default_factory=dict)
    """Whether objects of a storage class can be read at once or must be restored first; overrides known classes."""

    @property
    def options(self) -> S3Options:
        """The connection options of its buckets."""
        return S3Options(**{name: getattr(self, name) for name in S3Options.model_fields})

    def holds_for(self, bucket: str) -> bool:
        return re.fullmatch(glob_to_regex(self.match), bucket) is not None


def aliases_of(data: Mapping[str, object]) -> tuple[Aliases, list[ConfigProblem]]:
    """Return the other names of places in a file's data, and their problems; the models report all other problems."""
    aliases: dict[Location, Location] = {}
    found: list[ConfigProblem] = []
    for path, name, place in _declared_aliases(data):
        alias = alias_place(name)
        if alias is None and isinstance(path[-1], str):
            found.append(
                ConfigProblem(path, "no other name of a bucket", "an access point's alias, or dbfs:/mnt/name")
            )
        if alias is None:
            continue
        if place is None:
            what = f"the bucket of {quoted(name)} is not known"
            found.append(
                ConfigProblem(
                    path, what, "match one bucket by its name, or write {alias: s3://bucket/folder}"
                )
            )
        elif aliases.setdefault(alias, place) != place:
            found.append(
                ConfigProblem(path, f"{quoted(name)} is a name of {aliases[alias].uri} already", "keep one")
            )
    return tuple(sorted(aliases.items(), key=lambda pair: (-len(pair[0].key), pair))), found


def alias_place(name: str) -> Location | None:
    """Return the place that another name looks like: a bucket, or a mount; None: neither."""
    if name.startswith(f"{MOUNTS}/"):
        key = name[len(MOUNTS) :].strip("/")
        return Location(MOUNTS, key) if key else None
    return Location(name, "") if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) else None


def _declared_aliases(data: Mapping[str, object]) -> Iterator[tuple[Path, str, Location | None]]:
    """Yield each alias with its path and its true place; None if the place is not known."""
    rules = data.get("buckets")
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        names = rule.get("aliases") if isinstance(rule, dict) else None
        if isinstance(names, list):
            bucket = _only_bucket(rule.get("match"), data)
            for at, name in enumerate(names):
                if isinstance(name, str):
                    yield ("buckets", index, "aliases", at), name, bucket
        elif isinstance(names, dict):
            for name, place in names.items():
                yield ("buckets", index, "aliases", name), name, _location(place)


def _location(place: object) -> Location | None:
    try:
        return parse_location(place) if isinstance(place, str) else None
    except ValueError:
        return None


def _only_bucket(match: object, data: Mapping[str, object]) -> Location | None:
    """Return the one bucket of a rule: by its name, or the only bucket in the file that its pattern matches."""
    if not isinstance(match, str):
        return None
    if not re.search(r"[*?\[]", match):
        return Location(match, "")
    try:
        pattern = glob_to_regex(match)
    except ValueError:
        return None
    places = (identify(text) for text in _texts([value for key, value in data.items() if key != "buckets"]))
    named = {
        place[0] for place in places if place and re.fullmatch(pattern, place[0]) and not is_pattern(place[0])
    }
    return Location(named.pop(), "") if len(named) == 1 else None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def by_true_names(data: Mapping[str, object], aliases: Aliases) -> dict[str, object]:
    """Return the file's plain data with other names replaced in all URIs, except in `buckets` itself."""
    if not aliases:
        return dict(data)
    return {key: value if key == "buckets" else _renamed(value, aliases) for key, value in data.items()}


def _renamed(value: object, aliases: Aliases) -> object:
    if isinstance(value, dict):
        return {key: _renamed(inner, aliases) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, aliases) for inner in value]
    place = identify(value) if isinstance(value, str) else None
    if place is None or not place[0]:
        return value
    true = true_place(aliases, *place)
    return value if true == place else uri_of(*true)
