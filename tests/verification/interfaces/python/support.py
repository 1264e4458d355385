"""Shared helpers of the tests of the package."""

import contextlib
import ctypes
import json
import struct
import unittest

import numpy as np

import zproof

F = np.float32


def same_bits(test: unittest.TestCase, got, want) -> None:
    """NaN equals NaN with any bits."""
    got, want = np.asarray(got), np.asarray(want)
    test.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
    if got.dtype.kind == "f":
        both = np.isnan(got) & np.isnan(want)
        got, want = np.where(both, 0, got), np.where(both, 0, want)
    test.assertEqual(got.tobytes(), want.tobytes())


@contextlib.contextmanager
def one_sentence(test: unittest.TestCase, kind: type, *parts: str):
    """The body raises `kind` with one sentence that has these parts: problem (why); remedy."""
    with test.assertRaises(kind) as caught:
        yield
    text = str(caught.exception).strip("'\"")
    test.assertNotIn("\n", text)
    test.assertRegex(text, r"^[^()].*\(.+\); .+", text)
    for part in parts:
        test.assertIn(part, text)


def judged(fn, op="adamw", **words):
    """The verdict on one family of inputs, unless words say otherwise."""
    return zproof.judge(fn, op, **{"fills": "training", **words})


def adamw(grad, master, exp_avg, exp_avg_sq, *, scalars, beta1, beta2):
    """AdamW with the contract's order of operations, each rounded once."""
    with np.errstate(all="ignore"):
        exp_avg[...] = F(beta1) * exp_avg + F(scalars.one_minus_beta1) * grad
        exp_avg_sq[...] = F(beta2) * exp_avg_sq + F(scalars.one_minus_beta2) * (grad * grad)
        d = np.sqrt(exp_avg_sq) / F(scalars.sqrt_bias_correction2) + F(scalars.eps)
        u = F(scalars.step_size) * (exp_avg / d)
        if scalars.has_decay:
            u = u + F(scalars.lr_weight_decay) * master
        master[...] = master - u


class Exporter:
    """An array of a library that offers nothing but DLPack."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class OnDevice:
    """fp32 that claims to be on a CUDA device; reading it is an error."""

    def __init__(self, numel):
        self.shape = (numel,)
        self.sizes = (ctypes.c_int64 * 1)(numel)
        self.strides = (ctypes.c_int64 * 1)(1)
        self.tensor = _Tensor(16, 2, 0, 1, 2, 32, 1, self.sizes, self.strides, 0, None, None)

    def __dlpack__(self, **words):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return (2, 0)


def read_safetensors(path):
    """Arrays of fp32 by name, and the metadata."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    metadata = header.pop("__metadata__")
    return {name: np.frombuffer(data[slice(*one["data_offsets"])], np.float32).reshape(one["shape"])
            for name, one in header.items()}, metadata


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
