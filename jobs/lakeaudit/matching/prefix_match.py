"""Finds the longest of many places that contains each row's key, at a path boundary; the twin of `keys.owner_of`."""

from collections.abc import Mapping

import pyarrow as pa

from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

Places = Mapping[Location, str]

FEW = 8
"""Up to this number, places are compared one after the other, which needs no join."""

_PLACE = pa.schema([("place_bucket", pa.string()), ("place", pa.string()), ("label", pa.string())])


def attach_label(con: Connection, rows: Rows, places: Places, column: str) -> Relation:
    """Add `column` to rows (bucket, key): the label of the longest of `places` that contains the key, else null.

    Many places cost one hash join for each of their depths, mostly one.
    """
    if len(places) <= FEW:
        return duck.made_of(con, f"SELECT *, {label_of(places)} AS {duck.quoted(column)} FROM input", rows)
    depths = sorted({place.depth for place in places}, reverse=True)
    for depth in depths:
        rows = _at_depth(con, rows, places, depth, f"__label_{depth}")
    labels = ", ".join(f"__label_{depth}" for depth in depths)
    sql = f"SELECT * EXCLUDE ({labels}), coalesce({labels}) AS {duck.quoted(column)} FROM input"
    return duck.made_of(con, sql, rows)


def label_around(places: Places, location: Location) -> str | None:
    """Return the label of the longest of `places` that equals or contains a location, or None."""
    around = [place for place in places if place.contains(location)]
    return places[max(around, key=lambda place: place.depth)] if around else None


def label_of(places: Places) -> str:
    """Return SQL over `bucket` and `key` for the label of the longest place."""
    longest_first = sorted(places, key=lambda place: -place.depth)
    cases = [f"WHEN {holds(place)} THEN {duck.literal(places[place])}" for place in longest_first]
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS VARCHAR)"


def holds(place: Location) -> str:
    """Return SQL over `bucket` and `key` for whether a place contains the key."""
    inside = f" AND starts_with(key, {duck.literal(place.prefix)})" if place.prefix else ""
    return f"(bucket = {duck.literal(place.bucket)}{inside})"


def _at_depth(con: Connection, rows: Rows, places: Places, depth: int, column: str) -> Relation:
    known = duck.small(
        _PLACE, [(p.bucket, p.prefix, label) for p, label in places.items() if p.depth == depth]
    )
    folder = f"array_to_string(string_split(key, '/')[1:{depth}], '/') || '/'" if depth else "''"
    # a key with fewer parts gets a folder that is longer than itself, which no place's prefix can be
    sql = f"""
        SELECT input.*, known.label AS {column} FROM input
        LEFT JOIN known ON bucket = known.place_bucket AND {folder} = known.place AND starts_with(key, known.place)
    """
    return duck.made_of(con, sql, rows, known=known)
