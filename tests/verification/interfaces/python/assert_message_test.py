"""Messages of zproof.assert_step_close. Needs numpy; tests that need torch are skipped without it."""

import unittest

import numpy as np
from assert_support import NAN, f32, floats, message, torch


class Messages(unittest.TestCase):
    def test_all_of_one(self):
        want = np.arange(1, 11, dtype=f32)
        got = want.copy()
        got[4], got[7] = np.nextafter(got[4], f32(9)), -got[7]
        self.assertEqual(message(got, want).splitlines(), [
            "Tensor-likes are not equal!", "", "Mismatched elements: 2 / 10 (20.0%)",
            "Greatest absolute difference: 16.0 at index (7,)", "Greatest relative difference: 2.0 at index (7,)",
            "First difference at index (4,): got 0x40a00001 (5.00000048)  want 0x40a00000 (5)",
            "Last difference at index (7,)",
            "Ulps (fp32): 0: 8  1: 1  2: 0  3-15: 0  16+: 0  sign or NaN: 1  largest 1"])
        self.assertEqual(message(f32(1), f32(2)).splitlines()[:4], [
            "Scalars are not equal!", "", "Absolute difference: 1.0", "Relative difference: 0.5"])
        self.assertIn("Greatest absolute difference: nan at index (1,)", message(floats(9, NAN), floats(1, 1)))
        self.assertIn("0: 1  1: 0  2: 0  3-15: 0  16+: 0  sign or NaN: 1  largest 0",
                      message(floats(1, NAN), floats(1, 1)))
        self.assertIn("Greatest absolute difference: 18446744073709551615 ",
                      message(np.uint64([2**64 - 1]), np.uint64([0])))

    @unittest.skipUnless(torch, "there is no torch here")
    def test_first_lines_are_those_of_torch_testing(self):
        want = torch.arange(1.0, 11.0)
        got = want.clone()
        got[4], got[7] = 6, -8
        for words in ({"rtol": 0, "atol": 0}, {"rtol": 0.125, "atol": 0.5}):
            with self.assertRaises(AssertionError) as theirs:
                torch.testing.assert_close(got, want, **words)
            first = str(theirs.exception).splitlines()
            self.assertEqual(message(got, want, **words).splitlines()[: len(first)], first)
            with self.assertRaises(AssertionError) as theirs:
                torch.testing.assert_close({"a": got, "b": want}, {"a": want, "b": want}, **words)
            self.assertIn(str(theirs.exception).splitlines()[-1], message({"a": got, "b": want},
                                                                           {"a": want, "b": want}, **words))
        for one, other in ((want, want[1:]), (want, want.double())):
            with self.assertRaises(AssertionError) as theirs:
                torch.testing.assert_close(one, other)
            self.assertEqual(message(one, other)[:36], str(theirs.exception)[:36])
        with self.assertRaises(ValueError):
            torch.testing.assert_close(want, want, rtol=0)

    def test_shape_dtype_names_and_lengths(self):
        self.assertEqual(message(floats(1, 2), floats(1)),
                         "The values for attribute 'shape' do not match: (2,) != (1,).")
        self.assertEqual(message(floats(1), np.array([1])),
                         "The values for attribute 'dtype' do not match: fp32 != int64.")
        self.assertIn("actual lacks ['m'], and has ['n'] besides", message({"n": 1, "p": 1}, {"m": 1, "p": 1}))
        self.assertIn("actual lacks nothing, and has ['n'] besides", message({"n": 1, "p": 1}, {"p": 1}))
        self.assertIn("actual['s'] lacks ['m']", message({"s": {}}, {"s": {"m": 1}}))
        self.assertIn("1 != 2", message([1], [1, 1]))
        self.assertIn("failure occurred for item ['a'][1]", message({"a": [1, 2]}, {"a": [1, 3]}))
        several = message({"a": 1, "b": floats(1, 2), "c": 3}, {"a": 2, "b": floats(1, 3), "c": 3})
        self.assertIn("2 of 3 items fail; the others:\n  ['b'] mismatched 1 / 2 (50.0%)", several)
        many = {str(k): k for k in range(40)}
        self.assertIn("and 27 more", message(many, {name: k + 1 for name, k in many.items()}))

    def test_hints(self):
        random = np.random.default_rng(7)
        want, grad = (random.normal(size=1003).astype(f32) for _ in range(2))
        lost = want.copy()
        lost[-3:] = 0
        self.assertIn("Hint: they hold 0; only in the last 1003 mod 4 = 3 elements", message(lost, want))
        self.assertIn("divided by 7, the number of micro-batches",
                      message(want / f32(7), want, factors={"the number of micro-batches": 7}))
        self.assertIn("0.1428571 times the expected values", message(want / f32(7), want))
        self.assertIn("the values of grad", message(grad, want, inputs={"grad": grad, "other": np.ones(3, f32)}))
        self.assertIn("not written", message({"m": grad}, {"m": want}, before={"m": grad}))
        message(grad, want, before=np.ones(3, f32), inputs={"bits": grad.view(np.uint32)})  # of no use, and no error
        self.assertIn("not written", message([grad, want], [want, want], before=[grad]))
        self.assertNotIn("Hint", message(grad.astype(np.int32), want.astype(np.int32)))

    def test_msg(self):
        self.assertEqual(message(1, 2, msg="mine"), "mine")
        self.assertEqual(message(1, 2, msg=lambda text: "before " + text)[:30], "before Scalars are not equal!\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
