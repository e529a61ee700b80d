"""A damaged lake on the tests' own server whose every state can be put back, for commands that are attacked."""

import io
import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow.compute as pc
import pytest

from lakeaudit import cli
from lakeaudit.cli import reconcile as reconcile_cli
from lakeaudit.config import Lake, load_lake
from lakeaudit.ledger import lease
from lakeaudit.ledger.lease_object import LeaseObject
from lakeaudit.reconcile.execution.journal import interrupted_plans, unfinished_batches
from lakeaudit.reconcile.execution.run import THREADS
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import results_of
from tests.builders.backdate import backdate
from tests.builders.repair_plans import actions_of
from tests.builders.shop import Shop
from tests.builders.strikes import Contents, Strike, striking
from tests.builders.zygote import Zygote
from tests.conftest import Aws

ALLOW = ("restore", "older_than_onboarding", "probable", "abort_upload")
ALLOWED = tuple(word for each in ALLOW for word in ("--allow", each))
PURGED_IN = 40 * 86_400.0
"""Seconds by which the clock of a purge is ahead."""
COMMANDS = ("audit", "alert", "plan", "apply", "undo", "purge")
CODES = {"audit": 1, "alert": 0, "plan": 0, "apply": 0, "undo": 3, "purge": 0}
"""Exit codes where nothing attacks; an upload that was aborted does not come back."""
ENDS = {**{name: (code,) for name, code in CODES.items()}, "apply": (0, 2, 3), "undo": (3, 2)}
"""Those of a run after one that was attacked: it may find everything done, or an upload aborted by nobody it knows."""
RUN_ID, NEXT = "attacked", "next"
_NOT_COMPARED = ("at", "made_at", "sent_at", "opened_at", "resolved_at")


@dataclass(frozen=True)
class Moment:
    """All that a command may change: the buckets, the folder of results and plan."""

    contents: Contents
    folder: Path


