"""Options and arguments that several commands have, and what is made of their words."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.errors import BadInput
from lakeaudit.kinds import KINDS, SEVERITIES

if TYPE_CHECKING:
    from lakeaudit.results.read import RowFilter

LakeFile = Annotated[str, typer.Argument(metavar="LAKE", help="The lake file.", show_default=False)]
Tables = Annotated[
    list[str] | None, typer.Option("--table", metavar="NAME", help="Only this table; repeatable.")
]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="K", help="Only this kind; repeatable.")]
Severities = Annotated[
    list[str] | None,
    typer.Option(
        "--severity", metavar="S", help=f"Only this severity ({', '.join(SEVERITIES)}); repeatable."
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition", metavar="COL=VALUE/COL=VALUE", help="Only this partition and those below; repeatable."
    ),
]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The run's id.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="X",
        help="`restore`: also what somebody removed, perhaps on purpose; `probable`: also what size, time and rows "
        "alone speak for; `older_than_onboarding`: also leftovers from before the first complete audit; "
        "`remove_reference`: take what is lost for good out of its Delta table; repeatable.",
    ),
]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of discrepancies, or their first characters.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is shown wherever the discrepancy is.")]
Until = Annotated[str, typer.Option("--until", metavar="DAY", help="The last day, such as 2027-06-01.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who; by default the user.")]
Status = Annotated[
    str | None,
    typer.Option("--status-file", metavar="F", help="Also write the outcome as JSON to F (a path or s3://)."),
]
FailOn = Literal["critical", "error", "warning", "info", "never"]


def run_id_of(text: str | None) -> str | None:
    """`--run-id`.

    Raises:
        BadInput: it is no run id.
    """
    if text is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text):
        raise BadInput("--run-id", "is no run id", "write up to 128 letters, digits, `.`, `_` and `-`")
    return text


def wanted_of(
    kinds: Sequence[str] | None,
    tables: Sequence[str] | None,
    severities: Sequence[str] | None,
    partitions: Sequence[str] | None,
) -> "RowFilter":
    """What `--kind`, `--table`, `--severity` and `--partition` ask for.

    Raises:
        BadInput: there is no such kind or severity.
    """
    from lakeaudit.results.read import RowFilter

    for option, noun, given, known in (
        ("--kind", "kind", kinds, KINDS),
        ("--severity", "severity", severities, SEVERITIES),
    ):
        if unknown := set(given or ()) - set(known):
            raise BadInput(option, f"no {noun} {', '.join(sorted(unknown))}", f"one of {', '.join(known)}")
    below = [each.strip("/") for each in partitions or ()]
    return RowFilter(kinds or (), tables or (), severities or (), below)
