"""The puzzles: what each asks for in a line, and the cases its function is called with, from small to large."""

import numpy as np

from judge import arithmetic as rules
from judge.ranks import run_ranks
from judge.verdict import Wrong, require_array

WORDS_OF_THE_NORM = 23  # of 8 bytes; R12: 21 limbs, and counts of NaN and infinity. zeroproof plan has the same


def gradients(seed, count, numel, scale=1.0):
    """fp32 arrays of both signs over many binades."""
    random = np.random.RandomState(seed)
    return [(random.standard_normal(numel) * scale * 2.0**random.randint(-20, 8, numel)).astype(np.float32)
            for _ in range(count)]


def judge_add_tree(judge):
    def one(about, leaves):
        want = rules.tree_sum(leaves)
        got, arrays = judge.call(leaves)
        require_array(judge.name, "grad_sum", got, want, arrays)
        judge.compare(about, got, want, phase="reduce", buffer="grad_sum")
        judge.cases += 1

    with np.errstate(all="ignore"):
        for count in (*range(1, 18), 31, 32, 33, 64):
            for numel in (1, 5, 130):
                one(f"M = {count} leaves of {numel} elements", gradients(count, count, numel))
        special = [np.array([x, -x, -0.0], np.float32) for x in (np.inf, 1e38, np.nan, 3e38, 1e-45)]
        one("infinities, NaN, overflow, zeros with a sign", special)
        one("three leaves of zeros with a sign", [np.full(3, -0.0, np.float32) for _ in range(3)])
        one("leaves without elements", [np.zeros(0, np.float32) for _ in range(3)])
    return "tree sums"


def judge_maximal_nodes(judge):
    blocks = [(5, 11), *((a, b) for b in range(25) for a in range(b + 1)), (0, 2**40 - 1), (3, 2**33 + 5)]
    for a, b in blocks:
        want = rules.nodes_of_block(a, b)
        got, _ = judge.call(a, b)
        if got is None:
            raise Wrong(f"{judge.name} returned nothing (the answer is a list of nodes); end it with a return")
        try:
            got = [(int(level), int(index)) for level, index in got]
        except (TypeError, ValueError):
            raise Wrong(f"{judge.name} returned {str(got)[:60]} (nodes are pairs of level and index); return a list of "
                        f"(level, index)") from None
        if got != want:
            at = next((i for i, (x, y) in enumerate(zip(got, want)) if x != y), min(len(got), len(want)))
            shown = [str(nodes[at]) if at < len(nodes) else "no node" for nodes in (got, want)]
            raise Wrong(f"  first at  step 1  phase reduce  rank 0  buffer nodes: differs from the reference\n"
                        f"  case      block [{a}, {b})\n"
                        f"  element   [{at}]\n"
                        f"  values    got {shown[0]}  want {shown[1]}\n"
                        f"  extent    {len(got)} nodes, and {len(want)} are wanted\n"
                        f"  equal     {judge.cases:,} cases before this one")
        judge.cases += 1
        judge.elements += len(want)
    return "nodes"


def judge_adamw(judge):
    def run(about, steps, numel, state, **settings):
        master, m, v = state
        for t in range(1, steps + 1):
            scalars = rules.adam_scalars(t, **settings)
            grad = gradients(t, 1, numel, 0.1)[0]
            with np.errstate(all="ignore"):
                answer, arrays = judge.call(grad, master, m, v, scalars)
            if not isinstance(answer, tuple) or len(answer) != 3:
                raise Wrong(f"{judge.name} returned {type(answer).__name__} (the answer is a tuple of master, exp_avg "
                            f"and exp_avg_sq); return the three of them")
            want = rules.adamw_step(grad, master, m, v, scalars)
            order = (1, "exp_avg"), (2, "exp_avg_sq"), (0, "master")  # moments come before the master they make
            for i, buffer in order:
                require_array(judge.name, buffer, answer[i], want[i], arrays)
                judge.compare(f"{about}, t = {t}", answer[i], want[i], step=t, phase="update", buffer=buffer)
            master, m, v = want
        judge.cases += 1

    def state(numel, scale=1.0):
        return gradients(7, 1, numel, scale)[0], np.zeros(numel, np.float32), np.zeros(numel, np.float32)

    run("with decay", 1000, 37, state(37))
    run("without decay", 100, 130, state(130), weight_decay=0.0)
    infinite = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32), *state(5)[1:]
    run("no decay of an infinite master", 2, 5, infinite, weight_decay=0.0)
    run("a large eps and rate", 20, 33, state(33), lr=0.5, eps=1e-2, beta1=0.5, beta2=0.95)
    run("no elements", 1, 0, state(0))
    return "updates"


def norm_plan(ranks):
    """What a rank may use for a norm: bytes and messages of zeroproof plan; held at once, what it gives and gets."""
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
            return judge.call(rank, shards[rank], max_norm, comm, memory)

        world, answers = run_ranks(len(sizes), body)
        for rank, (got, arrays) in enumerate(answers):
            want = shards[rank] * coef
            require_array(judge.name, "grad", got, want, arrays)
            judge.compare(f"{about}, ranks with {sizes} elements", got, want, phase="clip", rank=rank, buffer="grad")
        plan = norm_plan(len(sizes))
        for rank in range(len(sizes)):
            used = {"bytes": world.bytes, "messages": world.messages, "bytes held at most": world.peak}
            for what, limit in plan.items():
                if used[what][rank] > limit:
                    raise Wrong(f"  right bits, over budget: phase norm  rank {rank}  {what}: {used[what][rank]:,}, "
                                f"and the plan has {limit:,}\n"
                                f"  case      {about}, ranks with {sizes} elements", "over")
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


PUZZLES = {
    "add_tree": ("add_tree(leaves): the sum of gradients as R11 has it, in every bit", judge_add_tree),
    "maximal_nodes": ("maximal_nodes(a, b): what a rank with the leaves [a, b) sends", judge_maximal_nodes),
    "adamw": ("adamw(grad, master, exp_avg, exp_avg_sq, s): every bit of a thousand steps", judge_adamw),
    "clip": ("clip(rank, grad, max_norm, comm, memory): one norm for all ranks, in bits and bytes", judge_clip),
}
