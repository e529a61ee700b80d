"""Sends that an audit failed without its results: nobody else would report it, and nothing can be recorded."""

from dataclasses import replace

from lakeaudit.alerts import posts
from lakeaudit.alerts.decide import FAILED, Notice
from lakeaudit.alerts.deliver import CannotDeliver, channel
from lakeaudit.alerts.lake_now import LakeNow
from lakeaudit.alerts.notice_rows import AlertContext, rows_of

NOT_RECORDED = "each audit that fails so sends this message again"
NOTHING_KNOWN = "What is open in the lake is not known, because the results could not be used"


def send_unrecorded(context: AlertContext, run_id: str, reason: str) -> tuple[str, ...]:
    """Send the failure of an audit to each receiver, and return the reasons why messages did not arrive.

    Args:
        context: its results are neither read nor written.
        run_id: the run that failed.
        reason: why its results cannot be read or written.
    """
    # the pages of the dashboard read the same results
    context = replace(context, lake=context.lake.model_copy(update={"dashboard_url": None}))
    receivers = dict.fromkeys(route.receiver for route in context.lake.alerts)
    sent = {receiver: _failure(context, receiver, run_id, reason) for receiver in receivers}
    return tuple(f"{receiver}: {failure}" for receiver, failure in sent.items() if failure)


def _failure(context: AlertContext, receiver: str, run_id: str, reason: str) -> str:
    notice = Notice(receiver, None, FAILED, "opened", words=f"{reason}; {NOT_RECORDED}")
    rows = rows_of(context, run_id, [notice], [], 0)
    now = LakeNow(
        lake=context.lake.name,
        lake_file=context.lake_file,
        words=NOTHING_KNOWN,
        open={},
        earlier=rows,
        at=context.now,
        footer=context.footer,
        is_open_known=False,
        routes={receiver: context.routes(receiver)},
    )
    try:
        to = channel(context.routes(receiver)[0], context.env, context.clients)
        to.send(posts.post_in(to.form, rows, now))
    except CannotDeliver as error:
        return str(error)
    return ""
