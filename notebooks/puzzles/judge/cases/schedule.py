"""The puzzle schedule: executes gathers, visits and releases, and checks values and budgets."""

import numpy as np

from judge.verdict import Wrong

ACTIONS = ("gather", "visit", "release")


def actions_of(name, answer, count):
    """The answer as a list of (action, unit)."""
    if answer is None:
        raise Wrong(f"{name} returned nothing; return a list of actions")
    actions = []
    try:
        for action, unit in answer:
            actions.append((action, int(unit)))
            if action not in ACTIONS or not 0 <= int(unit) < count or isinstance(unit, float):
                raise ValueError
    except (TypeError, ValueError):
        shown = str(answer[len(actions) - 1] if actions and isinstance(answer, list) else answer)[:60]
        raise Wrong(
            f"{name} returned {shown}; return a list of (action, unit): gather, visit or "
            f"release, and one of {count} units") from None
    return actions


def visits_of(count):
    """Every unit in the forward pass, then every unit in the backward pass, in reverse order."""
    return [("forward", unit) for unit in range(count)] + [("backward", unit) for unit in reversed(range(count))]


def plan_of(sizes, budget):
    """Budget of a schedule: two gathers of every unit but the last, a wait where no two fit."""
    count = len(sizes)
    apart = sum(sizes[i] + sizes[i + 1] > budget for i in range(count - 1))
    return {"gathers": max(2 * count - 1, 0), "bytes present at most": budget,
            "visits that wait for their gather": min(count, 1) + 2 * apart}


class Step:
    """One rank during a step: the present units, and the values that the passes computed."""

    def __init__(self, judge, about, sizes):
        self.judge, self.about, self.sizes = judge, about, sizes
        self.weights = [(1 + np.arange(3) / (3 + unit)).astype(np.float32) for unit in range(len(sizes))]
        self.present, self.visits = {}, visits_of(len(sizes))
        self.done = 0
        self.visited_at = {}  # number of visits at the gather of each unit
        self.inputs, self.x, self.grad = [], np.ones(3, np.float32), np.ones(3, np.float32)
        self.used = {"gathers": 0, "bytes present at most": 0, "visits that wait for their gather": 0}

    def wrong(self, place, why):
        raise Wrong(f"  first at  {place}: {why}\n  case      {self.about}\n"
                    f"  equal     {self.judge.cases:,} cases before this one, {self.done} visits of this one")

    def gather(self, unit, place):
        if unit in self.present:
            self.wrong(place, f"unit {unit} is present already")
        self.present[unit] = self.weights[unit].copy()
        self.visited_at[unit] = self.done
        held = sum(self.sizes[other] for other in self.present)
        self.used["gathers"] += 1
        self.used["bytes present at most"] = max(self.used["bytes present at most"], held)

    def release(self, unit, place):
        if self.present.pop(unit, None) is None:
            self.wrong(place, f"unit {unit} is not present, cannot release it")

    def visit(self, unit, place):
        if self.done == len(self.visits):
            self.wrong(place, f"unit {unit} is visited after both passes")
        phase, due = self.visits[self.done]
        if unit != due:
            self.wrong(place, f"unit {unit} is visited where the {phase} pass is at unit {due}")
        mine = self.present.get(unit, np.full(3, np.nan, np.float32))  # NaN after a release
        self.used["visits that wait for their gather"] += self.visited_at.get(unit) == self.done
        if phase == "forward":
            self.inputs.append(self.x)
            got, want = self.x * mine, self.x * self.weights[unit]
            self.x = want
        else:
            got, want = self.grad * mine * self.inputs[unit], self.grad * self.weights[unit] * self.inputs[unit]
            self.grad = self.grad * self.weights[unit]
        self.judge.compare(f"{self.about}; {place}", got, want, phase=phase, buffer=f"unit {unit}")
        self.done += 1


def judge_schedule(judge):
    def one(sizes, budget):
        about = f"units of {list(sizes)} bytes, a budget of {budget}"
        answer, _ = judge.call(list(sizes), budget)
        step = Step(judge, about, sizes)
        for number, (action, unit) in enumerate(actions_of(judge.name, answer, len(sizes))):
            getattr(step, action)(unit, f"action {number}, {action} {unit}")
        if step.done < len(step.visits):
            step.wrong("the end", "the {} pass has not visited unit {}".format(*step.visits[step.done]))
        if step.present:
            step.wrong(
                "the end",
                f"unit {min(step.present)} is still present (the next step would read its "
                f"values from before the update)")
        for what, limit in plan_of(sizes, budget).items():
            if step.used[what] > limit:
                raise Wrong(f"  right bits, over budget: {what}: {step.used[what]:,}, and the plan has {limit:,}\n"
                            f"  case      {about}", "over")
        judge.cases += 1

    one([8, 8, 8], 16)
    one([8, 8, 8], 8)
    for sizes in ([4], [3, 5], [5, 3], [4, 4, 4, 4, 4, 4], [10, 2, 2, 2, 10], [1, 9, 1, 9, 1], [2, 3, 5, 7, 11, 13],
                  [16, 8, 4, 2, 1], [0, 4, 0, 4], []):
        largest, pairs = max(sizes, default=0), [a + b for a, b in zip(sizes, sizes[1:])]
        for budget in sorted({largest, *(pair for pair in pairs if pair >= largest), sum(sizes)}):
            one(sizes, budget)
    random = np.random.RandomState(8)
    for _ in range(200):
        sizes = random.randint(0, 40, random.randint(1, 12)).tolist()
        one(sizes, max(sizes) + int(random.randint(0, 40)))
    return "schedules"
