"""A callable from its name on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _zproof


class UsageError(Exception):
    """A usage error: one sentence, exit code 2."""


def split_name(name: str) -> tuple[str, str]:
    """The module or file, and the callable in it. Raises UsageError."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise UsageError(f"'{name}' names no callable (a callable is required); write MODULE:FUNCTION or "
                         "FILE.py:FUNCTION")
    return where, attribute


def load_callable(name: str) -> Callable[..., Any]:
    """The callable of "module:function" or "file.py:function".

    Modules are searched in the current folder first. Raises UsageError.
    """
    where, attribute = split_name(name)
    module = _module(where)
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = [one for one in dir(value) if callable(getattr(value, one)) and not one.startswith("_")]
            near = _zproof.nearest(part, known)
            raise UsageError(f"{where} has no {part} (a callable is required); "
                             + (f"did you mean {near}?" if near else "callables there: " + (", ".join(known) or "none")))
        value = getattr(value, part)
    if not callable(value):
        raise UsageError(f"{name} is a {type(value).__name__} (it cannot be called); name a function")
    return value


def source_of(fn: Callable[..., Any]) -> tuple[str, int]:
    """File and line where a callable is written; ("", 0) if unknown: it is written in another language."""
    fn = getattr(fn, "zproof_source", fn)
    if isinstance(fn, tuple):  # it is in another process, which has looked it up
        return fn
    try:
        whole = inspect.unwrap(fn)
        return inspect.getsourcefile(whole) or "", inspect.getsourcelines(whole)[1]
    except (TypeError, OSError, ValueError):
        return "", 0


def _module(where: str) -> Any:
    try:
        if where.endswith(".py"):
            path = Path(where)
            if not path.is_file():
                raise UsageError(f"there is no file {where} (the callable is read from it); check its path")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module
            sys.path.insert(0, str(path.resolve().parent))
            spec.loader.exec_module(module)
            return module
        sys.path.insert(0, "")
        return importlib.import_module(where)
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        raise UsageError(f"{where} cannot be imported ({error}); run from its folder, or name a FILE.py") from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where} cannot be imported (it raised {type(error).__name__}: {error}); fix it first") \
            from None
