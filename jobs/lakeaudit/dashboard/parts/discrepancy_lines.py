"""Shows discrepancies, two lines and a link each."""

from collections.abc import Sequence

import streamlit as st

from lakeaudit.advice import next_steps
from lakeaudit.dashboard import widgets
from lakeaudit.formatting import count, second, size, table_label, visible
from lakeaudit.kinds import COVERAGE_LOST
from lakeaudit.results.read import Row
from lakeaudit.results.recovery import of_finding


def show(rows: Sequence[Row], *, with_table: bool = False) -> None:
    """Show two lines for each discrepancy: kind, and file as a link; below them its stake, and table `with_table`."""
    with st.container(gap="small"):
        for row in rows:
            standing = f" :gray-badge[{row['standing']}]" if row["standing"] in _MARKED else ""
            kind = widgets.prose((row["kind"] or "").replace("_", " "))
            of_table = [f"of {table_label(row['table_name'])}"] if with_table else []
            with widgets.item(" · ".join([*of_table, *_about(row)])):
                st.markdown(f"{widgets.badge(row['severity'])} **{kind}**{standing}", width="content")
                name = widgets.literal(visible(row["subject"] or ""))
                widgets.link("file", name, id=row["discrepancy_id"])


_MARKED = ("accepted", "pending", "resolved")


def _about(row: Row) -> list[str]:
    parts = [widgets.number(row["rows_at_stake"], "row")] if row["rows_at_stake"] is not None else []
    parts += [size(row["bytes_at_stake"])] if row["bytes_at_stake"] is not None else []
    blind = row["kind"] == COVERAGE_LOST
    if blind and row["files"] is not None:
        parts.append(f"{widgets.number(row['files'], 'file')} not judged")
    else:
        parts += [f"{count(row['files'])} files"] if row["files"] not in (None, 1) else []
    again = ", reopened" if row["reopened"] and row["state"] != "resolved" else ""
    parts += [f"since {second(row['since'])}{again}", of_finding(row)]
    if row["standing"] == "accepted":
        parts.append(f"accepted by {row['ack_by']} until {second(row['ack_until'])}")
    if row["resolution"]:
        parts.append(next_steps.resolution_text(row))
    return [part for part in parts if part]
