"""Comparing a learner's results in bits, and saying what differs in the words of zeroproof verify."""

import numpy as np


class Wrong(Exception):
    """The verdict on a function that does not do what was asked; `text` is what the learner reads."""

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
    """An array of the type and shape of `like`, in memory of its own."""
    if got is None:
        raise Wrong(f"{name} returned nothing (the answer is {what}); end it with a return")
    if not isinstance(got, np.ndarray):
        raise Wrong(f"{name} returned {type(got).__name__} for {what} (bits of arrays are compared); return an array")
    if got.dtype != like.dtype:
        raise Wrong(f"{name} returned {what} in {got.dtype} (every operation is rounded to {like.dtype}); stay in it")
    if got.shape != like.shape:
        raise Wrong(f"{name} returned {what} of shape {list(got.shape)} (it has {list(like.shape)}); return all of it")
    if any(np.shares_memory(got, array) for array in inputs):
        raise Wrong(f"{name} returned {what} as a view of its input (others write there again); return a new array")


def require_tuple(name, what, got, count):
    """A tuple of so many values."""
    if got is None:
        raise Wrong(f"{name} returned nothing (the answer is a tuple of {what}); end it with a return")
    if not isinstance(got, tuple) or len(got) != count:
        raise Wrong(f"{name} returned {type(got).__name__} (the answer is a tuple of {what}); return all "
                    f"{count} of them")


def require_budget(world, plans, about, phase, say=None):
    """Bytes, messages and memory of every rank against its plan. `say(rank, what, used)` may know what was done."""
    for rank, plan in enumerate(plans):
        used = {"bytes": world.bytes, "messages": world.messages, "bytes held at most": world.peak}
        for what, limit in plan.items():
            if used[what][rank] > limit:
                known = say(rank, what, used[what][rank]) if say else ""
                raise Wrong(f"  right bits, over budget: phase {phase}  rank {rank}  {what}: {used[what][rank]:,}, "
                            f"and the plan has {limit:,}\n"
                            f"  case      {about}" + (f"\n  hint      {known}" if known else ""), "over")


class Judge:
    """Calls the function, counts what was equal, and stops at the first difference."""

    def __init__(self, name, function):
        self.name, self.function = name, function
        self.cases, self.elements = 0, 0

    def call(self, *arguments):
        """The function's answer; the arrays among its arguments have to be as they were."""
        arrays = [a for argument in arguments for a in (argument if isinstance(argument, list) else [argument])
                  if isinstance(a, np.ndarray)]
        before = [array.copy() for array in arrays]
        answer = self.function(*arguments)
        for number, (array, kept) in enumerate(zip(arrays, before)):
            if array.shape != kept.shape or array.tobytes() != kept.tobytes():
                raise Wrong(f"{self.name} has edited array {number} of its arguments (others need it); work on a copy")
        return answer, arrays

    def compare(self, about, got, want, *, step=1, phase, rank=0, buffer):
        """Bits; all NaNs are one value."""
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
