"""The units of systemd and the CronJob of Kubernetes: known keys, right values, and a command line that exists.

`make check-container` also lets systemd itself check the units.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from lakeaudit.cli import frame
from lakeaudit.commands.dashboard import TOKEN_VARIABLE
from tests.builders.containerfile import CONTAINERFILE, ROOT, stages

UNITS = sorted((ROOT / "conf" / "systemd").iterdir())
CRONJOB = ROOT / "conf" / "kubernetes" / "cronjob.yaml"
IMAGE = stages(CONTAINERFILE.read_text())[-1]
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
EXIT_CODES = {int(code) for code in re.findall(r"^\| (\d+) \|", COMMANDS, re.MULTILINE)}


def parses(words: Sequence[str]) -> None:
    """The command line takes these words."""
    group: Any = typer.main.get_command(frame.app)
    name, command, rest = group.resolve_command(group.make_context("lakeaudit", [*words]), [*words])
    command.make_context(name, rest)


# --- systemd -------------------------------------------------------------------------------------------------

BOOLEAN, SPAN, TEXT = r"yes|no", r"\d+(s|min|h|d)", r"\S.*"
PROTECTIONS = (
    *("LockPersonality", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "PrivateUsers", "ProtectClock"),
    *("ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules"),
    *("ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "DynamicUser"),
)
KEYS: dict[str, dict[str, str]] = {
    "Unit": {"Description": TEXT, "Wants": TEXT, "After": TEXT, "OnFailure": r"[\w-]+\.service"},
    "Timer": {"OnCalendar": r"\*-\*-\* \d\d:\d\d:\d\d UTC", "RandomizedDelaySec": SPAN, "Persistent": BOOLEAN},
    "Install": {"WantedBy": r"(timers|multi-user)\.target"},
    "Service": {
        **dict.fromkeys(PROTECTIONS, BOOLEAN),
        **dict.fromkeys(("RuntimeMaxSec", "TimeoutStopSec", "RestartSec"), SPAN),
        **dict.fromkeys(("StateDirectory", "CacheDirectory", "User"), "lakeaudit"),
        "Type": "exec", "Restart": "always", "KillMode": "mixed|control-group",
        "ExecStart": r"/opt/lakeaudit/bin/lakeaudit .*", "SuccessExitStatus": r"\d+( \d+)*",
        "EnvironmentFile": r"-?/etc/lakeaudit/\S+", "Environment": r"\w+=.*",
        "WorkingDirectory": r"%S/lakeaudit", "UMask": r"0\d{3}", "Nice": r"\d+", "CapabilityBoundingSet": "",
        "ProtectHome": BOOLEAN, "ProtectProc": "invisible", "ProtectSystem": "strict",
        "RestrictAddressFamilies": r"AF_\w+( AF_\w+)*", "SystemCallArchitectures": "native",
        "SystemCallFilter": r"~?@[\w-]+", "SystemCallErrorNumber": "EPERM",
    },
}  # fmt: skip
"""By section the keys that the units may use and their values (systemd.unit, .service, .exec, .kill and .timer)."""


def entries(unit: Path) -> list[tuple[str, str, str]]:
    """(section, key, value) of each line."""
    found, section = [], ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.append((section, key, value))
    return found


def values(unit: Path, key: str) -> list[str]:
    return [value for _, name, value in entries(unit) if name == key]


def unknown(lines: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [
        (section, key, value)
        for section, key, value in lines
        if key not in KEYS.get(section, {}) or not re.fullmatch(KEYS[section][key], value)
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_have_known_keys_and_values(unit: Path) -> None:
    assert unknown(entries(unit)) == []
    assert all(line == line.strip() for line in unit.read_text().splitlines())


@pytest.mark.parametrize(
    "line",
    [("Service", "RuntimeMax", "6h"), ("Service", "RuntimeMaxSec", "six"), ("Unit", "User", "lakeaudit")],
)
def test_a_mistyped_line_would_be_noticed(line: tuple[str, str, str]) -> None:
    assert unknown([line]) == [line]


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.name
)
def test_services_start_a_command_that_exists_without_rights_and_without_secrets(unit: Path) -> None:
    (line,) = values(unit, "ExecStart")
    parses(shlex.split(line)[1:])
    assert {key: values(unit, key) for key in PROTECTIONS} == {key: ["yes"] for key in PROTECTIONS}
    assert values(unit, "EnvironmentFile")
    assert not re.search(r"TOKEN|SECRET|PASSWORD", " ".join(values(unit, "Environment")))
    assert set(values(unit, "OnFailure")) <= {each.name for each in UNITS}


def test_findings_and_a_partial_audit_do_not_fail_the_unit_but_suspect_evidence_does() -> None:
    (text,) = values(ROOT / "conf" / "systemd" / "lakeaudit.service", "SuccessExitStatus")
    codes = {int(code) for code in text.split()}
    assert codes <= EXIT_CODES
    assert codes == {1, 3, 130}


# --- Kubernetes ----------------------------------------------------------------------------------------------


class Strict(BaseModel):
    """Fields of the API reference of Kubernetes, as far as the CronJob uses them; every other one is refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, strict=True)


Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Quantity = Annotated[str, Field(pattern=r"^\d+(m|Ki|Mi|Gi)?$")]
Seconds = Annotated[int, Field(gt=0)]
UserId = Annotated[int, Field(gt=0)]


class Meta(Strict):
    name: Name | None = None
    labels: dict[str, str] = {}


class OnExitCodes(Strict):
    container_name: Name
    operator: Literal["In", "NotIn"]
    values: Annotated[list[Annotated[int, Field(gt=0, le=255)]], Field(min_length=1, max_length=255)]


