"""What all messages of a round share: the lake, what is open in it, and the notices on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from lakeaudit.config import Alert
from lakeaudit.dashboard.addresses import lake_address
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import Change, KindsOpen, by_severity


@dataclass(frozen=True)
class LakeNow:
    """What all messages of a round share.

    Attributes:
        lake: name of the lake.
        lake_file: its lake file, as commands name it.
        words: open discrepancies of the whole lake, and the scope of the last audit.
        open: open discrepancies by table, kind and severity.
        earlier: all notices on record, oldest first, with those of this round.
        at: the time of the round.
        footer: the last line of texts: where the commands can be run.
        dashboard: the address of the dashboard; None: there is none.
        is_open_known: whether `open` could be read.
        criticals: what is open, not accepted and critical, by table and kind.
    """

    lake: str
    lake_file: str
    words: str
    open: KindsOpen
    earlier: Sequence[Row]
    at: datetime
    footer: str = ""
    dashboard: str | None = None
    is_open_known: bool = True
    criticals: Sequence[Change] = ()
    routes: Mapping[str, Sequence[Alert]] = field(default_factory=dict)
    """The routes of each receiver."""

    @property
    def page(self) -> str | None:
        """Return the address of the dashboard's page of the lake; None: there is no dashboard."""
        return lake_address(self.dashboard, lake=self.lake) if self.dashboard else None

    @cached_property
    def by_severity(self) -> Mapping[str | None, Mapping[str, int]]:
        """Return the number of open discrepancies by table and severity."""
        return by_severity(self.open)
