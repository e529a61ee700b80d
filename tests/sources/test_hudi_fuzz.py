"""Timelines of any history give the claims of a plain model; damaged ones are reported, and stop nothing."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.hudi import KIND as HUDI
from tests.builders.examples import examples
from tests.builders.hudi import commit, stat, write_timeline
from tests.sources.manifest_contract import claim_table
from tests.sources.test_hudi import CONTEXT, base, clean, name, read, rows_of, table_at

few = examples(5, 120)
acts = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "replace", "clean", "fail"]), st.integers(0, 5)),
    min_size=1,
    max_size=9,
)


@dataclass
class Model:
    """A table after some acts: the state of each file, and the timeline as a writer keeps it."""

    layout: int
    instants: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """The live file of each file group."""
    replaced: set[str] = field(default_factory=set)
    made: int = 0

    def act(self, what: str, number: int) -> None:
        self.made += 1
        getattr(self, what)(f"202611{self.made:02}100000000", number)

    def complete(self, instant: str, action: str, content: str) -> None:
        ended = "" if self.layout == 1 else f"_{instant[:8]}110000000"
        self.instants[f"{instant}{ended}.{action}"] = content

    def wrote(self, instant: str, group: str, before: str | None = None) -> dict[str, object]:
        if group in self.live:
            self.states[self.live[group]] = "history"
        self.live[group] = base(group, instant)
        self.states[self.live[group]] = "live"
        return stat(self.live[group], prevCommit=before or "null")

    def insert(self, instant: str, number: int) -> None:
        stats = [self.wrote(instant, f"g{self.made}-{n}") for n in range(number % 3 + 1)]
        self.complete(instant, "commit", commit(*stats))

    def update(self, instant: str, number: int) -> None:
        if groups := sorted(self.live):
            group = groups[number % len(groups)]
            before = self.live[group].rpartition("_")[2].partition(".")[0]
            self.complete(instant, "commit", commit(self.wrote(instant, group, before)))

    def replace(self, instant: str, number: int) -> None:
        """A group by another one, as clustering does."""
        if groups := sorted(self.live):
            gone = groups[number % len(groups)]
            self.states[self.live.pop(gone)] = "history"
            new = self.wrote(instant, f"r{self.made}")
            self.complete(instant, "replacecommit", commit(new, replaced={"d=1": [gone]}))

    def clean(self, instant: str, number: int) -> None:
        old = [file for file, state in self.states.items() if state == "history"][number:]
        self.states |= dict.fromkeys(old, "gone")
        self.complete(instant, "clean", clean("d=1", *map(name, old)))

    def fail(self, instant: str, number: int) -> None:
        content = commit(*(stat(base(f"f{n}", instant)) for n in range(number)))
        self.instants |= {f"{instant}.commit.requested": "", f"{instant}.inflight": content}

    def write(self, home: Path) -> None:
        shutil.rmtree(home, ignore_errors=True)
        write_timeline(home, self.instants, layout=self.layout)


def modelled(steps: list[tuple[str, int]], layout: int = 1) -> Model:
    model = Model(layout)
    for what, number in steps:
        model.act(what, number)
    return model


@few
@given(acts, st.sampled_from([1, 2]))
def test_any_history_says_what_the_model_says(
    tmp_path: Path, steps: list[tuple[str, int]], layout: int
) -> None:
    model = modelled(steps, layout)
    model.write(tmp_path / "t")
    assert read(tmp_path / "t").holes == ()
    assert {key: row["state"] for key, row in rows_of(tmp_path / "t").items()} == model.states


@few
@given(acts, acts)
def test_changes_are_the_difference_of_the_two_models(
    tmp_path: Path, steps: list[tuple[str, int]], more: list[tuple[str, int]]
) -> None:
    home, model = tmp_path / "t", modelled(steps)
    model.write(home)
    claims, before = read(home), dict(model.states)
    for what, number in more:
        model.act(what, number)
    model.write(home)
    found = HUDI.changes(claims, [table_at(home)], CONTEXT)
    told = {row["key"].removeprefix(f"{home}/"[1:]): row["state"] for row in found.rows.to_pylist()}  # type: ignore[union-attr]
    assert told == {
        file: state
        for file, state in model.states.items()
        if before.get(file, "gone") != state
    }  # fmt: skip


damage = st.tuples(st.integers(0, 1 << 16), st.one_of(st.binary(max_size=6), st.none()))


@examples(10, 300)
@given(st.integers(0, 3), st.lists(damage, min_size=1, max_size=4))
def test_damaged_bytes_are_reported_or_harmless_and_never_raise(
    tmp_path: Path, which: int, harms: list[tuple[int, bytes | None]]
) -> None:
    home = tmp_path / "t"
    modelled([("insert", 1), ("update", 0), ("clean", 0)]).write(home)
    path = sorted(file for file in (home / ".hoodie").iterdir())[which]
    content = path.read_bytes()
    for at, given_bytes in harms:
        where = at % (len(content) + 1)
        rest = b"" if given_bytes is None else given_bytes + content[where + len(given_bytes) :]
        content = content[:where] + rest
    path.write_bytes(content)
    claims = read(home)
    claim_table(claims)
    try:
        json.loads(content)
    except ValueError:
        assert claims.holes or claims.states["t"].refused or which == 3
    HUDI.changes(claims, [table_at(home)], CONTEXT)
