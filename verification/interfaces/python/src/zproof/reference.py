"""The reference implementations: every operation of the numeric contract, as plain functions on arrays.

Inputs are arrays of numpy, PyTorch or anything else with ``__dlpack__``: fp32 in host memory, contiguous, of any
shape. Nothing is converted or copied implicitly: another dtype is a TypeError; another device, gaps
between elements, or a read-only array that would be written are ValueErrors, in one sentence.

A function that changes arrays returns new ones (numpy arrays, which ``torch.from_dlpack`` takes without a copy). With
``inplace=True`` the passed arrays are written instead, and nothing is copied. bf16 and fp8 results are
unsigned integers with the bits of the format: numpy has no such dtype (``.view(ml_dtypes.bfloat16)``, or
``torch.from_dlpack(x).view(torch.bfloat16)``).

The bits are those of the contract on every machine: ``zeroproof explain adamw_update`` prints how each is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict
from typing import cast as cast_type

import numpy as np

from . import _zproof
from .arrays import STORED, plain, shape_of
from .values import count, factor, flag, listed, real, scaler_state, whole, word

__all__ = [
    "adamw", "adam", "sgd", "sgd_ema", "lion", "lamb", "muon", "newton_schulz", "matrix_product", "step_scalars",
    "cast", "widen", "stochastic_cast", "unscale",
    "clip", "clip_value", "clip_coef", "grad_norm", "grad_sum", "loss_scaler_init", "loss_scaler_update", "ScalerState",
]


class ScalerState(TypedDict):
    """State of a loss scaler: the scale is ``2 ** log2_scale``."""

    log2_scale: int
    growth_tracker: int
    hysteresis_left: int


def _update(rule: str, settings: Mapping[str, Any], t: int, grad: Any, master: Any,
            state: Mapping[str, Any], inplace: bool) -> dict[str, Any]:
    t, inplace = whole("t", t), flag("inplace", inplace)
    arrays = {"master": master, **{name: array for name, array in state.items() if array is not None}}
    if not inplace:
        arrays = {name: _copy(array, name) for name, array in arrays.items()}
    rest = {name: plain(array) for name, array in arrays.items() if name != "master"}
    _zproof.update(rule, dict(settings), t, plain(grad), plain(arrays["master"]), rest)
    return arrays


def _copy(array: Any, name: str) -> np.ndarray:
    """A new array that the reference may write; the old one is checked as in place."""
    return cast_type(np.ndarray, _zproof.fp32_copy(plain(array), name))


def adamw(grad: Any, master: Any, exp_avg: Any, exp_avg_sq: Any, max_exp_avg_sq: Any = None, *, t: int,
          lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01,
          bias_correction: bool = True, amsgrad: bool = False, maximize: bool = False,
          inplace: bool = False) -> dict[str, Any]:
    """AdamW: decay is decoupled from the gradient (R6, ``AdamwUpdateFn``).

    Args:
        grad: gradient, unscaled and clipped, fp32, of any shape.
        master, exp_avg, exp_avg_sq: parameter and moments, fp32, of the same shape.
        max_exp_avg_sq: largest second moment so far; with ``amsgrad`` only.
        t: number of the step that is applied, from 1.
        inplace: write into the arrays that were given instead of returning new ones.

    Returns:
        dict: ``master``, ``exp_avg``, ``exp_avg_sq`` and, with ``amsgrad``, ``max_exp_avg_sq`` after the step.

    Raises:
        TypeError: another dtype than fp32, or no array.
        ValueError: shapes, devices, gaps, read-only arrays, or a setting outside of the ranges of R5.
    """
    settings = dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay,
                    bias_correction=bias_correction, amsgrad=amsgrad, maximize=maximize)
    state = dict(exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, max_exp_avg_sq=max_exp_avg_sq)
    return _update("adamw", settings, t, grad, master, state, inplace)


def adam(grad: Any, master: Any, exp_avg: Any, exp_avg_sq: Any, max_exp_avg_sq: Any = None, *, t: int,
         lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0,
         bias_correction: bool = True, amsgrad: bool = False, maximize: bool = False,
         inplace: bool = False) -> dict[str, Any]:
    """Adam: decay is part of the gradient (R6, ``AdamUpdateFn``). Arguments and errors as for :func:`adamw`."""
    settings = dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay,
                    bias_correction=bias_correction, amsgrad=amsgrad, maximize=maximize)
    state = dict(exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, max_exp_avg_sq=max_exp_avg_sq)
    return _update("adam", settings, t, grad, master, state, inplace)


def sgd(grad: Any, master: Any, momentum_buffer: Any = None, *, t: int, lr: float = 1e-3, momentum: float = 0.0,
        dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, maximize: bool = False,
        inplace: bool = False) -> dict[str, Any]:
    """SGD, with decay added to the gradient (R6, ``SgdUpdateFn``).

    With ``momentum`` other than 0 there has to be a ``momentum_buffer``; at ``t = 1`` it becomes the gradient, whatever
    it held. Returns ``master`` and ``momentum_buffer``. Errors as for :func:`adamw`.
    """
    settings = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                    maximize=maximize)
    return _update("sgd", settings, t, grad, master, dict(momentum_buffer=momentum_buffer), inplace)


def sgd_ema(grad: Any, master: Any, exp_avg: Any, *, t: int, lr: float = 1e-3, beta1: float = 0.9,
            weight_decay: float = 0.0, maximize: bool = False, inplace: bool = False) -> dict[str, Any]:
    """SGD that moves by the exponential moving average of the gradient (R6, ``SgdEmaUpdateFn``).

    Returns ``master`` and ``exp_avg``. Errors as for :func:`adamw`.
    """
    settings = dict(lr=lr, beta1=beta1, weight_decay=weight_decay, maximize=maximize)
    return _update("sgd_ema", settings, t, grad, master, dict(exp_avg=exp_avg), inplace)


def lion(grad: Any, master: Any, exp_avg: Any, *, t: int, lr: float = 1e-4, beta1: float = 0.9, beta2: float = 0.99,
         weight_decay: float = 0.0, maximize: bool = False, inplace: bool = False) -> dict[str, Any]:
    """Lion: every element moves by lr, in the direction of a moving average (R6, ``LionUpdateFn``).

    Returns ``master`` and ``exp_avg``. Errors as for :func:`adamw`.
    """
    settings = dict(lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay, maximize=maximize)
    return _update("lion", settings, t, grad, master, dict(exp_avg=exp_avg), inplace)


def lamb(grad: Any, master: Any, exp_avg: Any, exp_avg_sq: Any, *, t: int, lr: float = 1e-3, beta1: float = 0.9,
         beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01, bias_correction: bool = True,
         maximize: bool = False, inplace: bool = False) -> dict[str, Any]:
    """LAMB of one whole tensor: AdamW's update times the tensor's trust ratio (R6, ``LambUpdateFn``).

    The arrays are the whole tensor, whose norms make the ratio. Returns ``master``, ``exp_avg`` and ``exp_avg_sq``.
    Errors as for :func:`adamw`.
    """
    settings = dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay,
                    bias_correction=bias_correction, maximize=maximize)
    state = dict(exp_avg=exp_avg, exp_avg_sq=exp_avg_sq)
    return _update("lamb", settings, t, grad, master, state, inplace)


def muon(grad: Any, master: Any, exp_avg: Any, *, lr: float = 1e-3, momentum: float = 0.95, weight_decay: float = 0.1,
         nesterov: bool = True, maximize: bool = False, family: str = "ema", coefficients: str = "simple",
         ns_steps: int = 5, form: str = "fused", factors: str = "bf16", floor: str = "clamp", ns_eps: float = 1e-7,
         rounds_first: bool = False, scale: str = "original", scale_factor: float = 1.0,
         inplace: bool = False) -> dict[str, Any]:
    """Muon of one whole matrix: it moves by its momentum, orthogonalised (R28, ``MuonUpdateFn``).

    Args:
        grad, master, exp_avg: gradient, parameter and momentum, fp32, of one shape of two dimensions.
        family: weight of the gradient in the momentum: "ema" (1 - momentum) or "heavy_ball" (1).
        coefficients, ns_steps, form, factors, floor, ns_eps, rounds_first: of :func:`newton_schulz`.
        scale: "none", "original", "spectral", "match_rms_adamw" or "unit_rms_norm"; ``scale_factor`` multiplies it.
        inplace: write into master and exp_avg instead of returning new ones.

    Returns:
        dict: ``master`` and ``exp_avg`` after the step, and ``orthogonal``, the result of Newton-Schulz.

    Raises:
        TypeError: another dtype than fp32, or no array.
        ValueError: shapes, devices, gaps, read-only arrays, or a setting that does not exist or is out of range.
    """
    settings = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize,
                    family=family, coefficients=coefficients, ns_steps=ns_steps, form=form, factors=factors,
                    floor=floor, ns_eps=ns_eps, rounds_first=rounds_first, scale=scale, scale_factor=scale_factor)
    arrays = {"master": master, "exp_avg": exp_avg}
    if not flag("inplace", inplace):
        arrays = {name: _copy(array, name) for name, array in arrays.items()}
    orthogonal = np.empty(shape_of(grad), np.float32)
    _zproof.muon(settings, plain(grad), plain(arrays["master"]), plain(arrays["exp_avg"]), orthogonal)
    return {**arrays, "orthogonal": orthogonal}


def newton_schulz(matrix: Any, *, coefficients: str = "simple", ns_steps: int = 5, form: str = "fused",
                  factors: str = "bf16", floor: str = "clamp", ns_eps: float = 1e-7,
                  rounds_first: bool = False) -> np.ndarray:
    """A matrix with the singular vectors of this one and singular values near 1 (R28, ``NewtonSchulzFn``).

    Args:
        matrix: fp32, of two dimensions.
        coefficients: "simple", "quintic", "polar_express", "polar_express_dion", "cans", "aol" or "deepseekv4".
        ns_steps: number of iterations, 1 to 64.
        form: "fused", "scaled_factor" or "scaled_product": three ways to round one polynomial.
        factors: format of the factors of products: "bf16" or "fp32".
        floor: of the norm: "clamp" (at least ``ns_eps``) or "add" (plus ``ns_eps``).
        rounds_first: the matrix is rounded as factors are before its norm is taken.
    """
    orthogonal = np.empty(shape_of(matrix), np.float32)
    _zproof.newton_schulz(plain(matrix), orthogonal, dict(coefficients=coefficients, ns_steps=ns_steps, form=form,
                                                          factors=factors, floor=floor, ns_eps=ns_eps,
                                                          rounds_first=rounds_first))
    return orthogonal


def matrix_product(left: Any, right: Any, factors: str = "bf16") -> np.ndarray:
    """``left`` times the transpose of ``right``, in the order of R27 (``MatrixProductFn``); ``factors`` are rounded to
    "bf16", or stay "fp32"."""
    product = np.empty((shape_of(left)[:1] or (0,)) + (shape_of(right)[:1] or (0,)), np.float32)
    _zproof.matrix_product(plain(left), plain(right), product, dict(factors=factors))
    return product


def step_scalars(rule: str = "adamw", *, t: int, log2_loss_scale: int = 0, divisor: int = 1,
                 **settings: Any) -> dict[str, float]:
    """All scalars of the kernels of one step, each rounded once from fp64 to fp32 (R5, ``StepScalarsFn``).

    Args:
        rule: "adamw", "adam", "sgd", "sgd_ema", "lion", "lamb" or "muon".
        t: number of the step that is applied, from 1.
        log2_loss_scale: the loss scale is 2 to this power.
        divisor: micro-batches, or tokens, summed in the gradient.
        settings: ``lr``, ``beta1``, ``beta2``, ``eps``, ``weight_decay`` and the others of the rule.

    Returns:
        dict: by the names of ``zeroproof explain step_scalars``; ``has_decay`` and ``is_first`` are 0 or 1.
    """
    return _zproof.step_scalars(word("rule", rule), settings, whole("t", t), whole("log2_loss_scale", log2_loss_scale, 32),
                                whole("divisor", divisor))


def cast(source: Any, dtype: str) -> np.ndarray:
    """fp32 rounded to ``dtype`` ("bf16", "fp16", "e4m3", "e5m2"), to nearest even (R8). bf16 and fp8 come as bits."""
    target = np.empty(shape_of(source), STORED.get(word("dtype", dtype), np.uint16))
    _zproof.cast(plain(source), target, dtype)
    return target


def stochastic_cast(source: Any, *, seed: int, step: int, first_index: int = 0) -> np.ndarray:
    """fp32 rounded to bf16 up or down with the probability of R8, by draws that depend on (seed, step, index) alone.

    Args:
        seed: of the run.
        step: applied steps of the tensor.
        first_index: global flat index of ``source[0]``.
    """
    words = count("seed", seed), count("step", step), count("first_index", first_index)
    target = np.empty(shape_of(source), np.uint16)
    _zproof.stochastic_cast(plain(source), target, *words)
    return target


def widen(source: Any, dtype: str) -> np.ndarray:
    """fp32 with the values of ``source``, which is of ``dtype`` (or has its bits); exact (R8)."""
    target = np.empty(shape_of(source), np.float32)
    _zproof.widen(plain(source), target, word("dtype", dtype))
    return target


def unscale(grad_sum: Any, inv_scale: float, *, inplace: bool = False) -> tuple[Any, bool]:
    """``grad_sum * inv_scale``, and whether any result is not finite (R14, ``UnscaleFn``)."""
    inv_scale = factor("inv_scale", inv_scale)
    target = grad_sum if flag("inplace", inplace) else np.empty(shape_of(grad_sum), np.float32)
    found_inf = _zproof.unscale(plain(grad_sum), plain(target), inv_scale)
    return target, found_inf


def clip(unscaled_grad: Any, clip_coef: float, *, inplace: bool = False) -> Any:
    """``unscaled_grad * clip_coef``, evaluated for 1 too (R12, ``ClipFn``)."""
    clip_coef = factor("clip_coef", clip_coef)
    target = unscaled_grad if flag("inplace", inplace) else np.empty(shape_of(unscaled_grad), np.float32)
    _zproof.clip(plain(unscaled_grad), plain(target), clip_coef)
    return target


def clip_value(grad: Any, value: float, *, inplace: bool = False) -> Any:
    """Every element into ``[-value, value]`` (``ClipValueFn``)."""
    value = factor("clip_value", value)
    target = grad if flag("inplace", inplace) else _copy(grad, "grad")
    _zproof.clip_value(plain(target), value)
    return target


def clip_coef(grad_norm: float, max_norm: float | None) -> float:
    """The factor that brings a global norm down to ``max_norm`` (R12); 1 without one, NaN for a norm that is NaN."""
    return _zproof.clip_coef(real("grad_norm", grad_norm), None if max_norm is None else real("max_norm", max_norm))


def grad_norm(grads: Any, form: str | float = "chunk1024") -> float:
    """Global norm of one array or of a sequence of tensors (R12), as fp64.

    Args:
        grads: an array, or a sequence of arrays, each the whole of a tensor.
        form: "chunk1024" (the contract's default), "exact" (correctly rounded squares), "one", "inf"; or a number p,
            for one array, which is compared within a bound instead of bit by bit.
    """
    if not isinstance(form, str):
        return _zproof.grad_norm_p(plain(grads), real("form", form))
    tensors: Sequence[Any] = grads if isinstance(grads, (list, tuple)) else [grads]
    return _zproof.grad_norm([plain(one) for one in tensors], form)


def grad_sum(leaves: Sequence[Any]) -> np.ndarray:
    """Sum of the gradients of all micro-batches, in the order of the one tree (R11, ``GradSumFn``)."""
    arrays = listed("leaves", leaves)
    target = np.empty(shape_of(arrays[0]) if arrays else (), np.float32)
    _zproof.grad_sum([plain(leaf) for leaf in arrays], target)
    return target


def loss_scaler_init(**config: Any) -> ScalerState:
    """State before the first step (R14). ``kind`` ("none", "constant", "dynamic"), ``log2_initial``, ``log2_growth``,
    ``log2_backoff``, ``log2_min``, ``log2_max``, ``growth_interval``, ``hysteresis``, ``refill``."""
    return cast_type(ScalerState, _zproof.loss_scaler_init(config))


def loss_scaler_update(state: ScalerState, found_inf: bool, **config: Any) -> ScalerState:
    """State after a step, from the overflow flag of that step (R14). ``config`` as for :func:`loss_scaler_init`."""
    words = scaler_state(state).values()
    return cast_type(ScalerState, _zproof.loss_scaler_update(config, *words, flag("found_inf", found_inf)))
