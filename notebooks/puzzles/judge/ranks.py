"""Virtual ranks: threads with collectives that count traffic and memory and detect deadlocks."""

import contextlib
import threading

import numpy as np


class Misuse(Exception):
    """Invalid use of a collective or of the memory; the text is for the learner."""


class DeadEnd(Exception):
    """Deadlock: some ranks wait in a collective that others do not call."""


class Aborted(Exception):
    """Another rank ended the run."""


class World:
    """State shared by all ranks of a run."""

    def __init__(self, size):
        self.size = size
        self.turn = threading.Condition()
        self.at = ["runs"] * size  # or the collective it waits in, or "has ended"
        self.calls = [0] * size
        self.given, self.taken = [None] * size, [None] * size
        self.round, self.over = 0, None
        self.bytes, self.messages = [0] * size, [0] * size
        self.held, self.peak = [0] * size, [0] * size

    def meet(self, rank, kind, block, combine):
        """Contributes a block, waits for all ranks, and returns combine(all blocks, rank)."""
        with self.turn:
            self.at[rank], self.given[rank] = kind, block
            self.calls[rank] += 1
            entered = self.round
            if all(at == kind for at in self.at):
                try:
                    self.taken = [combine(self.given, other) for other in range(self.size)]
                except Misuse as misuse:
                    self._end(misuse)
                    raise
                self.at = ["runs"] * self.size
                self.round += 1
                self.turn.notify_all()
            else:
                self._detect_deadlock()
            while self.round == entered and self.over is None:
                self.turn.wait()
            if self.round == entered:
                raise Aborted
            return self.taken[rank]

    def leave(self, rank):
        with self.turn:
            self.at[rank] = "has ended"
            self._detect_deadlock()

    def abort(self, reason):
        with self.turn:
            self._end(reason)

    def _end(self, reason):
        if self.over is None:
            self.over = reason
        self.turn.notify_all()

    def _detect_deadlock(self):
        """Ends the run if no rank can continue. Called with the lock held."""
        waiting = [rank for rank in range(self.size) if self.at[rank] not in ("runs", "has ended")]
        if not waiting or "runs" in self.at or len(set(self.at)) == 1:
            return
        ended = [rank for rank in range(self.size) if self.at[rank] == "has ended"]
        waits = ", ".join(f"rank {rank} in {self.at[rank]}, its call {self.calls[rank]}" for rank in waiting)
        why = " and ".join(f"rank {rank} ended after {self.calls[rank]} calls" for rank in ended)
        why = why or "ranks are in different collectives"
        self._end(DeadEnd(f"{why} (every rank must call a collective); waiting forever: {waits}"))


def _array(value, what):
    if not isinstance(value, np.ndarray):
        raise Misuse(f"{what} got {type(value).__name__}; pass a numpy array")
    return value


def _memory_of(array):
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Comm:
    """The collectives of one rank. Results are new arrays, which count as held until released.

    A message is a block of one byte or more to another rank. Sent blocks count as held during the
    collective, unless they are parts of an argument or of a held array. Copies of a rank to itself
    are not counted.
    """

    def __init__(self, world, rank, memory):
        self._world, self.rank, self.size, self._memory = world, rank, world.size, memory

    def _meet(self, kind, given, blocks, combine):
        """World.meet with `given`; counts the sent `blocks` and holds the result's arrays."""
        sizes = [block.nbytes for block in blocks if block.nbytes > 0]
        self._world.bytes[self.rank] += sum(sizes)
        self._world.messages[self.rank] += len(sizes)
        with self._memory.in_flight(blocks):
            result = self._world.meet(self.rank, kind, given, combine)
            for rank, part in enumerate(result) if isinstance(result, list) else [(None, result)]:
                self._memory.hold(kind, part, counted=rank != self.rank)
        return result

    def all_gather(self, block):
        """Every rank's block, in the order of ranks."""
        block = _array(block, "all_gather")
        return self._meet("all_gather", block, [block] * (self.size - 1), lambda given, _: [np.array(b) for b in given])

    def all_to_all(self, blocks):
        """Block r goes to rank r; returns the blocks this rank got, in the order of ranks."""
        if not isinstance(blocks, (list, tuple)) or len(blocks) != self.size:
            raise Misuse(
                f"all_to_all needs one block for each of {self.size} ranks, which may be empty")
        blocks = [_array(block, "all_to_all") for block in blocks]
        others = [block for rank, block in enumerate(blocks) if rank != self.rank]
        return self._meet("all_to_all", blocks, others, lambda given, to: [np.array(b[to]) for b in given])

    def all_reduce(self, words):
        """The sum over all ranks, of integers."""
        words = _array(words, "all_reduce")
        if words.dtype.kind not in "iu":
            raise Misuse(f"all_reduce got {words.dtype}; collectives add integers only (R10)")

        def add(given, _):
            if len({(block.dtype, block.shape) for block in given}) > 1:
                shapes = ", ".join(f"rank {rank} {b.dtype}{list(b.shape)}" for rank, b in enumerate(given))
                raise Misuse(f"all_reduce got arrays of different type or shape: {shapes}")
            total = given[0].copy()
            for block in given[1:]:
                total += block
            return total

        return self._meet("all_reduce", words, [words] * (self.size - 1), add)


class Memory:
    """Bytes one rank holds besides its arguments and its result."""

    def __init__(self, world, rank):
        self._world, self._rank, self._arrays, self._lent = world, rank, {}, []

    def lend(self, arrays):
        """Registers arguments of the function, which are not counted."""
        self._lent += arrays

    def _add(self, size):
        self._world.held[self._rank] += size
        self._world.peak[self._rank] = max(self._world.peak[self._rank], self._world.held[self._rank])

    def hold(self, name, array, counted=True):
        """Counts an array until it is released; returns it."""
        if not isinstance(array, np.ndarray):
            raise Misuse(
                f"memory.hold('{name}', ...) got {type(array).__name__}; pass a numpy array")
        size = array.nbytes if counted else 0
        self._arrays[id(array)] = array, size
        self._add(size)
        return array

    def release(self, array):
        _, size = self._arrays.pop(id(array), (None, None))
        if size is None:
            raise Misuse("memory.release got an array that is not held")
        self._add(-size)

    @contextlib.contextmanager
    def in_flight(self, blocks):
        """Counts the whole arrays behind these blocks while they are sent."""
        known = {id(_memory_of(array)) for array in (*(array for array, _ in self._arrays.values()), *self._lent)}
        wholes = {id(whole): whole.nbytes for whole in map(_memory_of, blocks) if id(whole) not in known}
        size = sum(wholes.values())
        self._add(size)
        yield
        self._add(-size)


def run_ranks(size, body):
    """Runs body(rank, comm, memory) on every rank, as threads. Returns (world, results)."""
    world, results = World(size), [None] * size

    def rank_thread(rank):
        memory = Memory(world, rank)
        try:
            results[rank] = body(rank, Comm(world, rank, memory), memory)
        except Aborted:
            return
        except BaseException as error:  # noqa: B902  (any error of the learner's code)
            error.rank = rank
            world.abort(error)
            return
        world.leave(rank)

    threads = [threading.Thread(target=rank_thread, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if world.over is not None:
        raise world.over
    return world, results
