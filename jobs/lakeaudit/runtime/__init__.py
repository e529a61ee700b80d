"""The ground: Spark session, Python worker, Java, jars, AWS clients, progress."""
