"""Iceberg tables of any history give the claims of a plain model; damaged ones are reported, and stop nothing."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.iceberg import KIND as ICEBERG
from lakeaudit.evidence.manifest.iceberg.reader import IcebergClaims
from lakeaudit.evidence.manifest.iceberg.state.rows import KIND
from lakeaudit.runtime import duck
from lakeaudit.schemas import plain_time
from tests.builders.connections import connection
from tests.builders.examples import examples
from tests.builders.iceberg_files import AT, DELETED, EXISTING, Entry, Snapshot, write_metadata
from tests.sources.manifest_contract import claim_table
from tests.sources.test_iceberg import CONTEXT, A, B, C, changed, read, table_at

few = examples(5, 120)

acts = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["remove", "rewrite", "tag", "roll back", "expire"]), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class Model:
    """A table after some acts: its files by snapshot, its heads, and the manifests as a writer keeps them."""

    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    files: dict[int, frozenset[str]] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    made: int = 0

    def act(self, what: str, number: int) -> None:
        getattr(self, what.replace(" ", "_"))(number)

    def append(self, number: int) -> None:
        names = [f"f{self.made + 1}-{n}" for n in range(number)]
        before = dict(self._manifests())
        new = [Entry(name, size=50 + n, snapshot=None) for n, name in enumerate(names)]
        self._commit({**before, f"m{self.made + 1}": new}, self._listed() | set(names))
        self.added |= dict.fromkeys(names, self.made)

    def remove(self, number: int) -> None:
        """One file, by a new manifest in place of the one that lists it."""
        listed = sorted(self._listed())
        if not listed:
            return
        name = listed[number % len(listed)]
        before = dict(self._manifests())
        of = next(
            key for key, entries in before.items() if name in {e.path for e in entries if e.status != DELETED}
        )
        kept = [self._existing(e) for e in before.pop(of) if e.status != DELETED and e.path != name]
        gone = Entry(name, status=DELETED, snapshot=self.made + 1)
        self._commit({**before, f"m{self.made + 1}": [*kept, gone]}, self._listed() - {name})

    def rewrite(self, _: int) -> None:
        """All manifests become one."""
        entries = [self._existing(e) for es in self._manifests().values() for e in es if e.status != DELETED]
        self._commit({f"m{self.made + 1}": entries}, self._listed())

    def tag(self, number: int) -> None:
        if self.snapshots:
            self.refs[f"tag{number}"] = sorted(self.snapshots)[number % len(self.snapshots)]

    def roll_back(self, number: int) -> None:
        if self.snapshots:
            self.refs["main"] = sorted(self.snapshots)[number % len(self.snapshots)]

    def expire(self, number: int) -> None:
        """Snapshots that no head stands on, but for the last ones."""
        old = [id_ for id_ in sorted(self.snapshots) if id_ not in self.refs.values()]
        for id_ in old[: max(len(old) - number, 0)]:
            del self.snapshots[id_], self.files[id_]

    def _listed(self) -> frozenset[str]:
        return self.files.get(self.refs.get("main", 0), frozenset())

    def _manifests(self) -> Mapping[str, Any]:
        head = self.snapshots.get(self.refs.get("main", 0))
        return {} if head is None else head.manifests

    def _existing(self, entry: Entry) -> Entry:
        return replace(entry, status=EXISTING, snapshot=self.added[entry.path])

    def _commit(self, manifests: Mapping[str, Any], files: frozenset[str]) -> None:
        self.made += 1
        wrote = {name: int(name[1:]) for name in manifests}
        parent = self.refs.get("main")
        self.snapshots[self.made] = Snapshot(manifests, AT + timedelta(hours=self.made), parent, wrote)
        self.files[self.made] = files
        self.refs["main"] = self.made

    @property
    def states(self) -> dict[str, str]:
        live = frozenset[str]().union(*(self.files[id_] for id_ in self.refs.values()))
        known = live.union(*self.files.values())
        named = {e.path for one in self.snapshots.values() for es in one.manifests.values() for e in es}
        return {n: "live" if n in live else "history" if n in known else "gone" for n in named}

    def since(self, name: str) -> Any:
        """When it was added; where that has expired, the oldest state that lists it by the same manifest."""
        added = self.snapshots.get(self.added[name])
        return None if added is None else plain_time(added.at)

    def write(self, home: Path, number: int = 1, version: int = 2) -> None:
        write_metadata(home, self.snapshots, refs=self.refs, number=number, version=version)


def modelled(steps: list[tuple[str, int]], model: Model | None = None) -> Model:
    model = model or Model()
    for what, number in steps:
        model.act(what, number)
    return model


def claims_of(home: Path) -> tuple[IcebergClaims, dict[str, dict[str, Any]]]:
    claims = read(home)
    assert isinstance(claims, IcebergClaims)
    rows = claim_table(claims).to_pylist()
    return claims, {r["key"].rpartition("/")[2]: r for r in rows if r["category"] == "data"}


@few
@given(acts, st.sampled_from([1, 2, 3]))
def test_any_history_says_what_the_model_says(
    tmp_path: Path, steps: list[tuple[str, int]], version: int
) -> None:
    home = emptied(tmp_path / "t")
    model = modelled(steps)
    model.write(home, version=version)
    claims, rows = claims_of(home)
    assert claims.holes == ()
    assert {name: row["state"] for name, row in rows.items()} == model.states
    assert {row["listed"] for row in rows.values() if row["state"] == "live"} <= {1}
    told = {name: row["claimed_at"] for name, row in rows.items() if row["state"] != "gone"}
    assert {name: at for name, at in told.items() if model.since(name) not in (None, at)} == {}


@few
@given(acts, acts)
def test_changes_are_the_difference_of_the_two_models(
    tmp_path: Path, steps: list[tuple[str, int]], more: list[tuple[str, int]]
) -> None:
    home = emptied(tmp_path / "t")
    model = modelled(steps)
    model.write(home)
    claims, before = claims_of(home)
    model = modelled(more, model)
    model.write(home, number=2)
    _, after = claims_of(home)
    names = before.keys() | after.keys()
    states = [{n: rows[n]["state"] if n in rows else "gone" for n in names} for rows in (before, after)]
    assert changed(home, claims) == {n: states[1][n] for n in names if states[0][n] != states[1][n]}


@few
@given(acts)
def test_what_one_row_alone_claims_is_what_the_fold_makes_of_it(
    tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    """The prefilter clears keys by single plain rows."""
    home = emptied(tmp_path / "t")
    modelled(steps).write(home)
    claims, _ = claims_of(home)
    con = connection()
    files = pa.Table.from_batches([b for kept in claims.reading.kept for b in kept.batches(KIND)])
    traces = duck.rows_of(claims.traces[KIND](con, files))
    assert len(traces) == files.num_rows
    keys = [(t["bucket"], t["key"]) for t in traces]
    single = [t for t in traces if t["plain"] and keys.count((t["bucket"], t["key"])) == 1]
    made = {(r["bucket"], r["key"]): r for r in claim_table(claims).to_pylist()}
    for trace in single:
        claim = made[trace["bucket"], trace["key"]]
        assert (claim["state"], claim["certain"], claim["listed"], claim["own_root"]) == (
            "live",
            True,
            1,
            True,
        )
        assert (claim["size"], claim["claimed_at"]) == (trace["size"], trace["claimed_at"])


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


BASE = {
    1: Snapshot({"m1": [A, B]}),
    2: Snapshot({"m1": [A, B], "m2": [C]}, AT + timedelta(hours=1), 1, {"m1": 1}),
}
damage = st.tuples(st.integers(0, 1 << 16), st.one_of(st.binary(max_size=6), st.none()))


@examples(10, 300)
@given(
    st.sampled_from(["m1.avro", "m2.avro", "snap-2-1.avro", "json"]), st.lists(damage, min_size=1, max_size=4)
)
def test_damaged_bytes_are_reported_or_harmless_and_never_raise(
    tmp_path: Path, name: str, harms: list[tuple[int, bytes | None]]
) -> None:
    home = emptied(tmp_path / "t")
    metadata = write_metadata(home, BASE, codec="null")
    path = metadata if name == "json" else home / "metadata" / name
    content = path.read_bytes()
    for at, given_bytes in harms:
        where = at % (len(content) + 1)
        content = (
            content[:where]
            if given_bytes is None
            else content[:where] + given_bytes + content[where + len(given_bytes) :]
        )
    path.write_bytes(content)
    claims = read(home)
    rows = claim_table(claims).to_pylist()
    lost = {"m1.avro": {"a", "b"}, "m2.avro": {"c"}, "snap-2-1.avro": {"c"}, "json": {"a", "b", "c"}}[name]
    names = {r["key"].rpartition("/")[2] for r in rows if r["category"] == "data"}
    renamed = bool(names - {"a", "b", "c"})
    if name != "json" and not lost <= names:
        assert claims.holes or renamed
    ICEBERG.changes(claims, [table_at(home)], CONTEXT)


@pytest.mark.parametrize("value", [None, 1, "x", [1], {"a": 1}])
@pytest.mark.parametrize(
    "field_name",
    ["format-version", "location", "last-updated-ms", "snapshots", "refs", "metadata-log", "statistics",
     "properties", "current-snapshot-id", "table-uuid"],
)  # fmt: skip
def test_a_field_of_another_kind_refuses_the_table_or_is_harmless(
    tmp_path: Path, field_name: str, value: object
) -> None:
    metadata = write_metadata(tmp_path, BASE)
    told = json.loads(metadata.read_text()) | {field_name: value}
    metadata.write_text(json.dumps(told))
    claims = read(tmp_path)
    assert claims.states["t"].table == "t"
