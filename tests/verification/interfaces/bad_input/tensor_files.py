"""safetensors files with the standard library only: a length, a header in JSON, numbers."""

import json
import struct
from pathlib import Path


_WIDTHS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2}


class TensorFile:
    """tensors: name to (dtype, shape, bytes); metadata: name to text."""

    def __init__(self, tensors=None, metadata=None):
        self.tensors, self.metadata = dict(tensors or {}), dict(metadata or {})

    @staticmethod
    def read(path):
        content = Path(path).read_bytes()
        (size,) = struct.unpack("<Q", content[:8])
        header, data = json.loads(content[8:8 + size]), content[8 + size:]
        metadata = header.pop("__metadata__", {})
        return TensorFile({name: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])])
                           for name, one in header.items()}, metadata)

    def write(self, path):
        header, data = {"__metadata__": self.metadata} if self.metadata else {}, b""
        # numbers of eight bytes first, so that all are aligned
        for name, (dtype, shape, numbers) in sorted(self.tensors.items(), key=lambda one: -_WIDTHS.get(one[1][0], 1)):
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
            data += numbers
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
        return str(path)

    def copy(self):
        return TensorFile(self.tensors, self.metadata)

    def only(self, prefix):
        return TensorFile({name: one for name, one in self.tensors.items() if name.startswith(prefix)})

    def without(self, name):
        other = self.copy()
        del other.tensors[name]
        return other

    def put(self, name, dtype=None, shape=None, numbers=None):
        """Adds a tensor, or changes an existing one."""
        other = self.copy()
        old = self.tensors.get(name, (None, None, None))
        other.tensors[name] = (dtype or old[0], old[1] if shape is None else shape,
                               old[2] if numbers is None else numbers)
        return other

    def with_nan(self, name):
        """The first element (of an F32) is NaN."""
        return self.put(name, numbers=struct.pack("<f", float("nan")) + self.tensors[name][2][4:])

    def saying(self, **metadata):
        other = self.copy()
        other.metadata.update(metadata)
        return other
