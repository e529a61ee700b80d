"""Version checksums: what a writer counted of a table, beside what the log lists."""

from tests.builders.group_scenario import checksum, group

DIFFERS = "incomplete_commit"

SCENARIOS = (
    # healthy
    group("checksums", "as many files and bytes as the log lists", "ok", checksum(3, 300)),
    group("checksums", "an empty table", "ok", checksum(0, 0, listed=(0, 0))),
    group("checksums", "a writer that counts files alone", "ok", checksum(3, None)),
    group("checksums", "a writer that counts bytes alone", "ok", checksum(None, 300)),
    group("checksums", "a log that does not say the size of each file", "ok", checksum(3, 300, listed=(3, None))),
    # cannot be told
    group("checksums", "a log with a gap", "undecided", checksum(3, 300, holed=True)),
    group("checksums", "a log with a gap, which lists less", "undecided", checksum(4, 400, holed=True)),
    group("checksums", "a log with a gap, and other bytes", "undecided", checksum(3, 400, holed=True)),
    # findings
    group("checksums", "the log lists less files", DIFFERS, checksum(4, 400)),
    group("checksums", "the log lists more files", DIFFERS, checksum(2, 300)),
    group("checksums", "more files than are listed, not all with a size", DIFFERS, checksum(4, 300, listed=(3, None))),
    group("checksums", "as many files of other sizes", DIFFERS, checksum(3, 301)),
    group("checksums", "other files, and no bytes counted", DIFFERS, checksum(2, None)),
    group("checksums", "other bytes, and no files counted", DIFFERS, checksum(None, 299)),
)  # fmt: skip
