"""Functions of PyTorch that a recorder observes while it is open, and hooks that copies of a model leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Hook", "FunctionHooks"]


def _ignore(*_: Any, **__: Any) -> None:
    """The hook of a copied model."""


def _ignoring() -> Callable[..., None]:
    return _ignore


class Hook:
    """Calls a recorder. Models are copied (averages) and stored with their hooks: a copy records nothing."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> None:
        self._call(*arguments)

    def __reduce__(self) -> Any:
        return _ignoring, ()


class FunctionHooks:
    """Replaces attributes of modules, classes and objects until close."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any, bool]] = []

    def replace(self, owner: Any, name: str, wrapper_of: Callable[[Any], Any]) -> None:
        """Sets an attribute that exists to wrapper_of(its value); nothing if there is none in this version of PyTorch."""
        original = getattr(owner, name, None)
        if original is None:
            return
        wrapper = wrapper_of(original)
        own = name in vars(owner)
        setattr(owner, name, wrapper)
        self._replaced.append((owner, name, original, wrapper, own))

    def close(self) -> None:
        for owner, name, original, wrapper, own in reversed(self._replaced):
            if vars(owner).get(name) is not wrapper:
                continue  # a recorder that was opened later replaced it: its call passes through this wrapper
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)
        self._replaced.clear()
