"""add_tree(leaves): tree sums of 1 to 64 leaves, with infinities, NaN and signed zeros."""

import numpy as np

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.verdict import require_array


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
