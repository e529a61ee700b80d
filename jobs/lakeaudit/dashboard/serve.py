"""Starts Streamlit in this process at a given address, without statistics, mail prompts or file watching."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib import import_module, resources
from typing import Any

from streamlit import config, runtime  # absent: the command says how to get it
from streamlit.config_option import ConfigOption
from streamlit.runtime.pages_manager import PagesManager
from streamlit.web import bootstrap
from streamlit.web.server.starlette import starlette_server

from lakeaudit.dashboard import acceptance
from lakeaudit.dashboard.gate import ALIVE, PARAMETER, Gate, known_names
from lakeaudit.dashboard.metrics_endpoint import METRICS, MetricsEndpoint

AGAIN = 120
"""Seconds between two runs of the pages without a visitor."""
_LOCAL = {"127.0.0.1": ["127.0.0.1", "localhost"], "localhost": ["127.0.0.1", "localhost"]}


@dataclass(frozen=True)
class Where:
    """The address of the server, and the names under which browsers reach it.

    `names` are allowed host names besides the machine's own. `base_path` precedes the path of every page, for a proxy
    that also serves other sites.
    """

    host: str
    port: int
    names: tuple[str, ...] = ()
    base_path: str = ""
    any_port: bool = False
    """Whether a following port may be used if `port` is taken."""
    token: str | None = None
    """The token that visitors need; None: no token."""

    @property
    def known_names(self) -> frozenset[str]:
        """Return the allowed host names."""
        return known_names(self.host, self.names)


def options(where: Where) -> dict[str, object]:
    """Return Streamlit's settings: it sends nothing to other machines, and ignores the machine's own configuration."""
    return {
        "server.address": where.host,
        **({} if where.any_port else {"server.port": where.port}),
        "server.baseUrlPath": where.base_path,
        "server.headless": True,
        "server.showEmailPrompt": False,
        "server.fileWatcherType": "none",
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        # another site must not reach it under its own name; for other hosts the gate checks the names
        "server.allowedHosts": [*_LOCAL[where.host], *where.names] if where.host in _LOCAL else [],
        "theme.light.primaryColor": "#3b6ea5",  # Streamlit's default is the red of critical
        "theme.dark.primaryColor": "#3b6ea5",
        "theme.light.codeTextColor": "#2b2c33",  # its default is the green of fine
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


def serve(
    places: Sequence[str],
    where: Where,
    ready: Callable[[str], None],
    read: Callable[[str], bytes],
    change: acceptance.Change | None = None,
) -> None:
    """Serve the dashboard of lakes until it is interrupted; `ready` gets the address once the server responds.

    `read` returns the content of a lake file, which may be in a store. `change` makes the changes that visitors
    request; None, or a server without a token: they cannot change anything.
    """
    acceptance.install(change if where.token else None)
    settings = options(where)
    flags = {name.replace(".", "_"): value for name, value in settings.items()}
    bootstrap.load_config_options(flags)
    if where.any_port:  # marked as a default: Streamlit then tries further ports
        config.set_option("server.port", where.port, ConfigOption.STREAMLIT_DEFINITION)
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    threading.Thread(target=_wait, args=(where, ready), daemon=True).start()
    # slow imports, before the first visitor; not at the top, where Streamlit's logging is not configured yet
    pages = import_module("lakeaudit.dashboard.app")
    import_module("lakeaudit.dashboard.session").use_reader(read)
    pages.rehearse(places)
    threading.Thread(target=_keep_warm, args=(pages.rehearse, places), daemon=True).start()
    _install_gate(where, partial(pages.current_metrics, places))
    # `pages` is a package here: without this, the first visitor gets Streamlit's navigation of a folder of that name,
    # and "Page not found" for a link to a table
    PagesManager.uses_pages_directory = False
    app = resources.as_file(resources.files("lakeaudit.dashboard").joinpath("app.py"))
    with app as path, redirect_stdout(sys.stderr):  # stdout is for results
        bootstrap.run(str(path), False, [*places], flags)


def _install_gate(where: Where, read_metrics: Callable[[], bytes]) -> None:
    """Put the gate in front of Streamlit's application, and the metrics between them."""
    server: Any = starlette_server
    build = server.create_starlette_app
    path = f"/{where.base_path}{METRICS}" if where.base_path else METRICS

    def guarded(of: runtime.Runtime) -> Gate:
        return Gate(MetricsEndpoint(build(of), path, read_metrics), where.known_names, where.token)

    server.create_starlette_app = guarded


def _keep_warm(rehearse: Callable[[Sequence[str]], None], places: Sequence[str]) -> None:
    """Load new results before a visitor requests them; without new results this costs little."""
    while True:
        time.sleep(AGAIN)
        rehearse(places)


def _wait(where: Where, ready: Callable[[str], None]) -> None:
    """Call `ready` once this server responds; before it listens, another server may respond at that port."""
    host, path = where.host, f"/{where.base_path}" if where.base_path else ""
    there = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    for _ in range(600):
        port = _listening()
        if port and _answers(there, port, path):
            query = f"/?{PARAMETER}={where.token}" if where.token else ""
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}{path}{query}")
            return
        time.sleep(0.1)


def _listening() -> int | None:
    """Return the port that this process has bound, or None before: Streamlit starts its runtime after that."""
    if not runtime.exists() or runtime.get_instance().state is runtime.RuntimeState.INITIAL:
        return None
    return int(config.get_option("server.port"))


def _answers(host: str, port: int, path: str) -> bool:
    with suppress(OSError, HTTPException), closing(HTTPConnection(host, port, timeout=1)) as probe:
        probe.request("GET", f"{path}{ALIVE}")
        return probe.getresponse().status == HTTPStatus.OK
    return False
