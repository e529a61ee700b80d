"""Send a marked example through the routes of a lake file: for `lakeaudit alert --test`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeaudit.alerts import posts
from lakeaudit.alerts.decide import TEST, Notice
from lakeaudit.alerts.deliver import CannotDeliver, Channel, channel
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.notice_rows import AlertContext, rows_of
from lakeaudit.config import Alert
from lakeaudit.errors import BadInput
from lakeaudit.results.read import Row
from lakeaudit.results.summaries.change_summary import Change

TABLE = "lakeaudit.example"
REASON = "`lakeaudit alert --test` sends this message to try the route; nothing is wrong"


@dataclass(frozen=True)
class Delivery:
    """The delivery of an example: a receiver, and the reason why an example did not arrive; empty: it arrived."""

    receiver: str
    failure: str = ""

    def line(self) -> str:
        """Return the outcome in one line."""
        return f"{self.receiver}: {self.failure or 'the example was sent'}"


def try_routes(context: AlertContext, only: str | None) -> list[Delivery]:
    """Send an example to each receiver; one that manages incidents gets a second message, which resolves it.

    An alert of Alertmanager ends after five minutes, so that its `group_wait` can pass.

    Args:
        context: its results are neither read nor written.
        only: name of the variable, ARN of the topic, or `kind:variable` of the route to try; None: all routes.

    Raises:
        BadInput: the lake file has no route, or none with this name.
    """
    receivers = list(dict.fromkeys(route.receiver for route in context.lake.alerts))
    chosen = [each for each in receivers if only is None or only in (each, each.partition(":")[2])]
    if not receivers:
        raise BadInput("alert --test", "the lake file has no route", "add `alerts` to it")
    if not chosen:
        raise BadInput(
            f"--route {only}", "the lake file has no such route", f"write {' or '.join(receivers)}"
        )
    return [Delivery(receiver, _failure(context, receiver)) for receiver in chosen]


def _failure(context: AlertContext, receiver: str) -> str:
    try:
        to = channel(context.routes(receiver)[0], context.env, context.clients)
        for over in (False, True) if to.form == "incidents" else (False,):
            _send(context, to, receiver, over=over)
    except CannotDeliver as error:
        return str(error)
    return ""


def _send(context: AlertContext, to: Channel, receiver: str, *, over: bool) -> None:
    change = Change(TABLE, "resolved" if over else "opened", "dropped", "critical", 1, files=1, rows=1)
    notice = Notice(receiver, TABLE, TEST, change.transition, (change,), REASON, over)
    opened = replace(notice, changes=(replace(change, transition="opened"),), over=False)
    earlier = rows_of(context, TEST, [opened], [], 0)
    rows = rows_of(context, TEST, [notice], earlier, 1)
    to.send(posts.post_in(to.form, rows, _lake_now(context, [*earlier, *rows], over=over)))


def _lake_now(context: AlertContext, known: Sequence[Row], *, over: bool) -> LakeNow:
    return LakeNow(
        lake=context.lake.name,
        lake_file=context.lake_file,
        words="",
        open={} if over else {TABLE: {("dropped", "critical"): 1}},
        earlier=known,
        at=context.now,
        footer=context.footer,
        routes={
            each["receiver"]: [_of_all_tables(r) for r in context.routes(each["receiver"])] for each in known
        },
    )


def _of_all_tables(route: Alert) -> Alert:
    """Return the route without its filters, so that the example passes."""
    return route.model_copy(update={"tables": None, "min_severity": None})
