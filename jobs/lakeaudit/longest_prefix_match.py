"""Who owns a key, answered by Spark for every row: the twin of `keys.owner_of`."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.keys import Location
from lakeaudit.pipeline.dataframes import small


def attach_label(frame: DataFrame, places: Mapping[Location, str], column: str) -> DataFrame:
    """Add `column`: the label of the longest of `places` that holds (bucket, key), else null.

    One broadcast hash look-up for each depth at which places lie (mostly one), however many places there are.
    """
    for depth in sorted({place.depth for place in places}):
        at_depth = [(p.bucket, p.key, label) for p, label in places.items() if p.depth == depth]
        frame = _look_up(frame, at_depth, depth, _hit(column, depth))
    hits = [_hit(column, depth) for depth in sorted({p.depth for p in places}, reverse=True)]
    label = F.coalesce(*[F.col(hit) for hit in hits]) if hits else F.lit(None).cast("string")
    return frame.withColumn(column, label).drop(*hits)


def _hit(column: str, depth: int) -> str:
    return f"__{column}_{depth}"


def _look_up(frame: DataFrame, places: Iterable[tuple[str, str, str]], depth: int, hit: str) -> DataFrame:
    schema = "__bucket string, __place string, __label string"
    known = small(frame.sparkSession, list(places), schema).withColumnRenamed("__label", hit)
    folder = F.substring_index("key", "/", depth) if depth else F.lit("")
    inside = F.length("key") > F.length(folder) if depth else F.lit(True)
    condition = (F.col("bucket") == F.col("__bucket")) & (folder == F.col("__place")) & inside
    return frame.join(F.broadcast(known), condition, "left").drop("__bucket", "__place")