@dataclass
class Attacked:
    """The lake at `folder`, with results there or in a bucket, and its moments by the command that is next."""

    shop: Shop
    folder: Path
    buckets: tuple[str, ...]
    lake: Lake
    before: dict[str, Moment] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)

    @property
    def plan_file(self) -> Path:
        return self.folder / "plan.jsonl"

    def argv(self, command: str) -> tuple[str, ...]:
        """Return the command line."""
        lake = str(self.folder / "lake.yaml")
        return {
            "audit": ("audit", lake, "--live", "--run-id", RUN_ID),
            "alert": ("alert", lake),
            "plan": ("reconcile", "plan", lake, "-o", str(self.plan_file), *ALLOWED),
            "apply": ("reconcile", "apply", str(self.plan_file)),
            "undo": ("reconcile", "undo", str(self.plan_file)),
            "purge": ("reconcile", "purge", lake, "--yes"),
        }[command]

    def keep(self, command: str) -> None:
        """Remember this moment as the one before a command."""
        kept = self.folder.with_name(f"{self.folder.name}-before-{command}")
        shutil.copytree(self.folder, kept)
        self.before[command] = Moment(Contents.of(*self.buckets), kept)

    def back(self, command: str) -> None:
        """Put everything back as it was before a command."""
        moment = self.before[command]
        moment.contents.restore()
        shutil.rmtree(self.folder)
        shutil.copytree(moment.folder, self.folder)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command in this process, unattacked; return its exit code and its output."""
        out = io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(_Stream(out)),
            redirect_stderr(_Stream(out)),
        ):
            if command == "purge":
                at = datetime.now(UTC) + timedelta(seconds=PURGED_IN)
                patch.setattr(reconcile_cli, "now", lambda: at)
            argv = ("audit", *self.argv("audit")[1:-1], NEXT) if command == NEXT else self.argv(command)
            code = cli.main(argv)
        return code, out.getvalue()

    def audited_after(self, command: str) -> dict[str, Any]:
        """The state after a command that nobody attacked, and the next audit."""
        if (name := f"{NEXT} {command}") not in self.expected:
            self.back(command)
            for each in (command, NEXT):
                self.run(each)
            self.expected[name] = self.state()
        expected: dict[str, Any] = self.expected[name]
        return expected

    def expire_lease(self) -> None:
        """The leases of a run that was killed are two minutes older, as if one had waited."""
        for name in (lease.NAME, lease.LEDGER):
            place = self.lake.results.join(name)
            if not place.is_local and any(True for _ in _versions(place.bucket, place.key)):
                backdate(place.bucket, place.key, datetime.now(UTC) - timedelta(minutes=2))

    def state(self) -> dict[str, Any]:
        """Return the state for comparison: objects, the record, and the results of the ledger and the last audit."""
        results = results_of(self.lake)
        plans = [
            row["status"] for batch in results.batches("plans", pc.scalar(True)) for row in batch.to_pylist()
        ]
        ledger = {
            (row["table_name"], row["axis"], row["kind"], row["key"]): (row["state"], row["resolution"])
            for row in rows_of(results.discrepancies())
        }
        run = results.published(None)
        findings = sorted(
            (row["table_name"], row["axis"], row["kind"], str(row["key"]))
            for row in rows_of(results.findings(run["run_id"]))
        )
        return {
            "objects": self.objects(),
            "actions": sorted(map(_recorded, actions_of(self.lake))),
            "plans": sorted(plans),
            "ledger": ledger,
            "findings": findings,
            "runs": sorted(row["status"] for row in results.runs() if row["status"] == "running"),
            "begun": unfinished_batches(results),
            "left": list(interrupted_plans(results)),
        }

    def objects(self) -> dict[tuple[str, str], tuple[int, str]]:
        """Return size and ETag of each current object by bucket and key, and the open uploads by key and id."""
        found = {}
        for bucket in self.data_buckets:
            for entry in self.shop.s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
                found[bucket, _without_plan(entry["Key"])] = entry["Size"], entry["ETag"]
            for upload in self.shop.s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ()):
                found[bucket, upload["Key"]] = 0, "upload"
        return found

    @property
    def data_buckets(self) -> tuple[str, ...]:
        return self.buckets[:3]

    def stored_versions(self) -> set[tuple[str, int, str]]:
        """Return file name, size and ETag of every version of every data file in any bucket."""
        found = set()
        for bucket in self.data_buckets:
            for version in self.shop.s3.list_object_versions(Bucket=bucket).get("Versions", ()):
                found.add((version["Key"].rpartition("/")[2], version["Size"], version["ETag"]))
        return found


def _recorded(row: dict[str, Any]) -> tuple[str, str, str]:
    """Key, action and status of a step. Who aborted an upload that is gone, a run that was killed cannot tell."""
    aborted = row["action"] == "abort_upload" and row["status"] == "changed"
    return row["key"], row["action"], "applied" if aborted else row["status"]


class _Stream(io.TextIOBase):
    """A text stream that can be set up as a command sets up its own."""

    def __init__(self, to: io.StringIO) -> None:
        super().__init__()
        self._to = to

    def write(self, text: str) -> int:
        return self._to.write(text)

    def reconfigure(self, **_: Any) -> None:
        pass


def _versions(bucket: str, key: str) -> Iterator[Any]:
    from tests.builders.backdate import _bucket

    yield from _bucket(bucket).keys.getlist(key, [])


def _without_plan(key: str) -> str:
    """A key of the quarantine without the id of its plan."""
    return "/".join(part for part in key.split("/") if not part[:8].isdigit() or "Z-" not in part)


@contextmanager
def attacked(
    aws: Aws, s3: Endpoint, folder: Path, *, on_s3: bool, commands: Sequence[str] = COMMANDS
) -> Iterator[Attacked]:
    """A lake with a table in a bucket with versions and one in a bucket without, each damaged in every way."""
    name = f"attacked-{uuid.uuid4().hex[:8]}"
    buckets = (name, f"{name}-plain", f"{name}-quarantine", f"{name}-results")
    for bucket in buckets:
        aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    shop, plain = Shop(aws.s3, s3, name), Shop(aws.s3, s3, buckets[1])
    shop.write("orders")
    plain.write("events", commits=1)
    _age(shop)
    _age(plain)
    _damage(shop, plain)
    home = folder / "lake"
    home.mkdir(parents=True)
    lake = _lake(home, shop, buckets, on_s3=on_s3)
    yield _moments(Attacked(shop, home, buckets, lake), commands)


def _moments(one: Attacked, commands: Sequence[str]) -> Attacked:
    """Run each command once; store the moment before each one and its output."""
    said = {}
    for command in commands:
        if command == "purge":
            one.back("undo")
        one.keep(command)
        with pytest.MonkeyPatch.context() as patch:
            if command == "audit":  # nobody can be reached, so that there is something left to send
                patch.delenv("LAKEAUDIT_TEST_RECEIVER")
            said[command] = one.run(command)
        one.expected[command] = one.state()
    codes = {command: code for command, (code, _) in said.items()}
    assert codes == {command: CODES[command] for command in commands}, said
    return one


def _lake(home: Path, shop: Shop, buckets: tuple[str, ...], *, on_s3: bool) -> Lake:
    results = f"s3://{buckets[3]}/results" if on_s3 else str(home / "results")
    tables = (
        f"- {{name: orders, location: 's3://{buckets[0]}/warehouse/orders', manifests: [{{kind: delta}}]}}\n"
        f"- {{name: events, location: 's3://{buckets[1]}/warehouse/events', manifests: [{{kind: delta}}]}}\n"
    )
    (home / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: '{results}'\n"
        f"s3: {{endpoint: '{shop.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{buckets[0]}/warehouse/'}}, "
        f"{{kind: listing, location: 's3://{buckets[1]}/warehouse/'}}]\n"
        f"tables:\n{tables}"
        "defaults: {grace: 0s, leftover_age: 0s, max_upload: 0s}\n"
        f"quarantine: {{location: 's3://{buckets[2]}/q', keep: 30d}}\n"
        f"alerts: [{{kind: apprise, url_env: LAKEAUDIT_TEST_RECEIVER, min_severity: info}}]\n"
    )
    return load_lake(home / "lake.yaml", os.environ)


def _age(shop: Shop) -> None:
    then = datetime.now(UTC) - timedelta(hours=1)
    for entry in shop.s3.list_objects_v2(Bucket=shop.bucket)["Contents"]:
        is_log = "_delta_log" in entry["Key"]
        backdate(shop.bucket, entry["Key"], then - timedelta(seconds=0 if is_log else 9))


def _damage(shop: Shop, plain: Shop) -> None:
    """Losses that can be restored, in each way, and unused files."""
    s3, soon = shop.s3, datetime.now(UTC) - timedelta(minutes=50)
    marked, twice, torn, *_ = shop.keys("orders")
    old = datetime.now(UTC) - timedelta(hours=1, seconds=9)
    s3.delete_object(Bucket=shop.bucket, Key=marked)
    backdate(shop.bucket, marked, old, soon)
    for _ in range(2):
        s3.delete_object(Bucket=shop.bucket, Key=twice)
    backdate(shop.bucket, twice, old, soon, soon)
    s3.put_object(Bucket=shop.bucket, Key=torn, Body=b"torn")
    backdate(shop.bucket, torn, old, soon)
    for each, table in ((shop, "orders"), (plain, "events")):
        for number in range(2):
            key = f"warehouse/{table}/day=2026-11-01/part-{number}-left.parquet"
            s3.put_object(Bucket=each.bucket, Key=key, Body=b"rows of a job that died %d" % number)
            backdate(each.bucket, key, soon)
    upload = "warehouse/orders/day=2026-11-01/part-9-upload.parquet"
    s3.create_multipart_upload(Bucket=shop.bucket, Key=upload)


def start_victim(one: Attacked, victims: Zygote, command: str) -> int:
    """Start a command as a process; return its process id."""
    return victims.start(*one.argv(command), ahead=PURGED_IN if command == "purge" else 0)


def difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Describe the differences; empty if both are equal."""
    odd = [name for name in expected if found[name] != expected[name]]
    return "; ".join(f"{name}: {_only(found[name], expected[name])}" for name in odd)


