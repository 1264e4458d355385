"""Arrays by name in a safetensors file, written and read by the harness."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from . import _zproof
from .elements import Elements, read_array
from .formats import FORMATS, Format, format_of

__all__ = ["write_arrays", "read_arrays"]

_BY_FILE_NAME: dict[str, Format] = {form.file_name: form for form in FORMATS.values()}
for _name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    _form = format_of(np.dtype(_name))
    assert _form is not None
    _BY_FILE_NAME[_form.file_name] = _form


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, object],
                 metadata: Mapping[str, str] | None = None) -> None:
    """Writes arrays, or results of read_array; the file appears only when it is complete.

    Errors: TypeError as read_array; OSError if it cannot be written.
    """
    read = {name: array if isinstance(array, Elements) else read_array(array, f"the array {name}")
            for name, array in arrays.items()}
    _zproof.write_tensors(os.fspath(path), [(name, array.format.file_name, list(array.shape), array.to_bytes())
                                            for name, array in read.items()], dict(metadata or {}))


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Elements], dict[str, str]]:
    """The tensors of a file, and its metadata. Errors: OSError for a file that is missing or no safetensors file."""
    tensors, metadata = _zproof.read_tensors(os.fspath(path))
    arrays = {}
    for name, file_name, shape, words in tensors:
        form = _BY_FILE_NAME[file_name]
        arrays[name] = Elements.of_words(words.view(form.word).reshape(shape), form)
    return arrays, metadata
