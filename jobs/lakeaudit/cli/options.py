"""Define and check the options and arguments that several commands share."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeaudit.errors import BadInput
from lakeaudit.kinds import KINDS, SEVERITIES

if TYPE_CHECKING:
    from lakeaudit.results.read import RowFilter


def complete_kind(incomplete: str) -> list[str]:
    """Return the kinds that begin with a text, for the completion of shells."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def complete_severity(incomplete: str) -> list[str]:
    """Return the severities that begin with a text, for the completion of shells."""
    return [severity for severity in SEVERITIES if severity.startswith(incomplete)]


LakeFile = Annotated[
    str,
    typer.Argument(
        metavar="LAKE",
        help="Path or s3:// URI of the lake file, which `lakeaudit init` writes.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME", help="Select this table; repeatable. Default: all tables."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="K",
        help="Select this kind of finding, such as dropped; repeatable. Default: all kinds.",
        autocompletion=complete_kind,
    ),
]
Severities = Annotated[
    list[str] | None,
    typer.Option(
        "--severity",
        metavar="S",
        help=f"Print only this severity ({', '.join(SEVERITIES)}); repeatable.",
        autocompletion=complete_severity,
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="COL=VALUE/COL=VALUE",
        help="Print only this partition and its subpartitions; repeatable.",
    ),
]
NewRunId = Annotated[
    str | None,
    typer.Option(
        "--run-id", metavar="ID", help="Id for this run; default: the current time and a random part."
    ),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id", metavar="ID", help="Print the findings of this run; default: the last published run."
    ),
]
Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...", help="Ids of discrepancies, or at least 6 characters of the beginning of an id."
    ),
]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Reason; it is printed with the discrepancy.")
]
Until = Annotated[
    str, typer.Option("--until", metavar="DAY", help="Last day (UTC) of the acceptance, such as 2027-06-01.")
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Name of the person who accepts; default: your user name."),
]
Status = Annotated[
    str | None,
    typer.Option(
        "--status-file",
        metavar="F",
        help="Also write the exit code and the outcome as JSON to F (a path or s3:// URI).",
    ),
]
RowFormat = Annotated[
    Literal["table", "csv", "jsonl", "markdown", "junit", "sarif", "github"],
    typer.Option("--format", help="Format of stdout; docs/commands.md describes each."),
]
FailOn = Literal["critical", "error", "warning", "info", "never"]


def run_id_of(text: str | None) -> str | None:
    """Check the value of `--run-id`.

    Raises:
        BadInput: the value is not a valid run id.
    """
    if text is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text):
        raise BadInput(
            "--run-id", "is not a valid run id", "write up to 128 letters, digits, `.`, `_` and `-`"
        )
    return text


def selection_of(
    kinds: Sequence[str] | None,
    tables: Sequence[str] | None,
    severities: Sequence[str] | None,
    partitions: Sequence[str] | None,
) -> "RowFilter":
    """Build the row filter of `--kind`, `--table`, `--severity` and `--partition`.

    Raises:
        BadInput: there is no such kind or severity.
    """
    from lakeaudit.commands.findings import row_filter_of

    return row_filter_of(kinds or (), tables or (), severities or (), partitions or ())
