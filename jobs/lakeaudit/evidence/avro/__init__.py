"""Read Avro container files: their records, blocks, and the projection that leaves fields out."""
