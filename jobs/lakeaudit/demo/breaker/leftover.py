"""Acts that leave unused files behind."""

from lakeaudit.demo.breaker.faults import Expected, Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site, Table, folder_of

ORDERLY = ("vacuumed", "vectors", "history", "open", "cleaned", "events", "uploads")
"""Roles of tables whose manifest names every file, so that any other file is unused."""


def stray_data_file(site: Site) -> Fault:
    """A job dies after it wrote a data file and before it committed."""
    folder = folder_of(site.pick(site.live_files(*ORDERLY)))
    key = site.new_key(folder)
    site.put(key, b"PAR1" + site.rng.randbytes(2000) + b"PAR1")
    return _fault(site, "stray_data_file", f"wrote {key} without a commit", _unlisted(site, key), key)


def copy_in_partition(site: Site) -> Fault:
    """A manual retry: a data file is copied to a new name in the same folder."""
    source = site.pick([key for key in site.live_files(*ORDERLY) if site.objects[key]["size"] >= 4096])
    key = site.new_key(folder_of(source))
    site.put(key, site.body(source))
    owner = site.owner(key)
    kind = _unlisted(site, key)
    twice = kind == "stale_visible"  # readers of a log do not read it
    double = Expected("duplicate", "duplicate_content", owner.name, key)
    expected = (Expected("leftover", kind, owner.name, key), *([double] if twice else []))
    return Fault("copy_in_partition", f"copied {source} to {key}", expected)


def copy_to_other_partition(site: Site) -> Fault:
    """A data file is copied into another partition of its table: not a duplicate there, but unused."""
    source = site.pick(site.live_files("vacuumed", "history", "events"))
    table = site.owner(source)
    others = {folder_of(key) for key in site.claims(table) if key.startswith(table.location)} - {
        folder_of(source)
    }
    key = site.new_key(site.rng.choice(sorted(others)))
    site.put(key, site.body(source))
    return _fault(site, "copy_to_other_partition", f"copied {source} to {key}", _unlisted(site, key), key)


def move_half_a_folder(site: Site) -> Fault:
    """A folder is renamed by copying all files and deleting the old ones; the client dies while it copies."""
    folder = site.pick_folder(site.live_files("events", "uploads"))
    table = site.owner(folder)
    files = sorted(key for key in site.claims(table) if folder_of(key) == folder)
    target = f"{folder.rstrip('/')}-moved-{site.rng.getrandbits(32):08x}/"
    copied = [target + key.removeprefix(folder) for key in files[: max(2, len(files) // 2)]]
    site.taken.update([target, *copied])
    for source, key in zip(files, copied, strict=False):
        site.put(key, site.body(source))
    expected = tuple(Expected("leftover", "stale_visible", table.name, key) for key in copied)
    moved = Expected("duplicate", "half_moved", table.name, target)
    what = f"copied {len(copied)} of {len(files)} files of {folder} to {target}"
    return Fault("move_half_a_folder", what, (moved, *expected))


def stray_deletion_vector(site: Site) -> Fault:
    """A DELETE dies between its deletion vector and its commit."""
    table = site.table("vectors")
    key = site.new_key(f"{table.location}/", "deletion_vector_{}.bin")
    site.put(key, b"\x01" + site.rng.randbytes(60))
    return _fault(site, "stray_deletion_vector", f"wrote {key} without a commit", "uncommitted", key)


def leave_task_attempt(site: Site) -> Fault:
    """A job dies and leaves temporary files of FileOutputCommitter."""
    return _temporary(
        site, "leave_task_attempt", "_temporary/0/_temporary/attempt_{}_m_000003_0/part-00003.snappy.parquet"
    )


def leave_magic_file(site: Site) -> Fault:
    """A job dies and leaves files of the magic committer."""
    return _temporary(
        site, "leave_magic_file", "__magic_job-{}/tasks/attempt_000001_0/__base/part-00001.pending"
    )


def leave_spark_staging(site: Site) -> Fault:
    """A dynamic partition overwrite of Spark is interrupted."""
    return _temporary(site, "leave_spark_staging", ".spark-staging-{}/day=1/part-00000.snappy.parquet")


def leave_hive_staging(site: Site) -> Fault:
    """A Hive INSERT is interrupted."""
    return _temporary(site, "leave_hive_staging", ".hive-staging_hive_{}/-ext-10000/000000_0")


def leave_impala_staging(site: Site) -> Fault:
    """An Impala INSERT is interrupted."""
    return _temporary(site, "leave_impala_staging", "_impala_insert_staging/{}/000000_0.parq")


def leave_half_copy(site: Site) -> Fault:
    """`hadoop fs -put` is interrupted: the bytes of a live file have a name that readers ignore."""
    source = site.pick(site.live_files(*ORDERLY))
    key = site.new_key(folder_of(source), "part-{}.snappy.parquet._COPYING_")
    site.put(key, site.body(source))
    return _fault(site, "leave_half_copy", f"copied {source} to {key}", "temporary", key)


def bring_back_vacuumed(site: Site) -> Fault:
    """A file that the table removed and a VACUUM deleted is undeleted; the log still has its removal."""
    table = site.table("vacuumed")
    key = site.pick([key for key in _vacuumed(site, table) if key in site.log(table).removed])
    site.undelete(key, site.vacuumed[key])
    return _fault(
        site,
        "bring_back_vacuumed",
        f"removed the delete marker of {key}, which its table no longer lists",
        "unvacuumed",
        key,
    )


def bring_back_forgotten(site: Site) -> Fault:
    """The same after the log was cleaned up: no readable record mentions the file."""
    table = site.table("cleaned")
    key = site.pick([key for key in _vacuumed(site, table) if key not in site.log(table).removed])
    site.undelete(key, site.vacuumed[key])
    return _fault(
        site,
        "bring_back_forgotten",
        f"removed the delete marker of {key}, which its table no longer lists",
        "unreferenced",
        key,
    )


def begin_upload(site: Site) -> Fault:
    """A multipart upload is started, gets a part, and is never completed."""
    key = site.new_key(f"{site.table('uploads').location}/", "clicks-{}.json.gz")
    upload = site.s3.create_multipart_upload(Bucket=site.bucket, Key=key)["UploadId"]
    site.s3.upload_part(Bucket=site.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"[")
    return _fault(site, "begin_upload", f"started an upload of {key}", "unfinished_upload", key)


def _fault(site: Site, act: str, what: str, kind: str, key: str) -> Fault:
    return Fault(act, what, (Expected("leftover", kind, site.owner(key).name, key),))


def _unlisted(site: Site, key: str) -> str:
    """Return the kind of an unlisted data file: readers of a log ignore it, readers of a folder read it."""
    return "stale_visible" if site.owner(key).kind == "file_list" else "uncommitted"


def _temporary(site: Site, act: str, name: str) -> Fault:
    roles = (*ORDERLY, "nested")
    table = site.rng.choice([table for table in site.tables.values() if table.role in roles])
    key = site.new_key(f"{table.location}/", name)
    site.put(key, site.rng.randbytes(300))
    return _fault(site, act, f"wrote the temporary file {key} and left it there", "temporary", key)


def _vacuumed(site: Site, table: Table) -> list[str]:
    keys = sorted(k for k in site.vacuumed if k.startswith(f"{table.location}/") and k not in site.taken)
    if not keys:
        raise NoVictim
    return keys
