"""The trajectory hash: XXH3-128 of libxxhash, which the programs use too."""

import ctypes
import ctypes.util

import numpy as np
import zp
from zp_numbers import bits


class TrajectoryHash:
    """Hash of a trajectory's values in the contract's order; exits with 3 without libxxhash."""

    def __init__(self):
        name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
        try:
            self.library = ctypes.CDLL(name)
        except OSError:
            zp.stop("libxxhash cannot be loaded; install libxxhash0", 3)
        self.parts = []

    def add(self, *values):
        """Little endian; every NaN is the canonical one (R9)."""
        for value in values:
            value = np.asarray(value)
            if value.dtype.kind == "f":
                pattern = bits(value)
                canonical = pattern.dtype.type(np.iinfo(pattern.dtype).max >> 1)
                value = np.where(np.isnan(value), canonical, pattern)
            self.parts.append(value.tobytes())

    def add_bf16(self, values):
        """Adds fp32 values that are exact in bf16, as bf16."""
        upper = (bits(values) >> 16).astype(np.uint16)
        self.parts.append(np.where(np.isnan(values), np.uint16(0x7FFF), upper).tobytes())

    def text(self):
        class Hash(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        self.library.XXH3_128bits.restype = Hash
        self.library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        data = b"".join(self.parts)
        value = self.library.XXH3_128bits(data, len(data))
        return f"{value.high:016x}{value.low:016x}"
