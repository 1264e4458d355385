#!/usr/bin/env python3
"""checks_test.py PROGRAM    everyday checks on numbers whose answer is known, and against the record that papers/ shows.

PROGRAM is zeroproof-faults. The record's faults are those of the catalogue, and four of them are run anew; the slow
test renews all.
"""

import contextlib
import io
import json
import math
import pathlib
import struct
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "verification" / "faults"))
import everyday_checks as checks  # noqa: E402
import everyday_runs as runs  # noqa: E402
import everyday_table as table  # noqa: E402

PROGRAM = ""
NAN = math.nan


class Checks(unittest.TestCase):
    def test_loss(self):
        seeds = [[2.0, 1.0], [2.5, 2.0], [3.0, 3.0]]  # 0.5 and 1 apart
        self.assertEqual(checks.loss([2.5, 1.5], [2.25, 2.5], seeds), {"sees": False, "spreads": 1.0, "step": 2})
        self.assertEqual(checks.loss([2.5, 1.5], [2.0, 2.0], seeds), {"sees": False, "spreads": 1.0, "step": 1})
        self.assertEqual(checks.loss([3.25, 1.0], [2.25, 2.5], seeds), {"sees": True, "spreads": 2.0, "step": 1})
        self.assertEqual(checks.loss([2.0, None], [2.0, 2.5], seeds), {"sees": True, "spreads": None, "step": 2})
        self.assertFalse(checks.loss([2.0, 1.0], [2.0, 1.0], seeds)["sees"])

    def test_sum(self):
        self.assertFalse(checks.total([1.0, 2.0], [2.0, 1.0])["sees"])
        self.assertFalse(checks.total([1.0, 1e-7], [1.0, 0.0])["sees"])
        self.assertEqual(checks.total([1.0, 1e-5], [1.0, 0.0]), {"sees": True, "with": "1.00001", "without": "1"})
        self.assertTrue(checks.total([NAN], [NAN])["sees"])
        self.assertTrue(checks.total([math.inf], [1.0])["sees"])

    def test_allclose(self):
        self.assertEqual(checks.allclose([1.0, -2.0, 0.0], [1.0, -2.0, 0.0], 1e-5), {"sees": False, "outside": 0})
        self.assertEqual(checks.allclose([1.0005, 2.1], [1.0, 2.0], 1e-3), {"sees": True, "outside": 1})
        self.assertEqual(checks.allclose([1e-8, 3e-8], [0.0, 0.0], 1e-3), {"sees": True, "outside": 1})
        self.assertEqual(checks.allclose([NAN, 0.0], [NAN, 0.0], 1e-3), {"sees": True, "outside": 1})

    def test_bits(self):
        half = [("F16", struct.pack("<3e", *numbers)) for numbers in ((0.0, 1.0, 2.0), (-0.0, 1.0, 2.5))]
        self.assertEqual(checks.other_bits(half[1], half[0]), {"sees": True, "differ": 2})
        self.assertEqual(checks.other_bits(half[0], half[0]), {"sees": False, "differ": 0})
        code = [("F8_E4M3", codes) for codes in (b"\1\2\3", b"\1\x82\4")]
        self.assertEqual(checks.other_bits(code[1], code[0]), {"sees": True, "differ": 2})
        self.assertEqual(checks.other_bits(None, half[0]), {"sees": True, "differ": None})

    def test_numbers(self):
        self.assertEqual(list(runs.floats(("F32", struct.pack("<2f", 1.5, -2.0)))), [1.5, -2.0])
        self.assertEqual(list(runs.floats(("BF16", b"\xc0\x3f\x00\xc0"))), [1.5, -2.0])
        with self.assertRaises(AssertionError):
            runs.floats(("F16", b"\0\0"))


