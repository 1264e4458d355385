"""reshard: every bucket is joined from the old ranks and split for the new ones."""

import numpy as np


def reshard(shards, buckets, ranks):
    new = [[] for _ in range(ranks)]
    done = [0] * len(shards)
    for length in buckets:
        old_cuts, new_cuts = [[length // 1024 * r // world * 1024 for r in range(world + 1)]
                              for world in (len(shards), ranks)]
        slices = []
        for rank, shard in enumerate(shards):
            size = old_cuts[rank + 1] - old_cuts[rank]
            slices.append(shard[done[rank]:done[rank] + size])
            done[rank] += size
        whole = np.concatenate(slices)
        for rank in range(ranks):
            new[rank].append(whole[new_cuts[rank]:new_cuts[rank + 1]])
    return [np.concatenate(parts) if parts else np.zeros(0, np.float32) for parts in new]
