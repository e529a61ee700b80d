"""Mutants of the files of every kind of evidence, read by its reader: the same rows, or an evidence gap that says so.

Where a checksum, a length or a count vouches for the whole content (`Artefact.all_guarded`) nothing else is accepted.
Elsewhere a mutant may be content that somebody could have written; those are listed, with the reason why no reader can
know it. No mutant raises an error.
"""

import gzip
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lakeaudit.config import Lake
from lakeaudit.evidence.registry import EVENTS, MANIFESTS
from tests.builders.artefacts import KINDS, Artefact
from tests.builders.damage import MUTATIONS, Read, damaged, read_all

pytestmark = pytest.mark.variant

CHANGED = frozenset({"bit flipped", "bytes garbled"})
LINES = frozenset({"line lost", "line repeated", "content doubled", "halves swapped"})
ENDS = frozenset({"cut off", "head lost"})
NOTHING = frozenset({"emptied"})
BLANKS = frozenset({"blanked"})
ZEROS = frozenset({"block zeroed"})


@dataclass(frozen=True)
class Undetectable:
    """Mutations whose result is content that the kind's writer could have written, and why nobody can know better."""

    mutations: frozenset[str]
    why: str


A_VALUE = Undetectable(CHANGED, "a value with another character is another value; nothing vouches for it")
A_LINE = Undetectable(
    LINES | ENDS, "the format counts no lines: fewer or more whole lines are another, whole file"
)
OF_JSON = Undetectable(NOTHING, "a writer that had nothing to write leaves an empty file")
UNCOUNTED: Mapping[str, tuple[Undetectable, ...]] = {
    "delta commit": (A_VALUE, A_LINE),
    "delta crc": (A_VALUE, A_LINE),
    "delta hint": (A_VALUE, A_LINE, Undetectable(NOTHING | BLANKS | ZEROS, "a hint that says nothing hides nothing")),
    "iceberg metadata": (A_VALUE,),
    "iceberg hint": (
        A_VALUE,
        Undetectable(LINES | ENDS | NOTHING | BLANKS | ZEROS, "a hint proves nothing where the log names its state"),
    ),
    "iceberg manifest list": (A_VALUE, Undetectable(ZEROS, "zeros in a value are another value")),
    "iceberg manifest": (A_VALUE, Undetectable(ZEROS, "zeros in a value are another value")),
    "hudi timeline 1": (A_VALUE,),
    "hudi timeline 2": (A_VALUE,),
    "hudi timeline 1 by spark": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "values of Avro have no checksum")),
    "hudi timeline 2 by spark": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "values of Avro have no checksum")),
    "hudi properties": (A_VALUE, A_LINE, Undetectable(ZEROS, "zeros in a value are another value")),
    "hudi archive": (A_VALUE, A_LINE, Undetectable(ZEROS, "zeros in a value are another value")),
    "spark sink": (A_VALUE, A_LINE),
    "compacted sink": (A_VALUE, A_LINE),
    "symlink": (A_VALUE, A_LINE, Undetectable(NOTHING, "a table without files has an empty manifest")),
    "s3a committer": (
        A_VALUE,
        Undetectable(NOTHING | LINES | ENDS, "committers that rename leave an empty _SUCCESS, which claims nothing"),
    ),
    "manifest committer": (
        A_VALUE,
        Undetectable(NOTHING | LINES | ENDS, "committers that rename leave an empty _SUCCESS, which claims nothing"),
    ),
    "redshift unload": (A_VALUE,),
    "databricks commits": (A_VALUE,),
    "file list jsonl": (A_VALUE, A_LINE, OF_JSON),
    "file list csv": (A_VALUE, A_LINE, Undetectable(ZEROS, "zeros in a cell that is not read do no harm")),
    "file list parquet": (A_VALUE, Undetectable(ZEROS | ENDS, "pages without a checksum: other values are whole, too")),
    "event log": (A_VALUE, A_LINE),
    "event log zstd": (A_VALUE, A_LINE),
    "event log lz4": (A_VALUE, A_LINE, Undetectable(ZEROS, "the checksums of lz4-java's blocks (XXH32) are not read")),
    "event log rolled": (A_VALUE, A_LINE, Undetectable(ZEROS, "snappy-java writes no checksum")),
    "gcs inventory csv": (A_VALUE, Undetectable(ZEROS, "zeros in a value are another value")),
    "gcs inventory parquet": (A_VALUE, Undetectable(ZEROS, "pages without a checksum")),
    "azure inventory csv": (A_VALUE, Undetectable(ZEROS, "zeros in a value are another value")),
    "azure inventory parquet": (A_VALUE, Undetectable(ZEROS, "pages without a checksum")),
    "delta checkpoint": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "pages without a checksum")),
    "delta checkpoint parts": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "pages without a checksum")),
    "delta v2 checkpoint": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "pages without a checksum")),
    "delta v2 checkpoint json": (A_VALUE, A_LINE),
    "delta sidecar": (A_VALUE, Undetectable(ZEROS | LINES | ENDS, "pages without a checksum")),
    "previous": (A_VALUE, A_LINE, Undetectable(ZEROS, "zeros in a value are another value")),
    "s3 access log": (A_VALUE, A_LINE, Undetectable(ZEROS | BLANKS, "records may be missing: nothing follows")),
    "journal parquet": (A_VALUE, Undetectable(ZEROS | ENDS | LINES, "pages without a checksum")),
}  # fmt: skip
REPEATED: Mapping[str, frozenset[str]] = {"journal json": frozenset({"content doubled"})}
"""Mutations that guarded kinds allow: gzip files may be concatenated, and requests may repeat."""
BOMBS = {
    "deep lists": b'{"add":{"path":' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n",
    "deep objects": b'{"commitInfo":' * 20_000 + b"1" + b"}" * 20_000 + b"\n",
    "never closed": b"[" * 200_000,
    "NULs": bytes(70_000),
    "digits": b'{"add":{"size":' + b"9" * 100_000 + b"}}\n",
    "a lone surrogate": b'{"add":{"path":"\\ud800","partitionValues":{},"size":1}}\n',
    "no text": b"\xff\xfe\xfd" * 1000,
}
SLOW = ("delta", "event log", "hudi timeline", "emrfs")
"""Kinds whose reading takes long: the quick suite reads no bombs of them."""


