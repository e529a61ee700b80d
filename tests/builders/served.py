"""A dashboard in a process of its own: its views without a browser, and their cost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.builders.resources import processor_seconds

_SPOKEN = Subprotocol("streamlit")


@dataclass(frozen=True)
class Served:
    """Where it answers, and its process."""

    url: str
    pid: int

    def view(self, page: str = "", **address: str) -> list[str]:
        """One view of a page as a new visitor's: the messages that it took."""
        from streamlit.proto.BackMsg_pb2 import BackMsg  # takes a second
        from streamlit.proto.ClientState_pb2 import ClientState
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        place, messages = urlsplit(self.url), []
        wanted = BackMsg(rerun_script=ClientState(query_string=urlencode(address), page_name=page))
        with connect(f"ws://{place.netloc}/_stcore/stream", subprotocols=[_SPOKEN], max_size=None) as socket:
            socket.send(wanted.SerializeToString())
            for told in socket:
                message = ForwardMsg.FromString(told if isinstance(told, bytes) else told.encode())
                messages.append(str(message))
                if message.WhichOneof("type") == "script_finished":
                    return messages
        raise ConnectionError(f"{page} was not finished")

    @property
    def resident(self) -> int:
        """MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    @property
    def busy(self) -> float:
        """CPU seconds so far."""
        return processor_seconds(self.pid)


@contextmanager
def serving(lake_file: str) -> Iterator[Served]:
    """The dashboard of a lake, until the end of the block."""
    line = [sys.executable, "-m", "lakeaudit", "dashboard", lake_file]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield Served(process.stdout.readline().strip(), process.pid)
    finally:
        process.kill()
        process.wait()
