"""Print the explanation of one file for `lakeaudit explain`, as text or JSON."""

import json
from dataclasses import asdict

from rich.console import Console

from lakeaudit import formatting
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.explain import text_output
from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.source_answers import SourceAnswer
from lakeaudit.formatting import iso
from lakeaudit.keys import uri_of
from lakeaudit.kinds import KINDS, axis_words, rank
from lakeaudit.report import coverage_view
from lakeaudit.results import recovery
from lakeaudit.results.read import Row
from lakeaudit.runtime.aws import Endpoint


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
            f"table {explanation.table}" if explanation.table else "no table of the lake owns it"
        ),
    )
    _print_sources(console, explanation, lake_file)
    text_output.title(console, _when(explanation))
    _print_findings(console, explanation, at)
    _print_rest(console, explanation, lake_file)
    for row in explanation.coverage:
        _print_coverage(console, row)
    if explanation.discrepancies:
        text_output.title(console, "Ledger")
        _print_ledger(console, explanation)


def _print_sources(console: Console, explanation: Explanation, lake_file: str) -> None:
    if explanation.is_file:
        text_output.title(console, "Sources now")
    for answer in explanation.sources:
        _print_answer(console, answer)
    if explanation.is_restored:
        _print_restored(console, explanation, lake_file)


def _print_findings(console: Console, explanation: Explanation, at: Endpoint) -> None:
    for row in [*explanation.findings, *explanation.groups]:
        _print_finding(console, row, explanation)
        if not explanation.is_restored:
            text_output.next_step(console, row, at, explanation.marker)
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
    """Print the number of further findings below a folder, and the command that prints them."""
    rest = sum(row["findings"] for row in explanation.totals) - len(explanation.findings)
    if rest > 0:  # a single file has no totals
        table = f" {option('--table', explanation.table)}" if explanation.table else ""
        command = f"lakeaudit findings {operand(lake_file)}{table}"
        text_output.line(
            console, text_output.plain(f"and {formatting.count(rest)} more: {command}", "dim"), indent=1
        )


def _print_restored(console: Console, explanation: Explanation, lake_file: str) -> None:
    """Print the command that resolves the discrepancy of a restored file."""
    table = f" {option('--table', explanation.table)}" if explanation.table else ""
    command = f"lakeaudit audit {operand(lake_file)} --live{table}"
    text_output.line(
        console, text_output.plain("restored: storage has it again; this resolves it:", "green"), indent=1
    )
    text_output.line(console, text_output.plain(command), indent=3)


def _print_ledger(console: Console, explanation: Explanation) -> None:
    for row in explanation.discrepancies:
        text_output.discrepancy(console, row)
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
        .append_text(text_output.plain(answer.answer.replace("_", " "), style))
    )
    if answer.reason:
        head.append(" (").append_text(text_output.plain(answer.reason)).append(")")
    text_output.line(console, head, indent=1)
    for line in answer.lines:
        text_output.line(console, text_output.plain(line), indent=3)


def _when(explanation: Explanation) -> str:
    if explanation.run is None:
        return (
            f"No audit could be published yet; {_still_open(explanation)}"
            if explanation.unjudged
            else "No audit has finished yet"
        )
    return f"Findings of run {explanation.run['run_id']}, as of {formatting.second(explanation.run['as_of'])}"


def _print_finding(console: Console, row: Row, explanation: Explanation) -> None:
    text_output.finding(console, row)
    kind = KINDS.get(row["kind"])
    facts = [kind.words if kind else "", row["explanation"]]
    confirmed = formatting.CONFIRMED.get(row["confirmation"] or "", "")
    facts.append("" if confirmed in (row["explanation"] or "") else confirmed)
    facts.append(recovery.of_finding(row))
    if row["related_key"]:
        other = row["related_key"] if row["related_key"] != explanation.key else row["key"]
        facts.append(f"the other file: {uri_of(explanation.bucket, other)}")
    for side in ("manifest", "metastore", "storage"):
        named = {what: row[f"{side}_{what}"] for what in ("size", "etag", "version_id", "time")}
        known = [f"{what} {formatting.value(value)}" for what, value in named.items() if value is not None]
        facts.append(f"{side}: {', '.join(known)}" if known else "")
    for fact in filter(None, facts):
        text_output.line(console, text_output.plain(fact, "dim"), indent=3)


def _print_coverage(console: Console, row: Row) -> None:
    cell = coverage_view.cell_of(row)
    overtaken = "left to a newer audit, " if row["status"] == "overtaken" else ""
    words = f"{cell.percent} judged" if cell.percent else cell.extent
    reason = f": {row['reason']}" if row["reason"] else ""
    explanation = f"{axis_words(row['axis'])}, {row['table_name']}: {overtaken}{words}{reason}"
    text_output.line(console, text_output.plain(explanation, "dim"), indent=1)


def verdict_line(explanation: Explanation) -> str:
    """Return the worst finding about the file; if it has none, its status in one line."""
    if explanation.is_restored:
        return formatting.visible(
            f"RESTORED: storage has it again, and an audit with --live resolves it: {explanation.uri}"
        )
    rows = [*explanation.findings, *explanation.groups]
    if explanation.totals:
        number = ", ".join(f"{formatting.count(row['findings'])} {row['kind']}" for row in explanation.totals)
        return formatting.visible(
            f"{explanation.totals[0]['severity'].upper()}: {number} below {explanation.uri}"
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
        return (
            f"GONE: storage does not have it now, and {explanation.listed_by} lists it{_since(explanation)}"
        )
    undecided = [row["axis"] for row in explanation.coverage if row["status"] not in ("complete", "off")]
    if undecided or all(row["status"] == "off" for row in explanation.coverage):
        bare = (
            f"the last audit did not cover {explanation.table}" if explanation.table else "no table owns it"
        )
        what = f"{', '.join(map(axis_words, undecided))} only partly judged" if undecided else bare
        return f"UNDECIDED: no finding, but {what}"
    if explanation.is_gone and any(answer.answer == "not_asked" for answer in explanation.sources):
        return f"UNDECIDED: storage does not have it now; --deep shows whether the table lists it{_since(explanation)}"
    return f"OK: no finding of run {explanation.run['run_id'] if explanation.run else ''}"


def _since(explanation: Explanation) -> str:
    """Return the time of the last audit's storage snapshot, in brackets."""
    cuts = [row["storage_cut_from"] for row in explanation.coverage if row["storage_cut_from"] is not None]
    return f" (the last audit judged a snapshot of {formatting.second(min(cuts))})" if cuts else ""