def silent(before: Read, after: Read) -> bool:
    """Whether rows changed, and no gap says so."""
    return after.rows != before.rows and not after.gaps - before.gaps


def allowed(kind: str) -> frozenset[str]:
    """The mutations of a kind that nobody can know of."""
    listed = frozenset().union(*(each.mutations for each in UNCOUNTED.get(kind, ())))
    return listed | REPEATED.get(kind, frozenset())


@dataclass(frozen=True)
class UndamagedArtefact:
    """An artefact in a folder of its own, and what is read of it before any damage."""

    artefact: Artefact
    folder: Path
    lake: Lake
    before: Read

    def read(self, path: Path, content: bytes) -> Read:
        """What is read while a file has another content."""
        with damaged(path, content):
            return read_all(self.lake, self.artefact.rows)


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], UndamagedArtefact]:
    """Writes and reads the artefact of a kind once; kinds that differ only in the damaged files share it."""
    known: dict[tuple[object, str], UndamagedArtefact] = {}

    def write(kind: str) -> UndamagedArtefact:
        artefact, folder = KINDS[kind], tmp_path_factory.mktemp("artefact") / "lake"
        shared = artefact.lay, artefact.source
        if shared not in known:
            lake = artefact.write_lake(folder)
            known[shared] = UndamagedArtefact(artefact, folder, lake, read_all(lake, artefact.rows))
        return replace(known[shared], artefact=artefact)

    return write


