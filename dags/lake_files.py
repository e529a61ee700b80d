"""Reads from lake files what Airflow needs: schedule, owner and connection of each lake.

Pure, and read at every parse: no Spark, no lakeaudit, no Airflow. The other settings of a file are checked by
`lakeaudit doctor`, the first task of its DAG.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from lake_fail_on import CONDITIONS, DEFAULT, NEVER
from lake_run_on import PLATFORMS, RunOn, takes_conf

SUFFIXES = (".yaml", ".yml")
NOT_LAKES = ("example.yaml",)
"""Files in the folder that explain the keys and describe no lake."""

KEYS = (
    *("schedule", "owner", "tags", "connection", "retries", "retry_delay", "status", "spark_conf"),
    *("reconcile", "assets", "fail_on", "pool", "run_on"),
)
"""Keys of the block `airflow` (conf/example.yaml)."""

RUN_ON_KEYS = ("kind", "jobs", "lake_file", "arguments")
"""Keys of the block `airflow.run_on`."""

PREFIX = "lake_audit_"
"""Start of the id of every DAG that audits."""

MANUAL, ON_DISCREPANCIES = "manual", "on_discrepancies"
RECONCILE = (MANUAL, ON_DISCREPANCIES)
"""When open discrepancies are planned: by hand, or also whenever an audit has changed the ledger."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class LakeFile:
    """A valid lake file.

    `results` is None if it contains variables, which are not known here; `s3` is the file's own block.
    """

    path: Path
    dag_id: str
    lake: str
    tables: tuple[str, ...]
    results: str | None
    s3: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    owner: str = "lakeaudit"
    tags: tuple[str, ...] = ()
    connection: str = "spark_default"
    retries: int = 2
    retry_delay: timedelta = timedelta(minutes=5)
    status: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    reconcile: str | None = None
    """When its reconcile DAG plans: `manual` or `on_discrepancies`; None: it has no such DAG."""
    assets: tuple[str, ...] = ("*",)
    """Names or patterns of tables whose audits are events of an asset of their own; empty: none."""
    fail_on: tuple[str, ...] = DEFAULT
    """Conditions on which the task `audit` fails after an audit."""
    pool: str | None = None
    """Airflow pool of its tasks; None: Airflow's default."""
    run_on: RunOn | None = None
    """Platform on which its commands run; None: spark-submit."""
    place: str | None = None
    """Location of the results as the file names it, with variables."""
    dashboard: str | None = None
    """Address of the dashboard (`dashboard_url`); None: there is none, or it contains variables."""
    rivals: tuple[str, ...] = ()
    """Names of other lake files with the same results and without the same pool."""

    @property
    def pool_note(self) -> str:
        """Return how to keep audits of other lake files away from the same results; empty if there are none."""
        if not self.rivals:
            return ""
        return (
            f"{', '.join(self.rivals)} and {self.path.name} write to the same results, and only one audit at a time "
            "can: set `airflow.pool` of these files to one Airflow pool that has one slot"
        )


@dataclass(frozen=True)
class BrokenFile:
    """An unusable lake file and the reason; `dag_id` is the one that the file would have if it were valid."""

    path: Path
    dag_id: str
    reason: str


def lake_files(folder: Path) -> list[LakeFile | BrokenFile]:
    """Return every lake file of a folder, by name; if two share a DAG, the second one is broken."""
    files: dict[str, LakeFile | BrokenFile] = {}
    for path in sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES):
        if path.name in NOT_LAKES:
            continue
        file = read_lake_file(path)
        other = files.get(file.dag_id)
        if other is not None:
            reason = f"{other.path.name} has the DAG {file.dag_id} already: rename one of them"
            file = BrokenFile(path, f"{file.dag_id}.{path.suffix[1:]}", reason)
        files[file.dag_id] = file
    return [_with_rivals(file, files.values()) for file in files.values()]


def _with_rivals(
    file: LakeFile | BrokenFile, files: Iterable[LakeFile | BrokenFile]
) -> LakeFile | BrokenFile:
    if isinstance(file, BrokenFile) or file.place is None:
        return file
    others = [
        each for each in files if isinstance(each, LakeFile) and each is not file and each.place == file.place
    ]
    rivals = [each.path.name for each in others if file.pool is None or each.pool != file.pool]
    return replace(file, rivals=tuple(rivals))


def dag_id_of(path: Path) -> str:
    """Return `lake_audit_` and the file's name, so that the id does not depend on the content."""
    return PREFIX + re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem)


def removed_lake_file(folder: Path, dag_id: str) -> BrokenFile:
    """Return the broken file for a lake file that was removed while its DAG was running."""
    name = dag_id.removeprefix(PREFIX)
    return BrokenFile(
        folder / f"{name}.yaml",
        dag_id,
        f"the lake file was removed: restore it, or delete the DAG {dag_id}",
    )


