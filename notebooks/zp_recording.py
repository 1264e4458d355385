"""Recorded gradients: what zeroproof record wrote, and the settings it was recorded with."""

import re
import struct

import zp


def read_settings(text):
    """The settings of a recording by name: numbers, and words without their quotes."""
    found = {}
    for name, value in re.findall(r"^(\w+) = (.+)$", text, flags=re.M):
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value.strip("'")
    return found


def recording(path, known):
    """A file of zeroproof record; ends with 2 unless every one of `known` has a line of its settings."""
    try:
        file = zp.tensors(path)
        about = file.metadata
        lacks = [name for name in ("order", "steps", "micro_batches", "settings") if name not in about]
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        zp.stop(f"{path} is no safetensors file (gradients are read from it); zeroproof record writes one", 2)
    if lacks:
        zp.stop(f"{path} does not say its {lacks[0]} (a run takes it from there); zeroproof record writes it", 2)
    other = [" or ".join(lines) for lines in known if not set(lines) & set(about["settings"].splitlines())]
    if other:
        zp.stop(f"{path} was not recorded with {other[0]} (nothing else is known here); record with --dtype bf16 or "
                f"fp16, and leave these settings as they are", 2)
    return file
