"""Writes the metrics of a lake in Prometheus' text format: as a file, and for an answer over HTTP."""

from collections.abc import Iterable, Iterator
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


def metrics_text(results: Results, lake: Lake, now: datetime) -> bytes:
    """Return the same metrics as `write_metrics` writes.

    Raises:
        CannotAudit: the results cannot be read.
    """
    return generate_latest(_registry(results, lake, now))


@dataclass(frozen=True, eq=False)
class _Numbers(Collector):
    """Gives the client library all metrics at once; those without a number are left out."""

    lake: str
    samples: Iterable[Sample]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = {
            name: GaugeMetricFamily(name, text, labels=["lake", *labels])
            for name, (labels, text) in METRICS.items()
        }
        for sample in self.samples:
            families[sample.metric].add_metric([self.lake, *sample.labels], sample.value)
        yield from (family for family in families.values() if family.samples)


def _registry(results: Results, lake: Lake, now: datetime) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Numbers(results.lake, [*samples(results, lake, now)]))
    return registry
