"""Recorded gradients: files of zeroproof record, and the settings in them."""

import re
import struct

import zp


def read_settings(text):
    """The settings of a recording by name: numbers, and strings without their quotes."""
    found = {}
    for name, value in re.findall(r"^(\w+) = (.+)$", text, flags=re.M):
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value.strip("'")
    return found


def recording(path, known):
    """A file of zeroproof record; exits with 2 unless it has one setting of each of `known`."""
    try:
        file = zp.tensors(path)
        about = file.metadata
        lacks = [name for name in ("order", "steps", "micro_batches", "settings") if name not in about]
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        zp.stop(f"{path} is not a safetensors file; record gradients with zeroproof record", 2)
    if lacks:
        zp.stop(f"{path} has no metadata '{lacks[0]}'; record gradients with zeroproof record", 2)
    other = [" or ".join(lines) for lines in known if not set(lines) & set(about["settings"].splitlines())]
    if other:
        zp.stop(f"{path} was not recorded with {other[0]}, the only supported setting; "
                f"record with --dtype bf16 or fp16 and this setting", 2)
    return file
