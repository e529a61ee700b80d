"""The registry of kinds of evidence: refused kinds, and kinds that are registered after the models were built."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal, get_args

import pytest

from lakeaudit.config import ManifestSource, load_lake
from lakeaudit.config.field_types import Flag, Place
from lakeaudit.config.schema import lake_schema
from lakeaudit.errors import CannotAudit, LakeFileError
from lakeaudit.evidence import registry
from lakeaudit.evidence.kind import BY_BASE, Kind, MetastoreKind, RowKind, TableRoot
from lakeaudit.evidence.registry import BUILT_IN, MANIFESTS, METASTORES, ROLES


class Late(ManifestSource):
    is_state = True

    kind: Literal["late"]
    location: Place
    complete: Flag = True


LATE = replace(
    MANIFESTS["delta"],
    name="late",
    model=Late,
    rows={},
    root=TableRoot("_late", r"\A(.*)/_late/x\z", "_late/x"),
)


@contextmanager
def registered(*kinds: Kind) -> Iterator[None]:
    registry.register(*kinds)
    try:
        yield
    finally:
        registry.unregister(*kinds)


def lake_file(folder: Path, manifest: str) -> Path:
    file = folder / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: a\nresults: {folder / 'results'}\ntables:\n- name: t\n  location: {folder / 't'}\n"
        f"  manifests:\n  - {manifest}\n"
    )
    return file


def problems(file: Path) -> list[str]:
    with pytest.raises(LakeFileError) as raised:
        load_lake(file, {})
    return [str(each).removeprefix(str(file)) for each in raised.value.problems]


def test_a_kind_that_is_registered_late_is_read_and_its_mistakes_have_lines(tmp_path: Path) -> None:
    right = lake_file(tmp_path, "{kind: late, location: /lists}")
    assert "unknown kind 'late'" in problems(right)[0]
    with registered(LATE):
        (table,) = load_lake(right, {}).tables
        assert isinstance(table.manifests[0], Late)
        assert "'late'" in str(lake_schema())
        wrong = problems(lake_file(tmp_path, "{kind: late, location: /lists, complet: true}"))
        assert wrong == [":8: tables[0].manifests[0].complet: unknown key (did you mean complete?)"]
        assert "is missing" in problems(lake_file(tmp_path, "{kind: late}"))[0]
    assert "'late'" not in str(lake_schema())


def test_its_tables_are_discovered() -> None:
    with registered(LATE):
        assert registry.formats() == ("delta", "iceberg", "hudi", "late")
        assert "_late" in registry.reserved_folders()
    assert registry.formats() == ("delta", "iceberg", "hudi")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (replace(MANIFESTS["delta"]), "two packages register it"),
        (replace(MANIFESTS["delta"], name="late"), "the `kind` of its model is not Literal"),
        (Kind(name="x", title="x"), "is not a StorageKind"),
        (
            MetastoreKind(
                **{name: vars(METASTORES["glue"])[name] for name in ("model", "read", "probe", "get")},
                name="x",
                title="x",
            ),
            "its model is that of a catalog",
        ),
    ],
)
def test_a_kind_that_cannot_be_used_is_refused(kind: Kind, why: str) -> None:
    with pytest.raises(CannotAudit, match=why):
        registry.register(kind)


def test_rows_of_one_name_must_have_one_route() -> None:
    refused = pytest.raises(CannotAudit, match="kind late: another kind routes rows 'steps' differently")
    with registered(replace(LATE, rows={"steps": RowKind(BY_BASE)})), refused:
        registry.row_kinds()
    assert registry.row_kinds()["steps"].keyed


def test_a_package_whose_kind_cannot_be_imported_is_named() -> None:
    entry = EntryPoint("paper", "no_such_package:KIND", registry.GROUP)
    with pytest.raises(CannotAudit, match="its kind paper cannot be imported: ModuleNotFoundError"):
        registry.imported(entry)


def test_every_kind_of_lakeaudit_has_a_line() -> None:
    kinds = [kind for role in ROLES.values() for kind in role.values()]
    assert len(kinds) == len(BUILT_IN)
    named = [get_args(kind.model.model_fields["kind"].annotation) for kind in kinds]
    assert named == [(kind.name,) for kind in kinds]
