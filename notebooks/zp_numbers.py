"""Numbers and their bits, and safetensors files. Used through zp."""

import json
import pathlib
import struct

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U64": "<u8",
          "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}


class Tensors(dict):
    """Arrays by name, and the file's `metadata`."""

    def __init__(self, arrays, metadata):
        super().__init__(arrays)
        self.metadata = metadata


def tensors(path):
    """Every tensor of a safetensors file. bf16, which numpy lacks, becomes fp32 (exact)."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        array = np.frombuffer(data[8 + size + begin:8 + size + end], DTYPES[about["dtype"]])
        array = from_bf16(array) if about["dtype"] == "BF16" else array.copy()
        arrays[name] = array.reshape(about["shape"])
    return Tensors(arrays, metadata)


def write_tensors(path, arrays, **metadata):
    """Writes a safetensors file with these arrays; metadata values become text."""
    dtypes = {np.dtype(code): name for name, code in DTYPES.items() if name != "BF16"}
    header, body = {"__metadata__": {name: str(word) for name, word in metadata.items()}}, b""
    in_order = sorted(((name, np.asarray(array, order="C")) for name, array in arrays.items()),
                      key=lambda item: -item[1].dtype.itemsize)  # aligned: largest first
    for name, array in in_order:
        header[name] = {"dtype": dtypes[array.dtype], "shape": array.shape,
                        "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def bits(values):
    """The bit patterns of a float array, as unsigned integers."""
    values = np.asarray(values)
    return values.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[values.dtype.itemsize])


def hexadecimal(value):
    """0x3f800000 for np.float32(1): the format of every program of the project."""
    value = np.asarray(value)
    return f"0x{int(bits(value)):0{2 * value.dtype.itemsize}x}"


def different(a, b):
    """Number of elements that differ in bits; all NaNs are one value (R9)."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        raise ValueError(f"{a.dtype}{a.shape} and {b.dtype}{b.shape} cannot be compared bit by bit")
    same = bits(a) == bits(b)
    if a.dtype.kind == "f":
        same = same | (np.isnan(a) & np.isnan(b))
    return int(same.size - np.count_nonzero(same))


def from_bf16(patterns):
    """fp32 values of bf16 patterns (uint16); exact."""
    return (np.asarray(patterns).astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(values):
    """fp32 rounded to bf16, to nearest, ties to even (R8), as fp32 values; NaN stays NaN."""
    shape = np.shape(values)
    values = np.array(values, np.float32).reshape(-1)
    pattern = bits(values)
    rounded = (pattern + (((pattern >> 16) & 1) + 0x7FFF)) >> 16
    return np.where(np.isnan(values), values, from_bf16(rounded)).reshape(shape)[()]


def number(text):
    """The leading integer of a value in a report: 0xf0000000 of "0xf0000000 (4026531840)"."""
    return int(text.split()[0], 16)
