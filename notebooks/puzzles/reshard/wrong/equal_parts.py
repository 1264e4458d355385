# caught: reshard returned shard 0, 1 ranks to 2, buckets of [5120], of shape [2560] (it has [2048]); return all of it
import numpy as np


def reshard(shards, buckets, ranks):
    whole = np.concatenate(shards)
    return [part.copy() for part in np.array_split(whole, ranks)]