def mutants(
    artefact: Artefact, folder: Path, number: int, seed: int, draw: random.Random
) -> Iterator[tuple[Path, str, bytes]]:
    """A file of the artefact, a mutation and its result; the seed chooses the first mutation."""
    files = [path for path in artefact.files(folder) if path.stat().st_size]
    names = sorted(MUTATIONS)
    for count in range(number):
        path, name = draw.choice(files), names[(seed + count) % len(names)]
        content = path.read_bytes()
        mutant = MUTATIONS[name](content, draw)
        if mutant != content:
            yield path, name, mutant


def silent_mutants(kind: str, undamaged: UndamagedArtefact, number: int, seed: int) -> Counter[str]:
    """Count by mutation the mutants that changed the rows without any gap, and that no list allows."""
    draw, folder, before = random.Random(f"{kind} {seed}"), undamaged.folder, undamaged.before
    assert before.rows or kind == "previous", "the artefact is read"
    wrong: Counter[str] = Counter()
    for path, name, mutant in mutants(undamaged.artefact, folder, number, seed, draw):
        after = undamaged.read(path, mutant)
        if silent(before, after) and name not in allowed(kind):
            wrong[
                f"{name} of {path.relative_to(folder)}: {len(before.rows)} rows, then {len(after.rows)}"
            ] += 1
    return wrong


OTHER_LAYOUTS = ("delta checkpoint parts", "delta v2 checkpoint", "event log zstd", "event log lz4")
"""Kinds whose readers the quick suite proves by another layout or codec."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.soak] if kind in OTHER_LAYOUTS else []) for kind in KINDS],
)
def test_mutants_give_the_same_rows_or_gaps(kind: str, undamaged: Callable[[str], UndamagedArtefact]) -> None:
    """One mutant of each kind; the kinds have different mutations."""
    assert silent_mutants(kind, undamaged(kind), 1, seed=list(KINDS).index(kind)) == Counter()


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutants(kind: str, undamaged: Callable[[str], UndamagedArtefact]) -> None:
    assert silent_mutants(kind, undamaged(kind), 10_000 // len(KINDS) + 1, seed=1) == Counter()


def _one_of_each_reader() -> list[str]:
    """The first kind of each reader that is not slow; of those that a checksum guards, one more."""
    kinds: dict[tuple[str, bool], str] = {}
    for kind, artefact in KINDS.items():
        reader = next(name for name in re.findall(r"kind: (\w+)", artefact.source) if name != "listing")
        if not kind.startswith(SLOW):
            kinds.setdefault((reader, artefact.all_guarded), kind)
    return list(kinds.values())


@pytest.mark.parametrize("kind", _one_of_each_reader())
def test_a_bomb_is_a_gap_or_harmless_and_raises_nothing(
    kind: str, undamaged: Callable[[str], UndamagedArtefact]
) -> None:
    _explode(undamaged(kind), list(BOMBS)[len(kind) % len(BOMBS)])


@pytest.mark.soak
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_bomb(kind: str, name: str, undamaged: Callable[[str], UndamagedArtefact]) -> None:
    _explode(undamaged(kind), name)


def _explode(undamaged: UndamagedArtefact, name: str) -> None:
    path = undamaged.artefact.files(undamaged.folder)[-1]
    content = gzip.compress(BOMBS[name]) if path.name.endswith(".gz") else BOMBS[name]
    after = undamaged.read(path, content)
    if undamaged.artefact.all_guarded:
        assert not silent(undamaged.before, after)


def test_every_kind_that_reads_files_of_writers_has_an_artefact() -> None:
    known = {kind for artefact in KINDS.values() for kind in re.findall(r"kind: (\w+)", artefact.source)}
    assert {*MANIFESTS, *EVENTS} - known == set(), "add it to tests/builders/artefacts.py"


def test_every_undetectable_mutation_has_a_kind_and_no_guarded_kind_has_one() -> None:
    assert set(UNCOUNTED) == {kind for kind, artefact in KINDS.items() if not artefact.all_guarded}
    assert all(
        each.why and each.mutations <= MUTATIONS.keys() for some in UNCOUNTED.values() for each in some
    )
