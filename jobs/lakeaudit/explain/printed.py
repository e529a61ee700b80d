"""`lakeaudit explain`: what is known of one file, for people and for programs."""

import json
from dataclasses import asdict

from rich.console import Console

from lakeaudit import formatting
from lakeaudit.advice.command_lines import operand, option
from lakeaudit.explain import text_output
from lakeaudit.explain.explanation import Explanation
from lakeaudit.explain.source_answers import Said
from lakeaudit.formatting import iso
from lakeaudit.keys import uri_of
from lakeaudit.kinds import KINDS, axis_words, rank
from lakeaudit.report import coverage_view
from lakeaudit.results import recovery
from lakeaudit.results.read import Row
from lakeaudit.runtime.aws import Endpoint


def as_json(told: Explanation) -> str:
    """One object: the explanation's fields, times ISO-8601 with Z."""
    return json.dumps(asdict(told) | {"unknown": told.unknown}, default=iso)


def as_text(console: Console, told: Explanation, lake_file: str, at: Endpoint) -> None:
    """The file, what each source says, what was found and why, what to do, and how far that goes.

    Args:
        console: where it is printed.
        told: what is known.
        lake_file: the lake file as it was typed, for commands.
        at: how the file's bucket is reached.
    """
    text_output.line(console, text_output.plain(told.uri, "bold"))
    text_output.line(
        console, text_output.plain(f"table {told.table}" if told.table else "no table of the lake owns it")
    )
    _asked_now(console, told, lake_file)
    text_output.title(console, _when(told))
    _what_was_found(console, told, at)
    _and_more(console, told, lake_file)
    for row in told.coverage:
        _judged(console, row)
    if told.discrepancies:
        text_output.title(console, "Remembered")
        _remembered(console, told)


def _asked_now(console: Console, told: Explanation, lake_file: str) -> None:
    if told.is_file:
        text_output.title(console, "Asked now")
    for said in told.sources:
        _said(console, said)
    if told.is_back:
        _back(console, told, lake_file)


def _what_was_found(console: Console, told: Explanation, at: Endpoint) -> None:
    for row in [*told.findings, *told.groups]:
        _found(console, row, told)
        if not told.is_back:
            text_output.next_step(console, row, at, told.marker)
    for name in told.files:
        text_output.line(console, text_output.plain(name), indent=5)
    if not told.findings and not told.groups and not (told.run is None and told.held):
        nothing = "nobody knows this file" if told.unknown else "no finding"
        nothing = f"not judged by this run; {_still_open(told)}" if told.held else nothing
        text_output.line(console, text_output.plain(nothing), indent=1)


def _still_open(told: Explanation) -> str:
    """Which run reported what the ledger holds open."""
    return f"a finding of run {told.held[0]['last_run_id']} is still open"


def _and_more(console: Console, told: Explanation, lake_file: str) -> None:
    """How many findings below a folder are not shown, and the command that prints all of its table."""
    rest = sum(row["findings"] for row in told.totals) - len(told.findings)
    if rest > 0:  # a single file has no totals
        table = f" {option('--table', told.table)}" if told.table else ""
        command = f"lakeaudit findings {operand(lake_file)}{table}"
        text_output.line(
            console, text_output.plain(f"and {formatting.count(rest)} more: {command}", "dim"), indent=1
        )


def _back(console: Console, told: Explanation, lake_file: str) -> None:
    """What closes the discrepancy of a file that is there again."""
    table = f" {option('--table', told.table)}" if told.table else ""
    command = f"lakeaudit audit {operand(lake_file)} --live{table}"
    text_output.line(
        console, text_output.plain("back: storage holds it again; this closes it:", "green"), indent=1
    )
    text_output.line(console, text_output.plain(command), indent=3)


def _remembered(console: Console, told: Explanation) -> None:
    for row in told.discrepancies:
        text_output.discrepancy(console, row)
        for change in told.history:
            if change["discrepancy_id"] == row["discrepancy_id"]:
                _changed(console, change)


def _changed(console: Console, row: Row) -> None:
    kinds = " to ".join(dict.fromkeys(filter(None, (row["from_kind"], row["to_kind"]))))
    line = f"{formatting.second(row['at'])} {row['transition']} ({kinds}): {row['reason']}"
    text_output.line(console, text_output.plain(line, "dim"), indent=5)


def _said(console: Console, said: Said) -> None:
    style = {"present": "green", "absent": "red", "deleted": "red"}.get(said.answer, "yellow")
    head = (
        text_output.plain(said.source)
        .append(": ")
        .append_text(text_output.plain(said.answer.replace("_", " "), style))
    )
    if said.reason:
        head.append(" (").append_text(text_output.plain(said.reason)).append(")")
    text_output.line(console, head, indent=1)
    for line in said.lines:
        text_output.line(console, text_output.plain(line), indent=3)


