"""Jars are fetched once, checked, and appear whole or not at all. A small server stands for Maven Central."""

import hashlib
import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime import jars
from lakeaudit.runtime.install import make_ready
from lakeaudit.runtime.jars import Pin, ivy_module, ivy_settings, jar_folder, pins, ready_jars, verify
from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import DELTA_EXTENSION, launch_settings

NO_JAVA = Path("/nonexistent/java")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ONE = Pin("org.example", "one", "1.0", sha256(b"one"))
TWO = Pin("org.example.deep", "two_2.13", "2.1", sha256(b"two"))
CONTENT = {ONE: b"one", TWO: b"two"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """The folder behind the repository; holds both jars where Maven would look for them."""
    for pin, content in CONTENT.items():
        folder = tmp_path / "mirror" / pin.group.replace(".", "/") / pin.artifact / pin.version
        folder.mkdir(parents=True)
        (folder / pin.file_name).write_bytes(content)
    return tmp_path / "mirror"


@pytest.fixture
def env(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A machine with an empty cache, a jars.lock of two jars and that repository."""
    lines = [f"{pin.group}:{pin.artifact}:{pin.version} {pin.sha256}" for pin in CONTENT]
    monkeypatch.setattr(jars, "_lock_text", lambda: "\n".join(["# two jars", *lines, ""]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(mirror)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "LAKEAUDIT_CACHE": str(tmp_path / "cache"),
        "LAKEAUDIT_MAVEN": f"http://127.0.0.1:{server.server_port}/",
    }
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def java() -> Path:
    return find_java(os.environ).executable


@pytest.fixture
def filled(env: dict[str, str]) -> dict[str, str]:
    """The machine when both jars are in its cache, as `ready_jars` leaves it."""
    jar_folder(env).mkdir(parents=True)
    for pin, content in CONTENT.items():
        (jar_folder(env) / pin.file_name).write_bytes(content)
    return env


def left_in_cache(env: dict[str, str]) -> list[str]:
    return sorted(
        path.name for path in Path(env["LAKEAUDIT_CACHE"]).iterdir() if not path.name.startswith("trust-")
    )


def test_jars_are_fetched_once_and_then_need_neither_network_nor_java(
    java: Path, env: dict[str, str]
) -> None:
    found = ready_jars(java, env)
    assert {jar.name: jar.read_bytes() for jar in found} == {
        "one-1.0.jar": b"one",
        "two_2.13-2.1.jar": b"two",
    }
    assert left_in_cache(env) == [jar_folder(env).name]
    assert ready_jars(NO_JAVA, env | {"LAKEAUDIT_MAVEN": "http://127.0.0.1:9/"}) == found


def test_settings_for_audits_name_no_jars_and_fetch_none(env: dict[str, str], tmp_path: Path) -> None:
    make_ready(tmp_path / "conf", env | {"LAKEAUDIT_MAVEN": "http://127.0.0.1:9/"})
    defaults = (tmp_path / "conf" / "spark-defaults.conf").read_text()
    assert "spark.jars" not in defaults
    assert DELTA_EXTENSION not in defaults
    assert not jar_folder(env).exists()


def test_settings_for_audits_can_be_copied_to_another_machine(env: dict[str, str], tmp_path: Path) -> None:
    """env.sh and the program spark-submit stay where they are: they find Java, Spark and the other two files."""
    folder = tmp_path / "conf"
    make_ready(folder, env)
    portable = {name: (folder / name).read_text() for name in ("spark-defaults.conf", "log4j2.properties")}
    assert {path.name for path in folder.iterdir()} == {*portable, "env.sh", "spark-submit"}
    assert [
        line for text in portable.values() for line in text.splitlines() if "/" in line and line[0] != "#"
    ] == []
    assert "spark.driver.extraJavaOptions -Duser.timezone=UTC\n" in portable["spark-defaults.conf"]


def test_settings_for_jobs_that_write_delta_tables_name_the_jars(env: dict[str, str], tmp_path: Path) -> None:
    make_ready(tmp_path / "conf", env, delta=True)
    defaults = (tmp_path / "conf" / "spark-defaults.conf").read_text()
    assert f"spark.jars {','.join(jar.as_uri() for jar in sorted(jar_folder(env).iterdir()))}\n" in defaults
    assert f"spark.sql.extensions {DELTA_EXTENSION}\n" in defaults


@pytest.mark.parametrize("delta", [False, True])
def test_only_a_session_for_delta_tables_loads_the_jars(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, delta: bool
) -> None:
    """`commands/on_spark.py` builds the session of audits without `delta`."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    settings = launch_settings(find_java(os.environ), small=True, brief=True, delta=delta)
    assert ("spark.jars" in settings, jar_folder(env).exists()) == (delta, delta)


def test_another_jar_than_the_pinned_one_is_refused(java: Path, env: dict[str, str], mirror: Path) -> None:
    next(mirror.rglob("one-1.0.jar")).write_bytes(b"evil")
    with pytest.raises(
        CannotAudit, match=f"one-1.0.jar: SHA-256 is {sha256(b'evil')}, pinned is {ONE.sha256}"
    ):
        ready_jars(java, env)
    assert left_in_cache(env) == []


def test_a_jar_the_repository_lacks_leaves_nothing_half_done(
    java: Path, env: dict[str, str], mirror: Path
) -> None:
    next(mirror.rglob("two*.jar")).unlink()
    with pytest.raises(CannotAudit, match="LAKEAUDIT_MAVEN"):
        ready_jars(java, env)
    assert left_in_cache(env) == []


def test_no_repository_in_reach_is_one_clear_line(java: Path, env: dict[str, str]) -> None:
    with pytest.raises(CannotAudit) as raised:
        ready_jars(java, env | {"LAKEAUDIT_MAVEN": "http://127.0.0.1:9/"})
    assert str(raised.value) == (
        f"http://127.0.0.1:9/: could not fetch Spark's jars into {jar_folder(env)}; "
        "connect once, set LAKEAUDIT_MAVEN to a mirror, or copy that folder from another machine"
    )


def test_a_folder_without_one_of_its_jars_is_filled_again(java: Path, filled: dict[str, str]) -> None:
    ready_jars(NO_JAVA, filled)[0].unlink()
    assert all(jar.is_file() for jar in ready_jars(java, filled))


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    java: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CannotAudit, match="set LAKEAUDIT_CACHE"):
        ready_jars(java, env | {"LAKEAUDIT_CACHE": str(tmp_path / "file" / "cache")})


def test_another_lock_has_another_folder(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = jar_folder(env)
    monkeypatch.setattr(jars, "_lock_text", lambda: "# none\n")
    assert jar_folder(env) != before


def test_verify_names_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / ONE.file_name).write_bytes(b"one")
    verify(tmp_path, [ONE])
    with pytest.raises(CannotAudit, match=r"two_2\.13-2\.1\.jar: the repository did not deliver it"):
        verify(tmp_path, [ONE, TWO])


def test_the_ivy_module_asks_for_each_pin_alone() -> None:
    hostile = Pin('g"<', "a&b", "1'", "")
    asked = list(ET.fromstring(ivy_module([ONE, hostile])).iter("dependency"))
    assert [(d.get("org"), d.get("name"), d.get("rev")) for d in asked] == [
        ("org.example", "one", "1.0"),
        ('g"<', "a&b", "1'"),
    ]
    assert {d.get("transitive") for d in asked} == {"false"}


@pytest.mark.parametrize(("mirror_url", "root"), [(None, None), ("http://mirror/?a&b", "http://mirror/?a&b")])
def test_one_resolver_with_or_without_a_mirror(mirror_url: str | None, root: str | None) -> None:
    (resolver,) = ET.fromstring(ivy_settings(mirror_url)).iter("ibiblio")
    assert resolver.get("root") == root


def test_the_real_lock_holds_what_the_product_needs_and_no_committer() -> None:
    names = [pin.artifact for pin in pins()]
    assert len(names) == len(set(names)) == 40
    assert {"delta-spark_4.1_2.13", "hadoop-aws", "s3"} <= set(names)
    assert not [name for name in names if "hadoop-cloud" in name or "bundle" in name]
    assert all(len(pin.sha256) == 64 and int(pin.sha256, 16) for pin in pins())