def _only(found: Any, expected: Any) -> str:
    mine, others = (list(each.items() if isinstance(each, dict) else each) for each in (found, expected))
    more, fewer = [each for each in mine if each not in others], [each for each in others if each not in mine]
    return f"only here {more}, not here {fewer}"


@dataclass(frozen=True)
class Kill:
    """When a command is killed: at its request number `at`, before or after it was served, or after `seconds`."""

    command: str
    at: int | None = None
    after: bool = False
    seconds: float = 0.0


def drawn_positions(
    one: Attacked, victims: Zygote, command: str, number: int, chance: random.Random
) -> list[Kill]:
    """So many of a command's requests, before or after they are served."""
    one.back(command)
    with striking(Strike()) as healthy:
        start_victim(one, victims, command)
        victims.end()
    every = range(2 * len(healthy.requests))
    return [Kill(command, at // 2, bool(at % 2)) for at in chance.sample(every, min(number, len(every)))]


def kill(one: Attacked, victims: Zygote, which: Kill) -> str:
    """A command that is killed; the request at which it was, empty where it ended before."""

    def kill() -> None:
        victims.send(signal.SIGKILL)

    with striking(Strike(which.at, which.after, kill)) as strike:
        start_victim(one, victims, which.command)
        if which.at is None:
            time.sleep(which.seconds)
            kill()
        ended = victims.end()
    if ended.code != -signal.SIGKILL:
        return ""
    return strike.requests[which.at] if which.at is not None else f"after {which.seconds:.2f} s"


def killed_and_run_again(one: Attacked, victims: Zygote, which: Kill, *, audited: bool = False) -> str:
    """Kill a command, run it again; what is wrong then, empty where nothing is.

    `audited`: the next audit is compared, too, with that after a command that nobody killed.
    """
    one.back(which.command)
    content = one.stored_versions()
    request = kill(one, victims, which)
    wrong = (
        [f"gone at the kill: {content - one.stored_versions()}"]
        if which.command != "purge" and content - one.stored_versions()
        else []
    )
    one.expire_lease()
    code, said = one.run(which.command)
    if code not in ENDS[which.command]:
        wrong.append(f"the next run ended with {code}: {said[-600:]}")
    if which.command != "purge" and content - one.stored_versions():
        wrong.append(f"gone at the end: {content - one.stored_versions()}")
    wrong.append(difference(plans_once(one.state(), which.command), one.expected[which.command]))
    if audited:
        one.expire_lease()
        one.run(NEXT)
        found = plans_once(one.state(), which.command)
        wrong.append(difference(found, one.audited_after(which.command)))
    told = "\n".join(filter(None, wrong))
    return told and f"{which} ({request}): {told}"


def plans_once(state: dict[str, Any], command: str) -> dict[str, Any]:
    """The state with each status of plans once, if `plan` ran twice: both runs may have recorded their plan."""
    return state | {"plans": sorted(set(state["plans"]))} if command == "plan" else state


PACE = (0.5, 2.0)
"""Seconds between heartbeats of a lease, and after how many without one it is taken over."""


def stopped_and_overtaken(one: Attacked, victims: Zygote, which: Kill) -> str:
    """Stop a command for longer than its lease, complete it in another run, resume it; return the faults.

    The leases of `victims` have the pace `PACE`.
    """
    stopped = Event()

    def stop() -> None:
        victims.send(signal.SIGSTOP)
        stopped.set()

    one.back(which.command)
    with striking(Strike(which.at, which.after, stop)) as strike, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "PACE", lease.Pace(*PACE))
        start_victim(one, victims, which.command)
        while not stopped.wait(0.02) and not victims.has_ended():
            pass
        if not stopped.is_set():
            victims.end()
            return ""
        try:
            held = _is_held(one)
            time.sleep(PACE[1])
            code, said = one.run(which.command)
            strike.written.clear()
        finally:
            victims.send(signal.SIGCONT)
        ended = victims.end()
    wrong = []
    canary = (
        ".lakeaudit-canary/",
        "-plain?delete",
    )  # the request that follows the check, on objects of its own
    issued = () if which.at is None else (strike.requests[which.at],)  # before the command was stopped
    strike.written[:] = [
        each for each in strike.written if each not in issued and not any(sign in each for sign in canary)
    ]
    if held and code not in ENDS[which.command]:
        wrong.append(f"the other run ended with {code}: {said[-600:]}")
    # each thread may be between its check of the lease and its act, but no commit of a result table may follow
    commits = [each for each in strike.written if "/_delta_log/" in each]
    if held and ended.code in (2, 13) and (commits or len(strike.written) > THREADS):
        wrong.append(f"written after the other took over: {strike.written}")
    if held and ended.code not in (13, *ENDS[which.command]):
        wrong.append(f"ended with {ended.code}: {ended.output[-600:]}")
    state = plans_once(without_canaries(one.state()), which.command)
    wrong.append(difference(state, one.expected[which.command]))
    told = "\n".join(filter(None, wrong))
    request = strike.requests[which.at] if which.at is not None else ""
    return told and f"{which} ({request}, {'with' if held else 'without'} the lease, {ended.code}): {told}"


def without_canaries(state: dict[str, Any]) -> dict[str, Any]:
    """The canary of a request that was on its way when the other run removed all of them stays until the next run."""
    objects = {at: each for at, each in state["objects"].items() if ".lakeaudit-canary/" not in at[1]}
    return {**state, "objects": objects}


def _is_held(one: Attacked) -> bool:
    """Whether somebody holds the lease of results on S3."""
    place = one.lake.results.join("_lease")
    seen = LeaseObject(one.shop.s3, place).read()
    return seen is not None and seen.holder is not None
