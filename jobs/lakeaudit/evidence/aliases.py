"""Resolve other names of places in SQL: the counterpart of `keys.true_place` for readers that decode many keys."""

from collections.abc import Iterator

from lakeaudit.keys import Aliases, Location
from lakeaudit.runtime.duck import literal, literals


def true_columns(aliases: Aliases, bucket: str, key: str) -> tuple[str, str]:
    """Return SQL of the true bucket and key, from SQL of the two as they were written."""
    if not aliases:
        return bucket, key
    buckets = "".join(
        f" WHEN {_is_alias(alias, bucket, key)} THEN {literal(place.bucket)}" for alias, place in aliases
    )
    keys = "".join(
        f" WHEN {_is_alias(alias, bucket, key)} THEN {moved}" for alias, moved in _moved(aliases, key)
    )
    # nearly all rows are in other buckets, and take the first branch of both expressions
    others = f"{bucket} NOT IN ({literals(sorted({alias.bucket for alias, _ in aliases}))})"
    return (
        f"CASE WHEN {others} THEN {bucket}{buckets} ELSE {bucket} END",
        f"CASE WHEN {others} THEN {key}{keys} ELSE {key} END",
    )


def whole_buckets(aliases: Aliases) -> dict[str, str]:
    """Return the buckets that have another name, by that name."""
    return {alias.bucket: place.bucket for alias, place in aliases if not alias.key and not place.key}


def _is_alias(alias: Location, bucket: str, key: str) -> str:
    named = f"{bucket} = {literal(alias.bucket)}"
    return f"{named} AND starts_with({key}, {literal(alias.prefix)})" if alias.key else named


def _moved(aliases: Aliases, key: str) -> Iterator[tuple[Location, str]]:
    for alias, place in aliases:
        below = f"substr({key}, {len(alias.prefix) + 1})" if alias.key else key
        yield alias, f"{literal(place.prefix)} || {below}" if place.key else below
