"""Lists all acts, and draws some of them for a lake."""

from collections.abc import Callable

from lakeaudit.demo.breaker import (
    commit_faults,
    content,
    leftover,
    list_faults,
    metastore,
    rewrites,
    state_faults,
    tree,
)
from lakeaudit.demo.breaker.faults import Fault, NoVictim
from lakeaudit.demo.breaker.lake_state import Site

Act = Callable[[Site], Fault]

CATALOGUE: tuple[Act, ...] = (
    content.delete_live_file,
    content.purge_live_file,
    content.delete_and_tell_the_store,
    content.delete_recorded_file,
    content.lose_in_commit,
    content.delete_deletion_vector,
    content.truncate_deletion_vector,
    content.delete_under_clone,
    content.remove_under_clone,
    content.vacuum_under_clone,
    content.delete_history_file,
    content.sweep_history,
    content.leave_out_of_reports,
    content.let_files_expire,
    content.let_large_files_be_archived,
    content.let_versions_expire,
    content.truncate_file,
    content.append_to_file,
    content.empty_file,
    content.archive_file,
    content.deep_archive_file,
    content.cool_recorded_file,
    rewrites.change_recorded_bytes,
    rewrites.change_unrecorded_bytes,
    rewrites.change_forgotten_bytes,
    rewrites.rewrite_unrecorded_bytes,
    rewrites.rewrite_recorded_bytes,
    rewrites.restore_by_marker,
    rewrites.restore_by_copy,
    rewrites.restore_overwritten,
    leftover.stray_data_file,
    leftover.copy_in_partition,
    leftover.copy_to_other_partition,
    leftover.move_half_a_folder,
    leftover.stray_deletion_vector,
    leftover.leave_task_attempt,
    leftover.leave_magic_file,
    leftover.leave_spark_staging,
    leftover.leave_hive_staging,
    leftover.leave_impala_staging,
    leftover.leave_half_copy,
    leftover.bring_back_vacuumed,
    leftover.bring_back_forgotten,
    leftover.begin_upload,
    metastore.forget_live_file,
    metastore.forget_trusted_file,
    metastore.write_behind_the_store,
    metastore.copy_behind_the_store,
    metastore.bury_live_file,
    metastore.bury_live_file_long_ago,
    metastore.bury_removed_file,
    metastore.invent_file,
    metastore.delete_behind_the_store,
    metastore.falsify_size,
    metastore.falsify_etag,
    metastore.falsify_version,
    metastore.falsify_expired_size,
    metastore.overwrite_behind_the_store,
    tree.orphan_folder,
    tree.bury_folder,
    tree.flatten_folder,
    tree.write_below_file,
    tree.turn_file_into_folder,
    tree.lose_length,
    tree.lose_etag,
    tree.lose_update_time,
    tree.lose_every_time,
    tree.garble_row,
    commit_faults.lose_commit_file,
    commit_faults.tear_commit_file,
    commit_faults.blank_commit_file,
    commit_faults.empty_newest_commit,
    list_faults.promise_file,
    list_faults.lose_commit_of_file,
    list_faults.promise_plain_file,
    list_faults.retire_and_keep,
    list_faults.retire_and_delete,
    list_faults.replace_and_keep,
    list_faults.record_wrong_size,
    list_faults.claim_neighbours_file,
    commit_faults.commit_copy,
    commit_faults.commit_twice,
    commit_faults.overwrite_commit,
    commit_faults.overwrite_removal,
    commit_faults.overwrite_and_repeat,
    commit_faults.append_twice,
    commit_faults.append_habitually,
    commit_faults.reload_batch,
    commit_faults.remove_and_keep,
    state_faults.lose_newest_commit,
    state_faults.leave_checksum_above,
    state_faults.cut_off_listing,
    state_faults.lose_table,
    state_faults.shorten_checkpoint,
    state_faults.lose_newest_metadata,
    state_faults.list_manifest_twice,
    state_faults.fall_behind,
    state_faults.lose_instant,
)


FIRST: Act = content.lose_in_commit
"""The act of every broken lake."""


def break_lake(site: Site, count: int) -> list[Fault]:
    """Do `count` acts, FIRST at the start, each as rarely as possible; fewer if the lake has too few files."""
    faults: list[Fault] = []
    possible = list(CATALOGUE)
    _do(FIRST, site, faults, count)
    while possible and len(faults) < count:
        site.rng.shuffle(possible)
        possible = [act for act in possible if _do(act, site, faults, count)]
    return faults


def _do(act: Act, site: Site, faults: list[Fault], count: int) -> bool:
    """Do an act unless `count` is reached; return whether it may be drawn again."""
    if len(faults) >= count:
        return True
    try:
        faults.append(act(site))
    except NoVictim:
        return False
    return True
