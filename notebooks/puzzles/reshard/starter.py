"""The same state on another number of ranks, bit for bit (lesson 10; rule R13, several buckets)."""

import numpy as np


def reshard(shards, buckets, ranks):
    """Returns a list of `ranks` new fp32 arrays: the state in `shards`, a list of fp32 arrays of
    the old ranks.

    The flat range of all elements is split into buckets; `buckets` are their lengths, multiples of
    1024. Of a bucket of C chunks of 1024 elements, rank r of W owns floor(C * r / W) up to (not
    including) floor(C * (r + 1) / W), in chunks, and its shard holds its slice of bucket 0, of
    bucket 1, ... one after another. Shards differ in length, and may be empty.
    """
    # TODO: join the old slices, split into the new ones
