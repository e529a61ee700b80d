"""YARN on this machine: Hadoop's own resource manager and a node manager in one JVM (MiniYARNCluster).

Its containers are processes, which get Spark, the archive and the lake file from YARN, as on a real cluster.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.builders.cluster import java_gateway

MAVEN = shutil.which("mvn")
BESIDE_HADOOP = (
    "junit:junit:4.13.2",
    "org.bouncycastle:bcprov-jdk18on:1.78.1",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "org.bouncycastle:bcutil-jdk18on:1.78.1",
    "javax.xml.bind:jaxb-api:2.3.1",
    "com.sun.xml.bind:jaxb-impl:2.3.9",
    "javax.activation:javax.activation-api:1.2.0",
)
"""What MiniYARNCluster imports and its jar lacks."""
OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "io", "net", "nio")]
SETTINGS = {
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "65536",
    "yarn.scheduler.maximum-allocation-mb": "65536",
    "yarn.nodemanager.resource.cpu-vcores": "64",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}
"""YARN only counts memory and cores here: the sizes of docs/deploy.md are larger than this machine."""


@dataclass(frozen=True)
class Yarn:
    """Where its settings are (HADOOP_CONF_DIR), and the folder with the output of its containers."""

    conf: Path
    folder: Path

    def logs(self) -> str:
        """Return the output of all containers."""
        files = self.folder.glob("target/**/application_*/container_*/std*")
        return "".join(f"== {file}\n{file.read_text(errors='replace')}" for file in files)


def yarn_jars(folder: Path) -> list[Path]:
    """Fetch the jars by Maven, in the version of Spark's own Hadoop."""
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    for artifact in (f"org.apache.hadoop:hadoop-client-minicluster:{version}", *BESIDE_HADOOP):
        line = [str(MAVEN), "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        subprocess.run(line, cwd=folder, check=True, timeout=300)
    return sorted(folder.glob("*.jar"))


@contextmanager
def yarn_served(folder: Path, jars: list[Path]) -> Iterator[Yarn]:
    """A resource manager and one node manager, until the end of the block."""
    with java_gateway(folder, jars, OPENED) as (_, gateway):
        hadoop = gateway.jvm.org.apache.hadoop.yarn
        settings = hadoop.conf.YarnConfiguration()
        for name, value in SETTINGS.items():
            settings.set(name, value)
        cluster = hadoop.server.MiniYARNCluster("lakeaudit", 1, 1, 1)
        cluster.init(settings)
        cluster.start()
        conf = folder / "conf"
        conf.mkdir()
        out = gateway.jvm.java.io.FileOutputStream(str(conf / "yarn-site.xml"))
        cluster.getConfig().writeXml(out)
        out.close()
        yield Yarn(conf, folder)
