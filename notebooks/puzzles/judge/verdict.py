"""Compares a learner's results bit by bit; reports in the format of zeroproof verify."""

import numpy as np


class Wrong(Exception):
    """The verdict on a wrong function; `text` is for the learner."""

    def __init__(self, text, status="fail"):
        super().__init__(text)
        self.text, self.status = text, status


def bits(array):
    return array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def shown(value):
    """Bits and value of one element."""
    value = np.asarray(value)
    if np.isnan(value):
        return {2: "0x7fff (nan)", 4: "0x7fffffff (nan)", 8: "0x7fffffffffffffff (nan)"}[value.dtype.itemsize]  # R9
    return f"0x{int(bits(value.reshape(1))[0]):0{2 * value.dtype.itemsize}x} ({value.item():.9g})"


def require_array(name, what, got, like, inputs):
    """Checks for a new array of the type and shape of `like`."""
    if got is None:
        raise Wrong(f"{name} returned nothing; return {what}")
    if not isinstance(got, np.ndarray):
        raise Wrong(f"{name} returned {type(got).__name__} for {what}; return an array")
    if got.dtype != like.dtype:
        raise Wrong(f"{name} returned {what} in {got.dtype}; round every operation to {like.dtype}")
    if got.shape != like.shape:
        raise Wrong(
            f"{name} returned {what} of shape {list(got.shape)}, expected {list(like.shape)}")
    if any(np.shares_memory(got, array) for array in inputs):
        raise Wrong(f"{name} returned {what} as a view of its input; return a new array")


def require_tuple(name, what, got, count):
    """Checks for a tuple of `count` values."""
    if got is None:
        raise Wrong(f"{name} returned nothing; return a tuple of {what}")
    if not isinstance(got, tuple) or len(got) != count:
        raise Wrong(f"{name} returned {type(got).__name__}; return a tuple of {what}")


def require_budget(world, plans, about, phase, say=None, used=()):
    """Checks bytes, messages and memory of every rank, and further `used` counts by name; say(rank, what, used) may
    return a hint."""
    used = {"bytes": world.bytes, "messages": world.messages, "bytes held at most": world.peak, **dict(used)}
    for rank, plan in enumerate(plans):
        for what, limit in plan.items():
            if used[what][rank] > limit:
                known = say(rank, what, used[what][rank]) if say else ""
                raise Wrong(f"  right bits, over budget: phase {phase}  rank {rank}  {what}: {used[what][rank]:,}, "
                            f"and the plan has {limit:,}\n"
                            f"  case      {about}" + (f"\n  hint      {known}" if known else ""), "over")


class Judge:
    """Calls the function, counts equal results, and stops at the first difference."""

    def __init__(self, name, function):
        self.name, self.function = name, function
        self.cases, self.elements = 0, 0

    def call(self, *arguments):
        """The function's result and its array arguments, which must not be modified."""
        arrays = [a for argument in arguments for a in (argument if isinstance(argument, list) else [argument])
                  if isinstance(a, np.ndarray)]
        before = [array.copy() for array in arrays]
        answer = self.function(*arguments)
        for number, (array, kept) in enumerate(zip(arrays, before)):
            if array.shape != kept.shape or array.tobytes() != kept.tobytes():
                raise Wrong(f"{self.name} modified array {number} of its arguments; work on a copy")
        return answer, arrays

    def compare(self, about, got, want, *, step=1, phase, rank=0, buffer):
        """Compares bits; all NaNs are one value."""
        self.elements += want.size
        got, want = got.ravel(), want.ravel()
        other = (bits(got) != bits(want)) & ~(np.isnan(got) & np.isnan(want))
        if not other.any():
            return
        at = int(np.argmax(other))
        place = f"step {step}  phase {phase}  rank {rank}  buffer {buffer}"
        raise Wrong(f"  first at  {place}: differs from the reference\n"
                    f"  case      {about}\n"
                    f"  element   [{at}]\n"
                    f"  values    got {shown(got[at])}  want {shown(want[at])}\n"
                    f"  extent    {int(other.sum()):,} of {want.size:,} elements of this buffer on this rank differ\n"
                    f"  equal     {self.cases:,} cases before this one, {self.elements - want.size:,} elements")
