"""Compares a certificate with an audit of the same evidence. Pure.

If the audit could ask storage about single files (live checks), their answers are part of its evidence, and nobody can
get them again: then files may be undecided in the replay that the audit decided.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.certificate.content import LIVE_IDENTITY, covered
from lakeaudit.certificate.refusals import Row
from lakeaudit.certificate.verification import BAD, GOOD, UNKNOWN, Check
from lakeaudit.formatting import number
from lakeaudit.json_documents import Certificate, CertificateCoverage, CertificateEvidence
from lakeaudit.judged import TO_COME

FEW = 10
"""Differences that are printed one by one."""
_FIXED = ("files", "bytes", "table_version", "storage_cut_from", "storage_cut_to")
"""Tallies that no live check changes."""
_DECIDED_LIVE = (
    "status",
    "consistent",
    "findings",
    "ignored",
    "out_of_window",
    "undecided",
    "uncovered",
    "moved_on",
)
Axis = tuple[str, str]


def gone_evidence(stated: Certificate) -> list[Check]:
    """Return a check for each source that was read live, because nobody can read it again."""
    return [
        Check(
            UNKNOWN, f"replay: the {each['role']} {_source_name(each)} was read live, and nothing stores it"
        )
        for each in stated["evidence"]
        if LIVE_IDENTITY.match(each["identity"])
    ]


def _source_name(each: CertificateEvidence) -> str:
    return f"{each['kind']} {each['location']}"


def other_evidence(stated: Certificate, sources: Sequence[Row]) -> list[Check]:
    """Return a check for each source of which the replay read something else than the audit, or nothing."""
    read: dict[tuple[str, str, str], list[str]] = {}
    for source in sources:
        read.setdefault((source["role"], source["kind"], source["location"]), []).append(source["identity"])
    return [
        Check(
            UNKNOWN,
            f"replay: the evidence is not the same: {_source_name(each)} was {each['identity']}, now"
            f" {', '.join(again) or 'it is not read'}",
        )
        for each in stated["evidence"]
        if each["identity"] not in (again := read.get((each["role"], each["kind"], each["location"]), []))
    ]


@dataclass(frozen=True)
class _Difference:
    """A difference of one axis of a table; a live check may explain it, or not."""

    text: str
    may_be_live: bool


def compare_tallies(stated: Certificate, coverage: Collection[Row], *, is_other_lake: bool) -> list[Check]:
    """Compare the tallies of a certificate with the rows of coverage of an audit of the same evidence.

    Upcoming losses are left out: lifecycle rules are read live, and nothing stores them. `is_other_lake`: the lake file
    has changed, so that a difference does not contradict the certificate.
    """
    before = {(row["table"], row["axis"]): row for row in stated["coverage"] if row["axis"] != TO_COME}
    rows = [covered(row) for row in coverage if row["axis"] != TO_COME]
    now = {(row["table"], row["axis"]): row for row in rows}
    checks = [_check(each, stated, is_other_lake=is_other_lake) for each in _differences(before, now)]
    if not checks:
        about = f"{len(before)} rows of tallies of {number(len({table for table, _ in before}), 'table')}"
        same = f"replay: the same evidence gives the same {about}"
        return [
            Check(GOOD, f"{same}, without upcoming losses: nothing stores the lifecycle rules of that time")
        ]
    checks.sort(key=lambda each: each.answer != BAD)
    more = len(checks) - FEW
    return [
        *checks[:FEW],
        *([Check(checks[0].answer, f"replay: {number(more, 'more difference')}")] if more > 0 else []),
    ]


def _check(difference: _Difference, stated: Certificate, *, is_other_lake: bool) -> Check:
    if is_other_lake:
        return Check(UNKNOWN, f"replay: {difference.text}; the lake file has changed since the certificate")
    if stated["has_live_checks"] and difference.may_be_live:
        return Check(
            UNKNOWN, f"replay: {difference.text}; live checks of the audit may have decided these files"
        )
    return Check(BAD, f"replay: {difference.text}")


def _differences(
    before: Mapping[Axis, CertificateCoverage], now: Mapping[Axis, CertificateCoverage]
) -> Iterator[_Difference]:
    for about in sorted(before.keys() | now.keys()):
        old, new = before.get(about), now.get(about)
        name = f"{about[0]}: {about[1]}"
        if old is None or new is None:
            where = "the certificate" if new is None else "the replay"
            yield _Difference(f"{name}: only {where} has this axis", may_be_live=False)
            continue
        for group, may_be_live in ((_FIXED, False), (_DECIDED_LIVE, True)):
            if changed := [each for each in group if old[each] != new[each]]:  # type: ignore[literal-required]
                values = ", ".join(f"{each} {old[each]} is now {new[each]}" for each in changed)  # type: ignore[literal-required]
                yield _Difference(f"{name}: {values}", may_be_live)
