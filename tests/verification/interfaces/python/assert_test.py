"""zproof.assert_step_close: arguments, verdicts, messages. Needs numpy; tests that need torch or ml_dtypes
are skipped without them."""

import math
import unittest

import numpy as np
import zproof
from assert_support import NAN, assert_step_close, f32, floats, jnp, message, ml_dtypes, torch


class Refused(unittest.TestCase):
    def one_sentence(self, kind, part, *arguments, **words):
        with self.assertRaises(kind) as caught:
            assert_step_close(*arguments, **words)
        text = str(caught.exception)
        self.assertIn(part, text)
        self.assertNotIn("\n", text)
        self.assertRegex(text, r"^.* \(.*\); .*[^.]$")

    def test_arguments_that_contradict(self):
        a = floats(1)
        self.one_sentence(ValueError, "rtol alone", a, a, rtol=0.1)
        self.one_sentence(ValueError, "atol alone", a, a, atol=0.1)
        self.one_sentence(ValueError, "ulps and bound", a, a, ulps=1, bound=1)
        self.one_sentence(ValueError, "ulps and rtol and atol", a, a, ulps=1, rtol=0, atol=0)
        self.one_sentence(ValueError, "bound and rtol and atol", a, a, bound=1, rtol=0, atol=0)
        self.one_sentence(TypeError, "ulps is 1.0", a, a, ulps=1.0)
        self.one_sentence(TypeError, "ulps is True", a, a, ulps=True)
        for name in ("ulps", "bound"):
            self.one_sentence(ValueError, name, a, a, **{name: -1})
        self.one_sentence(ValueError, "rtol is -1", a, a, rtol=-1, atol=0)
        self.one_sentence(ValueError, "atol is nan", a, a, rtol=0, atol=NAN)
        self.one_sentence(ValueError, "bound", a, a, bound=NAN)
        self.one_sentence(ValueError, "shape (2,)", a, a, bound=floats(1, 1))
        self.one_sentence(ValueError, "'bf17'", a, a, dtype="bf17")
        self.one_sentence(ValueError, "dtype is 'bf16'", a, a, dtype="bf16")
        with self.assertRaises(TypeError):
            assert_step_close(a, a, rtoll=1)

    def test_what_cannot_be_compared(self):
        a = floats(1)
        self.one_sentence(TypeError, "actual is a str", "x", "x")
        self.one_sentence(TypeError, "expected a list", {"a": a}, [a])
        self.one_sentence(TypeError, "actual['a'] is a dict", {"a": {"b": a}}, {"a": a})
        self.one_sentence(TypeError, "complex64", np.ones(1, np.complex64), np.ones(1, np.complex64))
        self.one_sentence(TypeError, "object", np.array([a, None], object), a)
        self.one_sentence(TypeError, "masked array", np.ma.masked_array([1.0], [True]), a)
        self.one_sentence(ValueError, "no items", {}, {})
        self.one_sentence(ValueError, "no items", [[]], [[]])
        self.one_sentence(TypeError, "allow_subclasses", a, [1.0], allow_subclasses=False)
        self.one_sentence(ValueError, "nothing for 'b'", {"a": a, "b": a}, {"a": a, "b": a}, bound={"a": 1})
        self.one_sentence(ValueError, "ulps differ between two types", a, floats(1, dtype=np.float64), ulps=1, check_dtype=False)

    def test_memory_of_a_device(self):
        class Elsewhere:
            def __dlpack_device__(self):
                return (2, 3)

            def __dlpack__(self, **_):
                raise RuntimeError("not reached")

        class Copied(Elsewhere):
            def __array__(self, *_, **__):
                return floats(1, 2)

        self.one_sentence(TypeError, "actual is on CUDA 3", Elsewhere(), floats(1, 2))
        self.one_sentence(TypeError, "actual is on CUDA 3", Elsewhere(), floats(1, 2), check_device=False)
        self.one_sentence(TypeError, "expected['m'] is on CUDA 3", {"m": floats(1, 2)}, {"m": Copied()})
        assert_step_close(Copied(), floats(1, 2), check_device=False)
        self.assertIn("1 / 2", message(Copied(), floats(1, 3), check_device=False))

    @unittest.skipUnless(torch, "there is no torch here")
    def test_tensors_that_are_elsewhere(self):
        a = torch.ones(2)
        self.one_sentence(TypeError, "on meta", torch.ones(2, device="meta"), a)
        self.one_sentence(TypeError, "torch.sparse_coo", a.to_sparse(), a)
        assert_step_close(a.to_sparse(), a, check_layout=False)
        self.one_sentence(TypeError, "complex64", torch.ones(1, dtype=torch.complex64), a)


