"""Who owns a key, asked of Spark: the twin of `keys.owner_of`, and its price for two thousand places."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakeaudit.keys import Location, owner_of
from lakeaudit.longest_prefix_match import attach_label
from lakeaudit.pipeline.dataframes import small

PARTS = st.sampled_from(["orders", "orders_2", "orders%2F", "", "d=1", "a b", "\U0001d4b3", "Ä", ".", "..",
                         "_temporary", "%", "+", "a\nb", "\u2028", "\x00"])  # fmt: skip
PATHS = st.lists(PARTS, max_size=4).map("/".join)
BUCKETS = st.sampled_from(["lake", "lake2", ""])
PLACES = st.lists(
    st.builds(Location, BUCKETS, PATHS.map(lambda path: path.rstrip("/"))), max_size=12, unique=True
)


@given(places=PLACES, objects=st.lists(st.tuples(BUCKETS, PATHS), min_size=20, max_size=60))
@settings(max_examples=8)
def test_spark_and_python_agree_on_every_owner(
    spark: SparkSession, places: list[Location], objects: list[tuple[str, str]]
) -> None:
    labels = {place: f"table {number}" for number, place in enumerate(places)}
    near = [
        (place.bucket, f"{place.key}{end}")
        for place in places
        for end in ("", "/", "/x", "_2/x", "//", "\U0001d4b3")
    ]
    rows = sorted({*objects, *near})
    frame = small(spark, rows, "bucket string, key string")
    found = {(r["bucket"], r["key"]): r["owner"] for r in attach_label(frame, labels, "owner").collect()}
    assert found == {(bucket, key): owner_of(labels, bucket, key) for bucket, key in rows}


def test_without_any_place_nobody_owns_anything(spark: SparkSession) -> None:
    frame = small(spark, [("lake", "a")], "bucket string, key string")
    assert [tuple(row) for row in attach_label(frame, {}, "owner").collect()] == [("lake", "a", None)]


def test_two_thousand_places_cost_one_broadcast_join_for_each_depth(spark: SparkSession) -> None:
    places = {Location("lake", f"wh/t{number}"): f"t{number}" for number in range(1990)}
    places |= {Location("lake", f"wh/deep/er/t{number}"): f"d{number}" for number in range(10)}
    labelled = attach_label(
        spark.range(10).selectExpr("'lake' AS bucket", "concat('wh/t', id, '/x') AS key"), places, "owner"
    )
    plan = (
        labelled._jdf.queryExecution().executedPlan().toString()
    )  # the plan has no door of its own in Python
    assert plan.count("BroadcastHashJoin") == len({place.depth for place in places}) == 2
    assert "NestedLoop" not in plan
    assert "StartsWith" not in plan
    assert "t1989" not in plan
    assert {row["owner"] for row in labelled.collect()} == {f"t{number}" for number in range(10)}
