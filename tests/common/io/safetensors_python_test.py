"""Python writes and zeroproof reads, zeroproof writes and Python reads; every difference is an error.

usage: safetensors_python_test.py TOOL FOLDER
"""

import subprocess
import sys

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

NAMES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I8": np.int8, "I16": np.int16, "I32": np.int32,
         "I64": np.int64, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "BOOL": np.bool_}
SHAPES = [(), (7,), (0,), (3, 0, 5), (17, 129), (2, 3, 1, 2, 5)]
METADATA = {"format": "np", 'quote "and" \\': "line\nbreak \u00e9", "\U0001f600": ""}

tool, folder = sys.argv[1:3]


def run(*arguments):
    return subprocess.run([tool, *arguments], check=True, capture_output=True, text=True).stdout


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def arrays():
    random = np.random.default_rng(1)
    result = {}
    for name, dtype in NAMES.items():
        for i, shape in enumerate(SHAPES):
            raw = random.integers(0, 2 if name == "BOOL" else 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
            result[f"{name} \u00e4/{i}"] = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
    return result


def metadata_of(path):
    with safetensors.safe_open(path, "np") as file:
        return file.metadata()


def python_to_ours():
    written = arrays()
    save_file(written, folder + "/python", metadata=METADATA)
    run("copy", folder + "/python", folder + "/copy")
    read = load_file(folder + "/copy")
    assert read.keys() == written.keys()
    for name, array in written.items():
        assert same(read[name], array), name
    assert metadata_of(folder + "/copy") == METADATA
    lines = [line for line in run("dump", folder + "/python").splitlines() if line.startswith("tensor ")]
    assert len(lines) == len(written)
    try:
        import xxhash
    except ImportError:
        xxhash = None
    for name, array in written.items():
        shape = ",".join(str(n) for n in array.shape)
        (line,) = [line for line in lines if line.startswith(f"tensor {name} {name.split()[0]} [{shape}] ")]
        if xxhash:
            assert line.split()[-1] == xxhash.xxh3_128_hexdigest(array.tobytes()), name
    print(f"{len(written)} tensors written by Python and read here, digests {'compared' if xxhash else 'NOT compared'}")


def python_raw_to_ours():
    """bf16 and fp8, which numpy does not have: through the library's own function."""
    data = {"bfloat16": bytes(range(30)), "float8_e4m3fn": bytes(range(15)), "float8_e5m2": bytes(range(15, 30))}
    keep = {name: np.frombuffer(content, np.uint8) for name, content in data.items()}  # pointers into these are passed
    if hasattr(safetensors, "TensorSpec"):
        raw = {name: safetensors.TensorSpec(dtype=name, shape=[3, 5], data_ptr=array.ctypes.data, data_len=array.nbytes)
               for name, array in keep.items()}
    else:  # before safetensors 0.8
        raw = {name: {"dtype": name, "shape": [3, 5], "data": content} for name, content in data.items()}
    with open(folder + "/raw", "wb") as file:
        file.write(safetensors.serialize(raw, None))
    run("copy", folder + "/raw", folder + "/raw copy")
    with open(folder + "/raw copy", "rb") as file:
        read = dict(safetensors.deserialize(file.read()))
    for name, kind in [("bfloat16", "BF16"), ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")]:
        assert read[name]["dtype"] == kind and bytes(read[name]["data"]) == data[name], name
    print("bf16 and fp8 written by Python and read here")


def ours_to_python():
    run("write", folder + "/ours")
    with open(folder + "/ours", "rb") as file:
        read = dict(safetensors.deserialize(file.read()))
    assert len(read) == 16 * len(SHAPES)
    for name, tensor in read.items():
        assert tensor["dtype"] == name.split("/")[0] and tensor["shape"] == list(SHAPES[int(name.split("/")[1])]), name
        data = bytes(tensor["data"])
        assert data == bytes((37 * i + len(name)) % 256 for i in range(len(data))), name
    assert metadata_of(folder + "/ours") == {k: v for k, v in METADATA.items() if v}
    print(f"{len(read)} tensors written here and read by Python")


python_to_ours()
python_raw_to_ours()
ours_to_python()
