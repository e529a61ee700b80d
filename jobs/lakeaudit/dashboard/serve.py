"""Starts Streamlit inside this process: bound where it is told, without statistics, mail prompts or file watching."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib import resources

import streamlit  # noqa: F401 - absent: the command says how to get it
from streamlit.web import bootstrap

_LOCAL = {"127.0.0.1": ["127.0.0.1", "localhost"], "localhost": ["127.0.0.1", "localhost"]}


def options(host: str, port: int) -> dict[str, object]:
    """Streamlit's settings: nothing leaves this machine, nothing of the machine's own set-up comes in."""
    return {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.showEmailPrompt": False,
        "server.fileWatcherType": "none",
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.allowedHosts": _LOCAL.get(host, []),  # another site must not reach it by a name of its own
        "theme.light.primaryColor": "#3b6ea5",  # Streamlit's own is the red of what is critical
        "theme.dark.primaryColor": "#3b6ea5",
        "theme.light.codeTextColor": "#2b2c33",  # and the green of what is fine
        "theme.dark.codeTextColor": "#e8e8ea",
        "browser.gatherUsageStats": False,
        "browser.serverAddress": host,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        "runner.magicEnabled": False,
        "logger.level": "error",
        "logger.hideWelcomeMessage": True,
        "global.developmentMode": False,
    }


def serve(lake_file: str, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the dashboard of a lake until it is interrupted; `ready` is told the address once it answers."""
    given = options(host, port)
    flags = {name.replace(".", "_"): value for name, value in given.items()}
    bootstrap.load_config_options(flags)
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    threading.Thread(target=_wait, args=(host, port, ready), daemon=True).start()
    app = resources.as_file(resources.files("lakeaudit.dashboard").joinpath("app.py"))
    with app as path, redirect_stdout(sys.stderr):  # what Streamlit says is no result
        bootstrap.run(str(path), False, [lake_file], flags)


def _wait(host: str, port: int, ready: Callable[[str], None]) -> None:
    """It listens before it can answer."""
    there = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    for _ in range(600):
        if _answers(there, port):
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
            return
        time.sleep(0.1)


def _answers(host: str, port: int) -> bool:
    with suppress(OSError, HTTPException), closing(HTTPConnection(host, port, timeout=1)) as probe:
        probe.request("GET", "/_stcore/health")
        return probe.getresponse().status == HTTPStatus.OK
    return False
