"""A dashboard in a process of its own: its views without a browser, and what they cost it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Subprotocol

_SPOKEN = Subprotocol("streamlit")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Served:
    """Where it answers, and its process."""

    url: str
    pid: int

    def view(self, page: str = "", **address: str) -> int:
        """One view of a page as a new visitor's; how many messages it took."""
        place = urlsplit(self.url)
        wanted = BackMsg(rerun_script=ClientState(query_string=urlencode(address), page_name=page))
        with connect(f"ws://{place.netloc}/_stcore/stream", subprotocols=[_SPOKEN], max_size=None) as socket:
            socket.send(wanted.SerializeToString())
            for number, told in enumerate(socket, 1):
                message = ForwardMsg.FromString(told if isinstance(told, bytes) else told.encode())
                if message.WhichOneof("type") == "script_finished":
                    return number
        raise ConnectionError(f"{page} was not finished")

    @property
    def resident(self) -> int:
        """MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    @property
    def busy(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


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
