"""How a callable is called: its operands and settings, as arrays of a framework."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import _zproof

#: options, and the value of a callable without such a parameter
_NEUTRAL = {"amsgrad": 0, "maximize": 0, "nesterov": 0, "bias_correction": 1, "momentum": 0, "dampening": 0,
            "trust_ratio": 1, "in_place": 0, "heavy_ball": 0, "coefficients": 0, "steps": 5, "form": 0, "factors": 0,
            "floor": 0, "rounds_first": 0}
#: of these, those whose effect is in the scalars too
_IN_SCALARS = {"bias_correction", "momentum", "dampening"}
_FLAGS = {"amsgrad", "maximize", "nesterov", "bias_correction", "in_place", "heavy_ball", "rounds_first"}
#: words besides operands and settings that a parameter may have as its name
_WORDS = ["betas", "step", "scalars", "settings", "num_threads"]


class Calling:
    """A callable, and all decisions before its first call.

    Attributes:
        name: name in reports.
        variants: numbers of the variants it can compute.
        notes: skipped variants.
    """

    def __init__(self, fn: Callable[..., Any], operation: Mapping[str, Any], framework: Any) -> None:
        if not callable(fn):
            raise TypeError(f"the callable is a {type(fn).__name__} (it cannot be called); pass a function")
        self.fn = fn
        self.name = shown_name(getattr(fn, "__name__", type(fn).__name__))
        self.operands = {name: dtype for name, dtype, _ in operation["operands"]}
        self.outputs = [name for name, _, access in operation["operands"] if access != "in"]
        self.framework = framework
        self.wanted = self._parameters(operation)
        self.notes: list[str] = []
        self.variants = self._variants(operation)

    def _parameters(self, operation: Mapping[str, Any]) -> set[str]:
        plain = set(self.operands) | {name for _, values in operation["variants"] for name in values if "." not in name}
        words = {word for word in _WORDS if (word != "betas" or "beta1" in plain) and (word != "step" or "t" in plain)}
        known = plain | words
        try:
            parameters = list(inspect.signature(self.fn).parameters.values())
        except (TypeError, ValueError):  # written in another language
            return plain | {"num_threads"}
        for one in parameters:
            if one.kind is one.POSITIONAL_ONLY:
                raise TypeError(f"{self.name} has a parameter {one.name} that takes no keyword (operands are passed "
                                "by name); leave out the / in its signature")
            optional = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or one.default is not one.empty
            if one.name not in known and not optional:
                near = _zproof.nearest(one.name, sorted(known))
                hint = f"did you mean {near}?" if near else "it can be one of " + ", ".join(sorted(known))
                raise TypeError(f"{self.name} has a parameter {one.name} ({operation['name']} has no such operand "
                                f"or setting); {hint}")
        named = {one.name for one in parameters} & known
        takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
        return named | plain | {"num_threads"} if takes_all else named

    def _variants(self, operation: Mapping[str, Any]) -> list[int]:
        """Variants whose options the callable has, or that use the defaults of those it lacks."""
        aware = "settings" in self.wanted
        through_scalars = aware or "scalars" in self.wanted
        unknown = {name for name in _NEUTRAL
                   if not aware and name not in self.wanted and not (name in _IN_SCALARS and through_scalars)}
        left_out = set()
        taken = []

        def lacking(values: Mapping[str, Any]) -> set[str]:
            return {name for name in unknown if values.get(name, _NEUTRAL[name]) != _NEUTRAL[name]}

        for number, (_, values) in enumerate(operation["variants"]):
            other = lacking(values)
            left_out |= other
            if not other:
                taken.append(number)
        total = len(operation["variants"])
        if left_out:
            self.notes.append(f"{total - len(taken)} of {total} variants were not judged: {self.name} takes no "
                              + ", ".join(sorted(left_out)))
        return taken + [number for number, values in operation["earlier"] if not lacking(values)]

    def invoke(self, operands: dict[str, np.ndarray], settings: dict[str, Any], num_threads: int) -> str | None:
        """One call; returns the exception of the callable as a sentence, None if it returned. The inputs have infinities
        and NaN, about which numpy does not warn here."""
        try:
            arrays = {name: self.framework.take(array, self.operands[name]) for name, array in operands.items()
                      if name in self.wanted or name in self.outputs}
            with np.errstate(all="ignore"):
                self._write(self.fn(**self._arguments(arrays, settings, num_threads)), arrays)
            self.framework.finish(arrays, operands)
        except (Exception, SystemExit) as error:
            return sentence_of(error)
        return None

    def _arguments(self, arrays: dict[str, Any], settings: dict[str, Any], num_threads: int) -> dict[str, Any]:
        plain = {name: bool(value) if name in _FLAGS else value for name, value in settings.items() if "." not in name}
        given = {**arrays, **plain, "num_threads": num_threads}
        if "betas" in self.wanted:
            given["betas"] = (settings["beta1"], settings["beta2"])
        if "step" in self.wanted and "step" not in settings:
            given["step"] = settings["t"]
        if "scalars" in self.wanted:
            given["scalars"] = SimpleNamespace(beta1=settings.get("beta1"), beta2=settings.get("beta2"), **{
                name[7:]: value for name, value in settings.items() if name.startswith("scalar.")})
        if "settings" in self.wanted:
            given["settings"] = settings
        return {name: value for name, value in given.items() if name in self.wanted}

    def _write(self, returned: Any, arrays: dict[str, Any]) -> None:
        """Results that were returned instead of written."""
        if returned is None:
            return
        if not isinstance(returned, Mapping):
            values = returned if isinstance(returned, (tuple, list)) else (returned,)
            if len(values) > len(self.outputs):
                raise TypeError(f"it returned {len(values)} arrays (there are {len(self.outputs)} results: "
                                + ", ".join(self.outputs) + "); return those, or None")
            returned = dict(zip(self.outputs, values))
        for name, value in returned.items():
            if name not in self.outputs:
                near = _zproof.nearest(str(name), self.outputs)
                raise TypeError(f"it returned {name!r} (it is not a result); "
                                + (f"did you mean {near}?" if near else "results are " + ", ".join(self.outputs)))
            self.framework.store(value, arrays[name], name)


def shown_name(name: str) -> str:
    """As ids may spell it."""
    kept = "".join(c if c.isalnum() or c in "_-." else "-" for c in name.lower()).strip("-")
    return kept[:32] or "callable"


def sentence_of(error: BaseException) -> str:
    """"it raised ValueError: ... (kernel.py, line 12, in adamw)"."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "zproof" not in frame.filename.replace("\\", "/").split("/")[-2:-1]]
    last = traceback.format_exception_only(type(error), error)[-1].strip().replace("\n", " ")
    place = f" ({inside[-1].filename.rsplit('/', 1)[-1]}, line {inside[-1].lineno}, in {inside[-1].name})" if inside else ""
    return f"it raised {last}{place}".encode(errors="replace").decode()  # half a surrogate pair cannot be stored
