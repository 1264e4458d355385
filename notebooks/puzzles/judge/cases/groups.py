"""groups(rank, dp, cp, tp, replicated): grids up to 5 x 8, split and replicated tensors."""

import numpy as np

from judge import arithmetic as rules
from judge.verdict import Wrong, require_tuple

GRIDS = [(dp, cp, tp) for dp in range(1, 6) for cp in (1, 2, 4, 8) for tp in (1, 2, 4, 8) if cp * tp <= 8]


def require_ranks(name, what, got):
    if not isinstance(got, list) or not all(isinstance(rank, (int, np.integer)) for rank in got):
        raise Wrong(f"{name} returned {str(got)[:60]} for {what}; return a list of rank numbers")
    return [int(rank) for rank in got]


def judge_groups(judge):
    def one(grid, replicated):
        dp, cp, tp = grid
        for rank in range(dp * cp * tp):
            got, _ = judge.call(rank, dp, cp, tp, replicated)
            require_tuple(judge.name, "parts, nodes and counts", got, 3)
            parts, nodes = [require_ranks(judge.name, what, ranks) for what, ranks in zip(("parts", "nodes"), got)]
            if not isinstance(got[2], (int, np.integer)):
                raise Wrong(
                    f"{judge.name} returned {type(got[2]).__name__} for counts; return 0 or 1")
            mine = {"parts": parts, "nodes": nodes, "counts": int(got[2])}
            for (buffer, value), want in zip(mine.items(), rules.groups(rank, grid, replicated)):
                judge.elements += len(want) if buffer != "counts" else 1
                if value == want:
                    continue
                kind = "replicated" if replicated else "split"
                phase = "norm" if buffer == "counts" else "reduce"
                more = (f"  extent    each element is on {tp if replicated else 1} TP ranks "
                        "and counts once\n")
                raise Wrong(f"  first at  step 1  phase {phase}  rank {rank}  buffer {buffer}: differs from the "
                            f"reference\n"
                            f"  case      grid {dp}x{cp}x{tp}, a tensor that is {kind}\n"
                            f"  values    got {value}  want {want}\n{more if phase == 'norm' else ''}"
                            f"  equal     {judge.cases:,} cases before this one")
        judge.cases += 1

    for grid in GRIDS:
        for replicated in (0, 1):
            one(grid, replicated)
    return "grids"
