"""Serve the pages of `lakeaudit dashboard`; by default only to this machine."""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from lakeaudit.commands.lake_text import read_lake_text
from lakeaudit.errors import AuditError, BadInput, CannotAudit

if TYPE_CHECKING:
    from lakeaudit.config import Lake
    from lakeaudit.dashboard.acceptance import Request
    from lakeaudit.results.read import Results

WELL_KNOWN = 8501
TOKEN_VARIABLE = "LAKEAUDIT_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token that visitors from other machines need."""


def usable(places: Sequence[str], load: Callable[[str], object]) -> list[str]:
    """Load the lake files of places, and return why some of them cannot be used; the pages show the others.

    Raises:
        BadInput: a folder has no lake file, or no lake file can be used.
    """
    from lakeaudit.dashboard.served_lakes import lake_files

    if empty := [place for place in places if not lake_files([place])]:
        raise BadInput(empty[0], "holds no lake file", "name a folder with *.yaml, or a lake file")
    errors: list[AuditError] = []
    files = lake_files(places)
    for file in files:
        try:
            load(file)
        except AuditError as error:
            errors.append(error)
    if len(errors) == len(files):
        raise errors[0]
    return [str(error) for error in errors]


def run(
    places: Sequence[str],
    host: str,
    port: int | None,
    ready: Callable[[str], None],
    *,
    names: Sequence[str] = (),
    base_path: str = "",
    env: Mapping[str, str] = os.environ,
) -> None:
    """Serve until interrupted; call `ready` with the address. `names` and `base_path`: see `dashboard.serve.Where`.

    `places` are lake files, and folders of lake files.

    Visitors from other machines need a token: that of `env`, else a random one.

    Raises:
        CannotAudit: Streamlit is not installed.
        BadInput: the address cannot be used.
    """
    try:
        from lakeaudit.dashboard.gate import is_loopback
        from lakeaudit.dashboard.serve import Where, serve
    except ModuleNotFoundError as error:
        raise CannotAudit("dashboard", f"needs {error.name}", "pip install 'lakeaudit[dashboard]'") from error
    token = None if is_loopback(host) else env.get(TOKEN_VARIABLE) or token_urlsafe(24)
    chosen = free_port(host, port)
    where = Where(host, chosen, tuple(names), path_of(base_path), any_port=port is None, token=token)
    try:
        serve(places, where, ready, read_lake_text, change_ledger)
    except SystemExit as error:  # Streamlit exits if it cannot listen
        if error.code in (None, 0):
            raise
        raise BadInput(
            f"{host}:{where.port}", "another process took the port during the start", "start again"
        ) from error


def change_ledger(lake: "Lake", results: "Results", request: "Request", now: datetime) -> str:
    """Accept a discrepancy, or end its acceptance, as `lakeaudit ack` and `unack` do. Raises as `acknowledge`."""
    from lakeaudit.commands import discrepancies

    ids = [request.discrepancy_id]
    if request.until is None:
        return discrepancies.withdraw(lake, results, ids, now).verdict
    ack = discrepancies.ack_of(request.by, request.reason, request.until.isoformat())
    return discrepancies.acknowledge(lake, results, ids, ack, now).verdict


def path_of(text: str) -> str:
    """Return `/data/lake/` in the form that Streamlit expects, `data/lake`.

    Raises:
        BadInput: the path has other characters than letters, digits, `.`, `_`, `~` and `-`.
    """
    path = text.strip("/")
    if path and not re.fullmatch(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*", path):
        raise BadInput(text, "is not a path of plain names", "write --base-path /lakeaudit")
    return path


def free_port(host: str, port: int | None) -> int:
    """Return the requested port; without one Streamlit's default port if it is free, else any free port.

    Raises:
        BadInput: the port is taken, or the host is not an address of this machine.
    """
    for candidate in (WELL_KNOWN, 0) if port is None else (port,):
        try:
            return _try_port(host, candidate)
        except OSError as error:
            reason = error.strerror or str(error)
    raise BadInput(
        f"{host}:{port or WELL_KNOWN}", f"cannot be used ({reason})", "choose another --host or --port"
    )


def _try_port(host: str, port: int) -> int:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
