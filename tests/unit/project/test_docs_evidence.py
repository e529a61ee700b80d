"""docs/evidence*.md against the registry: every kind has an entry, a section, an example and a record of its trials.

`UPDATE_PAGE=1 pytest tests/unit/project/test_docs_evidence.py` writes the entries of the kinds into
docs/evidence.md, and a row for each kind that has no record of its trials.
"""

import os
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

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "evidence.md"
OVERVIEW, TRIED = "What can be read", "What each reader was tried on"
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


def recorded(text: str) -> list[str]:
    """Return the kinds of the rows about trials."""
    rows = [line for line in section(TRIED, text).splitlines() if line.startswith("| `")]
    return [kind for row in rows for kind in re.findall(r"`(\w+)`", row.split("|")[1])]


def updated(page: str) -> str:
    """Return docs/evidence.md with the entries of the registry."""
    for title, new_rows in ((OVERVIEW, entry_rows), (TRIED, tried_rows)):
        old = section(title, page)
        lines = old.splitlines(keepends=True)
        rows = [number for number, line in enumerate(lines) if line.startswith("| ")]
        lines[rows[1] : rows[-1] + 1] = new_rows(lines[rows[1] : rows[-1] + 1], page)
        page = page.replace(old, "".join(lines))
    return page


def entry_rows(_: list[str], __: str) -> list[str]:
    return [f"{row}\n" for row in overview()]


def tried_rows(rows: list[str], page: str) -> list[str]:
    """Return the rows, and one for each kind that is missing."""
    kinds = dict.fromkeys(kind for kinds in BLOCKS.values() for kind in kinds)
    missing = [kind for kind in kinds if kind not in recorded(page)]
    return rows + [f"| `{kind}` | | all: its documentation |\n" for kind in missing]


@pytest.mark.skipif(not os.environ.get("UPDATE_PAGE"), reason="writes the page")
def test_write_the_page() -> None:
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")


def test_the_page_has_the_entries_of_the_registry() -> None:
    """To write them, run `UPDATE_PAGE=1 pytest tests/unit/project/test_docs_evidence.py`."""
    page = PAGE.read_text("utf-8")
    assert page == updated(page)


def test_every_kind_has_a_record_of_its_trials() -> None:
    page = PAGE.read_text("utf-8")
    assert sorted(recorded(page)) == sorted(kind for kinds in BLOCKS.values() for kind in kinds)
    rows = [line for line in section(TRIED, page).splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert all(by_itself or by_documents for _, by_itself, by_documents in cells)
