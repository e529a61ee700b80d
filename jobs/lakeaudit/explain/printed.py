"""Print the explanation of one file for `lakeaudit explain`, as text or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from lakeaudit import formatting
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.explain import text_output
from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.source_answers import SourceAnswer
from lakeaudit.formatting import iso
from lakeaudit.keys import uri_of
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import KINDS, axis_words, rank
from lakeaudit.report import coverage_view
from lakeaudit.results import recovery
from lakeaudit.results.read import Row
from lakeaudit.runtime.connections.aws import Endpoint


def as_json(explanation: Explanation) -> str:
    """Return the explanation's fields as one JSON object, times in ISO 8601 with Z."""
    return json.dumps(asdict(explanation) | {"unknown": explanation.unknown}, default=iso)


def as_text(console: Console, explanation: Explanation, lake_file: str, at: Endpoint) -> None:
    """Print the file, the answer of each source, the findings with reasons and next steps, and the coverage.

    Args:
        console: prints on it.
        explanation: explanation to print.
        lake_file: the lake file as it was typed, for commands.
        at: endpoint of the file's bucket.
    """
    text_output.line(console, text_output.plain(explanation.uri, "bold"))
    text_output.line(
        console,
        text_output.plain(
            f"It belongs to the table {explanation.table}."
            if explanation.table
            else "It belongs to no table of the lake."
            if explanation.is_file
            else "No table of the lake contains all of it."
        ),
    )
    _print_sources(console, explanation, lake_file)
    text_output.title(console, _when(explanation))
    _print_findings(console, explanation, lake_file, at)
    _print_rest(console, explanation, lake_file)
    _print_coverage(console, explanation.coverage)
    if explanation.discrepancies:
        text_output.title(console, "History in the ledger")
        _print_ledger(console, explanation)


def _print_sources(console: Console, explanation: Explanation, lake_file: str) -> None:
    if explanation.is_file:
        text_output.title(console, "What each source answers now")
    for answer in explanation.sources:
        _print_answer(console, answer)
    if explanation.is_restored:
        _print_restored(console, explanation, lake_file)


def _print_findings(console: Console, explanation: Explanation, lake_file: str, at: Endpoint) -> None:
    beside = {each["kind"] for each in explanation.findings}
    for row in [*explanation.findings, *explanation.groups]:
        _print_finding(console, row, explanation)
        if not explanation.is_restored:
            text_output.next_step(console, row, at, lake_file, explanation.marker, beside)
    for name in explanation.files:
        text_output.line(console, text_output.plain(name), indent=5)
    if (
        not explanation.findings
        and not explanation.groups
        and not (explanation.run is None and explanation.unjudged)
    ):
        nothing = "no source, table or finding names this file" if explanation.unknown else "no finding"
        nothing = f"not judged by this run; {_still_open(explanation)}" if explanation.unjudged else nothing
        text_output.line(console, text_output.plain(nothing), indent=1)


def _still_open(explanation: Explanation) -> str:
    """Name the run whose finding is still open."""
    return f"a finding of run {explanation.unjudged[0]['last_run_id']} is still open"


def _print_rest(console: Console, explanation: Explanation, lake_file: str) -> None:
    """Print the number of further findings in a folder, and the command that prints them."""
    rest = sum(row["findings"] for row in explanation.totals) - len(explanation.findings)
    if rest > 0:  # a single file has no totals
        table = f" {option('--table', explanation.table)}" if explanation.table else ""
        command = f"lakeaudit findings {operand(lake_file)}{table}"
        text_output.line(
            console,
            text_output.plain(f"and {formatting.number(rest, 'more finding')}: {command}", "dim"),
            indent=1,
        )


def _print_restored(console: Console, explanation: Explanation, lake_file: str) -> None:
    """Print the command that resolves the discrepancy of a restored file."""
    table = f" {option('--table', explanation.table)}" if explanation.table else ""
    command = f"lakeaudit audit {operand(lake_file)} --live{table}"
    text_output.line(
        console,
        text_output.plain("Storage has the file again. This audit resolves the discrepancy:", "green"),
        indent=1,
    )
    text_output.line(console, text_output.plain(command), indent=3)


def _print_ledger(console: Console, explanation: Explanation) -> None:
    for row in explanation.discrepancies:
        text_output.discrepancy(console, row, explanation.uri)
        for change in explanation.history:
            if change["discrepancy_id"] == row["discrepancy_id"]:
                _print_transition(console, change)


def _print_transition(console: Console, row: Row) -> None:
    kinds = " to ".join(dict.fromkeys(filter(None, (row["from_kind"], row["to_kind"]))))
    line = f"{formatting.second(row['at'])} {row['transition']} ({kinds}): {row['reason']}"
    text_output.line(console, text_output.plain(line, "dim"), indent=5)


def _print_answer(console: Console, answer: SourceAnswer) -> None:
    style = {"present": "green", "absent": "red", "deleted": "red"}.get(answer.answer, "yellow")
    head = (
        text_output.plain(answer.source)
        .append(": ")
        .append_text(text_output.plain(_ANSWERS.get(answer.answer, answer.answer), style))
    )
    if answer.reason:
        head.append(" (").append_text(text_output.plain(answer.reason)).append(")")
    text_output.line(console, head, indent=1)
    for line in answer.lines:
        text_output.sentence(console, text_output.plain(line), indent=3)


_ANSWERS = {"absent": "no such file", "not_asked": "not queried"}


def _when(explanation: Explanation) -> str:
    if explanation.run is None:
        return (
            f"No audit could be published yet; {_still_open(explanation)}"
            if explanation.unjudged
            else "No audit has finished yet"
        )
    return f"Findings of run {explanation.run['run_id']}, as of {formatting.second(explanation.run['as_of'])}"