class OnPodCondition(Strict):
    type: Literal["DisruptionTarget", "ConfigIssue"]
    status: Literal["True", "False", "Unknown"]


class Rule(Strict):
    action: Literal["FailJob", "Ignore", "Count", "FailIndex"]
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] | None = None


class PodFailurePolicy(Strict):
    rules: Annotated[list[Rule], Field(max_length=20)]


class Profile(Strict):
    type: Literal["RuntimeDefault"]


class PodSecurity(Strict):
    run_as_non_root: Literal[True]
    run_as_user: UserId
    run_as_group: UserId
    fs_group: UserId
    seccomp_profile: Profile


class Capabilities(Strict):
    drop: list[Literal["ALL"]]


class ContainerSecurity(Strict):
    allow_privilege_escalation: Literal[False]
    read_only_root_filesystem: Literal[True]
    capabilities: Capabilities


class Reference(Strict):
    name: Name
    optional: bool = False


class EnvFrom(Strict):
    secret_ref: Reference


class Mount(Strict):
    name: Name
    mount_path: Annotated[str, Field(pattern="^/")]
    read_only: bool = False


class Resources(Strict):
    requests: dict[Literal["cpu", "memory", "ephemeral-storage"], Quantity]
    limits: dict[Literal["cpu", "memory", "ephemeral-storage"], Quantity]


class Container(Strict):
    name: Name
    image: str
    args: list[str]
    env_from: list[EnvFrom]
    resources: Resources
    security_context: ContainerSecurity
    volume_mounts: list[Mount]


class EmptyDir(Strict):
    size_limit: Quantity


class Volume(Strict):
    name: Name
    config_map: Reference | None = None
    empty_dir: EmptyDir | None = None


class Pod(Strict):
    restart_policy: Literal["Never"]  # podFailurePolicy needs it
    service_account_name: Name
    automount_service_account_token: Literal[False]
    security_context: PodSecurity
    containers: list[Container]
    volumes: list[Volume]


class PodTemplate(Strict):
    metadata: Meta
    spec: Pod


class Job(Strict):
    active_deadline_seconds: Seconds
    backoff_limit: Annotated[int, Field(ge=0)]
    pod_failure_policy: PodFailurePolicy
    template: PodTemplate


class JobTemplate(Strict):
    spec: Job


class CronJobSpec(Strict):
    schedule: Annotated[str, Field(pattern=r"^\S+( \S+){4}$")]
    time_zone: str
    concurrency_policy: Literal["Forbid"]
    starting_deadline_seconds: Seconds
    successful_jobs_history_limit: int
    failed_jobs_history_limit: int
    job_template: JobTemplate


class CronJob(Strict):
    api_version: Literal["batch/v1"]
    kind: Literal["CronJob"]
    metadata: Meta
    spec: CronJobSpec


def cronjob() -> Any:
    return yaml.safe_load(CRONJOB.read_text())


@pytest.fixture
def job() -> Job:
    return CronJob.model_validate(cronjob()).spec.job_template.spec


def test_the_cronjob_starts_the_images_command_as_the_images_user(job: Job) -> None:
    pod = job.template.spec
    (container,) = pod.containers
    parses(container.args)
    (user,) = IMAGE.steps_of("USER")
    assert user.text == f"{pod.security_context.run_as_user}:{pod.security_context.run_as_group}"


def test_it_mounts_each_volume_and_writes_only_to_its_scratch_folder(job: Job) -> None:
    (container,) = job.template.spec.containers
    volumes = {volume.name: volume for volume in job.template.spec.volumes}
    mounts = {mount.name: mount for mount in container.volume_mounts}
    assert volumes.keys() == mounts.keys()
    writable = {mount.mount_path for mount in mounts.values() if not mount.read_only}
    assert writable == {mounts["scratch"].mount_path} == {IMAGE.steps_of("WORKDIR")[0].text}
    assert IMAGE.steps_of("ENV")[0].pairs["LAKEAUDIT_CACHE"].startswith(mounts["scratch"].mount_path)
    assert container.args[1].startswith(mounts["lake"].mount_path)
    assert volumes["scratch"].empty_dir is not None
    assert volumes["lake"].config_map is not None


def test_only_exit_codes_after_which_a_new_pod_can_succeed_are_tried_again(job: Job) -> None:
    """Also after a node was drained: a rule before the others ignores that."""
    drained, failing = job.pod_failure_policy.rules
    assert drained.action == "Ignore"
    assert failing.action == "FailJob"
    assert failing.on_exit_codes is not None
    codes = failing.on_exit_codes.values
    assert codes == sorted(set(codes)), "Kubernetes refuses other lists"
    assert failing.on_exit_codes.container_name == job.template.spec.containers[0].name
    assert EXIT_CODES - {0} - {*codes} == {10, 13, 14, 130}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "concurencyPolicy"), "Forbid"),
        (("spec", "concurrencyPolicy"), "Allow"),
        (("spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"), "OnFailure"),
        (("spec", "jobTemplate", "spec", "backoffLimit"), "4"),
        (("spec", "jobTemplate", "spec", "podFailurePolicy", "rules", 0, "action"), "Retry"),
    ],
)
def test_a_wrong_field_would_be_noticed(path: Sequence[Any], value: Any) -> None:
    document = cronjob()
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        CronJob.model_validate(document)


# --- the dashboard -------------------------------------------------------------------------------------------


def test_the_document_names_the_variable_of_the_token() -> None:
    assert TOKEN_VARIABLE in (ROOT / "docs" / "service.md").read_text()
