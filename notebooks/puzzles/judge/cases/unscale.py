"""unscale(rank, grad_sum, inv_scale, comm, memory): bits, flag, traffic and memory."""

import numpy as np

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.ranks import run_ranks
from judge.verdict import Wrong, require_array, require_budget, require_tuple


def flag_plan(ranks):
    """Budget of the flag: one word, as in zeroproof plan; memory for the sent and received word."""
    return {"bytes": 8 * (ranks - 1), "messages": ranks - 1, "bytes held at most": 16}


def judge_unscale(judge):
    def one(about, sizes, scale, *special):
        """special: (rank, value) pairs, written to the middle of that shard."""
        shards = [gradients(5 * rank + len(sizes), 1, size)[0] for rank, size in enumerate(sizes)]
        for rank, value in special:
            shards[rank][sizes[rank] // 2] = value
        inv_scale = np.float32(1 / scale)
        want, found_inf = rules.unscale(shards, inv_scale)

        def body(rank, comm, memory):
            memory.lend([shards[rank]])
            with np.errstate(all="ignore"):
                return judge.call(rank, shards[rank], inv_scale, comm, memory)

        world, answers = run_ranks(len(sizes), body)
        about = f"{about}, ranks with {sizes} elements"
        for rank, (got, arrays) in enumerate(answers):
            require_tuple(judge.name, "g1 and found_inf", got, 2)
            g1, flag = got
            require_array(judge.name, "g1", g1, want[rank], arrays)
            judge.compare(about, g1, want[rank], phase="unscale", rank=rank, buffer="g1")
            if not isinstance(flag, (int, np.integer)):
                raise Wrong(
                    f"{judge.name} returned {type(flag).__name__} for found_inf; return 0 or 1"
                )
            judge.compare(about, np.array([flag], np.int64), np.array([found_inf], np.int64), phase="unscale",
                          rank=rank, buffer="found_inf")
        require_budget(world, [flag_plan(len(sizes))] * len(sizes), about, "unscale")
        judge.cases += 1

    one("no overflow", [8, 8], 4096 * 7)
    one("one rank", [9], 3)
    one("an infinity", [5, 6, 7, 5], 1024, (2, np.inf))
    one("NaN", [30, 0, 1], 2.0**16, (2, np.nan))
    one("two ranks with infinities", [4, 4, 4], 2.0**12, (0, -np.inf), (2, np.inf))
    one("a product that overflows", [3, 3], 2.0**-4, (1, 3e38))
    one("products that are subnormal or zero, with a sign", [6, 5], 2.0**24, (0, -1e-45), (1, -0.0))
    one("an infinity, and ranks without elements", [0, 7, 0, 0, 2], 1, (4, np.inf))
    one("no rank has elements", [0, 0], 2)
    return "steps"
