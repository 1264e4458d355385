"""muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm): bits, bytes, messages, matrices."""

from types import SimpleNamespace

import numpy as np

from judge import matrices as rules
from judge.arithmetic import F
from judge.inputs import gradients
from judge.ranks import run_ranks
from judge.verdict import Wrong, require_array, require_budget, require_tuple

LR = 0.02


def pieces(shapes, owns):
    """Of each matrix the number of elements on each rank."""
    ends = np.cumsum([rows * columns for rows, columns in shapes]).tolist()
    return [[max(0, min(end, to) - max(end - rows * columns, first)) for first, to in owns]
            for end, (rows, columns) in zip(ends, shapes)]


def muon_plan(shapes, owners, owns, rank):
    """Bytes and messages of zeroproof plan: directions to the owners and results back, in one exchange each."""
    there, back = [0] * len(owns), [0] * len(owns)
    for owner, counts in zip(owners, pieces(shapes, owns)):
        if owner != rank:
            there[owner] += counts[rank]
        else:
            back = [sum(pair) for pair in zip(back, counts)]
    back[rank] = 0
    return {"bytes": 4 * (sum(there) + sum(back)), "messages": sum(count > 0 for count in there + back),
            "matrices orthogonalised": owners.count(rank)}


def settings(decay):
    return SimpleNamespace(momentum=F(0.95), one_minus_momentum=F(1 - 0.95), lr_weight_decay=F(LR * decay),
                           step_size=lambda rows, columns: rules.step_size(rows, columns, LR))


def expected(shapes, grad, exp_avg, master, decay):
    """The new exp_avg and master of all elements."""
    exp_avg, direction = rules.momentum(grad, exp_avg)
    master, first = master.copy(), 0
    for rows, columns in shapes:
        own = slice(first, first + rows * columns)
        orthogonal = rules.newton_schulz(direction[own].reshape(rows, columns)).ravel()
        master[own] = rules.update(master[own], orthogonal, rules.step_size(rows, columns, LR), F(LR * decay))
        first += rows * columns
    return exp_avg, master


def judge_muon(judge):
    def one(about, shapes, owners, boundaries, scale=0.1, decay=0.01):
        numel, ranks = sum(rows * columns for rows, columns in shapes), len(boundaries) + 1
        owns = list(zip([0, *boundaries], [*boundaries, numel]))
        grad, exp_avg, master = [array * F(scale) for array in gradients(numel + ranks, 3, numel)]
        want = expected(shapes, grad, exp_avg, master, decay)
        count = [0] * ranks

        def body(rank, comm, memory):
            own = [array[slice(*owns[rank])].copy() for array in (grad, exp_avg, master)]
            memory.lend(own)

            def newton_schulz(x):
                if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype != F:
                    raise Wrong(f"newton_schulz got {getattr(x, 'dtype', type(x).__name__)}"
                                f"{list(getattr(x, 'shape', []))}; pass a matrix in float32")
                count[rank] += x.size > 0
                return rules.newton_schulz(x)
            return judge.call(rank, list(shapes), list(owners), list(owns), *own, settings(decay), newton_schulz, comm)

        world, answers = run_ranks(ranks, body)
        about = f"{about}, matrices {shapes}, ranks own up to {[end for _, end in owns]}"
        for rank, (got, arrays) in enumerate(answers):
            require_tuple(judge.name, "exp_avg and master", got, 2)
            for buffer, array, whole in zip(("exp_avg", "master"), got, want):
                right = whole[slice(*owns[rank])]
                require_array(judge.name, buffer, array, right, arrays)
                judge.compare(about, array, right, phase="update", rank=rank, buffer=buffer)
        require_budget(world, [muon_plan(shapes, owners, owns, rank) for rank in range(ranks)], about, "update",
                       used={"matrices orthogonalised": count})
        judge.cases += 1

    one("one rank", [(3, 4), (5, 2)], [0, 0], [])
    one("two ranks, one matrix each", [(3, 4), (3, 4)], [0, 1], [12])
    one("a matrix cut between two rows", [(4, 4)], [0], [8])
    one("a tall matrix cut inside of a row", [(7, 3)], [1], [10])
    one("two cuts in one matrix, and a rank without elements", [(4, 9), (2, 2)], [2, 1], [9, 9, 31])
    one("owners without elements of their matrices", [(3, 5), (5, 3), (4, 4)], [2, 0, 1], [15, 30])
    one("one owner for all", [(2, 6), (6, 2), (1, 9)], [1, 1, 1], [5, 20])
    one("no decay", [(4, 4), (8, 2)], [1, 0], [7], decay=0)
    one("zeros", [(3, 3), (2, 5)], [1, 0], [4], scale=0)
    one("more ranks than rows", [(2, 8)], [3], [2, 5, 7, 11, 13])
    one("no matrices", [], [], [0])
    return "sharded steps"
