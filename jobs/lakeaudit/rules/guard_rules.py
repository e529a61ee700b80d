"""Defines the rules of `guard`: whether an object may be deleted. The first rule that matches decides.

Only FREE is safe. A reason why an object is needed comes before every doubt, and every doubt comes before FREE.
"""

from collections.abc import Mapping
from datetime import timedelta

from lakeaudit import keys
from lakeaudit.rules.expr import Expr, col, first_known
from lakeaudit.rules.rule import Rule, ordered

FREE, ABSENT, UNKNOWN = "free", "absent", "unknown"
LIVE, REFERENCED, PROMISED, BEING_WRITTEN = "live", "referenced", "promised", "being_written"
STATUSES = (LIVE, REFERENCED, PROMISED, BEING_WRITTEN, UNKNOWN, FREE, ABSENT)
"""All answers, the one that protects most first: it holds if a line may name several objects."""
NEEDED = (LIVE, REFERENCED, PROMISED, BEING_WRITTEN)

PLAIN_NAME = rf"^[A-Za-z0-9._/=:@~,!-]+{keys.END}"
"""Names that every program reads in the same way: without spaces, quotes, escapes, patterns and other letters."""

_age = col("modified_at") + col("o_leftover_age")
_none = timedelta(0)

FACTS: Mapping[str, Expr] = {
    "live": col("r_live_table").is_known(),
    "here": first_known(col("r_live_here"), False),
    "data": col("r_category").among("data", "deletes", "changes", "log").sure(),
    "history": col("r_history_table").is_known(),
    "statistics": col("r_category").is_("statistics").sure(),
    "gone": first_known(col("r_gone"), False),
    "read": col("r_read").is_known(),
    "doubted": col("r_unknown").is_known(),
    "present": col("presence").is_("present").sure(),
    "absent": col("presence").is_("absent").sure(),
    "folder": first_known(col("is_folder"), False),
    "plain_name": (col("key").matches(PLAIN_NAME) & ~first_known(col("relative"), False)).sure(),
    "owned": col("owner").is_known(),
    "complete": first_known(col("o_complete"), False),
    "by_folder": (col("o_by_folder") & col("name_category").is_("data")).sure(),
    "by_outer_folder": (col("o_by_outer_folder") & col("name_category").is_("data")).sure(),
    "own_metadata": col("name_category").among("log", "other").sure(),
    "dated": col("modified_at").is_known(),
    "old": (
        (~first_known(col("by_parts"), True) & (_age <= col("now")))
        | (_age + col("o_max_upload") <= col("now"))
    ).sure(),
    "older_than_commits": (col("modified_at") + first_known(col("o_longest"), _none) <= col("now")).sure(),
}
"""The facts about one GUARDED row."""

GUARD: tuple[Rule, ...] = ordered(
    "guard",
    ("live", "live here data", LIVE, "the newest version of the table lists it"),
    ("named", "live here", REFERENCED, "the newest metadata of the table names it"),
    ("shared", "live", REFERENCED, "a table at another location lists it in its newest version"),
    ("statistics", "history statistics", REFERENCED, "the metadata of the table names it as statistics"),
    ("promised", "history", PROMISED, "an older version that readers may still request lists it"),
    ("folder", "folder", UNKNOWN, "it is a folder or the beginning of other names: list its files, or end it with a /"),
    ("odd_name", "absent !plain_name", UNKNOWN,
     "storage has no such object, and a program that deletes the files may read this text differently"),
    ("absent", "absent", ABSENT, "storage has no such object"),
    ("read", "read", REFERENCED, "a program has read it recently"),
    ("visible", "present by_folder owned !gone", LIVE, "programs that list the folder read it as data"),
    ("visible_around", "present by_outer_folder", LIVE, "programs that list a folder around it read it as data"),
    ("young", "owned present dated !old", BEING_WRITTEN,
     "it is younger than the leftover_age of the table, so a commit may still add it"),
    ("in_commit", "owned present dated !older_than_commits", BEING_WRITTEN,
     "it is younger than the longest of the last commits of the table, so a commit may still add it"),
    ("doubted", "doubted", UNKNOWN, "a table that may need it could not be read completely"),
    ("no_owner", "!owned", UNKNOWN, "no table of the lake file contains this location"),
    ("own_metadata", "own_metadata", UNKNOWN, "it belongs to the log or the metadata of the table"),
    ("no_manifest", "!complete", UNKNOWN, "no manifest lists all files of the table"),
    ("not_looked_at", "!present", UNKNOWN, "storage did not show whether it exists"),
    ("undated", "!dated", UNKNOWN, "storage did not show when it was written"),
    ("free", "", FREE, "no table needs it, and all tables that could were read completely"),
)  # fmt: skip
"""`unclassified`, the last row, is never reached: `free` has no condition."""
