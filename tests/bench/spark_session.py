"""Starts a session of bare Spark and stops it.

usage: python -m tests.bench.spark_session
"""

import os

from pyspark.sql import SparkSession

from lakeaudit.runtime.java import find_java
from lakeaudit.runtime.spark_settings import launch_environment


def started() -> SparkSession:
    """Start Spark as pip installs it, with the Java and the memory of an audit."""
    os.environ.update(launch_environment(find_java(os.environ)) | {"SPARK_LOCAL_IP": "127.0.0.1"})
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**21
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", f"{memory}m")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    started().stop()
