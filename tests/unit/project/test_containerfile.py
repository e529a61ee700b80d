"""The Containerfile refers only to files and extras that exist; tests/container executes its steps."""

import re
from configparser import ConfigParser
from pathlib import PurePosixPath

import pytest

from tests.builders.containerfile import CONTAINERFILE, ROOT, stages

BUILD, IMAGE = stages(CONTAINERFILE.read_text())
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
COPIED = [source for step in BUILD.steps_of("COPY") for source in step.copied[1]]
PAGES = [CONTAINERFILE, *(ROOT / "docs" / name for name in ("service.md", "install.md", "dashboard.md"))]


def test_copied_files_exist_and_reach_the_build() -> None:
    """A build sees only files that .dockerignore allows."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert [source for source in COPIED if not (ROOT / source).exists()] == []
    assert {PurePosixPath(source).parts[0] for source in COPIED} == allowed


def test_the_build_has_every_file_that_the_wheel_is_made_of() -> None:
    metadata = SETUP["metadata"]
    needed = {
        "setup.cfg",
        "pyproject.toml",
        metadata["license_files"],
        SETUP["options.packages.find"]["where"],
    }
    needed |= {metadata["long_description"].removeprefix("file: ")}
    linked = [path for path in (ROOT / "jobs").rglob("*") if path.is_symlink()]
    needed |= {path.resolve().relative_to(ROOT).parts[0] for path in linked}
    assert needed <= {*COPIED}


def test_the_extras_that_it_and_the_documents_name_exist() -> None:
    """By default it installs none: what an audit in one process needs."""
    named = [text for page in PAGES for text in re.findall(r"EXTRAS=([\w,]+)", page.read_text())]
    assert len(named) > 1
    assert {extra for text in named for extra in text.split(",")} <= {*SETUP["options.extras_require"]}
    assert [step.pairs for step in BUILD.steps_of("ARG")] == [{"EXTRAS": ""}]


def test_the_image_runs_the_command_as_a_user_without_rights() -> None:
    (user,) = IMAGE.steps_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user.text), "a number: Kubernetes cannot resolve a name"
    assert [step.arguments for step in IMAGE.steps_of("ENTRYPOINT")] == [["lakeaudit"]]
    assert IMAGE.steps.index(user) > max(map(IMAGE.steps.index, IMAGE.steps_of("RUN")))


def test_it_holds_no_secret_and_nothing_of_the_build_but_the_environment() -> None:
    values = [
        name
        for stage in (BUILD, IMAGE)
        for step in stage.steps_of("ENV") + stage.steps_of("ARG")
        for name in step.pairs
    ]
    assert [name for name in values if re.search("TOKEN|SECRET|PASSWORD|KEY", name)] == []
    assert [step.copied for step in IMAGE.steps_of("COPY")] == [
        ("build", ["/opt/lakeaudit"], "/opt/lakeaudit")
    ]
    assert BUILD.base == IMAGE.base, "the environment needs the interpreter that made it"


@pytest.mark.parametrize("text", ["FROM a\nADD http://x /y", "FROM a\nRUN x\nHEALTHCHECK NONE"])
def test_an_instruction_that_the_test_in_the_tree_cannot_execute_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown instruction"):
        stages(text)
