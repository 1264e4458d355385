"""Arrays for the extension module: formats without a numpy dtype are passed as their bits."""

from __future__ import annotations

from typing import Any

import numpy as np

#: dtypes of the ml_dtypes package and the unsigned integers that have their bits
_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
#: values of `dtype=`, and numpy's dtype that holds them
STORED = {
    "fp32": np.float32, "float32": np.float32, "fp16": np.float16, "float16": np.float16, "half": np.float16,
    "bf16": np.uint16, "bfloat16": np.uint16, "e4m3": np.uint8, "float8_e4m3fn": np.uint8, "e5m2": np.uint8,
    "float8_e5m2": np.uint8,
}


def plain(array: Any) -> Any:
    """The same memory as something the extension module can read: only arrays of ml_dtypes and fp8 tensors change."""
    if isinstance(array, np.ndarray) and array.dtype.name in _BITS:
        return array.view(_BITS[array.dtype.name])
    if type(array).__module__.startswith("torch") and str(array.dtype).startswith("torch.float8"):
        import torch

        return array.view(torch.uint8)
    return array


def shape_of(array: Any) -> tuple[int, ...]:
    """Its shape; () for objects without one, which the extension module refuses."""
    return tuple(getattr(array, "shape", ()))
