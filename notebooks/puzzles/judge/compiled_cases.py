"""C++ puzzles judged in Python: their C functions as Python functions, and their cases."""

import ctypes

import numpy as np

from judge import arithmetic as rules
from judge.cases.add_tree import judge_add_tree
from judge.cases.maximal_nodes import judge_maximal_nodes
from judge.inputs import gradients
from judge.verdict import Wrong

GUARD = 64  # elements before and behind an output that must not change
MOST_NODES = 256  # capacity of a result; a block has less than 128 nodes
SAID = 300
RETURNED, REFUSED = 0, 1


class Refusal(Exception):
    """The function rejected its arguments."""


class Library:
    """The C function of a wrapper."""

    def __init__(self, name, path):
        self.name, self.function = name, ctypes.CDLL(path).puzzle_call

    def __call__(self, *arguments):
        said = ctypes.create_string_buffer(SAID)
        plain = [ctypes.c_int64(x) if isinstance(x, int) else x for x in arguments]
        outcome = self.function(*plain, said, ctypes.c_size_t(SAID))
        said = said.value.decode(errors="replace")
        if outcome == REFUSED:
            raise Refusal(said)
        if outcome != RETURNED:
            raise Wrong(f"{self.name} threw for valid arguments: {said}", "error")


def address(array):
    return array.ctypes.data_as(ctypes.c_void_p)


class Guarded:
    """An output filled with one bits, between guard elements that must not change."""

    def __init__(self, name, numel, dtype):
        self.name = name
        self.whole = np.frombuffer(b"\xff" * ((numel + 2 * GUARD) * np.dtype(dtype).itemsize), dtype).copy()
        self.inside = self.whole[GUARD:GUARD + numel]

    def result(self):
        outside = np.concatenate([self.whole[:GUARD], self.whole[GUARD + self.inside.size:]])
        if outside.tobytes() != b"\xff" * outside.nbytes:
            raise Wrong(f"{self.name} was written outside of its {self.inside.size} elements")
        return self.inside.copy()


def grad_sum(library):
    def call(leaves):
        numel = leaves[0].size if leaves else 0
        together = np.concatenate(leaves) if leaves else np.zeros(0, np.float32)
        before = together.copy()
        total = Guarded("sum", numel, np.float32)
        library(address(together), len(leaves), numel, address(total.inside))
        if together.tobytes() != before.tobytes():
            raise Wrong("grad_sum modified its leaves; work on a copy")
        return total.result()
    return call


def maximal_nodes(library):
    def call(first, last):
        nodes, count = np.zeros((MOST_NODES, 2), np.int64), ctypes.c_int64(0)
        library(first, last, address(nodes), MOST_NODES, ctypes.byref(count))
        return [tuple(node) for node in nodes[:count.value].tolist()]
    return call


def shard_map(library):
    def call(padded_numel, world_size, bucket_numel, bucket, rank):
        made = np.zeros(2, np.int64)
        library(padded_numel, ctypes.c_int32(world_size), bucket_numel, bucket, ctypes.c_int32(rank), address(made))
        return tuple(made.tolist())
    return call


def grad_norm_exact_accumulate(library):
    def call(grad, words):
        grad, after = grad.copy(), words.copy()
        library(address(grad), grad.size, address(after))
        return after
    return call


def must_refuse(judge, about, *arguments):
    try:
        got = judge.function(*arguments)
    except Refusal:
        judge.cases += 1
        return
    raise Wrong(f"{judge.name} returned {str(got)[:60]} for {about} (the contract refuses it: "
                f"invalid_argument); throw zeroproof::Error with ZP_CHECK")


def differs(judge, phase, buffer, about, element, got, want):
    raise Wrong(f"  first at  step 1  phase {phase}  rank 0  buffer {buffer}: differs from the reference\n"
                f"  case      {about}\n"
                f"  element   {element}\n"
                f"  values    got {got}  want {want}\n"
                f"  equal     {judge.cases:,} cases before this one")


def judge_grad_sum(judge):
    what = judge_add_tree(judge)
    must_refuse(judge, "no leaves", [])
    return what


def judge_nodes(judge):
    what = judge_maximal_nodes(judge)
    must_refuse(judge, "the block [-1, 3)", -1, 3)
    must_refuse(judge, "the block [5, 4)", 5, 4)
    return what


