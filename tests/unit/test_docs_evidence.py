"""docs/evidence*.md against the registry: every kind has an entry, a section, an example and a record of its trials."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from lakeaudit.evidence.registry import (
    EVENTS,
    MANIFESTS,
    METASTORES,
    STORAGE,
    catalog_kinds,
    state_kinds,
)

if TYPE_CHECKING:
    from lakeaudit.evidence.kind import Kind

ROOT = Path(__file__).parents[2]
EVIDENCE = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("evidence*.md")))
BLOCKS: dict[str, Mapping[str, object]] = {
    "inventories": STORAGE,
    "metastores": METASTORES,
    "events": EVENTS,
    "manifests": MANIFESTS,
}
KINDS = [pytest.param(block, kind, id=kind) for block, kinds in BLOCKS.items() for kind in kinds]


def kinds_in(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def section(title: str, of: str) -> str:
    return of.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def examples() -> set[tuple[str, str]]:
    """(block, kind) of the sources in the document's examples."""
    found = set()
    for text in re.findall(r"^```yaml\n(.*?)^```", EVIDENCE, re.MULTILINE | re.DOTALL):
        lake = yaml.safe_load(text)
        given = [(block, each) for block in BLOCKS for each in lake.get(block, ())]
        given += [
            ("manifests", each) for table in lake.get("tables", ()) for each in table.get("manifests", ())
        ]
        found |= {(block, each["kind"]) for block, each in given}
    return found


@pytest.mark.parametrize(("block", "kind"), KINDS)
def test_every_kind_has_a_section_and_an_example(block: str, kind: str) -> None:
    assert kind in kinds_in("".join(re.findall(r"^##+ .*$", EVIDENCE, re.MULTILINE)))
    assert (block, kind) in examples()


def overview() -> list[str]:
    """The table of all kinds, as the registry has them."""
    copies = {name for name, kind in MANIFESTS.items() if kind.model.is_original or kind.model.is_snapshot}
    rows: dict[str, list[Kind]] = {
        "[table formats](evidence-tables.md) and other lists of a table": [
            MANIFESTS[name] for name in state_kinds()
        ],
        "[records of writers](evidence-writers.md)": [
            kind for name, kind in MANIFESTS.items() if name not in {*state_kinds(), *copies}
        ],
        "[snapshots and copies](evidence-writers.md), for tables without a record": [
            kind for name, kind in MANIFESTS.items() if name in copies
        ],
        "[metadata stores](evidence-stores.md)": [
            kind for name, kind in METASTORES.items() if name not in catalog_kinds()
        ],
        "[catalogs](evidence-stores.md)": [*catalog_kinds().values()],
        "[storage](evidence-storage.md)": [*STORAGE.values()],
        "[requests](evidence-requests.md)": [*EVENTS.values()],
    }
    return [
        f"| {role} | {', '.join(f'{kind.title} `{kind.name}`' for kind in kinds)} |"
        for role, kinds in rows.items()
    ]


def test_the_overview_is_that_of_the_registry() -> None:
    rows = [line for line in section("What can be read", EVIDENCE).splitlines() if line.startswith("| ")]
    assert rows[1:] == overview()


def test_every_kind_has_a_record_of_its_trials() -> None:
    rows = [
        line
        for line in section("What each reader was tried on", EVIDENCE).splitlines()
        if line.startswith("| `")
    ]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    documented = [kind for kinds, *_ in cells for kind in re.findall(r"`(\w+)`", kinds)]
    assert sorted(documented) == sorted(kind for kinds in BLOCKS.values() for kind in kinds)
    assert all(by_itself or by_documents for _, by_itself, by_documents in cells)
