"""The rooms and who may enter them: import rules and rules over the syntax trees (the breaker's is elsewhere)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lakeaudit
from lakeaudit.checks.registry import checks
from lakeaudit.evidence.kind import Deferred
from lakeaudit.evidence.registry import ROLES
from tests.builders.syntax_trees import children_of, nodes_of

PACKAGE = Path(lakeaudit.__file__).parent
JOBS = PACKAGE.parent
MODULES = {
    ".".join(path.relative_to(JOBS).with_suffix("").parts): path for path in sorted(JOBS.rglob("*.py"))
}


@cache
def tree_of(module: str) -> ast.Module:
    """Its syntax tree; not made where this file is only collected."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes_in(module: str) -> tuple[ast.AST, ...]:
    """All nodes of its syntax tree."""
    return tuple(nodes_of(tree_of(module)))


@cache
def imports(module: str) -> set[str]:
    """Full names of everything a module imports when it runs, wherever that stands; `if TYPE_CHECKING` does not run."""
    skipped = {id(inner) for node in nodes_in(module) if _types_only(node) for inner in nodes_of(node)}
    found = set()
    for node in nodes_in(module):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def below(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


def users_of(library: str) -> set[str]:
    return {module for module in MODULES if any(below(name, library) for name in imports(module))}


ONLY = {
    "boto3": {"lakeaudit.runtime.connections.aws", "lakeaudit.demo.breaker"},
    "duckdb": {"lakeaudit.runtime.duck"},
    "obstore": {"lakeaudit.runtime.connections.quick_reads"},
    "pyspark": {
        "lakeaudit.engine.spark",
        "lakeaudit.engine.spark_jobs",
        "lakeaudit.engine.exchange",
        "lakeaudit.runtime.jars",
        "lakeaudit.runtime.job_errors",
        "lakeaudit.runtime.session",
        "lakeaudit.demo",
    },
    "py4j": {"lakeaudit.runtime.job_errors", "lakeaudit.runtime.session"},
    "deltalake": {
        "lakeaudit.results.tables",
        "lakeaudit.results.sql",
        "lakeaudit.results.delta_writer",
        "lakeaudit.demo",
    },
    "delta": {"lakeaudit.demo"},
    "datafusion": {"lakeaudit.evidence.avro.columns"},
    "fastavro": {"lakeaudit.evidence.avro.records", "lakeaudit.demo.iceberg_files"},
    "jinja2": {"lakeaudit.report"},
    "moto": {"lakeaudit.demo.server"},
    "yaml": {"lakeaudit.config"},
    "apprise": {"lakeaudit.alerts.deliver"},
    "pyiceberg": {"lakeaudit.reconcile.stores.iceberg_commits", "lakeaudit.reconcile.stores.iceberg_files"},
    "urllib3": {
        "lakeaudit.alerts.deliver",
        "lakeaudit.evidence.catalog.http",
        "lakeaudit.runtime.connections.http_pool",
    },
    "great_expectations": {"lakeaudit.gates.expectation_suites"},
    "prometheus_client": {"lakeaudit.alerts.metrics"},
    "streamlit": {"lakeaudit.dashboard"},
    "altair": {"lakeaudit.dashboard"},
    "typer": {"lakeaudit.cli", "lakeaudit.commands", "lakeaudit.demo"},
    "lakeaudit.engine.spark": {"lakeaudit.commands.on_spark", "lakeaudit.demo.scenario"},
    "lakeaudit.runtime.session": {
        "lakeaudit.commands.on_spark",
        "lakeaudit.demo.scenario",
    },
}
"""One place knows a library."""


@pytest.mark.parametrize("library", ONLY)
def test_only_its_own_place_knows_a_library(library: str) -> None:
    strangers = {user for user in users_of(library) if not any(below(user, room) for room in ONLY[library])}
    assert strangers == set()


def test_one_module_builds_the_consoles() -> None:
    """`--no-color` holds for all of them."""
    builders = {
        module
        for module in MODULES
        for node in nodes_in(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    }
    assert builders == {"lakeaudit.runtime.console"}


LISTING_CALLS = {
    *("list_objects_v2", "list_objects", "list_object_versions", "list_multipart_uploads"),
    "list_bucket_inventory_configurations",
}
ONE_PAGE = {
    *("lakeaudit.evidence.files", "lakeaudit.evidence.storage.listing.s3_listing"),
    *("lakeaudit.collect.storage_lookups", "lakeaudit.explain", "lakeaudit.reconcile", "lakeaudit.results"),
    "lakeaudit.commands",
}
"""Calls that request a single page: a probe, or the versions of one key, which `history_of` checks."""


def test_one_iterator_follows_the_pages_of_every_listing() -> None:
    """The SDK's paginators end without an error where a list is cut off."""
    paged, calls = set(), set()
    for module in MODULES:
        if below(module, "lakeaudit.demo"):
            continue
        for node in nodes_in(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in LISTING_CALLS and not any(below(module, room) for room in ONE_PAGE):
                    calls.add(module)
                named = [each.value for each in node.args if isinstance(each, ast.Constant)]
                if node.func.attr == "get_paginator" and LISTING_CALLS & {*map(str, named)}:
                    paged.add(module)
    assert (paged, calls) == (set(), set())


PURE_ROOMS = ("lakeaudit.rules", "lakeaudit.matching", "lakeaudit.findings")
PURE_MAY_USE = {
    *PURE_ROOMS,
    *("lakeaudit.config", "lakeaudit.keys", "lakeaudit.kinds", "lakeaudit.schemas", "lakeaudit.runtime.duck"),
    *("lakeaudit.evidence.protocol", "lakeaudit.evidence.kind", "lakeaudit.evidence.registry"),
    *("lakeaudit.evidence.lineage", "lakeaudit.evidence.storage.versions"),
    *("numpy", "pyarrow", "dataclasses", "datetime", "functools", "collections", "operator", "typing", "re"),
}
"""The pure core receives everything that it judges, from any engine."""
KERNEL = "lakeaudit.audit.kernel"


SELECTIONS = "lakeaudit.checks.selections"


def in_tasks() -> set[str]:
    """Modules of checks that run in tasks: those of their functions, and those that they import."""
    functions = [f for check in checks() for f in (check.select, check.combine) if f is not None]
    begun = {SELECTIONS, *(function.__module__ for function in functions)}
    modules = {each for module in begun for each in known_imports(module)}
    return begun | {module for module in modules if below(module, "lakeaudit.checks")}


@pytest.mark.parametrize("module", [name for name in MODULES if any(below(name, r) for r in PURE_ROOMS)])
def test_rules_matching_and_findings_are_pure(module: str) -> None:
    assert {name for name in imports(module) if not any(below(name, room) for room in PURE_MAY_USE)} == set()


def test_checks_in_tasks_are_pure() -> None:
    modules = in_tasks()
    assert len(modules) > 5
    allowed = (*PURE_MAY_USE, *modules)
    assert {
        (module, name)
        for module in modules
        for name in imports(module)
        if not any(below(name, room) for room in allowed)
    } == set()


RUN = ("lakeaudit.collect", "lakeaudit.confirm", "lakeaudit.checks", "lakeaudit.audit")
"""The rooms of a run after the engine."""


def test_only_the_rooms_of_a_run_and_commands_combine_an_engine_and_the_kernel() -> None:
    engines = users_of("lakeaudit.engine.local") | users_of("lakeaudit.engine.spark")
    judging = set().union(*map(users_of, (*PURE_ROOMS, KERNEL)))
    both = engines & judging
    assert both
    allowed = (*RUN, "lakeaudit.engine", "lakeaudit.guard", "lakeaudit.follow", "lakeaudit.commands")
    assert {module for module in both if not any(below(module, room) for room in allowed)} == set()


def test_an_audit_in_this_process_loads_nothing_of_spark() -> None:
    """Indirect imports count too. Great Expectations imports Spark and is loaded separately."""
    asked = "import sys, lakeaudit.audit.run, lakeaudit.commands.audit; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "duckdb" in loaded
    assert loaded.isdisjoint({"pyspark", "py4j", "delta"})


def test_reading_a_lake_file_imports_no_reader() -> None:
    asked = (
        "import sys; from lakeaudit.evidence import registry; import lakeaudit.config; len(registry.STORAGE)"
    )
    asked += "; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"lakeaudit.evidence.manifest.delta", "pydantic"} <= loaded
    assert loaded.isdisjoint(
        {"duckdb", "pyarrow", "numpy", "boto3", "botocore", "urllib3", "lakeaudit.evidence.protocol"}
    )


def test_every_function_of_a_kind_can_be_imported() -> None:
    for role in ROLES.values():
        for kind in role.values():
            functions = [each for each in vars(kind).values() if isinstance(each, Deferred)]
            assert functions
            assert all(callable(each.function) for each in functions)


def _packages_of_models() -> dict[str, str]:
    """By name of a kind's model the package of the kind."""
    kinds = [kind for role in ROLES.values() for kind in role.values()]
    models = {
        each
        for kind in kinds
        for each in kind.model.__mro__
        if each.__module__.startswith("lakeaudit.evidence") and each.__module__.count(".") == 3
    }
    return {each.__name__: each.__module__ for each in models if each.__module__ != DYNAMODB}


DYNAMODB = "lakeaudit.evidence.metastore.dynamodb"
"""What stores that are tables of DynamoDB have in common: no kind."""


def test_no_kind_is_recognised_by_its_class_outside_of_its_package() -> None:
    packages = _packages_of_models()
    assert {"DeltaManifest", "Glue", "CommitterManifest"} <= packages.keys()
    wrong = {
        (module, name.id)
        for module in MODULES
        for _, call in calls(module)
        if plain_name(call) in ("isinstance", "issubclass")
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name) and name.id in packages and not below(module, packages[name.id])
    }
    assert wrong == set()


WRITES_ENTRIES = "lakeaudit.reconcile.stores.entry_store"
"""It writes the entries of three metadata stores, each in its own layout."""


def _compared_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_no_kind_is_recognised_by_its_name_outside_of_its_package() -> None:
    """A kind that behaves differently says so by a field of its object, which a kind of another package can set."""
    kinds = {name for role in ROLES.values() for name in role}
    wrong = {
        (module, constant.value)
        for module in MODULES
        if not any(below(module, room) for room in ("lakeaudit.evidence", "lakeaudit.demo", WRITES_ENTRIES))
        for node in nodes_in(module)
        if isinstance(node, ast.Compare)
        and {"kind", "manifest_kind"} & {*map(_compared_name, (node.left, *node.comparators))}
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and constant.value in kinds
    }
    assert wrong == set()


@cache
def known_imports(module: str) -> frozenset[str]:
    """Modules of the project that a module imports anywhere: in functions and for types, too."""
    names = set()
    for node in nodes_in(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset({found for name in names if (found := module_of(name))} - {module})


def module_of(name: str) -> str | None:
    """The module that a name is, or is defined in; None for what is not ours."""
    parent = name.rpartition(".")[0]
    candidates = (name, f"{name}.__init__", parent, f"{parent}.__init__")
    return next((each for each in candidates if each in MODULES), None)


ITSELF = "lakeaudit.__init__"
"""It imports a module when one of its names is first used; everybody imports its version."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        graph = {module: known_imports(module) for module in MODULES if module != ITSELF}
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


REGISTRY = ("lakeaudit.evidence.kind", "lakeaudit.evidence.registry")
"""The lake file's models of kinds come from here; no reader is imported for it."""

ADDRESSES = "lakeaudit.dashboard.addresses"
"""Messages link to pages, so every room may use the addresses; they know neither Streamlit nor a page."""

ROOMS = (
    *(
        "",
        "errors",
        "kinds",
        "keys",
        "grants",
        "storage_classes",
        "formatting",
        "kind_nouns",
        "judged",
        "schemas",
        "descriptions",
        "json_documents",
        "addresses",
    ),
    *(
        "registry",
        "advice",
        "config",
        "runtime",
        "evidence",
        "emit",
        "rules",
        "matching",
        "findings",
        "results",
    ),
    *(
        "report",
        "certificate",
        "ledger",
        "gates",
        "alerts",
        "engine",
        "collect",
        "confirm",
        "checks",
        "audit",
    ),
    *(
        "reconcile",
        "permissions",
        "explain",
        "guard",
        "follow",
        "dashboard",
        "commands",
        "documents",
        "api",
        "demo",
        "cli",
        "__main__",
    ),
)
"""Packages and modules of the top level, lowest first: none imports from one after it while it runs."""


def room_of(module: str) -> str:
    if module in REGISTRY:
        return "registry"
    if module == ADDRESSES:
        return "addresses"
    return module.removeprefix("lakeaudit").removesuffix(".__init__").strip(".").partition(".")[0]


def test_no_room_imports_upward() -> None:
    ours = [module for module in MODULES if below(module, "lakeaudit")]
    level = {room: number for number, room in enumerate(ROOMS)}
    assert {room_of(module) for module in ours} == level.keys()
    upward = {
        (module, name)
        for module in ours
        for name in filter(None, map(module_of, imports(module)))
        if level[room_of(name)] > level[room_of(module)]
    }
    assert upward == set()


EXCEPT = {"lakeaudit.config": REGISTRY}

CORE = set(PURE_ROOMS)
AUDIT = {"lakeaudit.engine", *RUN}
READERS = {f"lakeaudit.evidence.{role}" for role in ("storage", "metastore", "manifest")}

ENGINE_MAY_NOT_USE = {
    *RUN, "lakeaudit.matching.pairs", "lakeaudit.matching.verdicts", "lakeaudit.rules", "lakeaudit.ledger",
    "lakeaudit.results", "lakeaudit.runtime.connections.aws",
}  # fmt: skip

SPARK_MAY_NOT_USE = {
    *CORE,
    *RUN,
    "lakeaudit.ledger",
    "lakeaudit.results",
    "lakeaudit.runtime.connections.aws",
}

DIRECTIONS: dict[str, set[str]] = {
    "lakeaudit.engine.local": ENGINE_MAY_NOT_USE,
    "lakeaudit.engine.chunks": ENGINE_MAY_NOT_USE,
    "lakeaudit.engine.spark": SPARK_MAY_NOT_USE,
    "lakeaudit.engine.spark_jobs": SPARK_MAY_NOT_USE,
    "lakeaudit.engine.encoded_chunks": SPARK_MAY_NOT_USE,
    "lakeaudit.engine.exchange": SPARK_MAY_NOT_USE,
    "lakeaudit.evidence": {*CORE, *AUDIT, "lakeaudit.results", "lakeaudit.report"},
    "lakeaudit.config": {*CORE, "lakeaudit.evidence", "lakeaudit.results", "lakeaudit.report",
        "lakeaudit.runtime.connections.aws",
    },
    "lakeaudit.results": {*CORE, *AUDIT, *READERS},
    "lakeaudit.ledger": {*AUDIT, *READERS, "lakeaudit.report"},
    "lakeaudit.gates": {*AUDIT, *READERS, "lakeaudit.report", "lakeaudit.runtime.connections.aws"},
    "lakeaudit.alerts": {*CORE, *AUDIT, "lakeaudit.evidence", "lakeaudit.commands", "lakeaudit.ledger"},
    "lakeaudit.reconcile": {*CORE, *AUDIT, "lakeaudit.commands",
                            "lakeaudit.cli", "lakeaudit.ledger", "lakeaudit.alerts", "lakeaudit.report",
                            "lakeaudit.dashboard"},
    "lakeaudit.report": {*CORE, *AUDIT, "lakeaudit.alerts", "lakeaudit.evidence"},
    "lakeaudit.dashboard.queries": {"lakeaudit.commands", "lakeaudit.runtime.connections.aws", "lakeaudit.evidence",
                                    "lakeaudit.alerts", "lakeaudit.ledger", "streamlit"},
    "lakeaudit.dashboard": {*CORE, *AUDIT, "lakeaudit.ledger", "lakeaudit.results.delta_writer",
                            "lakeaudit.results.acknowledgements", "lakeaudit.commands"},
    **{f"lakeaudit.{ground}": {"lakeaudit"} for ground in ("schemas", "keys", "kinds", "errors")},
}  # fmt: skip
"""Data goes one way: a room does not know those after it."""


@pytest.mark.parametrize("room", DIRECTIONS)
def test_a_room_does_not_know_the_rooms_after_it(room: str) -> None:
    members = [module for module in MODULES if below(module, room)]
    assert members
    wrong = {
        (m, name)
        for m in members for name in imports(m) for later in DIRECTIONS[room]
        if below(name, later) and not below(name, room)
        and not any(below(name, each) for each in EXCEPT.get(room, ()))
    }  # fmt: skip
    assert wrong == set()


def test_the_demo_is_known_only_to_the_command_line() -> None:
    assert {user for user in users_of("lakeaudit.demo") if not below(user, "lakeaudit.demo")} <= {
        user for user in MODULES if below(user, "lakeaudit.commands") or below(user, "lakeaudit.cli")
    }


def test_no_audit_module_imports_reconcile() -> None:
    """The next audit judges a repair: only the command line imports `reconcile`, and the list of its permissions."""
    users = {user for user in users_of("lakeaudit.reconcile") if not below(user, "lakeaudit.reconcile")}
    assert users == {
        "lakeaudit.commands.repair.reconcile",
        "lakeaudit.commands.repair.hand_over",
        "lakeaudit.commands.repair.plan_summary",
        "lakeaudit.commands.repair.purge",
        "lakeaudit.api.plan",
        "lakeaudit.cli.reconcile",
        "lakeaudit.demo.repairs",
        "lakeaudit.documents.__init__",
        "lakeaudit.documents.values",
        "lakeaudit.permissions.lakes",
    }


def test_the_dashboard_is_started_by_its_command_alone() -> None:
    pages = [module for module in MODULES if below(module, "lakeaudit.dashboard") and module != ADDRESSES]
    users = {user for page in pages for user in users_of(page) if not below(user, "lakeaudit.dashboard")}
    assert users == {"lakeaudit.commands.dashboard"}


def test_the_addresses_of_pages_are_a_leaf() -> None:
    assert {name for name in imports(ADDRESSES) if below(name, "lakeaudit")} == {
        "lakeaudit.formatting.table_label"
    }


def test_one_place_of_the_dashboard_touches_the_lake() -> None:
    askers = {user for user in users_of("lakeaudit.explain") if below(user, "lakeaudit.dashboard")}
    assert askers == {"lakeaudit.dashboard.source_query"}


OWN_MARKUP = (
    "st.html(markup.STYLE)", "st.html(markup.tiles(by, days))",
    "st.html(markup.full_bar('critical'))",
    "st.html(markup.ticks(figures.runs, widgets.current_lake(), figures.alarms))",
    "st.html(markup.days(trend, tables))",
)  # fmt: skip


def test_no_page_shows_markup_of_its_own() -> None:
    """`unsafe_allow_html` and `st.html` would let stored text act; what is used is made of words of ours."""
    pages = [module for module in MODULES if below(module, "lakeaudit.dashboard")]
    made = [call for module in pages for _, call in calls(module)]
    used = {attribute(call) for call in made if ast.unparse(call) not in OWN_MARKUP}
    named = {word.arg for module in pages for _, call in calls(module) for word in call.keywords}
    assert len(pages) > 5
    assert used & {"html", "iframe", "write", "write_stream", "components"} == set()
    assert {word for word in named if word and word.startswith("unsafe")} == set()


@cache
def calls(module: str) -> list[tuple[str, ast.Call]]:
    """(function it stands in, call) of every call."""
    return [(function, node) for function, node in _walk(tree_of(module), "") if isinstance(node, ast.Call)]


def _walk(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    pending = [(function, child) for child in reversed(children_of(tree))]
    while pending:
        around, node = pending.pop()
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else around
        yield inside, node
        pending += [(inside, child) for child in reversed(children_of(node))]


def attribute(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def plain_name(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None


def test_only_spark_py_builds_a_session() -> None:
    builders = {m for m in MODULES for n in nodes_in(m)
                if isinstance(n, ast.Attribute) and n.attr in ("builder", "getOrCreate")}  # fmt: skip
    assert builders == {"lakeaudit.runtime.session"}


TO_THE_DRIVER = (
    "collect",
    "toPandas",
    "toLocalIterator",
    "take",
    "head",
    "first",
    "tail",
    "toArrow",
    "foreachPartition",
)

ENGINE = "lakeaudit.engine.spark_jobs"
MAY_COLLECT = {
    "map": "the small answers that readers ask for, one of each item",
    "_kept_now": "by chunk its kind, rows and size, and the notes",
    "batches": "the rows that a reader requests from its cache, task after task",
    "_answers": "tallies, notes, and the rows that are not settled, large ones task after task",
}
"""Each brings a bounded number of rows to the driver, none of them one per file of a healthy table."""


def test_no_rows_of_files_come_to_the_driver() -> None:
    """Only the engine has frames of Spark, so it alone could."""
    assert {function for function, call in calls(ENGINE) if attribute(call) in TO_THE_DRIVER} == set(
        MAY_COLLECT
    )


MAY_SHAPE = {
    "lakeaudit.schemas": "all rows that are passed between rooms or written",
    "lakeaudit.engine.chunks": "what the engine counts of each part, for the pipeline alone",
    "lakeaudit.matching.metastore_tree": "folders, from one stage of the kernel to the next",
    "lakeaudit.matching.prefilter": "what the screen has to know of each table",
    "lakeaudit.ledger.axis_observation": "what the ledger's own SQL is given of each axis",
    "lakeaudit.evidence.manifest.delta": "actions of a log, until its fold has made claims of them",
    "lakeaudit.evidence.manifest.replica_source": "objects of another place, until they are claims on their copies",
    "lakeaudit.evidence.manifest.file_list": "lines of lists, until their fold has made claims of them",
    "lakeaudit.evidence.manifest.hudi": "what instants did to files, until the fold has made claims of it",
    "lakeaudit.evidence.manifest.iceberg": "manifests and their files, until the fold has made claims of them",
    "lakeaudit.evidence.manifest.spark_event_log": "writes and their splits, until their files are known",
    "lakeaudit.evidence.manifest.previous": "files of two pictures, until claims and the next picture are made of them",
    "lakeaudit.evidence.metastore.delta_log_store": "DynamoDB's own rendering of an item, and its commit",
    "lakeaudit.evidence.manifest.records": "totals of jobs, until storage's files were counted",
    "lakeaudit.evidence.metastore.s3guard": "DynamoDB's own rendering of an item",
}
"""Where a schema with a public name may stand."""


def test_schemas_that_others_may_use_stand_in_one_package() -> None:
    """A private one, or one inside a function, is its module's own business."""
    shapes = {m for m in MODULES for node in tree_of(m).body if _is_shape(node)}
    strangers = {m for m in shapes if not any(below(m, room) for room in MAY_SHAPE)}
    assert strangers == set()
    assert {room for room in MAY_SHAPE if not any(below(m, room) for m in shapes)} == set()


def test_schemas_are_imported_from_their_package_and_not_from_its_modules() -> None:
    modules = {module for module in MODULES if below(module, "lakeaudit.schemas")} - {"lakeaudit.schemas"}
    assert modules
    users = {user for module in modules for user in users_of(module)}
    assert {user for user in users if not below(user, "lakeaudit.schemas")} == set()


def _is_shape(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    public = any(isinstance(to, ast.Name) and not to.id.startswith("_") for to in node.targets)
    return public and attribute(node.value) == "schema"


def test_no_module_takes_what_is_private_of_another() -> None:
    assert {
        (module, name)
        for module in MODULES
        for name in imports(module)
        if below(name, "lakeaudit") and name.rpartition(".")[2].startswith("_") and "__" not in name
    } == set()


TRAVEL = (
    *(*PURE_ROOMS, "lakeaudit.engine", *RUN, "lakeaudit.ledger", "lakeaudit.gates"),
    *("lakeaudit.evidence.protocol", "lakeaudit.evidence.lineage", "lakeaudit.evidence.catalog.protocol"),
)
"""Where the objects are defined that travel through a run."""
MAY_CHANGE = {
    ("lakeaudit.engine.chunks", "ReadCounts"): "counts the rows of one part while a task reads it",
    (
        "lakeaudit.collect.read_sources",
        "_Reading",
    ): "collects what the readers return, inside read_sources alone",
    (
        "lakeaudit.audit.outcome",
        "Outcome",
    ): "its two rows are plain objects that commands write as JSON",
}
MUTABLE = {"list", "dict", "set", "Counter", "defaultdict", "bytearray"}


def test_what_travels_through_a_run_is_immutable() -> None:
    """A dataclass is frozen, and its fields have no type that invites a change."""
    classes = {
        (module, node.name): node
        for module in MODULES
        if any(below(module, room) for room in TRAVEL)
        for node in nodes_in(module)
        if isinstance(node, ast.ClassDef) and any(map(_is_dataclass, node.decorator_list))
    }
    assert len(classes) > 100
    assert {name for name, node in classes.items() if not _is_immutable(node)} == set(MAY_CHANGE)


def _is_dataclass(decorator: ast.expr) -> bool:
    return "dataclass" in {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}


def _is_immutable(node: ast.ClassDef) -> bool:
    words = {
        (word.arg, word.value.value)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for word in decorator.keywords
        if isinstance(word.value, ast.Constant)
    }
    fields = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
    return ("frozen", True) in words and not any(map(_is_mutable, fields))


def _is_mutable(annotation: ast.expr) -> bool:
    """Whether the type is a mutable collection, or an optional one; its content does not count."""
    if isinstance(annotation, ast.BinOp):
        return _is_mutable(annotation.left) or _is_mutable(annotation.right)
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(outer, ast.Name) and outer.id in MUTABLE


CLOCKS = {"now", "utcnow", "today", "uuid4", "uuid1"}
SHELL = {
    *(
        "lakeaudit.api.lake",
        "lakeaudit.cli",
        "lakeaudit.collect.storage_lookups",
        "lakeaudit.dashboard.app",
        "lakeaudit.demo",
        "lakeaudit.evidence",
    ),
    "lakeaudit.emit",
    "lakeaudit.runtime.connections.quick_reads",
    "lakeaudit.runtime.progress",
}


def test_only_the_shell_reads_clocks_and_makes_random_ids() -> None:
    asked = {m for m in MODULES for _, call in calls(m) if attribute(call) in CLOCKS}
    assert {module for module in asked if not any(below(module, room) for room in SHELL)} == set()


def test_no_hidden_switch_in_the_environment_reaches_the_core() -> None:
    rooms = (*PURE_ROOMS, *RUN)
    readers = users_of("os.environ") | {m for m in MODULES if "os.environ" in MODULES[m].read_text("utf-8")}
    assert {module for module in readers for room in rooms if below(module, room)} == set()


DAGS = Path(__file__).resolve().parents[3] / "dags"
BUILDS = (
    *(
        "lake_broken",
        "lake_events",
        "lake_fail_on",
        "lake_files",
        "lake_outcomes",
        "lake_platforms",
        "lake_steps",
    ),
)
MAY_IMPORT: dict[str, set[str]] = {
    "lake_fail_on": set(),
    "lake_run_on": set(),
    "lake_files": {"lake_fail_on", "lake_run_on", "yaml"},
    "lake_outcomes": {"lake_fail_on", "lake_files"},
    "lake_pages": {"lake_files", "lake_outcomes"},
    "lake_levels": set(),
    "lake_links": {"airflow", "lake_files", "lake_pages"},
    "lake_airflow": {"airflow"},
    "lake_check": {"airflow", "boto3", "botocore", "yaml"},
    "lake_gate": {"airflow", "lake_check"},
    "lake_guard": {"airflow"},
    "lake_steps": {
        *("airflow", "lake_airflow", "lake_check", "lake_files", "lake_levels", "lake_links"),
        *("lake_outcomes", "lake_pages"),
    },
    "lake_events": {
        *("airflow", "lake_files", "lake_gate", "lake_links", "lake_outcomes", "lake_pages", "lake_steps"),
    },
    "lake_broken": {"airflow", "lake_airflow", "lake_files"},
    "lake_platforms": {
        *(
            "airflow",
            "lake_airflow",
            "lake_check",
            "lake_files",
            "lake_links",
            "lake_outcomes",
            "lake_pages",
            "lake_run_on",
            "lake_steps",
        ),
    },
    "lake_audit": {"airflow", "lake_airflow", *BUILDS},
    "lake_reconcile": {"airflow", "lake_pages", *BUILDS},
}
"""Besides Python's own: Airflow has an environment of its own, and reads these files all day."""


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_dags_import_neither_spark_nor_lakeaudit(name: str) -> None:
    tree = ast.parse((DAGS / f"{name}.py").read_text())
    named = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    named += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {module.partition(".")[0] for module in named} - sys.stdlib_module_names == MAY_IMPORT[name]
    at_parse = {each.partition(".")[0] for each in map(_imported, tree.body) if each}
    assert not at_parse & {"boto3", "botocore"}
    assert name != "lake_check" or not at_parse & {"airflow", "yaml"}, (
        "it is copied, and read without Airflow"
    )


def _imported(node: ast.stmt) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return (node.module or "") if isinstance(node, ast.ImportFrom) else ""


def test_the_command_line_starts_without_what_only_some_commands_need() -> None:
    asked = "import sys, lakeaudit.cli; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(
        {"boto3", "botocore", "pyarrow", "pyspark", "streamlit", "pandas"}
    )


def test_the_unit_tests_have_a_folder_for_each_package() -> None:
    folders = {path.name for path in Path(__file__).parents[1].iterdir() if any(path.glob("test_*.py"))}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    without = packages - folders
    assert folders - packages == {"dags", "project"}
    assert without == {"schemas"}, "each reader and writer of a table proves its schema"