def slice_of_bucket(padded_numel, world_size, bucket_numel, bucket, rank):
    """R13: consecutive buckets, the last one shorter; each split evenly in chunks of 1024."""
    begin = bucket * bucket_numel
    chunks = min(bucket_numel, padded_numel - begin) // 1024
    return begin + chunks * rank // world_size * 1024, begin + chunks * (rank + 1) // world_size * 1024


def judge_shard_map(judge):
    worlds = (*range(1, 10), 64, 1000)
    for chunks, of_bucket in ((8, 8), (7, 7), (1, 4), (43, 16), (65, 32), (2**31, 2**29)):
        for world in worlds:
            for bucket in range(-(-chunks // of_bucket)):
                for rank in range(world):
                    arguments = chunks * 1024, world, of_bucket * 1024, bucket, rank
                    want, got = slice_of_bucket(*arguments), judge.function(*arguments)
                    if got != want:
                        differs(judge, "layout", "shard", f"{chunks * 1024:,} elements, buckets of {of_bucket * 1024:,}"
                                f", {world} ranks", f"bucket {bucket}, rank {rank}", "[{}, {})".format(*got),
                                "[{}, {})".format(*want))
                    judge.elements += 1
            judge.cases += 1
    for about, arguments in (("no ranks", (1024, 0, 1024, 0, 0)), ("half a chunk", (512, 1, 1024, 0, 0)),
                             ("buckets of half a chunk", (1024, 1, 512, 0, 0)), ("rank 2 of 2", (1024, 2, 1024, 0, 2)),
                             ("bucket 1 of 1", (1024, 2, 1024, 1, 0)), ("a bucket of no elements", (0, 1, 1024, 0, 0))):
        must_refuse(judge, about, *arguments)
    return "layouts"


def normalised(words):
    """The 21 limbs with carries moved up, and the two counts."""
    total = rules.from_words(words[:rules.LIMBS])
    last = rules.LIMBS - 1
    return [*((total >> 32 * i) & 0xFFFFFFFF for i in range(last)), total >> 32 * last, int(words[-2]), int(words[-1])]


def judge_exact_norm(judge):
    names = [f"limb {i}, of weight 2^{32 * i - 352}" for i in range(rules.LIMBS)] + ["nan_count", "inf_count"]

    def one(about, grad, words):
        finite = grad[np.isfinite(grad)]
        total = rules.from_words(words[:rules.LIMBS]) + rules.sum_of_squares(finite)
        want = np.array([*rules.to_words(total), words[-2] + np.uint64(np.isnan(grad).sum()),
                         words[-1] + np.uint64(np.isinf(grad).sum())], np.uint64)
        got, _ = judge.call(grad, words)
        for name, mine, right in zip(names, normalised(got), normalised(want)):
            if mine != right:
                differs(judge, "norm", "grad_norm", about, name, f"0x{mine:x}", f"0x{right:x}")
        judge.cases += 1
        judge.elements += len(names)
        return got

    none = np.zeros(len(names), np.uint64)
    one("a single 3", np.array([3], np.float32), none)
    for numel in (1, 5, 130, 1023, 1025):
        words = one(f"{numel} elements", gradients(numel, 1, numel)[0], none)
        one(f"{numel} elements on top of others", gradients(numel + 1, 1, numel)[0], words)
    one("no elements", np.zeros(0, np.float32), none)
    one("1e20 beside small ones", np.array([1e20, 1e-3, -2e-5], np.float32), none)
    one("the smallest and the largest", np.array([1e-45, -1e-45, 3.4028235e38, 1.1754942e-38, 2.0**-126], np.float32),
        none)
    one("powers of two, through every limb", np.ldexp(np.float32(1), np.arange(-149, 128)), none)
    one("3,000 of the same", np.full(3000, -0.1, np.float32), none)
    one("zeros with a sign", np.array([0.0, -0.0], np.float32), none)
    one("infinities and NaN", np.array([np.inf, 1, np.nan, -np.inf, -np.nan, 2, np.nan], np.float32), none)
    return "norms"


# name: its C function as a Python function, and its judge
JUDGES = {
    "grad_sum": (grad_sum, judge_grad_sum),
    "maximal_nodes": (maximal_nodes, judge_nodes),
    "grad_norm_exact_accumulate": (grad_norm_exact_accumulate, judge_exact_norm),
    "shard_map": (shard_map, judge_shard_map),
}


def function_of(name, path):
    return JUDGES[name][0](Library(name, path))