def _when(told: Explanation) -> str:
    if told.run is None:
        return (
            f"No audit could be published yet; {_still_open(told)}"
            if told.held
            else "No audit has finished yet"
        )
    return f"Found by run {told.run['run_id']}, as of {formatting.second(told.run['as_of'])}"


def _found(console: Console, row: Row, told: Explanation) -> None:
    text_output.finding(console, row)
    kind = KINDS.get(row["kind"])
    facts = [kind.words if kind else "", row["explanation"]]
    confirmed = formatting.CONFIRMED.get(row["confirmation"] or "", "")
    facts.append("" if confirmed in (row["explanation"] or "") else confirmed)
    facts.append(recovery.of_finding(row))
    if row["related_key"]:
        other = row["related_key"] if row["related_key"] != told.key else row["key"]
        facts.append(f"the other file: {uri_of(told.bucket, other)}")
    for side in ("manifest", "metastore", "storage"):
        named = {what: row[f"{side}_{what}"] for what in ("size", "etag", "version_id", "time")}
        known = [f"{what} {formatting.value(value)}" for what, value in named.items() if value is not None]
        facts.append(f"{side} said {', '.join(known)}" if known else "")
    for fact in filter(None, facts):
        text_output.line(console, text_output.plain(fact, "dim"), indent=3)


def _judged(console: Console, row: Row) -> None:
    cell = coverage_view.cell_of(row)
    overtaken = "left to a newer audit, " if row["status"] == "overtaken" else ""
    words = f"{cell.percent} judged" if cell.percent else cell.extent
    reason = f": {row['reason']}" if row["reason"] else ""
    told = f"{axis_words(row['axis'])}, {row['table_name']}: {overtaken}{words}{reason}"
    text_output.line(console, text_output.plain(told, "dim"), indent=1)


def verdict_line(told: Explanation) -> str:
    """The worst finding about the file; if it has none, its status in one line."""
    if told.is_back:
        return formatting.visible(
            f"BACK: storage holds it again, and an audit with --live closes it: {told.uri}"
        )
    rows = [*told.findings, *told.groups]
    if told.totals:
        number = ", ".join(f"{formatting.count(row['findings'])} {row['kind']}" for row in told.totals)
        return formatting.visible(f"{told.totals[0]['severity'].upper()}: {number} below {told.uri}")
    if rows:
        worst = min(rows, key=lambda row: rank(row["severity"]))
        group = "" if worst in told.findings else f", with {formatting.number(worst['files'], 'file')}"
        return formatting.visible(f"{worst['severity'].upper()}: {worst['kind']}{group}: {told.uri}")
    if held := told.held:
        worst = min(held, key=lambda row: rank(row["severity"]))
        since = f"open since {formatting.second(worst['first_seen_at'])}"
        by = "the last audit did not judge it" if told.run else "no audit could be published yet"
        return formatting.visible(f"{worst['severity'].upper()}: {worst['kind']}, {since}; {by}: {told.uri}")
    if told.unknown:
        return formatting.visible(f"UNKNOWN: no source, table or finding knows {told.uri}")
    if told.run is None:
        return formatting.visible(f"UNDECIDED: no audit has finished yet: {told.uri}")
    return formatting.visible(f"{_without_finding(told)}: {told.uri}")


def _without_finding(told: Explanation) -> str:
    """What to say of a file that the last audit has no finding about."""
    if told.is_gone and told.listed_by:
        return f"GONE: storage does not have it now, and {told.listed_by} lists it{_since(told)}"
    undecided = [row["axis"] for row in told.coverage if row["status"] not in ("complete", "off")]
    if undecided or all(row["status"] == "off" for row in told.coverage):
        bare = f"the last audit did not cover {told.table}" if told.table else "no table owns it"
        what = f"{', '.join(map(axis_words, undecided))} only partly judged" if undecided else bare
        return f"UNDECIDED: no finding, but {what}"
    if told.is_gone and any(said.answer == "not_asked" for said in told.sources):
        return (
            f"UNDECIDED: storage does not have it now; --deep shows whether the table lists it{_since(told)}"
        )
    return f"OK: no finding of run {told.run['run_id'] if told.run else ''}"


def _since(told: Explanation) -> str:
    """How old the storage snapshot of the last audit is, in brackets."""
    cuts = [row["storage_cut_from"] for row in told.coverage if row["storage_cut_from"] is not None]
    return f" (the last audit judged a snapshot of {formatting.second(min(cuts))})" if cuts else ""
