"""Hadoop's own committers, driven without a job: complete commits, and the files of a killed job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JOB = "11111111-2222-3333-4444-555555555555"
_OF_MANIFESTS = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
_FACTORY = "mapreduce.outputcommitter.factory.scheme"


@dataclass
class Committed:
    """A job of some tasks, each of which writes files below `out`: (task, name below the table, bytes).

    `committer` is classic, magic, directory, partitioned or manifest.
    """

    spark: SparkSession
    committer: str
    out: str
    scratch: Path
    job: str = JOB
    settings: Mapping[str, str] = field(default_factory=dict)
    number: int = 1

    def run(
        self, files: Sequence[tuple[int, str, bytes]], *, killed: bool = False, sees_all: bool = True
    ) -> None:
        """Write and commit; a killed job has committed its tasks and no more.

        A task that sees nothing to commit is an error, unless `sees_all` is false.
        """
        conf, path = self._conf(), self._hadoop.fs.Path(self.out)
        contexts = [self._context(conf, task) for task in sorted({task for task, *_ in files})]
        factory = self._hadoop.mapreduce.lib.output.PathOutputCommitterFactory
        of_job = factory.createCommitter(path, contexts[0])
        of_job.setupJob(contexts[0])
        for number, context in enumerate(contexts):
            of_task = factory.createCommitter(path, context)
            of_task.setupTask(context)
            for task, name, content in files:
                if task == number:
                    self._write(conf, self._hadoop.fs.Path(of_task.getWorkPath(), name), content)
            needed = of_task.needsTaskCommit(context)
            assert needed or not sees_all
            if needed:
                of_task.commitTask(context)
        if not killed:
            of_job.commitJob(contexts[0])

    @property
    def _hadoop(self) -> Any:
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        return jvm.org.apache.hadoop

    def _conf(self) -> Any:
        conf = self._hadoop.conf.Configuration(self.spark.sparkContext._jsc.hadoopConfiguration())
        settings = {
            "spark.sql.sources.writeJobUUID": self.job,
            "fs.s3a.committer.magic.enabled": "true",
            "fs.s3a.buffer.dir": str(self.scratch / "buffer"),
            "fs.s3a.committer.staging.tmp.path": str(self.scratch / "staging"),
            "mapreduce.job.id": f"job_2026_{self.number:04d}",
        }
        if self.committer == "manifest":
            settings |= {f"{_FACTORY}.file": _OF_MANIFESTS}
        elif self.committer != "classic":
            settings |= {f"{_FACTORY}.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"}
            settings |= {"fs.s3a.committer.name": self.committer}
        for name, value in (settings | dict(self.settings)).items():
            conf.set(name, value)
        return conf

    def _context(self, conf: Any, task: int) -> Any:
        reduced = self._hadoop.mapreduce
        of_task = reduced.TaskID(reduced.JobID("2026", self.number), reduced.TaskType.MAP, task)
        return reduced.task.TaskAttemptContextImpl(conf, reduced.TaskAttemptID(of_task, 0))

    def _write(self, conf: Any, path: Any, content: bytes) -> None:
        stream = path.getFileSystem(conf).create(path, True)
        stream.write(bytearray(content))
        stream.close()
