"""clip(rank, grad, max_norm, comm, memory): bits of each shard, bytes, messages, memory."""

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.ranks import run_ranks
from judge.verdict import require_array, require_budget

WORDS_OF_THE_NORM = 23  # of 8 bytes; R12: 21 limbs, counts of NaN and infinity


def norm_plan(ranks):
    """Budget of a norm: bytes and messages of zeroproof plan; memory for two blocks."""
    words = 8 * WORDS_OF_THE_NORM
    return {"bytes": words * (ranks - 1), "messages": ranks - 1, "bytes held at most": 2 * words}


def judge_clip(judge):
    def one(about, sizes, max_norm, scale=1.0, special=None):
        shards = [gradients(11 * rank + len(sizes), 1, size, scale)[0] for rank, size in enumerate(sizes)]
        if special is not None:
            shards[-1][:len(special)] = special
        total = sum(rules.sum_of_squares(shard) for shard in shards)
        coef = rules.coefficient(total, max_norm)

        def body(rank, comm, memory):
            memory.lend([shards[rank]])
            return judge.call(rank, shards[rank], max_norm, comm, memory)

        world, answers = run_ranks(len(sizes), body)
        for rank, (got, arrays) in enumerate(answers):
            want = shards[rank] * coef
            require_array(judge.name, "grad", got, want, arrays)
            judge.compare(f"{about}, ranks with {sizes} elements", got, want, phase="clip", rank=rank, buffer="grad")
        plans = [norm_plan(len(sizes))] * len(sizes)
        require_budget(world, plans, f"{about}, ranks with {sizes} elements", "norm")
        judge.cases += 1

    one("a long gradient", [40, 40, 40, 40], 1.0)
    one("a short gradient, which is not clipped", [8, 8], 1e9)
    one("one rank", [30], 0.5)
    one("ranks of other sizes, one without elements", [130, 0, 7, 64, 1], 0.25)
    one("an element of 1e20", [5, 5, 5], 0.52, special=[1e20])
    one("squares that fp32 does not have", [4, 9], 1e-12, scale=2.0**-90)
    one("sums that fp64 would round", [1000, 999, 1001], 3.0)
    one("all zeros", [3, 3], 1.0, scale=0.0)
    return "clipped gradients"
