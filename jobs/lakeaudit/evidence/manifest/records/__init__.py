"""Records that writers leave of what they did, in small files: what all kinds of them share.

`find` finds them, `read_records` turns them into events in tasks, and `reader` makes claims of those, which fold as
those of `file_list` do. A kind says where its records lie and what the content of one means.
"""
