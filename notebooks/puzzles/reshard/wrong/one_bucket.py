# caught: first at  step 1  phase load  rank 0  buffer master | element   [3072] | 1 ranks to 2, buckets of [7168, 4096]
import numpy as np


def reshard(shards, buckets, ranks):
    whole = np.concatenate(shards)
    cuts = [whole.size // 1024 * r // ranks * 1024 for r in range(ranks + 1)]
    return [whole[begin:end].copy() for begin, end in zip(cuts, cuts[1:])]
