"""`lakeaudit dashboard`: a live page over the results, on this machine alone unless told otherwise."""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from secrets import token_urlsafe

from lakeaudit.errors import BadInput, CannotAudit

WELL_KNOWN = 8501
TOKEN_VARIABLE = "LAKEAUDIT_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable
"""The variable with the token that visitors from other machines must show."""


def run(
    lake_file: str,
    host: str,
    port: int | None,
    ready: Callable[[str], None],
    *,
    names: Sequence[str] = (),
    base_path: str = "",
    env: Mapping[str, str] = os.environ,
) -> None:
    """Serve until interrupted; `ready` is told the address. `names` and `base_path`: see `dashboard.serve.Where`.

    Beyond this machine visitors must show a token: that of `env`, else one that is drawn.

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
        serve(lake_file, where, ready)
    except SystemExit as error:  # Streamlit's way to say that it cannot listen
        if error.code in (None, 0):
            raise
        raise BadInput(
            f"{host}:{where.port}", "was taken while the pages were loaded", "start again"
        ) from error


def path_of(written: str) -> str:
    """`/data/lake/` as Streamlit wants it, `data/lake`.

    Raises:
        BadInput: it is no path of plain names.
    """
    path = written.strip("/")
    if path and not re.fullmatch(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*", path):
        raise BadInput(written, "is no path of plain names", "write --base-path /lakeaudit")
    return path


def free_port(host: str, port: int | None) -> int:
    """The port asked for; where none was, Streamlit's own if it is free, else any that is.

    Raises:
        BadInput: it is taken, or the host is none of this machine's.
    """
    for wanted in (WELL_KNOWN, 0) if port is None else (port,):
        try:
            return _bound(host, wanted)
        except OSError as error:
            refused = error.strerror or str(error)
    raise BadInput(
        f"{host}:{port or WELL_KNOWN}", f"cannot be used ({refused})", "choose another --host or --port"
    )


def _bound(host: str, port: int) -> int:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])