class Words(unittest.TestCase):
    def test_every_part_of_a_case_is_in_the_words(self):
        words, saved = runs.words_of("byte_gpt_tiny/adamw/device-graph/stage3/self/fp16/whole/bucket:4096/omp:1/overlap")
        self.assertEqual((" ".join(words), saved), (
            "--workload byte_gpt_tiny --recipe adamw --twin device-graph --stage 3 --world self --dtype fp16 "
            "--bucket 4096 --threads 1 --overlap", None))
        self.assertEqual(" ".join(runs.on_host(words))[:57], "--workload byte_gpt_tiny --recipe adamw --twin host --sta")
        words, saved = runs.words_of("recorded/sgd/host/stage1/threads:3/bf16/lockstep/bucket:4096/omp:2/sum:binned")
        self.assertEqual(" ".join(words), "--recipe sgd --twin host --stage 1 --world threads:3 --dtype bf16 "
                         "--bucket 4096 --threads 2 --sum binned")
        words, saved = runs.words_of("resume/adamw-idle/3:2-to-3:2/fp16/contract-to-contract/after:4")
        self.assertEqual((words[3], words[5], words[7], saved), ("adamw-idle", "threads:3", "2", 4))
        for other in ("3:2-to-2:2/fp16/contract-to-contract", "3:2-to-3:2/fp16/contract-to-fsdp2"):
            with self.assertRaisesRegex(ValueError, "goes on with other ranks"):
                runs.words_of(f"resume/adamw/{other}/after:4")


class Record(unittest.TestCase):
    def test_has_every_fault(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertFalse(table.check(PROGRAM), said.getvalue())

    def test_other_faults_than_the_catalogue_has_are_told(self):
        other = table.load(table.RECORD)
        gone = other["faults"].pop(7)["fault"]
        other["faults"].append({**other["faults"][0], "fault": "invented"})
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            path = pathlib.Path(folder, "record.json")
            path.write_text(checks.text_of(other))
            self.assertTrue(table.check(PROGRAM, path))
            other["faults"] = table.load(table.RECORD)["faults"][::-1]
            path.write_text(checks.text_of(other))
            self.assertTrue(table.check(PROGRAM, path))
        for sentence in (f"the record has no {gone} (", "the catalogue has no invented (", "in another order ("):
            self.assertIn(sentence, said.getvalue())

    def test_is_what_runs_give(self):
        names = ["power-by-running-product", "bins-rounded-twice", "shards-of-another-world", "resume-forgets-steps"]
        kept = {fault["fault"]: fault for fault in table.load(table.RECORD)["faults"]}
        made = json.loads(checks.text_of(checks.record(PROGRAM, names, lambda what: None)))
        self.assertEqual(made["contract"], table.load(table.RECORD)["contract"])
        self.assertEqual(len(made["faults"]), len(names))
        for fault in made["faults"]:
            self.assertEqual(fault, kept[fault["fault"]])

    def test_rows_are_replaced(self):
        kept, made = ({"seeds": [2], "faults": [{"fault": name, "n": n} for name in names]}
                      for n, names in ((1, "cab"), (2, "bd")))
        rows = checks.merged(kept, made, "abcd")["faults"]
        self.assertEqual([(row["fault"], row["n"]) for row in rows], [("a", 1), ("b", 2), ("c", 1), ("d", 2)])
        self.assertEqual(len(checks.merged(kept, made, "ab")["faults"]), 2)
        with self.assertRaisesRegex(ValueError, "other settings"):
            checks.merged(kept, {**made, "seeds": [3]}, "abcd")

    def test_another_record_is_told(self):
        other = table.load(table.RECORD)
        other["faults"][3]["hash"] = {"sees": "perhaps"}
        del other["faults"][5]
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            path = pathlib.Path(folder, "record.json")
            path.write_text(checks.text_of(other))
            self.assertTrue(table.compare(path))
            self.assertFalse(table.compare(table.RECORD))
        self.assertIn(f"{table.load(table.RECORD)['faults'][3]['fault']}, hash: ", said.getvalue())

    def test_every_fault_that_trains_is_looked_at_by_all(self):
        for fault in table.load(table.RECORD)["faults"]:
            missing = [check for check in checks.CHECKS if fault[check] is None]
            if fault["outcome"] == "trained":
                self.assertIn(missing, [[], ["loss"]] if fault["case"].startswith("recorded/") else [[]])
            else:
                self.assertTrue(fault["why"] and missing == list(checks.CHECKS[:-1]), fault)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
