"""The JVM jars with which Spark reads and writes Delta tables on S3: pinned in jars.lock, fetched once and checked.

An audit loads none of them. They are fetched by the Ivy that pyspark ships, with one resolver (Maven Central, or the
mirror that LAKEAUDIT_MAVEN names), each pinned artifact by itself and nothing it depends on. A folder of jars appears
in the cache only whole and with every checksum right, so later runs trust it and need no network.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.cache import cache_dir, writable
from lakeaudit.runtime.connections.trust_store import trust_options

_LOCK = "jars.lock"
_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Pin:
    """One line of jars.lock: a Maven coordinate and the SHA-256 its jar must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The jar's name in the cache."""
        return f"{self.artifact}-{self.version}.jar"


def ready_jars(java: Path, env: Mapping[str, str]) -> list[Path]:
    """The jars, fetched first where the cache lacks them.

    Raises:
        CannotAudit: Maven Central cannot be reached, or a jar is not the one that was pinned.
    """
    return fetched(java, env, pins(), jar_folder(env))


def fetched(java: Path, env: Mapping[str, str], wanted: list[Pin], folder: Path) -> list[Path]:
    """Pinned jars in a folder of the cache, fetched first where it lacks them. Raises as `ready_jars`."""
    jars = [folder / pin.file_name for pin in wanted]
    if not all(jar.is_file() for jar in jars):
        _fetch(java, env, wanted, folder)
    return jars


def jar_folder(env: Mapping[str, str]) -> Path:
    """Where the jars of this very jars.lock live."""
    return cache_dir(env) / f"jars-{hashlib.sha256(_lock_text().encode()).hexdigest()[:16]}"


def pins() -> list[Pin]:
    """What jars.lock asks for, in its order."""
    lines = [line for line in _lock_text().splitlines() if line and not line.startswith("#")]
    return [Pin(*line.replace(":", " ").split()) for line in lines]


def verify(folder: Path, wanted: list[Pin]) -> None:
    """Compare every jar's SHA-256 with its pin.

    Raises:
        CannotAudit: one is missing or another file than the pinned one.
    """
    for pin in wanted:
        jar = folder / pin.file_name
        if not jar.is_file():
            raise CannotAudit(pin.file_name, "the repository did not deliver it", _WAY_OUT)
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != pin.sha256:
            what = f"SHA-256 is {found}, pinned is {pin.sha256}"
            raise CannotAudit(pin.file_name, what, "do not use it, ask its source")


def ivy_module(wanted: list[Pin]) -> str:
    """An Ivy module file that asks for exactly these artifacts."""
    asked = "".join(
        f"<dependency org={quoteattr(pin.group)} name={quoteattr(pin.artifact)} rev={quoteattr(pin.version)}"
        ' transitive="false" conf="default"/>'
        for pin in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="lakeaudit" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{asked}</dependencies></ivy-module>"
    )


def ivy_settings(mirror: str | None) -> str:
    """Ivy settings with one resolver. Without a mirror its address is Ivy's own: Maven Central."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    resolver = f'<ibiblio name="central" m2compatible="true" usepoms="false"{root}/>'
    return (
        f'<ivysettings><settings defaultResolver="central"/><resolvers>{resolver}</resolvers></ivysettings>'
    )


_WAY_OUT = "connect once, set LAKEAUDIT_MAVEN to a mirror, or copy that folder from another machine"


def _lock_text() -> str:
    return resources.files("lakeaudit.runtime").joinpath(_LOCK).read_text(encoding="utf-8")


def _fetch(java: Path, env: Mapping[str, str], wanted: list[Pin], folder: Path) -> None:
    """Fill a folder beside the final one, check it, and only then give it its name."""
    with (
        writable(folder.parent),
        tempfile.TemporaryDirectory(
            prefix="fetching-", dir=folder.parent, ignore_cleanup_errors=True
        ) as name,
    ):
        work = Path(name)
        _run_ivy(java, env, wanted, work, folder)
        verify(work / "jars", wanted)
        _publish(work / "jars", wanted, folder)


def _run_ivy(java: Path, env: Mapping[str, str], wanted: list[Pin], work: Path, folder: Path) -> None:
    (work / "ivy.xml").write_text(ivy_module(wanted), encoding="utf-8")
    (work / "ivysettings.xml").write_text(ivy_settings(env.get("LAKEAUDIT_MAVEN")), encoding="utf-8")
    options = [*trust_options(env), *_network_options(env)]
    command: list[str | Path] = [java, *options, "-cp", _ivy_jar(), "org.apache.ivy.Main"]
    command += ["-settings", work / "ivysettings.xml", "-ivy", work / "ivy.xml", "-cache", work / "cache"]
    command += ["-retrieve", work / "jars" / "[artifact]-[revision].[ext]"]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=_TIMEOUT_SECONDS)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        source = env.get("LAKEAUDIT_MAVEN") or "Maven Central"
        raise CannotAudit(source, f"could not fetch Spark's jars into {folder}", _WAY_OUT) from None


def _network_options(env: Mapping[str, str]) -> list[str]:
    """Short waits, and the proxy that every other tool takes from the environment but Java does not."""
    waits = ["-Dsun.net.client.defaultConnectTimeout=10000", "-Dsun.net.client.defaultReadTimeout=60000"]
    proxy = urlsplit(env.get("HTTPS_PROXY") or env.get("https_proxy") or "")
    if not proxy.hostname:
        return waits
    return [*waits, f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]


def _ivy_jar() -> Path:
    import pyspark

    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def _publish(filled: Path, wanted: list[Pin], folder: Path) -> None:
    """Rename. A folder that is there already is another process's, as good as ours, or is damaged."""
    if folder.exists():
        try:
            return verify(folder, wanted)
        except CannotAudit:
            shutil.rmtree(folder)
    filled.rename(folder)
    return None
