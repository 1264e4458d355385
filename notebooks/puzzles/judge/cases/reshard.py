"""reshard(shards, buckets, ranks): all pairs of 1 to 6 ranks, bits of any kind, buckets shorter than ranks."""

import numpy as np

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.verdict import Wrong, require_array

SPECIAL = np.array([-0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-39, 3.4e38, 1 + 2**-23], np.float32)


def require_shards(name, about, got, want, inputs):
    if got is None:
        raise Wrong(f"{name} returned nothing; return a list of shards")
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        count = f"{len(got)} shards" if isinstance(got, (list, tuple)) else type(got).__name__
        raise Wrong(
            f"{name} returned {count}; return a list with a shard, maybe empty, for each of "
            f"{len(want)} ranks")
    for rank, (shard, right) in enumerate(zip(got, want)):
        require_array(name, f"shard {rank}, {about},", shard, right, inputs)


def judge_reshard(judge):
    def one(buckets, before, after):
        whole = gradients(before + after, 1, sum(buckets))[0]
        whole[::61] = np.resize(SPECIAL, whole[::61].size)
        shards, want = [rules.shards_of(whole, buckets, ranks) for ranks in (before, after)]
        got, arrays = judge.call(shards, list(buckets), after)
        about = f"{before} ranks to {after}, buckets of {buckets}"
        require_shards(judge.name, about, got, want, arrays)
        for rank, (shard, right) in enumerate(zip(got, want)):
            judge.compare(about, shard, right, phase="load", rank=rank, buffer="master")
        judge.cases += 1

    pairs = [(before, after) for before in range(1, 7) for after in range(1, 7)]
    for chunks in ((5,), (7, 4), (1, 0, 3), (2, 2, 1)):
        for before, after in pairs:
            one([1024 * length for length in chunks], before, after)
    one([], 3, 2)
    one([0], 2, 5)
    one([43 * 1024, 17 * 1024], 64, 7)
    return "reshardings"