def _print_finding(console: Console, row: Row, explanation: Explanation) -> None:
    text_output.finding(console, row, known=explanation.uri)
    kind = KINDS.get(row["kind"])
    facts = [kind.words if kind else "", *formatting.clauses(row)]
    confirmed = formatting.CONFIRMED.get(row["confirmation"] or "", "")
    facts.append("" if confirmed in (row["explanation"] or "") else confirmed)
    facts.append(recovery.of_finding(row))
    if row["related_key"]:
        other = row["related_key"] if row["related_key"] != explanation.key else row["key"]
        facts.append(f"the other file: {uri_of(explanation.bucket, other)}")
    for side in ("manifest", "metastore", "storage"):
        named = {what: row[f"{side}_{what}"] for what in ("size", "etag", "version_id", "time")}
        known = [
            f"{_FIELDS[what]} {formatting.value(value)}" for what, value in named.items() if value is not None
        ]
        absent = formatting.presence(row).get(side)
        state = f"{absent}: " if absent not in (None, formatting.PRESENT[side]) else ""
        facts.append(f"{formatting.side_label(side)}: {state}{', '.join(known)}" if known else "")
    for fact in filter(None, facts):
        text_output.line(console, text_output.plain(fact, "dim"), indent=3)


_FIELDS = {"size": "size", "etag": "ETag", "version_id": "version id", "time": "time"}


def _print_coverage(console: Console, coverage: Sequence[Row]) -> None:
    """Print how much of each axis was judged; axes with the same reason share a line."""
    by_reason: dict[tuple[str, str], list[Row]] = {}
    for row in coverage:
        by_reason.setdefault((row["table_name"] or formatting.NO_TABLE, row["reason"] or ""), []).append(row)
    if by_reason:
        text_output.title(console, "What was judged")
    for (table, reason), rows in by_reason.items():
        extents: dict[str, list[str]] = {}
        for row in rows:
            extents.setdefault(_extent(row), []).append(axis_words(row["axis"]))
        words = "; ".join(text_output.with_axes(extent, axes) for extent, axes in extents.items())
        line = f"{table}: {words}{f' ({reason})' if reason else ''}"
        text_output.line(console, text_output.plain(line, "dim"), indent=1)


def _extent(row: Row) -> str:
    cell = coverage_view.cell_of(row)
    overtaken = "left to a newer audit, " if row["status"] == "overtaken" else ""
    return f"{overtaken}{text_output.extent(cell)}"


def verdict_line(explanation: Explanation) -> str:
    """Return the worst finding about the file; if it has none, its status in one line."""
    if explanation.is_restored:
        return formatting.visible(
            "RESTORED: storage has the file again, and an audit with --live resolves the discrepancy: "
            f"{explanation.uri}"
        )
    rows = [*explanation.findings, *explanation.groups]
    if explanation.totals:
        number = ", ".join(
            counted_kind(row["kind"], row["findings"], row["files"]) for row in explanation.totals
        )
        return formatting.visible(
            f"{explanation.totals[0]['severity'].upper()}: {number} in {explanation.uri}"
        )
    if rows:
        worst = min(rows, key=lambda row: rank(row["severity"]))
        group = "" if worst in explanation.findings else f", with {formatting.number(worst['files'], 'file')}"
        return formatting.visible(f"{worst['severity'].upper()}: {worst['kind']}{group}: {explanation.uri}")
    if held := explanation.unjudged:
        worst = min(held, key=lambda row: rank(row["severity"]))
        since = f"open since {formatting.second(worst['first_seen_at'])}"
        by = "the last audit did not judge it" if explanation.run else "no audit could be published yet"
        return formatting.visible(
            f"{worst['severity'].upper()}: {worst['kind']}, {since}; {by}: {explanation.uri}"
        )
    if explanation.unknown:
        return formatting.visible(f"UNKNOWN: no source, table or finding knows {explanation.uri}")
    if explanation.run is None:
        return formatting.visible(f"UNDECIDED: no audit has finished yet: {explanation.uri}")
    return formatting.visible(f"{_without_finding(explanation)}: {explanation.uri}")


def _without_finding(explanation: Explanation) -> str:
    """Return the status of a file that the last audit has no finding about."""
    if explanation.is_gone and explanation.listed_by:
        since = _since(explanation)
        return f"GONE: storage does not have the file now, and {explanation.listed_by} lists the file{since}"
    undecided = [row["axis"] for row in explanation.coverage if row["status"] not in ("complete", "off")]
    if undecided or all(row["status"] == "off" for row in explanation.coverage):
        bare = (
            f"the last audit did not cover {explanation.table}" if explanation.table else "no table owns it"
        )
        what = f"{', '.join(map(axis_words, undecided))} only partly judged" if undecided else bare
        return f"UNDECIDED: no finding, but {what}"
    if explanation.is_gone and any(answer.answer == "not_asked" for answer in explanation.sources):
        return (
            "UNDECIDED: storage does not have the file now; --deep shows whether the table lists the file"
            f"{_since(explanation)}"
        )
    return f"OK: no finding of run {explanation.run['run_id'] if explanation.run else ''}"


def _since(explanation: Explanation) -> str:
    """Return the time of the last audit's storage snapshot, in brackets."""
    cuts = [row["storage_cut_from"] for row in explanation.coverage if row["storage_cut_from"] is not None]
    return f" (the last audit judged a snapshot of {formatting.second(min(cuts))})" if cuts else ""
