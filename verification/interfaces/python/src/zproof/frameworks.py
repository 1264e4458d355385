"""Arrays of a call as arrays of the callable's framework: the same memory, except on other devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _zproof

_FRAMEWORKS = ["numpy", "torch"]
_ML_DTYPES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def framework_named(name: str, device: str) -> Any:
    """Raises ValueError for another name, ImportError if the library is not installed."""
    if name == "torch":
        return Torch(device)
    if name != "numpy":
        near = _zproof.nearest(name, _FRAMEWORKS)
        raise ValueError(f"'{name}' is no framework (it decides what arrays the callable gets); "
                         + (f"did you mean {near}?" if near else "use numpy or torch"))
    if device != "cpu":
        raise ValueError(f"device is '{device}' with numpy (its arrays are in host memory); use framework='torch'")
    return Numpy()


class Numpy:
    """Inputs are read-only arrays."""

    read_only = True

    def __init__(self) -> None:
        try:
            import ml_dtypes
        except ImportError:
            self.types = {}
        else:
            self.types = {dtype: np.dtype(getattr(ml_dtypes, name)) for dtype, name in _ML_DTYPES.items()}

    def take(self, array: np.ndarray, dtype: str) -> np.ndarray:
        return array.view(self.types[dtype]) if dtype in self.types else array

    def store(self, value: Any, target: np.ndarray, name: str) -> None:
        if value is target:
            return
        _in_host_memory(name, value)
        array = np.asarray(value)
        _same(name, array.shape, target.shape, str(array.dtype), str(target.dtype))
        target[...] = array

    def finish(self, arrays: dict[str, Any], operands: dict[str, np.ndarray]) -> None:
        pass


class Torch:
    """Tensors, of bf16 and fp8 too; they cannot be read-only, but inputs are compared afterwards."""

    read_only = False

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            raise ImportError("torch is not installed (the callable gets its tensors); install it, or use "
                              "framework='numpy'") from None
        self.torch = torch
        self.types = {"bf16": torch.bfloat16, "e4m3": getattr(torch, "float8_e4m3fn", None),
                      "e5m2": getattr(torch, "float8_e5m2", None)}
        try:
            self.device = torch.device(device)
            torch.empty(0, device=self.device)
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"tensors cannot be put on device '{device}' ({reason}); use one that torch has here") \
                from None

    def take(self, array: np.ndarray, dtype: str) -> Any:
        tensor = self.torch.from_numpy(array)
        kind = self.types.get(dtype)
        tensor = tensor if kind is None else tensor.view(kind)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def store(self, value: Any, target: Any, name: str) -> None:
        if value is target:
            return
        tensor = self.torch.as_tensor(value)
        _same(name, tuple(tensor.shape), tuple(target.shape), str(tensor.dtype), str(target.dtype))
        target.copy_(tensor.detach())

    def finish(self, arrays: dict[str, Any], operands: dict[str, np.ndarray]) -> None:
        if self.device.type == "cpu":
            return
        getattr(self.torch, self.device.type).synchronize()
        for name, tensor in arrays.items():
            host = tensor.to("cpu").contiguous().view(self.torch.uint8).numpy()
            operands[name].view(np.uint8)[...] = host.reshape(operands[name].view(np.uint8).shape)


def _in_host_memory(name: str, value: Any) -> None:
    where = getattr(value, "__dlpack_device__", None)
    if where is not None and int(where()[0]) not in (1, 3):  # DLPack: memory of the host, pinned or not
        raise TypeError(f"{name} was returned on a device (results are compared in the host's memory); copy it there")


def _same(name: str, shape: tuple[int, ...], want: tuple[int, ...], dtype: str, dtype_wanted: str) -> None:
    if tuple(shape) != tuple(want):
        raise ValueError(f"{name} was returned with shape {tuple(shape)} (it has {tuple(want)}); return one result "
                         "for every element")
    if dtype != dtype_wanted:
        raise TypeError(f"{name} was returned as {dtype} (the bits would not be those computed); return "
                        f"{dtype_wanted}")
