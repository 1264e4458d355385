"""Arrays of any library, read in place: NumPy, PyTorch on the CPU, anything with DLPack."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .formats import Format, format_named, format_of

__all__ = ["Elements", "read_array", "is_array"]

_HOST = (1, 3)  # DLPack: memory of the host, pinned or not
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}


@dataclass(frozen=True)
class Elements:
    """An array as words.

    bits: its elements, floats as unsigned words of their size, in the array's shape.
    format: the meaning of the words.
    strides: in elements, as the array had them.
    """

    bits: np.ndarray
    format: Format
    strides: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    @staticmethod
    def of_words(words: np.ndarray, form: Format) -> Elements:
        return Elements(words, form, tuple(step // words.dtype.itemsize for step in words.strides))

    def values(self) -> np.ndarray:
        return self.format.values(self.bits)

    def to_bytes(self) -> np.ndarray:
        """In row-major order, without gaps."""
        return np.ascontiguousarray(self.bits).reshape(-1).view(np.uint8)


def is_array(value: Any) -> bool:
    """True for objects that read_array takes, if its elements can be read."""
    known = isinstance(value, (Elements, np.ndarray, np.generic))
    return known or hasattr(value, "__dlpack__") or hasattr(value, "__array__")


def _torch_array(tensor: Any, torch: Any, what: str, to_host: bool, to_dense: bool) -> tuple[np.ndarray, str | None]:
    if tensor.layout is not torch.strided:
        if not to_dense:
            raise TypeError(f"{what} is a tensor of layout {tensor.layout} (its elements are not in one block); "
                            "give its .to_dense(), or check_layout=False")
        tensor = tensor.to_dense()
    if tensor.device.type == "meta":
        raise TypeError(f"{what} is on meta (it has a shape and no elements); give a tensor that was computed")
    if tensor.device.type != "cpu":
        if not to_host:
            raise TypeError(f"{what} is on {tensor.device} (elements are compared in the host's memory); "
                            "give its .cpu(), or check_device=False")
        tensor = tensor.cpu()
    tensor = tensor.detach().resolve_conj().resolve_neg()
    words = {torch.bfloat16: (torch.int16, np.uint16, "bf16"), torch.float8_e4m3fn: (torch.uint8, np.uint8, "e4m3"),
             torch.float8_e5m2: (torch.uint8, np.uint8, "e5m2")}
    if tensor.dtype in words:
        word, numpy_word, name = words[tensor.dtype]
        return tensor.view(word).numpy().view(numpy_word), name
    try:
        return tensor.numpy(), None
    except TypeError:
        raise TypeError(f"{what} is a tensor of {tensor.dtype} (it has no words to compare); convert it") from None


def _exchanged_array(array: Any, what: str, to_host: bool) -> np.ndarray:
    """Through DLPack, or through NumPy where DLPack has no name of the type (bfloat16)."""
    if hasattr(array, "__dlpack_device__"):
        kind, number = (int(part) for part in array.__dlpack_device__())
        if kind not in _HOST:
            if not to_host or not hasattr(array, "__array__"):
                device = f"{_DEVICES.get(kind, 'device type ' + str(kind))} {number}"
                raise TypeError(f"{what} is on {device} (elements are compared in the host's memory); copy it to the "
                                "host, or give check_device=False")
            return np.asarray(array)
    if hasattr(array, "__dlpack__"):
        try:
            return np.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            if not hasattr(array, "__array__"):
                raise TypeError(f"{what} is a {type(array).__name__} that DLPack cannot export ({error}); give a "
                                "NumPy array") from None
    return np.asarray(array)


def read_array(array: Any, what: str = "the array", *, dtype: str | None = None, to_host: bool = False,
               to_dense: bool = False) -> Elements:
    """The elements of an array, without a copy if they are in this process's memory; they are only read.

    array: a NumPy array or scalar, a number, a PyTorch tensor, anything with __dlpack__ or __array__. It may be
        read-only and have any strides.
    what: its name in messages.
    dtype: "bf16", "fp16", "e4m3" or "e5m2" for unsigned words that are floats of this format.
    to_host, to_dense: copy arrays that are on a device, or sparse.
    Errors: TypeError for objects without readable elements; ValueError for an unknown dtype.
    """
    if isinstance(array, Elements):
        return array
    torch = sys.modules.get("torch")
    name = None
    if torch is not None and isinstance(array, torch.Tensor):
        values, name = _torch_array(array, torch, what, to_host, to_dense)
    elif isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array (masked elements are not numbers); give .filled(...)")
    elif isinstance(array, (np.ndarray, np.generic, bool, int, float)):
        values = np.asarray(array)
    elif is_array(array):
        values = _exchanged_array(array, what, to_host)
    else:
        raise TypeError(f"{what} is a {type(array).__name__} (it has no elements to compare); give an array")
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    form = format_of(values.dtype) if name is None else format_named(name)
    if form is None:
        raise TypeError(f"{what} has elements of type {values.dtype} (only floats up to 64 bits, integers and bool can "
                        "be compared); convert it")
    if dtype is not None and not form.is_float and form.word.kind == "u":
        as_float = format_named(dtype)
        if as_float.word.itemsize == form.word.itemsize:
            form = as_float
    if form.is_float:
        values = values.view(form.word)
    return Elements.of_words(values, form)
