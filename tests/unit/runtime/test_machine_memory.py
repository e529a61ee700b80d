"""The memory that an audit may use is that of its container."""

from pathlib import Path

import pytest

from lakeaudit.runtime import machine_memory


@pytest.mark.parametrize(
    ("limits", "half"),
    [(["max"], None), (["4096"], 2048), (["8192", "4096"], 2048), (["nonsense", "600"], 300), ([], None)],
)
def test_half_of_the_smallest_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: list[str], half: int | None
) -> None:
    monkeypatch.setattr(machine_memory, "LIMITS", ())
    machine = machine_memory.half_of_memory()
    files = [tmp_path / str(number) for number in range(len(limits))]
    for file, limit in zip(files, limits, strict=True):
        file.write_text(limit + "\n")
    monkeypatch.setattr(machine_memory, "LIMITS", (*files, tmp_path / "missing"))
    assert machine > 1 << 20
    assert machine_memory.half_of_memory() == (half or machine)
