"""Every request of an audit, and of plan, apply, undo and purge, fails once in every way."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.errors import AuditError
from lakeaudit.results import tables
from lakeaudit.runtime.connections import aws as aws_module
from lakeaudit.runtime.connections.aws import Endpoint
from tests.audits.test_refused_recheck import (
    FORMATS,
    Losses,
    content_of,
    findings_of,
    losses,
)
from tests.builders.attacked import ENDS, Attacked, attacked, difference, plans_once, without_canaries
from tests.builders.audits import audited
from tests.builders.catcher import catching
from tests.builders.killed import new_seed
from tests.builders.refusals import FAILURES, Refusals, refusing
from tests.builders.shop import Shop
from tests.builders.strikes import undisposed
from tests.conftest import Aws

__all__ = ["losses"]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(14_400)]
EACH = int(os.environ.get("LAKEAUDIT_FAILURES", str(2 * len(FAILURES))))
"""How many of the ways each request fails in: one and lasting ones of each."""
SEED = new_seed()
WAYS = [(answer, lasting) for answer in FAILURES for lasting in (False, True)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients try twice instead of eight times and wait 5 seconds, or every failure would take minutes."""
    patience = {"retries": {"mode": "standard", "total_max_attempts": 2}, "read_timeout": 5}
    monkeypatch.setattr(aws_module, "_patience", lambda _: patience)
    brief = {"timeout": "5s", "max_retries": "1", "retry_timeout": "10s"}
    monkeypatch.setattr(tables, "_PATIENCE", tables._PATIENCE | brief)


def wrong_in(losses: Losses, lake: Any, name: str, exit_code: int, pressing: Any) -> str:
    """What an audit claims that is not so, or does not say although it is."""
    gap = "unreadable_evidence"  # says itself that something could not be judged
    findings = [row for row in findings_of(lake) if row["severity"] != "info" and row["kind"] != gap]
    found = [(row["kind"], row["key"]) for row in findings]
    if any(key != losses.lost[name] or not kind.startswith("dropped") for kind, key in found):
        return f"false: {found}"
    if found or exit_code == 10:
        return ""
    reason = (content_of(lake).get(name) or {}).get("reason")
    return "" if exit_code == 3 and reason else f"silent: exit {exit_code}, {reason}"


@pytest.mark.parametrize("reports", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_no_failed_request_hides_a_loss_or_makes_one(
    aws: Aws, losses: Losses, tmp_path: Path, name: str, *, reports: bool
) -> None:
    inventories = ""
    if reports:
        Shop(aws.s3, losses.endpoint, losses.bucket).take_inventory()
        inventories = f"{{kind: s3_inventory, location: 's3://{losses.bucket}/inventories/', margin: 0s}}"
    chance, wrong, runs = random.Random(SEED), list[str](), 0
    with refusing(Refusals()) as whole:
        audited(losses.lake(tmp_path, name, inventories=inventories), run_id="r")
    for first, request in enumerate(whole.requests):
        for answer, lasting in chance.sample(WAYS, EACH):
            lake = losses.lake(tmp_path, name, inventories=inventories)
            with refusing(Refusals(first=first, lasting=lasting, answer=answer)):
                try:
                    outcome = audited(lake, run_id="r")
                    told = wrong_in(losses, lake, name, outcome.exit_code, outcome.pressing)
                except AuditError as error:
                    told = "" if error.exit_code in (10, 14) else f"{error.exit_code}: {error}"
                except Exception as error:  # noqa: BLE001 - a bug, which ends with 70
                    told = f"70: {type(error).__name__}: {error}"
            runs += 1
            if told:
                wrong.append(f"{first} {request}, {answer}, {'lasting' if lasting else 'once'}: {told}")
                print(wrong[-1], flush=True)  # noqa: T201
    print(f"seed {SEED}: {name}: {len(whole.requests)} positions, {runs} runs", flush=True)  # noqa: T201
    assert not wrong, f"{len(wrong)} of {runs}:\n" + "\n".join(wrong)


def failed_and_run_again(one: Attacked, command: str, rules: Refusals) -> str:
    one.back(command)
    content, at_first = one.stored_versions(), one.objects()
    with refusing(rules):
        code, said = one.run(command)
    wrong = []
    if code == 70:
        wrong.append(f"ended with 70: {said[-600:]}")
    if command != "purge" and content - one.stored_versions():
        wrong.append(f"gone: {content - one.stored_versions()}")
    one.expire_lease()
    code, said = one.run(command)
    if code not in ENDS[command]:
        wrong.append(f"the next run ended with {code}: {said[-600:]}")
    state, expected = one.state(), one.expected[command]
    if any(action == "put_back" for _, action, _ in state["actions"]):
        # apply reversed these steps; a file that it wrote again is young, so a plan of a later night moves it
        objects = {at: each for at, each in state["objects"].items() if at_first.get(at) != each}
        of_steps = {at: each for at, each in expected["objects"].items() if at_first.get(at) != each}
        state, expected = {"objects": objects}, {"objects": of_steps}
    state = without_canaries(plans_once(state, command))  # a lasting failure hinders their removal
    wrong.append(difference(state, without_canaries(expected)))
    return "\n".join(filter(None, wrong))


@pytest.mark.parametrize("on_s3", [False, True])
def test_a_failed_request_leaves_nothing_half_done(
    aws: Aws, s3: Endpoint, tmp_path: Path, *, on_s3: bool
) -> None:
    chance, wrong, runs = random.Random(SEED), list[str](), Counter[str]()
    with catching() as caught, pytest.MonkeyPatch.context() as patch, undisposed():
        patch.setenv("LAKEAUDIT_TEST_RECEIVER", f"json://127.0.0.1:{caught.port}/")
        with attacked(aws, s3, tmp_path, on_s3=on_s3) as one:
            for command in ("plan", "apply", "undo", "purge"):
                one.back(command)
                with refusing(Refusals()) as whole:
                    one.run(command)
                for first, request in enumerate(whole.requests):
                    for answer, lasting in chance.sample(WAYS, EACH):
                        told = failed_and_run_again(
                            one, command, Refusals(first=first, lasting=lasting, answer=answer)
                        )
                        runs[command] += 1
                        if told:
                            wrong.append(f"{command} {first} {request}, {answer}, {lasting=}: {told}")
                            print(wrong[-1], flush=True)  # noqa: T201
                told = f"{command}: {len(whole.requests)} positions, {runs[command]} runs"
                print(f"seed {SEED}: {told}", flush=True)  # noqa: T201
    assert not wrong, f"{len(wrong)} of {runs}:\n" + "\n".join(wrong)
