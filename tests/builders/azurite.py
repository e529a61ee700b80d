"""Azurite, which stands in for Azure on the loopback: an npm package that is installed for the soak tests."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow import fs

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Both are in Azurite's documentation: the one account that it has."""
COMMAND = os.environ.get("AZURITE_BLOB") or shutil.which("azurite-blob")


@contextmanager
def azurite() -> Iterator[str]:
    """Its endpoint, while it runs; nothing of it is kept."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    server = subprocess.Popen([str(COMMAND), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options])
    try:
        _wait(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def _wait(port: int) -> None:
    for _ in range(150):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("Azurite does not answer")


def account(endpoint: str) -> fs.AzureFileSystem:
    """The account, to write to."""
    scheme, _, host = endpoint.partition("://")
    where = {f"{api}_storage_authority": host for api in ("blob", "dfs")}
    return fs.AzureFileSystem(
        ACCOUNT, account_key=KEY, blob_storage_scheme=scheme, dfs_storage_scheme=scheme, **where
    )
