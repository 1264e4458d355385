"""adamw(grad, master, exp_avg, exp_avg_sq, s): runs of many steps, each from the correct state."""

import numpy as np

from judge import arithmetic as rules
from judge.inputs import gradients
from judge.verdict import Wrong, require_array


def judge_adamw(judge):
    def run(about, steps, numel, state, **settings):
        master, m, v = state
        for t in range(1, steps + 1):
            scalars = rules.adam_scalars(t, **settings)
            grad = gradients(t, 1, numel, 0.1)[0]
            with np.errstate(all="ignore"):
                answer, arrays = judge.call(grad, master, m, v, scalars)
            if not isinstance(answer, tuple) or len(answer) != 3:
                raise Wrong(
                    f"{judge.name} returned {type(answer).__name__}; return a tuple of master, "
                    f"exp_avg and exp_avg_sq")
            want = rules.adamw_step(grad, master, m, v, scalars)
            order = (1, "exp_avg"), (2, "exp_avg_sq"), (0, "master")  # in the order of computation
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
