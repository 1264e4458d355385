"""The same state on another number of ranks, without a bit lost (lesson 10; rule R13, several buckets)."""

import numpy as np


def reshard(shards, buckets, ranks):
    """A list of `ranks` new fp32 arrays: the state that `shards`, a list of fp32 arrays, is on len(shards) ranks.

    The one numbering of all elements is cut into buckets; `buckets` are their lengths, multiples of 1024. Of a bucket
    of C chunks of 1024 elements, rank r of W owns floor(C * r / W) up to (not including) floor(C * (r + 1) / W), in
    chunks, and its shard holds what it owns of bucket 0, of bucket 1, ... one after another. Shards differ in length,
    and may be empty.
    """
    # TODO: undo one cut, make the other
