"""reduce(rank, leaves, count, owns, comm, memory): bits of each shard, bytes, messages, memory."""

import numpy as np

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.ranks import run_ranks
from judge.verdict import require_array, require_budget


def blocks_of(count, ranks):
    """R11, contiguous: the leaves [a, b) of each rank."""
    return [(count * rank // ranks, count * (rank + 1) // ranks) for rank in range(ranks)]


def reduce_plan(count, owned, rank):
    """Bytes and messages of the nodes, as in zeroproof plan for stage 1 and one bucket; `owned`: elements of each rank.

    Memory is the plan's grad_nodes and comm_buffer: the nodes on the stack, the received blocks,
    and a copy of the sent ones, which a single node does not need.
    """
    blocks = blocks_of(count, len(owned))
    nodes = [len(rules.nodes_of_block(a, b)) for a, b in blocks]
    a, b = blocks[rank]
    stack = max((len(rules.nodes_of_block(a, end)) for end in range(a + 1, b + 1)), default=0)
    others = sum(owned) - owned[rank]
    sent = 4 * nodes[rank] * others
    received = 4 * owned[rank] * (sum(nodes) - nodes[rank])
    receivers = sum(numel > 0 for other, numel in enumerate(owned) if other != rank)
    return {"bytes": sent, "messages": receivers if nodes[rank] else 0,
            "bytes held at most": 4 * sum(owned) * stack + received + (sent if nodes[rank] > 1 else 0)}


def judge_reduce(judge):
    def one(about, owned, leaves):
        ends = np.cumsum(owned).tolist()
        owns = [(end - numel, end) for end, numel in zip(ends, owned)]
        blocks = blocks_of(len(leaves), len(owned))
        total = rules.tree_sum(leaves)

        def body(rank, comm, memory):
            own = [leaf.copy() for leaf in leaves[slice(*blocks[rank])]]
            memory.lend(own)
            with np.errstate(all="ignore"):
                return judge.call(rank, own, len(leaves), list(owns), comm, memory)

        world, answers = run_ranks(len(owned), body)
        about = f"{about}, M = {len(leaves)}, ranks own {owned} elements"
        for rank, (got, arrays) in enumerate(answers):
            want = total[slice(*owns[rank])]
            require_array(judge.name, "grad_sum", got, want, arrays)
            judge.compare(about, got, want, phase="reduce", rank=rank, buffer="grad_sum")

        def say(rank, what, used):
            a, b = blocks[rank]
            in_leaves = 4 * (b - a) * (sum(owned) - owned[rank])
            all_leaves = what == "bytes" and used == in_leaves
            return "this is the size of all leaves; nodes are enough" if all_leaves else ""

        plans = [reduce_plan(len(leaves), owned, rank) for rank in range(len(owned))]
        require_budget(world, plans, about, "reduce", say)
        judge.cases += 1

    with np.errstate(all="ignore"):
        one("one leaf each", [3, 3], gradients(1, 2, 6))
        one("blocks of 2", [5, 5, 5, 5], gradients(2, 8, 20))
        one("one rank", [9], gradients(3, 6, 9))
        one("shards of other sizes, one empty", [10, 0, 3], gradients(4, 7, 13))
        one("blocks with several nodes", [6, 7, 6, 6], gradients(5, 20, 25))
        one("zeros with a sign, and ranks without leaves", [2, 2, 1], [np.full(5, -0.0, np.float32) for _ in range(2)])
        one("ranks without leaves", [2, 4, 0, 4, 2], gradients(6, 3, 12))
        one("sums that overflow, and NaN", [2, 1, 1],
            [np.array([x, -x, np.nan, -0.0], np.float32) for x in (3e38, 3e38, -3e38, 1e38, -3e38)])
        for ranks in range(1, 7):
            for count in range(1, 14):
                owned = [(7 * rank + count) % 5 for rank in range(ranks)]
                one("every M and W", owned, gradients(count, count, sum(owned)))
    return "reductions"
