#!/usr/bin/env python3
"""Puzzles schedule and repair: invalid results, verdicts, the program's number of gathers."""

import itertools
import pathlib
import sys
import unittest

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path[:0] = [str(NOTEBOOKS / "puzzles"), str(NOTEBOOKS)]
import zp  # noqa: E402  (found by the line above)
from judge.cases import repair, schedule  # noqa: E402
from judge.cases.repair import Operation  # noqa: E402
from judge.verdict import Judge, Wrong  # noqa: E402


def said_of(name, judge, answer):
    """The verdict on a function that always returns this."""
    try:
        judge(Judge(name, lambda *arguments: answer))
    except Wrong as wrong:
        return wrong.text
    return "right"


class Schedule(unittest.TestCase):
    def test_invalid_results(self):
        action = "return a list of (action, unit)"
        for answer, said in ((None, "returned nothing"), (3, f"returned 3; {action}"),
                             ([("visit", 0), ("fetch", 0)], f"('fetch', 0); {action}"),
                             ([("visit", 3)], "and one of 3 units"), ([("visit", 0.0)], action),
                             (["visit"], action), ([("visit", "x")], action),
                             ([], "the end: the forward pass has not visited unit 0")):
            self.assertIn(said, said_of("schedule", schedule.judge_schedule, answer))

    def test_invalid_actions(self):
        for answer, said in (([("gather", 0), ("gather", 0)], "unit 0 is present already"),
                             ([("release", 1)], "unit 1 is not present, cannot release it"),
                             ([("visit", 0)], "phase forward  rank 0  buffer unit 0"),
                             ([("gather", 1), ("visit", 1)], "unit 1 is visited where the forward pass is at unit 0")):
            self.assertIn(said, said_of("schedule", schedule.judge_schedule, answer))
        everything = [("gather", unit) for unit in range(3)] + [("visit", unit) for unit in (0, 1, 2, 2, 1, 0, 0)]
        self.assertIn("after both passes", said_of("schedule", schedule.judge_schedule, everything))

    def test_gathers_of_the_program(self):
        plan = zp.json_of("plan", "byte_gpt_tiny", "--grid", "4x1x1", "--stage", 3)
        calls = {row["calls"] for row in found(plan, "collective") if row["of"] == "units"}
        self.assertEqual(calls, {schedule.plan_of([1] * plan["model"]["units"], 1)["gathers"]})


class Repair(unittest.TestCase):
    def test_invalid_results(self):
        pairs = "return a list of pairs"
        for answer, said in ((None, "returned nothing"), (3, f"returned 3; {pairs}"),
                             ([("a", "b", "c")], pairs), ([([], "gather 0")], pairs),
                             ([("a", "b")], "a wait with a, which names no operation")):
            self.assertIn(said, said_of("repair", repair.judge_repair, answer))

    def verdict(self, operations, waits):
        try:
            repair.judge_waits(Judge("repair", None), "a plan", operations, waits)
        except Wrong as wrong:
            return wrong.text.splitlines()[0].strip()
        return "right"

    def test_every_set_of_waits(self):
        """Of all sets of waits of a plan exactly one is accepted, the judge's own."""
        for operations in (repair.prefetch(2), repair.backward(2), repair.prefetch(3)[:5]):
            across = [(a.name, b.name) for a, b in itertools.combinations(operations, 2) if a.stream != b.stream]
            right = [set(waits) for size in range(len(across) + 1) for waits in itertools.combinations(across, size)
                     if self.verdict(operations, list(waits)) == "right"]
            self.assertEqual(right, [set(repair.needed(operations))])

    def test_findings(self):
        plan = [Operation("a", 0, [], ["x"]), Operation("b", 1, ["x"], ["y"]), Operation("c", 0, ["y"], []),
                Operation("d", 1, [], ["z"])]
        right = [("a", "b"), ("b", "c")]
        self.assertEqual(self.verdict(plan, right), "right")
        self.assertIn("a race: a and b touch x", self.verdict(plan, right[1:]))
        self.assertIn("a race: b and c touch y", self.verdict(plan, right[:1]))
        self.assertIn("the wait of d for a is needless", self.verdict(plan, right + [("a", "d")]))
        self.assertIn("the wait of d for b is needless", self.verdict(plan, right + [("b", "d")]))
        self.assertIn("the wait of b for a is needless", self.verdict(plan, right + right[:1]))
        self.assertIn("the wait of d for c is needless (they share no buffer)",
                      self.verdict(plan, right + [("c", "d")]))
        self.assertIn("deadlock: a waits", self.verdict(plan, right + [("b", "a")]))
        self.assertIn("wrong order: b is before a, and both touch x",
                      self.verdict(plan, [("b", "a")]))

    def test_shared_buffers(self):
        reader, writer, other = Operation("r", 0, ["x"]), Operation("w", 1, [], ["x"]), Operation("s", 1, ["x"])
        self.assertEqual(repair.shared(reader, writer), "x")
        self.assertEqual(repair.shared(writer, reader), "x")
        self.assertEqual(repair.shared(writer, writer), "x")
        self.assertIsNone(repair.shared(reader, other))


def found(value, key):
    """Every dictionary below `value` that has this key."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [row for part in inner for row in found(part, key)] + ([value] if isinstance(value, dict) and key in value
                                                                  else [])


if __name__ == "__main__":
    unittest.main()
