"""The puzzle repair: the waits that two streams need, from all pairs of their operations."""

import itertools

import numpy as np

from judge.verdict import Wrong


class Operation:
    """An operation of a stream: its name, the buffers it reads and those it writes."""

    def __init__(self, name, stream, reads=(), writes=()):
        self.name, self.stream, self.reads, self.writes = name, stream, frozenset(reads), frozenset(writes)

    def __repr__(self):
        return self.name


def shared(one, other):
    """A buffer that both access and one of them writes, or None."""
    touched = (one.writes & (other.reads | other.writes)) | (other.writes & one.reads)
    return min(touched, default=None)


def order_of(operations, waits):
    """Ordered pairs as a table: before[i][j] if operation i ends before j begins."""
    place = {operation.name: i for i, operation in enumerate(operations)}
    before = np.zeros((len(place), len(place)), bool)
    for (i, one), (j, other) in itertools.combinations(enumerate(operations), 2):
        before[i, j] = one.stream == other.stream
    for first, second in waits:
        before[place[first], place[second]] = True
    for middle in range(len(place)):
        before |= np.outer(before[:, middle], before[middle])
    return before


def needed(operations):
    """The needed waits: pairs of two streams that access a buffer and that no others order."""
    pairs = [(one.name, other.name) for one, other in itertools.combinations(operations, 2)
             if one.stream != other.stream and shared(one, other) is not None]
    place = {operation.name: i for i, operation in enumerate(operations)}
    kept = list(pairs)
    for pair in pairs:
        rest = [other for other in kept if other != pair]
        if order_of(operations, rest)[place[pair[0]], place[pair[1]]]:
            kept = rest
    return kept


def waits_of(name, answer, operations):
    if answer is None:
        raise Wrong(f"{name} returned nothing; return a list of waits")
    names = {operation.name for operation in operations}
    try:
        waits = [(first, second) for first, second in answer]
        unknown = [one for pair in waits for one in pair if one not in names]
    except (TypeError, ValueError):
        raise Wrong(f"{name} returned {str(answer)[:60]}; return a list of pairs of names, "
                    f"(first, second)") from None
    if unknown:
        raise Wrong(
            f"{name} returned a wait with {str(unknown[0])[:40]}, which names no operation; use "
            f"operation.name")
    return waits


def judge_waits(judge, about, operations, waits):
    """Checks for deadlocks, then races, then redundant waits."""
    def wrong(what, status="fail"):
        raise Wrong(f"{what}\n  case      {about}\n  equal     {judge.cases:,} cases before this one", status)

    before = order_of(operations, waits)
    for operation, waits_for_itself in zip(operations, before.diagonal()):
        if waits_for_itself:
            wrong(f"  deadlock: {operation} waits, through others, for itself")
    for (i, one), (j, other) in itertools.combinations(enumerate(operations), 2):
        judge.elements += 1
        buffer = shared(one, other)
        if buffer is not None and before[j, i]:
            wrong(f"  wrong order: {other} is before {one}, and both touch {buffer}, "
                  f"which {one} must touch first")
        if buffer is not None and not before[i, j]:
            wrong(f"  a race: {one} and {other} touch {buffer}, and no wait orders them")
    for k, (first, second) in enumerate(waits):
        rest = waits[:k] + waits[k + 1:]
        place = [i for i, operation in enumerate(operations) if operation.name in (first, second)]
        if len(place) == 2 and order_of(operations, rest)[place[0], place[1]]:
            wrong(f"  right order, over budget: the wait of {second} for {first} is needless, the others order them",
                  "over")
    extra = [wait for wait in waits if wait not in needed(operations)]
    if extra:
        first, second = extra[0]
        wrong(f"  right order, over budget: the wait of {second} for {first} is needless "
              f"(they share no buffer)", "over")


def prefetch(units):
    """The forward pass of stage 3 on two streams: a gather fills one of two places while a unit is computed."""
    plan = []
    for unit in range(units):
        place = f"place {unit % 2}"
        plan.append(Operation(f"gather {unit}", "copies", [f"shard {unit}"], [place]))
        plan.append(Operation(f"compute {unit}", "kernels", [place, f"x {unit}"], [f"x {unit + 1}"]))
    return plan


def backward(units):
    """The backward pass: gradients of a unit are sent while the next one computes."""
    plan = []
    for unit in reversed(range(units)):
        plan.append(Operation(f"grad {unit}", "kernels", [f"dx {unit + 1}"], [f"dx {unit}", f"leaf {unit % 2}"]))
        plan.append(Operation(f"send {unit}", "copies", [f"leaf {unit % 2}"], [f"shard {unit}"]))
    return plan + [Operation("update", "kernels", [f"shard {unit}" for unit in range(units)], ["master"])]


def any_plan(random):
    def some(most):
        return ["gmpxy"[k] for k in random.randint(5, size=random.randint(most))]

    return [Operation(f"op {i}", "ab"[random.randint(2)], some(3), some(2)) for i in range(random.randint(2, 9))]


def judge_repair(judge):
    random = np.random.RandomState(11)

    def one(about, operations, waits):
        before = [tuple(wait) for wait in waits]
        kept = list(operations)
        answer, _ = judge.call(kept, list(waits))
        if kept != operations or waits != before:
            raise Wrong(f"{judge.name} modified its arguments; work on a copy")
        judge_waits(judge, about, operations, waits_of(judge.name, answer, operations))
        judge.cases += 1

    def broken(about, operations):
        """Each wait removed, each needless one added, both, and no waits at all."""
        right = needed(operations)
        across = [(a.name, b.name) for a, b in itertools.combinations(operations, 2) if a.stream != b.stream]
        needless = [pair for pair in across if pair not in right]
        one(f"{about}, as it should be", operations, right)
        for k, wait in enumerate(right[:6]):
            one(f"{about}, without the wait of {wait[1]} for {wait[0]}", operations, right[:k] + right[k + 1:])
        for wait in needless[:6]:
            one(f"{about}, and a wait of {wait[1]} for {wait[0]}", operations, right + [wait])
        if right and needless:
            out, into = right[random.randint(len(right))], needless[random.randint(len(needless))]
            one(f"{about}, a wait of {into[1]} for {into[0]} instead of {out[1]} for {out[0]}", operations,
                [wait for wait in right if wait != out] + [into])
        one(f"{about}, no waits", operations, [])

    broken("a forward pass of 3 units", prefetch(3))
    broken("a backward pass of 3 units", backward(3))
    broken("a forward pass of 5 units", prefetch(5))
    for number in range(40):
        broken(f"plan {number}", any_plan(random))
    one("no operations", [], [])
    return "plans"
