"""Collects what the tasks of a run receive: plain data of its evidence, and the functions of the checks."""

from lakeaudit.audit.kernel import Kernel
from lakeaudit.checks.registry import checks
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.partitions import uris
from lakeaudit.matching.share import TaskFacts


def kernel_of(evidence: Evidence) -> Kernel:
    """Return the kernel of a run."""
    return kernel_with(task_facts(evidence))


def kernel_with(facts: TaskFacts) -> Kernel:
    """Return the kernel with the functions of all checks."""
    every = checks()
    selects = tuple(check.select for check in every if check.select)
    combines = tuple(check.combine for check in every if check.combine)
    routes = {kind: route for check in every for kind, route in check.routes.items()}
    return Kernel(facts, selects, combines, routes)


def task_facts(evidence: Evidence) -> TaskFacts:
    """Return the plain data that tasks need of the evidence."""
    return TaskFacts(
        evidence.source_facts,
        evidence.policy,
        uris(evidence.partitions),
        has_trees(evidence),
        evidence.recent_file_limits,
        evidence.watch,
    )


def has_trees(evidence: Evidence) -> bool:
    """Whether a metadata store has a tree of folders."""
    return any(store.tree for store in evidence.observed.sources.metastores)