def read_lake_file(path: Path) -> LakeFile | BrokenFile:
    """Read a lake file; it is broken if it is not YAML, or if a setting for Airflow is missing or of a wrong type."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
        return _understood(path, content)
    except yaml.YAMLError as error:
        return BrokenFile(path, dag_id_of(path), f"it is not valid YAML: {_at(error)}")
    except (OSError, UnicodeError, RecursionError) as error:
        return BrokenFile(path, dag_id_of(path), f"it cannot be read ({type(error).__name__})")
    except ValueError as error:
        return BrokenFile(path, dag_id_of(path), str(error))


def _at(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    return where + str(getattr(error, "problem", None) or "it cannot be parsed")


def _understood(path: Path, content: object) -> LakeFile:
    top = _mapping(content, "the file")
    block = _mapping(top.get("airflow") or {}, "airflow")
    if unknown := sorted(set(map(str, block)) - set(KEYS)):
        raise ValueError(f"airflow.{unknown[0]} is not known: write one of {', '.join(KEYS)}")
    settings = dict(_block(block))
    _check_platform(settings, includes=bool(top.get("include")))
    return LakeFile(
        path=path,
        dag_id=dag_id_of(path),
        lake=_text(top, "lake", required=True) or "",
        tables=tuple(_table_names(top.get("tables"))),
        results=_literal(_place_of(top.get("results"))),
        place=_normal(_place_of(top.get("results"))),
        s3=_mapping(top.get("s3") or {}, "s3"),
        dashboard=_web_address(top.get("dashboard_url")),
        **settings,
    )


def _block(block: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of the block `airflow` that are given; the others keep their defaults."""
    for name in ("schedule", "owner", "connection", "status", "pool"):
        if (text := _text(block, name, "airflow.")) is not None:
            yield name, text
    for name in [name for name in ("tags", "assets") if block.get(name) is not None]:
        yield name, tuple(_texts(block[name], f"airflow.{name}"))
    for name, parse in _PARSERS.items():
        if block.get(name) is not None:
            yield name, parse(block)


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a mapping")  # noqa: TRY004 - the file is wrong, not the call
    return value


def _text(block: Mapping[str, Any], key: str, of: str = "", *, required: bool = False) -> str | None:
    value = block.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{of}{key} must be a text that is not empty")
    if "${" in value:
        raise ValueError(
            f"{of}{key} contains a variable, which Airflow does not resolve: write the value itself"
        )
    return value


def _texts(values: object, name: str) -> Sequence[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise ValueError(f"{name} must be a list of texts")
    return values


def _one_of(known: Sequence[str], value: str, name: str) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}")
    return value


def _conditions(values: object) -> tuple[str, ...]:
    names = tuple(values) if isinstance(values, list) else ()
    if not names or any(name not in CONDITIONS for name in names) or (NEVER in names and len(names) > 1):
        known = ", ".join(name for name in CONDITIONS if name != NEVER)
        raise ValueError(f"airflow.fail_on must be a list of {known}, or [{NEVER}]")
    return names


def _run_on(block: Mapping[str, Any]) -> RunOn:
    if unknown := sorted(set(map(str, block)) - set(RUN_ON_KEYS)):
        raise ValueError(f"airflow.run_on.{unknown[0]} is not known: write one of {', '.join(RUN_ON_KEYS)}")
    name = "airflow.run_on."
    kind = _one_of(tuple(PLATFORMS), _text(block, "kind", name, required=True) or "", f"{name}kind")
    platform = PLATFORMS[kind]
    jobs = _text(block, "jobs", name, required=platform.has_jobs) or ""
    lake_file = _text(block, "lake_file", name) or ""
    arguments = _mapping(block.get("arguments") or {}, "airflow.run_on.arguments")
    if missing := [name for name in platform.needs if name not in arguments]:
        raise ValueError(f"airflow.run_on.arguments needs {missing[0]} for {kind}")
    return RunOn(kind, jobs, lake_file, arguments)


def _check_platform(settings: Mapping[str, Any], *, includes: bool) -> None:
    on: RunOn | None = settings.get("run_on")
    if on is None:
        return
    if settings.get("status") is None:
        raise ValueError("airflow.run_on needs airflow.status: a folder that the platform and Airflow reach")
    if not on.lake_file and (includes or not settings["status"].startswith("s3")):
        why = "has an include" if includes else "has an airflow.status that is not on S3"
        raise ValueError(
            f"airflow.run_on needs lake_file, because the file {why}: it cannot be uploaded by itself"
        )
    if settings.get("spark_conf") and not takes_conf(on):
        raise ValueError(
            f"airflow.spark_conf does not reach {on.kind}: set it where the platform starts Spark"
        )


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("airflow.retries must be a whole number, 0 or more")
    return value


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if match is None:
        raise ValueError("airflow.retry_delay must be a duration such as 5m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _settings(block: object) -> dict[str, str]:
    return {str(name): _setting(value) for name, value in _mapping(block, "airflow.spark_conf").items()}


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _place_of(results: object) -> object:
    """Return the location of `results`, from its long form or its short one."""
    return results.get("location") if isinstance(results, dict) else results


def _literal(value: object) -> str | None:
    return value.rstrip("/") if isinstance(value, str) and "${" not in value else None


def _web_address(value: object) -> str | None:
    """Return an address that a browser can open; other values are reported by `doctor`."""
    literal = _literal(value)
    return literal if literal and re.match(r"\s*https?://[^/]", literal) else None


def _normal(place: object) -> str | None:
    """Return a location without differences that name the same place."""
    return re.sub(r"^s3[an]://", "s3://", place).rstrip("/") if isinstance(place, str) else None


def _table_names(tables: object) -> Iterator[str]:
    for entry in tables if isinstance(tables, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield entry["name"]


_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "retries": lambda block: _whole(block["retries"]),
    "retry_delay": lambda block: _duration(_text(block, "retry_delay", "airflow.") or ""),
    "reconcile": lambda block: _one_of(
        RECONCILE, _text(block, "reconcile", "airflow.") or "", "airflow.reconcile"
    ),
    "fail_on": lambda block: _conditions(block["fail_on"]),
    "spark_conf": lambda block: _settings(block["spark_conf"]),
    "run_on": lambda block: _run_on(_mapping(block["run_on"], "airflow.run_on")),
}
