"""The reasons and the ways out that are printed if Spark does not start."""

import pyspark
import pytest

from lakeaudit.runtime.session import not_started

STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
"""What pyspark 4.1 raised after a master of Spark 4.0 had not answered for a minute."""


@pytest.mark.parametrize(
    ("told", "what", "hint"),
    [
        (
            STOPPED,
            "the master of the cluster did not accept this application",
            f"same version of Spark as here ({pyspark.__version__})",
        ),
        ("no Java", "did not start (no Java)", "`lakeaudit doctor` checks Java"),
    ],
)
def test_the_reason_and_the_way_out(told: str, what: str, hint: str) -> None:
    reason, way_out = not_started(told)
    assert reason == what
    assert hint in way_out