class Passes(unittest.TestCase):
    def test_bits_by_default(self):
        a = floats(1, -0.0, math.inf, 1e-45)
        assert_step_close(a, a.copy())
        for other in (floats(np.nextafter(f32(1), f32(2)), -0.0, math.inf, 1e-45), floats(1, 0.0, math.inf, 1e-45),
                      floats(1, -0.0, -math.inf, 1e-45), floats(1, -0.0, math.inf, 0)):
            self.assertIn("1 / 4 (25.0%)", message(other, a))
            self.assertIn("not equal!", message(a, other, ulps=0))

    def test_nan(self):
        for words in ({}, {"ulps": 2**31}, {"bound": math.inf}, {"rtol": math.inf, "atol": math.inf}):
            self.assertIn("1 / 2", message(floats(1, NAN), floats(1, NAN), **words))
            self.assertIn("NaN is compared with NaN in 1", message(floats(1, NAN), floats(1, NAN), **words))
            assert_step_close(floats(1, NAN), floats(1, NAN), equal_nan=True, **words)
            self.assertIn("1 / 2", message(floats(1, NAN), floats(1, 2), equal_nan=True, **words))
            self.assertIn("1 / 2", message(floats(1, 2), floats(1, NAN), equal_nan=True, **words))
        other = np.array([0x3F800000, 0xFFC00001], np.uint32).view(f32)
        assert_step_close(floats(1, NAN), other, equal_nan=True)

    def test_ulps(self):
        a = floats(1, -1, 1e-45)
        near = np.nextafter(np.nextafter(a, f32(9)), f32(9))
        self.assertIn("not close!", message(near, a, ulps=1))
        assert_step_close(near, a, ulps=2)
        self.assertIn("(1 allowed)", message(near, a, ulps=1))
        self.assertIn("1 / 1", message(floats(0.0), floats(-0.0), ulps=99))  # other signs
        largest = np.finfo(f32).max
        self.assertIn("1 / 1", message(floats(math.inf), floats(largest), ulps=9))  # infinity has no neighbour
        assert_step_close(np.uint32([3]), np.uint32([3]), ulps=9)
        self.assertIn("1 / 1", message(np.uint32([3]), np.uint32([4]), ulps=9))
        wide = floats(1.0, dtype=np.float64)
        assert_step_close(np.nextafter(wide, 2), wide, ulps=1)

    def test_bound(self):
        a, b = floats(1, 2, 3), floats(1, 2.5, 3)
        assert_step_close(b, a, bound=0.5)
        assert_step_close(b, a, bound=floats(0, 0.5, 0))
        self.assertIn("(up to bound allowed)", message(b, a, bound=floats(1, np.nextafter(f32(0.5), f32(0)), 1)))
        self.assertIn("(up to 0.25 allowed)", message(b, a, bound=0.25))
        assert_step_close({"a": a, "b": b}, {"a": b, "b": b}, bound={"a": 0.5, "b": 0})
        self.assertIn("item ['a']", message({"a": a, "b": b}, {"a": b, "b": b}, bound={"a": 0.25, "b": 9}))
        assert_step_close([a, b], [b, b], bound=[0.5, 0])
        assert_step_close(floats(math.inf), floats(math.inf), bound=0)
        tiny = floats(-(2.0**-54), dtype=np.float64)  # 1 + 2^-54 is no fp64
        self.assertIn("1 / 1", message(floats(1, dtype=np.float64), tiny, bound=1))
        self.assertIn("1 / 1", message(np.array([2**53 + 1]), np.array([0]), bound=2.0**53))
        self.assertIn("1 / 1", message(np.array([-2**63]), np.array([2**63 - 1]), bound=2.0**63))

    def test_rtol_and_atol(self):
        a = floats(100)
        assert_step_close(floats(101), a, rtol=0.01, atol=0)
        self.assertIn("1 / 1", message(a, floats(101), rtol=0.0099, atol=0))  # of the expected one
        assert_step_close(floats(101), a, rtol=0, atol=1)
        assert_step_close(floats(0.0), floats(-0.0), rtol=0, atol=0)
        for one, other in ((1, math.inf), (math.inf, 1), (-math.inf, math.inf)):
            self.assertIn("1 / 1", message(floats(one), floats(other), rtol=1, atol=1))
        assert_step_close(floats(math.inf), floats(math.inf), rtol=0, atol=0)
        assert_step_close(np.array([5]), np.array([4]), rtol=0, atol=1)

    def test_memory_of_any_shape(self):
        a = np.arange(12, dtype=f32).reshape(3, 4)
        assert_step_close(a.T, np.ascontiguousarray(a.T))
        assert_step_close(a[:, ::-2], a[:, ::-2].copy())
        frozen = a.copy()
        frozen.flags.writeable = False
        assert_step_close(frozen, a)
        assert_step_close(a.astype(">f4"), a)
        assert_step_close(np.zeros((0, 3), f32), np.zeros((0, 3), f32))
        assert_step_close(1.0, 1.0)
        assert_step_close(f32(1), np.ones((), f32))
        assert_step_close({"a": None, "b": [a, (a, 2)]}, {"b": [a, (a, 2)], "a": None})
        self.assertIn("stride()", message(a.T, np.ascontiguousarray(a.T), check_stride=True))
        self.assertIn("index (2, 1)", message(np.where(a == 9, 0, a).astype(f32), a))

    def test_narrow_formats_without_a_package(self):
        a = np.array([0x3F80, 0x4000], np.uint16)
        b = np.array([0x3F80, 0x4001], np.uint16)
        self.assertIn("got 16385  want 16384", message(b, a))
        self.assertIn("got 0x4001 (2.016)  want 0x4000 (2)", message(b, a, dtype="bf16"))
        assert_step_close(b, a, dtype="bf16", ulps=1)
        assert_step_close({"param": b, "found_inf": np.uint32([0])}, {"param": a, "found_inf": np.uint32([0])},
                          dtype="bf16", ulps=1)
        for name, code, value in (("e4m3", 0x7E, 448.0), ("e4m3", 0x01, 2.0**-9), ("e4m3", 0xC4, -3.0),
                                  ("e5m2", 0x7B, 57344.0), ("e5m2", 0x01, 2.0**-16)):
            words = np.array([code], np.uint8)
            assert_step_close(words, floats(value), dtype=name, check_dtype=False)
            self.assertIn("1 / 1", message(words, floats(value * 1.01), dtype=name, check_dtype=False))
        for name, code in (("e4m3", 0x7F), ("e4m3", 0xFF), ("e5m2", 0x7D), ("bf16", 0x7FC0), ("fp16", 0x7E00)):
            words = np.array([code], np.uint16 if name in ("bf16", "fp16") else np.uint8)
            self.assertIn("NaN is compared with NaN in 1", message(words, words, dtype=name))
        signalling = np.array([0x7F800001, 0x3F800000], np.uint32).view(f32)
        assert_step_close(signalling, floats(NAN, 1), equal_nan=True)
        infinite = np.array([0x7C], np.uint8)
        assert_step_close(infinite, floats(math.inf), dtype="e5m2", check_dtype=False)

    @unittest.skipUnless(ml_dtypes, "there is no ml_dtypes here")
    def test_ml_dtypes_decodes_the_same(self):
        codes = np.arange(256, dtype=np.uint8)
        for name, theirs in (("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)):
            assert_step_close(codes, codes.view(theirs).astype(f32), dtype=name, check_dtype=False, equal_nan=True)
            assert_step_close(codes, codes.view(theirs), dtype=name, equal_nan=True)
        words = np.arange(2**16, dtype=np.uint16)
        assert_step_close(words, words.view(ml_dtypes.bfloat16).astype(f32), dtype="bf16", check_dtype=False,
                          equal_nan=True)

    @unittest.skipUnless(jnp, "there is no jax here")
    def test_arrays_of_jax(self):
        a = jnp.arange(4.0)
        words = np.array([0, 0x3F80, 0x4000, 0x4040], np.uint16)
        assert_step_close({"a": a}, {"a": np.arange(4, dtype=f32)})
        assert_step_close(a.astype(jnp.bfloat16), words, dtype="bf16")
        assert_step_close(a.astype(jnp.float8_e4m3fn), a, check_dtype=False)
        self.assertIn("Ulps (bf16): 0: 3  1: 0", message(a.at[3].set(9).astype(jnp.bfloat16), words, dtype="bf16"))

    @unittest.skipUnless(torch, "there is no torch here")
    def test_tensors(self):
        a = torch.arange(6.0).reshape(2, 3)
        assert_step_close(a, np.arange(6, dtype=f32).reshape(2, 3))
        assert_step_close(a.t(), a.numpy().T)
        assert_step_close(a.clone().requires_grad_(), a)
        assert_step_close(torch.tensor([True]), np.array([True]))
        assert_step_close(torch._neg_view(a), -a.numpy())
        words = np.array([0x3F80, 0x4000], np.uint16)
        assert_step_close(torch.tensor([1.0, 2.0]).bfloat16(), words, dtype="bf16")
        self.assertIn("got 0x4040 (3)", message(torch.tensor([1.0, 3.0]).bfloat16(), words, dtype="bf16"))
        assert_step_close(torch.tensor([448.0]).to(torch.float8_e4m3fn), np.array([0x7E], np.uint8), dtype="e4m3")
        assert_step_close(torch.tensor([1.0]).to(torch.float8_e5m2), np.array([0x3C], np.uint8), dtype="e5m2")


class Package(unittest.TestCase):
    def test_name(self):
        self.assertIs(zproof.assert_step_close, assert_step_close)


if __name__ == "__main__":
    unittest.main(verbosity=2)
