"""Writes the metrics of a lake in Prometheus' text format: as a file, and for an answer over HTTP."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from lakeaudit.alerts.samples import METRICS, Sample, samples
from lakeaudit.config import Lake
from lakeaudit.results.read import Results


def write_metrics(results: Results, lake: Lake, path: Path, now: datetime) -> None:
    """Replace the file atomically; it is world-readable, as node exporter requires.

    Raises:
        OSError: the file cannot be written.
        CannotAudit: the results cannot be read.
    """
    write_to_textfile(str(path), _registry(results, lake, now))


@dataclass(frozen=True)
class LakeSamples:
    """The numbers of one lake; None: they could not be read."""

    lake: str
    samples: Sequence[Sample] | None


READABLE = "lakeaudit_results_readable"
"""The metric of a dashboard of several lakes, which is not part of the metrics of one lake."""


def metrics_text(lakes: Sequence[LakeSamples], *, readable: bool = False) -> bytes:
    """Return the metrics of lakes in one text; those of one lake are the same as `write_metrics` writes.

    `readable`: state for each lake whether its numbers could be read.
    """
    registry = CollectorRegistry()
    registry.register(_Numbers(tuple(_with_readable(each) if readable else each for each in lakes)))
    return generate_latest(registry)


def _with_readable(lake: LakeSamples) -> LakeSamples:
    is_read = Sample(READABLE, (), float(lake.samples is not None))
    return LakeSamples(lake.lake, [is_read, *(lake.samples or ())])


@dataclass(frozen=True, eq=False)
class _Numbers(Collector):
    """Gives the client library all metrics at once; those without a number are left out."""

    lakes: Sequence[LakeSamples]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {
            name: GaugeMetricFamily(name, text, labels=["lake", *labels])
            for name, (labels, text) in METRICS.items()
        }
        text = "1 if the results of the lake could be read, else 0."
        families[READABLE] = GaugeMetricFamily(READABLE, text, labels=["lake"])
        for lake in self.lakes:
            for sample in lake.samples or ():
                families[sample.metric].add_metric([lake.lake, *sample.labels], sample.value)
        yield from (family for family in families.values() if family.samples)


def _registry(results: Results, lake: Lake, now: datetime) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Numbers((LakeSamples(results.lake, [*samples(results, lake, now)]),)))
    return registry
