"""Files of which something cannot be told: gaps in the log, unclear versions, places that no source covers."""

from tests.builders.evidence import ago, claim, stored
from tests.builders.scenario import Row, Storage, after, case, unclear

A, B = "orders/a", "orders/b"
LOG = "orders/_delta_log/00000000000000000005.json"
MD5 = "0cc175b9c0f1b6a831c399e269772661"
OTHER_MD5 = "92eb5ffee6ae2fec3ad71c777531578f"
WELL = "content ok, duplicate ok, leftover ok"

UNSURE_WAYS: tuple[tuple[str, Row, Row], ...] = (
    ("another size", {}, {"size": 7}),
    ("another content", {"etag": MD5}, {"etag": OTHER_MD5}),
    ("another version", {"version_id": "v1"}, {"version_id": "v2"}),
)

UNSURE = (
    *(case(f"{what}, claimed after the cut, where a gap in the log may have added it anew",
           "content undecided, duplicate ok, leftover ok",
           claims=[claim(A, certain=False, claimed_at=after(1), **claimed)], objects=[stored(A, **found)])
      for what, claimed, found in (*UNSURE_WAYS, ("archived", {}, {"archived": True}))),
    *(case(f"{what}, written after the cut, where a gap in the log may have added it anew",
           "content undecided, duplicate young, leftover ok",
           claims=[claim(A, certain=False, **claimed)], objects=[stored(A, modified_at=after(1), **found)])
      for what, claimed, found in (*UNSURE_WAYS, ("nothing else known", {}, {}))),
    *(case(f"a new version with the writer's ETag, {what}", f"content ok, duplicate {same}, leftover ok",
           claims=[claim(A, version_id="v1", etag=MD5, **claimed)], objects=[stored(A, version_id="v2",
           **found)])
      for what, same, claimed, found in (
          ("where a gap in the log may have added it anew", "ok", {"certain": False}, {}),
          ("claimed after the cut", "ok", {"claimed_at": after(1)}, {}),
          ("written after the cut", "young", {}, {"modified_at": after(1)}))),
    *(case(f"history of another size, {what}: readers of the newest state do not care",
           "content ok, leftover ok",
           claims=[claim(A, state="history", removed_at=after(3), **claimed)], objects=[stored(A, size=7,
           **found)])
      for what, claimed, found in (
          ("where a gap in the log may have added it anew", {"certain": False}, {}),
          ("claimed after the cut", {"claimed_at": after(1)}, {}),
          ("written after the cut", {}, {"modified_at": after(1)}))),
    case("absent, claimed after the cut, where a gap in the log may have removed it",
         "content undecided, duplicate ok",
         claims=[claim(A, certain=False, claimed_at=after(1))]),
    case("a log file absent where a gap in the log may have replaced it", "content undecided, duplicate ok",
         claims=[claim(LOG, category="log", certain=False)]),
    case("vacuumed by the log's own word, which has a gap", "content undecided",
         claims=[claim(A, state="history", removed_at=ago(30), explained=True, certain=False)]),
    case("swept as if by a VACUUM, in a log with a gap", "content undecided",
         claims=[claim(A, state="history", removed_at=ago(30), certain=False)]),
    case("vacuumed by the log's own word, and the inventory cannot tell", "content undecided",
         claims=[claim(A, state="history", removed_at=ago(30), explained=True)],
         objects=[unclear(A)]),
    case("swept as if by a VACUUM but for one of which the inventory cannot tell",
         {A: "content undecided", B: "content ok"},
         claims=[claim(A, state="history", removed_at=ago(60)), claim(B, state="history", removed_at=ago(50))],
         objects=[unclear(A)]),
    case("removed for good, in a place that no inventory covers", {A: ""},
         claims=[claim(A, state="gone", removed_at=ago(24 * 20))], storage=[]),
)  # fmt: skip

UNTOLD = (
    case("a key without exactly one latest version", "content undecided, duplicate ok",
         claims=[claim(A)], objects=[unclear(A)]),
    case("a bucket that no inventory covers", "content uncovered, duplicate uncovered",
         claims=[claim(A)], storage=[Storage(covers=("events",))]),
    case("no storage source at all", "content uncovered, duplicate uncovered", claims=[claim(A)], storage=[]),
    case("history in a place that is not covered", "content uncovered",
         claims=[claim(A, state="history", removed_at=ago(30))], storage=[]),
    case("the key an inventory covers says nothing of its neighbour's prefix",
         {"orders/x/a": WELL, "orders/y/a": "content uncovered, duplicate uncovered"},
         claims=[claim("orders/x/a"), claim("orders/y/a")], objects=[stored("orders/x/a")],
         storage=[Storage(covers=("orders/x",))]),
    case("two inventories: the younger cut decides, here absent", "content dropped, duplicate ok",
         claims=[claim(A, claimed_at=ago(72))], objects=[stored(A)],
         storage=[Storage(cut=ago(24)), Storage()]),
    case("two inventories: the younger cut decides, here present", WELL,
         claims=[claim(A)], objects=[stored(A, source="storage:1")], storage=[Storage(cut=ago(24)), Storage()]),
    case("a younger listing of another prefix leaves the inventory's word", "content dropped, duplicate ok",
         claims=[claim(A)], storage=[Storage(), Storage(cut=after(1), covers=("events",))]),
    case("absent, where a gap in the log may have removed it", "content undecided, duplicate ok",
         claims=[claim(A, certain=False)]),
    case("absent, and the claim does not say whether it is certain", "content undecided, duplicate ok",
         claims=[claim(A, certain=None)]),
    case("present, where a gap in the log may have removed it: nothing is wrong with it", WELL,
         claims=[claim(A, certain=False)], objects=[stored(A)]),
    case("another size, where a gap in the log may have added it anew",
         "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, certain=False)], objects=[stored(A, size=7)]),
    case("another content, where a gap in the log may have added it anew",
         "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, certain=False, etag=MD5)], objects=[stored(A, etag=OTHER_MD5)]),
    case("archived, where a gap in the log may have removed it", "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, certain=False)], objects=[stored(A, archived=True)]),
    case("another version, where a gap in the log may have added it anew",
         "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, certain=False, version_id="v1")], objects=[stored(A, version_id="v2")]),
    case("written again, where a gap in the log may have added it anew",
         "content undecided, duplicate ok, leftover ok",
         claims=[claim(A, certain=False)], objects=[stored(A, modified_at=ago(20))]),
)  # fmt: skip

SCENARIOS = (*UNTOLD, *UNSURE)
