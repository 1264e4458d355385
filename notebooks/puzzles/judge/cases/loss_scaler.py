"""loss_scaler(config, state, found_inf): every pattern of overflows of 14 steps, under 19 settings."""

import itertools
from types import SimpleNamespace

import numpy as np

from judge import arithmetic as rules
from judge.verdict import Wrong, require_tuple

STEPS = 14
WORDS = "log2_scale", "growth_tracker", "hysteresis_left"
PLAIN = {"kind": "dynamic", "log2_growth": 1, "log2_backoff": 1, "log2_min": 0, "log2_max": 20, "growth_interval": 2,
         "hysteresis": 1, "refill": "growth"}


def settings():
    """(settings, first exponent): hysteresis x interval x refill; 14 steps reach both limits."""
    yield {**PLAIN, "kind": "constant"}, 12
    sizes = itertools.cycle([(1, 1), (2, 1), (1, 2), (3, 2)])
    for hysteresis, interval, refill in itertools.product((1, 2, 3), (1, 2, 3), ("growth", "good_step")):
        growth, backoff = next(sizes)
        yield {**PLAIN, "log2_growth": growth, "log2_backoff": backoff, "growth_interval": interval,
               "hysteresis": hysteresis, "refill": refill, "log2_min": 1, "log2_max": 10}, 6


def require_state(name, got):
    require_tuple(name, "exponent, tracker and left", got, 3)
    for word, value in zip(WORDS, got):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise Wrong(
                f"{name} returned {type(value).__name__} for {word}; return an integer (R14)")


def judge_loss_scaler(judge):
    def step(config, state, found_inf, number, said, pattern=None):
        got = judge.function(config, state, found_inf)
        judge.elements += 3
        want = rules.scaler_step(config, state, found_inf)
        if type(got) is tuple and got == want and set(map(type, got)) == {int}:  # nearly always
            return want
        require_state(judge.name, got)
        if tuple(map(int, got)) != want:
            history = "" if pattern is None else f"; overflows of these steps: {pattern:0{number}b}"
            at = next(i for i in range(3) if got[i] != want[i])
            raise Wrong(f"  first at  step {number}  phase unscale  rank 0  buffer loss_scaler: differs from the "
                        f"reference\n"
                        f"  case      {said}{history}\n"
                        f"  element   [{at}] {WORDS[at]}\n"
                        f"  values    got {got[at]}  want {want[at]}\n"
                        f"  before    {', '.join(map('{} {}'.format, WORDS, state))}, found_inf {found_inf}\n"
                        f"  equal     {judge.cases:,} cases before this one")
        return want

    for given, scale in settings():
        config = SimpleNamespace(**given)
        said = ", ".join(f"{name} {value}" for name, value in given.items())
        states = [(scale, 0, config.hysteresis)]
        for number in range(1, STEPS + 1):  # states after patterns 0, 1, 2, ...
            states = [step(config, state, found_inf, number, said, 2 * pattern + found_inf)
                      for pattern, state in enumerate(states) for found_inf in (0, 1)]
            if vars(config) != given:
                raise Wrong(f"{judge.name} modified its settings; leave them unchanged")
        judge.cases += 2**STEPS
    config = SimpleNamespace(**{**PLAIN, "hysteresis": 2})
    for state, found_inf in itertools.product([(12, 7, 2), (12, 0, 0), (0, 1, 1), (20, 1, 0), (-3, 0, 1)], (0, 1)):
        step(config, state, found_inf, 1, "a loaded state")
        judge.cases += 1
    return "overflow patterns"
