"""Float formats as bits: the meaning of an array's words, also for types without a NumPy name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Format", "FORMATS", "format_named", "format_of"]


@dataclass(frozen=True)
class Format:
    """A type of elements.

    name: as the command line says it: "fp32", "bf16", "e4m3", or NumPy's name of an integer type.
    word: the NumPy type that holds one element; unsigned for floats.
    mantissa: stored digits of a float, -1 of integers.
    digits: significant decimals that tell neighbours apart.
    """

    name: str
    word: np.dtype
    mantissa: int = -1
    digits: int = 0

    @property
    def is_float(self) -> bool:
        return self.mantissa >= 0

    @property
    def file_name(self) -> str:
        """As safetensors calls it: "F32", "BF16", "I64", "BOOL"."""
        if not self.is_float:
            return "BOOL" if self.word.kind == "b" else f"{self.word.kind.upper()}{8 * self.word.itemsize}"
        return {"bf16": "BF16", "e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}.get(self.name, f"F{8 * self.word.itemsize}")

    def values(self, bits: np.ndarray) -> np.ndarray:
        """The numbers as float64, exactly; integers are unchanged."""
        if not self.is_float:
            return bits
        with np.errstate(invalid="ignore"):  # NaNs that signal are NaNs here
            return self._widened(bits)

    def _widened(self, bits: np.ndarray) -> np.ndarray:
        if self.name in ("fp64", "fp32", "fp16"):
            return bits.view({8: np.float64, 4: np.float32, 2: np.float16}[bits.dtype.itemsize]).astype(np.float64)
        if self.name == "bf16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.name == "e5m2":  # the upper half of an fp16
            return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
        return _E4M3[bits]

    def is_nan(self, bits: np.ndarray) -> np.ndarray:
        if not self.is_float:
            return np.zeros(bits.shape, bool)
        return np.isnan(self.values(bits))

    def shown(self, bits: int) -> str:
        """0x3f8ccccd (1.10000002): bits and, with enough digits, the value."""
        if not self.is_float:
            return str(bits)
        value = float(self.values(np.array([bits], self.word))[0])
        return f"0x{int(bits):0{2 * self.word.itemsize}x} ({value:.{self.digits}g})"


def _e4m3_values() -> np.ndarray:
    codes = np.arange(256)
    exponent, digits = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, np.ldexp(digits / 8.0, -6), np.ldexp(1 + digits / 8.0, exponent - 7))
    size[(codes & 127) == 127] = np.nan  # there is no infinity
    return np.where(codes >= 128, -size, size)


_E4M3 = _e4m3_values()

FORMATS = {
    f.name: f
    for f in (
        Format("fp64", np.dtype(np.uint64), 52, 17),
        Format("fp32", np.dtype(np.uint32), 23, 9),
        Format("fp16", np.dtype(np.uint16), 10, 5),
        Format("bf16", np.dtype(np.uint16), 7, 4),
        Format("e4m3", np.dtype(np.uint8), 3, 3),
        Format("e5m2", np.dtype(np.uint8), 2, 2),
    )
}
_NUMPY_NAMES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


def format_named(name: str) -> Format:
    """Errors: ValueError if there is no such float format."""
    if name not in FORMATS:
        raise ValueError(f"dtype {name!r} is no format of floats (the words could not be read); give one of "
                         + ", ".join(FORMATS))
    return FORMATS[name]


def format_of(dtype: np.dtype) -> Format | None:
    """The format of a NumPy type, those of ml_dtypes too; None if elements of it cannot be compared."""
    if dtype.name in _NUMPY_NAMES:
        return FORMATS[_NUMPY_NAMES[dtype.name]]
    if dtype.kind in "iub":
        return Format(dtype.name, dtype)
    return None
