"""Starts Streamlit inside this process: bound where it is told, without statistics, mail prompts or file watching."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib import import_module, resources
from typing import Any

from streamlit import config, runtime  # absent: the command says how to get it
from streamlit.config_option import ConfigOption
from streamlit.web import bootstrap
from streamlit.web.server.starlette import starlette_server

from lakeaudit.dashboard.gate import ALIVE, PARAMETER, Gate, known_names

AGAIN = 120
"""Seconds after which the first page is asked for again."""
_LOCAL = {"127.0.0.1": ["127.0.0.1", "localhost"], "localhost": ["127.0.0.1", "localhost"]}


@dataclass(frozen=True)
class Where:
    """Where pages are served: the address that is bound, and as what browsers know them.

    `names` are the host names that are answered beside the machine's own. `base_path` comes before every page's path,
    as behind a proxy that serves other things.
    """

    host: str
    port: int
    names: tuple[str, ...] = ()
    base_path: str = ""
    any_port: bool = False
    """Whether one of the next ports will do where `port` is taken by then."""
    token: str | None = None
    """What visitors must show; None: nothing."""

    @property
    def known_names(self) -> frozenset[str]:
        """Host names that are answered."""
        return known_names(self.host, self.names)


def options(where: Where) -> dict[str, object]:
    """Streamlit's settings: nothing leaves this machine, nothing of the machine's own set-up comes in."""
    return {
        "server.address": where.host,
        **({} if where.any_port else {"server.port": where.port}),
        "server.baseUrlPath": where.base_path,
        "server.headless": True,
        "server.showEmailPrompt": False,
        "server.fileWatcherType": "none",
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        # another site must not reach it by a name of its own; beyond this machine the gate alone knows all names
        "server.allowedHosts": [*_LOCAL[where.host], *where.names] if where.host in _LOCAL else [],
        "theme.light.primaryColor": "#3b6ea5",  # Streamlit's own is the red of what is critical
        "theme.dark.primaryColor": "#3b6ea5",
        "theme.light.codeTextColor": "#2b2c33",  # and the green of what is fine
        "theme.dark.codeTextColor": "#e8e8ea",
        "theme.headingFontSizes": ["1.55rem", "1.2rem", "1.05rem"],
        "theme.baseFontSize": 15,
        "browser.gatherUsageStats": False,
        "browser.serverAddress": where.host,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        "runner.magicEnabled": False,
        "logger.level": "error",
        "logger.hideWelcomeMessage": True,
        "global.developmentMode": False,
    }


def serve(lake_file: str, where: Where, ready: Callable[[str], None]) -> None:
    """Serve the dashboard of a lake until it is interrupted; `ready` is told the address once it answers."""
    given = options(where)
    flags = {name.replace(".", "_"): value for name, value in given.items()}
    bootstrap.load_config_options(flags)
    if where.any_port:  # set as if by nobody: then it looks further where another server was faster
        config.set_option("server.port", where.port, ConfigOption.STREAMLIT_DEFINITION)
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    threading.Thread(target=_wait, args=(where, ready), daemon=True).start()
    # what takes seconds, no visitor shall wait for; not imported above, where Streamlit is not quiet yet
    rehearse = import_module("lakeaudit.dashboard.app").rehearse
    rehearse(lake_file)
    threading.Thread(target=_keep_warm, args=(rehearse, lake_file), daemon=True).start()
    _stand_before(where)
    app = resources.as_file(resources.files("lakeaudit.dashboard").joinpath("app.py"))
    with app as path, redirect_stdout(sys.stderr):  # what Streamlit says is no result
        bootstrap.run(str(path), False, [lake_file], flags)


def _stand_before(where: Where) -> None:
    """Every request passes the gate before it comes to Streamlit's application."""
    server: Any = starlette_server
    build = server.create_starlette_app

    def guarded(of: runtime.Runtime) -> Gate:
        return Gate(build(of), where.known_names, where.token)

    server.create_starlette_app = guarded


def _keep_warm(rehearse: Callable[[str], None], lake_file: str) -> None:
    """What a new audit has written is asked before anybody comes to look; where it wrote nothing, that costs little."""
    while True:
        time.sleep(AGAIN)
        rehearse(lake_file)


def _wait(where: Where, ready: Callable[[str], None]) -> None:
    """It listens before it can answer; and until it listens, another server may answer at that port."""
    host, path = where.host, f"/{where.base_path}" if where.base_path else ""
    there = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    for _ in range(600):
        port = _listening()
        if port and _answers(there, port, path):
            shown = f"/?{PARAMETER}={where.token}" if where.token else ""
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}{path}{shown}")
            return
        time.sleep(0.1)


def _listening() -> int | None:
    """The port that this process has bound; None before: Streamlit starts its runtime after that."""
    if not runtime.exists() or runtime.get_instance().state is runtime.RuntimeState.INITIAL:
        return None
    return int(config.get_option("server.port"))


def _answers(host: str, port: int, path: str) -> bool:
    with suppress(OSError, HTTPException), closing(HTTPConnection(host, port, timeout=1)) as probe:
        probe.request("GET", f"{path}{ALIVE}")
        return probe.getresponse().status == HTTPStatus.OK
    return False
