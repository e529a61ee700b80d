"""Scenarios judged in plain Python: the twin of judge, live check, vacuums and verdicts.

It shares the facts and the rules with the product and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.matching.recent_files import YOUNG
from lakeaudit.rules import file_rules
from lakeaudit.rules.expr import Expr
from lakeaudit.rules.file_facts import ALL_FACTS, TREE_FACTS
from tests.builders.scenario import NOW, ZERO, Row, Scenario
from tests.builders.twin_groups import same_content, undecided_copies, unfinished_uploads
from tests.builders.twin_match import deciding, pair_rows
from tests.builders.twin_tree import tree_rows


def judged(s: Scenario) -> dict[tuple[str, str], dict[str, str]]:
    """{(judged table, key): {axis: verdict}} of a scenario, as the rules say; the axis `none` answers are left out."""
    return by_subject(
        (name, key, axis, verdict_text(rule)) for name, key, axis, rule in _fired(s, pair_rows(s))
    )


def verdict_text(rule: file_rules.Rule) -> str:
    """A verdict in a scenario's words: the kind, with its severity where the rule gives one of its own."""
    return f"{rule.verdict}:{rule.severity}" if rule.severity else rule.verdict


def by_subject(rows: Iterable[tuple[str, str, str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Rows (table, key, axis, verdict) as {(table, key): {axis: verdict}}; an axis answers once or not at all."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for table_name, key, axis, verdict in rows:
        if verdict != file_rules.NONE:
            found.setdefault((table_name, key), {})[axis] = verdict
    return found


Fired = tuple[str, str, str, file_rules.Rule]


def _fired(s: Scenario, pairs: Sequence[Row]) -> Iterator[Fired]:
    for subject in subjects(s, pairs):
        yield (subject.table, subject.row["key"], subject.axis, subject.fired())
    for axis, rule, found in (("duplicate", "duplicate.same_content", same_content(s, pairs)),
                              ("duplicate", "duplicate.alike", undecided_copies(s, pairs)),
                              ("leftover", "leftover.unfinished_upload", unfinished_uploads(s))):  # fmt: skip
        yield from ((table_name, key, axis, file_rules.RULES[rule]) for table_name, key in found)


@dataclass(frozen=True)
class Subject:
    """One question of one axis: the row as matched, with all gaps and vacuums, and with the live answer of storage."""

    axis: str
    table: str
    row: Row
    known: Row
    again: Row
    facts: Callable[[Row], dict[str, bool]]

    def fired(self, given: Mapping[str, tuple[file_rules.Rule, ...]] = file_rules.AXES) -> file_rules.Rule:
        """Return the rule that fires: at the match, or after the confirmation where the match gives a finding."""
        return file_rules.judge(given[self.axis], self.facts(self.evidence()))

    def evidence(self) -> Row:
        """Return all final facts of the subject: findings and recent files are confirmed."""
        first = file_rules.judge(file_rules.AXES[self.axis], self.facts(self.row))
        return self.again if first.is_finding or self._is_recent(first) else self.row

    def _is_recent(self, first: file_rules.Rule) -> bool:
        """Return whether it is too young for the evidence and old enough for a live check."""
        if self.axis != "content" or first.id not in YOUNG or self.row["c_state"] != "live":
            return False
        return bool(self.row["c_certain"]) and self.row["c_claimed_at"] + self.row["t_grace"] <= NOW


def facts_by_row(expressions: Mapping[str, Expr]) -> Callable[[Row], dict[str, bool]]:
    """Return a function that computes the facts of a row once: the axes of a pair have the same rows."""
    computed: list[tuple[Row, dict[str, bool]]] = []

    def facts(row: Row) -> dict[str, bool]:
        for known, of_known in computed:
            if known is row:
                return of_known
        computed.append((row, file_rules.facts_of(row, expressions)))
        return computed[-1][1]

    return facts


def subjects(s: Scenario, pairs: Sequence[Row]) -> Iterator[Subject]:
    """Yield every question about the rows of a scenario."""
    assumed = assumed_vacuums(pairs)
    for row in pairs:
        known = row | _known_late(s, row, assumed)
        again = known | _with_answer(row, s.live.get(row["key"]))
        asked = {"content": row["table_name"], "duplicate": row["table_name"] or row["owner"]}
        asked |= dict.fromkeys(("leftover", "metastore"), row["owner"] if row["first"] else None)
        facts = facts_by_row(ALL_FACTS)
        for axis, name in asked.items():
            if name is not None:
                yield Subject(axis, name, row, known, again, facts)
    for row in tree_rows(s, pairs):
        yield Subject("metastore_tree", row["owner"], row, row, row, facts_by_row(TREE_FACTS))


def _known_late(s: Scenario, row: Row, assumed: set[str]) -> Row:
    """Return evidence gaps and assumed vacuums, which are known only after all evidence was read."""
    number = deciding(s, row["key"])
    return {
        "h_storage": number is not None and s.storage[number].holed,
        "h_metastore": s.store is not None and s.store.holed,
        "v_assumed": row["table_name"] in assumed,
    }


def _with_answer(row: Row, answer: Row | None) -> Row:
    """Return the row with the live answer of storage in place of the storage snapshot."""
    if answer is None or answer["l_confirmation"] != "live":
        return {"l_confirmation": answer["l_confirmation"]} if answer else {}
    seen = (
        "presence",
        "size",
        "etag",
        "version_id",
        "modified_at",
        "storage_class",
        "archived",
        "multipart",
        "encryption",
        "checksum",
        "versus_claimed",
        "footer_fault",
    )
    at = answer["l_at"]
    return {f"s_{name}": answer.get(f"l_{name}") for name in seen} | {
        "l_confirmation": "live",
        "s_from": at,
        "s_margin": ZERO,
        "m_from": max(at, row["m_from"]) if row["m_from"] else at,
    }


def assumed_vacuums(pairs: Sequence[Row]) -> set[str]:
    """Tables where every removal at least as old as the youngest absent one is absent too, unless by chance.

    A single absent file counts only if its removal had passed the retention before the cutoff.
    """
    found = set()
    for name in {row["table_name"] for row in pairs}:
        removed = [
            r
            for r in pairs
            if r["table_name"] == name and r["c_state"] in ("history", "gone") and r["c_removed_at"]
        ]
        absent = [r for r in removed if r["c_state"] == "history" and r["s_presence"] == "absent"
                  and not r["c_explained"]]  # fmt: skip
        present = [r["c_removed_at"] for r in removed if r["s_presence"] == "present"]
        expired = [r for r in absent if r["c_removed_at"] + r["o_retention"] <= r["s_from"] - r["s_margin"]]
        youngest = max((r["c_removed_at"] for r in absent), default=None)
        if youngest and (len(absent) > 1 or expired) and all(at > youngest for at in present):
            found.add(name)
    return found
