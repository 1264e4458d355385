"""Whole steps of the sharded reference, with every rank a thread of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _zproof
from .arrays import plain
from .values import flag, listed, scaler_state, table, whole, word

__all__ = ["Step", "Tap", "step"]

#: entries of a state that are not buffers
_WORDS = ["applied_steps", "scaler"]
_STATE = ["master", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", *_WORDS]


@dataclass(frozen=True)
class Tap:
    """A buffer of one rank after a phase.

    Attributes:
        phase: "prepare", "reduce", "unscale", "norm", "clip", "update", "cast" or "gather".
        rank: whose it is.
        buffer: "grad_sum", "master", "param_full", ...
        ranges: global flat indices of its elements, half-open, in order; empty for scalars.
        dtype: "fp32", "bf16", "u64", ...
        values: the elements; bf16 as unsigned integers with its bits.
    """

    phase: str
    rank: int
    buffer: str
    ranges: tuple[tuple[int, int], ...]
    dtype: str
    values: np.ndarray


@dataclass(frozen=True)
class Step:
    """The result of a step.

    Attributes:
        params: the parameters of the model, by name, of ``dtype`` (bf16 as its bits).
        state: input of the next step: master, the state of the rule, applied_steps, scaler.
        skipped: a gradient was not finite, and nothing was applied.
        grad_norm: global norm before clipping; NaN if the step was skipped. With clip groups that of the other tensors.
        clip_coef: the factor of the gradients; NaN if the step was skipped. The same.
        clip_groups: ``(grad_norm, clip_coef)`` of each clip group, by name.
        offsets: global flat index of every tensor's first element: tensors begin at multiples of 1024.
        taps: every buffer of every rank after every phase, if requested.
    """

    params: dict[str, np.ndarray]
    state: dict[str, Any]
    skipped: bool
    grad_norm: float
    clip_coef: float
    offsets: dict[str, int]
    taps: list[Tap] = field(repr=False)
    clip_groups: dict[str, tuple[float, float]] = field(default_factory=dict)

    def tap(self, buffer: str, *, rank: int = 0, phase: str | None = None) -> Tap:
        """The last tap of a buffer, or the tap of a phase.

        Raises:
            KeyError: there is none, with the nearest name.
        """
        found = [tap for tap in self.taps
                 if tap.buffer == buffer and tap.rank == rank and phase in (None, tap.phase)]
        if found:
            return found[-1]
        if not self.taps:
            raise KeyError("the step has no taps (they were not requested); use taps=True")
        known = sorted({tap.buffer for tap in self.taps})
        near = "" if buffer in known else _zproof.nearest(buffer, known)
        raise KeyError(f"no tap of {buffer} on rank {rank}" + (f" in phase {phase}" if phase else "")
                       + " (the step has no such buffer); "
                       + (f"did you mean {near}?" if near else "buffers are " + ", ".join(known)))


def step(params: Mapping[str, Any], grads: Sequence[Mapping[str, Any]] | Mapping[str, Any], *, rule: str = "adamw",
         state: Mapping[str, Any] | None = None, world: int = 1, stage: int = 0, dtype: str = "bf16",
         grad_dtype: str = "fp32", bucket: int = 4096, order: str = "by_stage", norm: str = "chunk1024",
         grad_sum: str = "tree", on_nonfinite: str = "skip", loss_scaler: Mapping[str, Any] | None = None,
         param_groups: Sequence[Mapping[str, Any]] = (), clip_groups: Sequence[Mapping[str, Any]] = (),
         adamw: Sequence[str] = (), matrix_splits: Sequence[Mapping[str, Any]] = (), taps: bool = False,
         **settings: Any) -> Step:
    """One step of the sharded reference optimizer on ``world`` virtual ranks: the same bits for every ``world``,
    ``stage``, ``bucket`` and ``order``.

    Args:
        params: fp32 parameters by name, of any shapes; read in the first step only, later from ``state``.
        grads: the gradients of every micro-batch, in data order, each by name, of ``grad_dtype``, times the loss scale.
        rule: "adamw", "adam", "sgd", "sgd_ema", "lion", "lamb" or "muon".
        state: ``Step.state`` of the step before; None: the run begins.
        world: number of ranks, 1 to 256.
        stage: of ZeRO, 0 to 3.
        dtype: of the parameters of the model: "bf16", "fp16" or "fp32".
        grad_dtype: of ``grads``: "fp32", "bf16" (arrays, or uint16 with the bits) or "fp16".
        bucket: elements of a bucket, a multiple of 1024.
        order: which micro-batches a rank computes: "by_stage", "contiguous" or "strided".
        norm: form of the global norm: "chunk1024", "exact", "inf" or "one".
        grad_sum: "tree" or "binned": two contracts, with bits of their own.
        on_nonfinite: "skip", "error" or "propagate".
        loss_scaler: as for :func:`zproof.reference.loss_scaler_init`; None: no scaler.
        param_groups: tensors with a rate or decay of their own, as ``[[param_group]]`` of a configuration: dicts with
            ``name``; ``match`` (globs on names of parameters) or ``vectors`` (True: all of one dimension or none);
            ``lr_mult`` or ``lr``, ``weight_decay_mult``. A tensor is in the first that matches it.
        clip_groups: tensors with a norm of their own (R12), as ``[[clip_group]]``: ``name``, ``match`` or ``vectors``,
            and ``max_norm`` (the step's without it, 0 for no limit).
        adamw: of muon: globs on names of the parameters of two dimensions that are updated as adamw (embeddings).
        matrix_splits: of muon: matrices whose parts are orthogonalised one by one, as ``[[matrix_split]]``: ``name``,
            ``match``, and ``rows`` or ``columns``, the widths of the parts in one period.
        taps: keep every buffer of every rank after every phase.
        settings: ``lr``, ``beta1``, ``beta2``, ``eps``, ``weight_decay``, ``max_norm`` (None: no clipping), ...;
            of muon also those of :func:`zproof.reference.muon`.

    Schedules, missing gradients, context and tensor parallel ranks, optimizer instances and native sums are those of
    ``zeroproof verify`` only.

    Raises:
        ValueError: names, shapes, ranges; in one sentence.
        TypeError: an array of another dtype.
        FloatingPointError: a gradient is not finite, with ``on_nonfinite="error"``.
    """
    names = list(table("params", params))
    if not names:
        raise ValueError("params is empty (a step needs parameters); pass a dict of arrays")
    micro_batches = [grads] if isinstance(grads, Mapping) else listed("grads", grads)
    if not micro_batches:
        raise ValueError("grads is empty (a step needs the gradients of one micro-batch); pass a list of dicts")
    before = _state({} if state is None else state)
    master = _listed(before.pop("master", params), names, "state")
    shapes = [list(getattr(params[name], "shape", ())) for name in names]
    leaves = [_listed(one, names, f"micro-batch {number}") for number, one in enumerate(micro_batches)]
    kept = {name: value if name in _WORDS else _listed(value, names, name) for name, value in before.items()}
    options = {"scaler": table("loss_scaler", {} if loss_scaler is None else loss_scaler), "settings": settings,
               "taps": flag("taps", taps), "world": whole("world", world, 32), "stage": whole("stage", stage, 32),
               "bucket": whole("bucket", bucket), "param_groups": _groups("param_groups", param_groups),
               "clip_groups": _groups("clip_groups", clip_groups),
               "adamw": [word("adamw", one) for one in listed("adamw", adamw)],
               "matrix_splits": _groups("matrix_splits", matrix_splits)}
    for name, value in (("rule", rule), ("dtype", dtype), ("grad_dtype", grad_dtype), ("order", order), ("norm", norm),
                        ("grad_sum", grad_sum), ("on_nonfinite", on_nonfinite)):
        options[name] = word(name, value)
    made = _zproof.sharded_step(names, shapes, master, leaves, kept, options)
    after = {buffer: dict(zip(names, tensors)) for buffer, tensors in made["buffers"].items()}
    after |= {"applied_steps": made["applied_steps"], "scaler": made["scaler"]}
    norms = list(zip(made["grad_norm"], made["clip_coef"]))  # of the default group, and of each clip group
    return Step(dict(zip(names, made["param"])), after, made["skipped"], *norms[0],
                dict(zip(names, made["offsets"])),
                [Tap(phase, rank, buffer, tuple(ranges), kind, values)
                 for phase, rank, buffer, ranges, kind, values in made["taps"]],
                dict(zip([group["name"] for group in options["clip_groups"]], norms[1:])))


def _state(given: Any) -> dict[str, Any]:
    """A state whose buffers are known by name; the extension module checks which of them a rule keeps."""
    state = table("state", given)
    for name in state:
        if name not in _STATE:
            near = _zproof.nearest(name, _STATE)
            raise ValueError(f"state has {name} (it would have no effect); "
                             + (f"did you mean {near}?" if near else "use " + ", ".join(_STATE)))
    if "applied_steps" in state:
        state["applied_steps"] = whole("applied_steps", state["applied_steps"])
    if "scaler" in state:
        state["scaler"] = scaler_state(state["scaler"])
    return state


def _groups(name: str, given: Any) -> list[dict[str, Any]]:
    groups = []
    for one in listed(name, given):
        group = table(f"a group of {name}", one)
        match = group.get("match", [])
        group["match"] = [match] if isinstance(match, str) else listed("match", match)
        groups.append({"name": "", **group})
    return groups


def _listed(tensors: Mapping[str, Any], names: list[str], what: str) -> list[Any]:
    """In the order of the parameters; every one of them and nothing else."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"{what} is a {type(tensors).__name__} (tensors are found by their names); use a dict")
    missing = [name for name in names if name not in tensors]
    if missing:
        raise ValueError(f"{what} has nothing for {missing[0]} (every parameter is updated); pass zeros, or leave "
                         "the parameter out everywhere")
    other = [name for name in tensors if name not in names]
    if other:
        near = _zproof.nearest(str(other[0]), names)
        raise ValueError(f"{what} has a tensor {other[0]} (there is no parameter of that name); "
                         + (f"did you mean {near}?" if near else "leave it out"))
    return [plain(tensors[name]) for name in names]
