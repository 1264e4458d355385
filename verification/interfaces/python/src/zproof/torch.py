"""Optimizers of PyTorch under the judge, and recordings of a training. PyTorch is imported when a function is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _zproof
from .calling import Calling
from .frameworks import framework_named
from .judge import Verdict, draw_seed, judge_calls
from .values import count, factor, flag, word

if TYPE_CHECKING:
    from .operations import Operations
    from .run_recorder import Recorder

__all__ = ["judge_optimizer", "operations", "record"]

#: dialects that PyTorch code on a CPU may have
_DIALECTS = {
    "adam": ["contract", "torch-cpu-single", "torch-cpu-fused", "torch-cpu-single-default", "torch-cpu-fused-default",
             "deepspeed-cpu-adam-avx512", "deepspeed-cpu-adam-avx2", "deepspeed-cpu-adam-scalar"],
    "sgd": ["contract", "torch-sgd", "torch-sgd-fused", "torch-sgd-default"],
}
_DIALECTS["adamw"] = _DIALECTS["adam"]

_POWERS = ("powers of beta in fp32 are accepted ([Bound:powers]), because torch.compile computes 1 - beta^t from them; "
           "accept='any-order' refuses them")


def judge_optimizer(optimizer: Callable[..., Any], op: str | None = None, dtype: str = "fp32", *,
                    accept: str | None = None, compile: bool = False, fills: str | Iterable[str] = "training",
                    seed: int = 1, second_seed: int | None = None, device: str = "cpu", **options: Any) -> Verdict:
    """Judges an optimizer class: ``zproof.torch.judge_optimizer(torch.optim.AdamW, fused=True)``.

    For every call of :func:`zproof.judge` the class makes an optimizer of parameters that hold the judge's numbers, with
    the hyperparameters of the call in the param group and the moments and the number of the step before in its state.
    It makes one step; the parameters and the state afterwards are its results. Calls of more than 64 elements are split
    into two or three parameters.

    Adam, AdamW, SGD and Lion of any package are found by the name of the class or of a base. The state has to have
    PyTorch's names (``exp_avg``, ``exp_avg_sq``, ``max_exp_avg_sq``, ``momentum_buffer``; bitsandbytes' ``state1`` and
    ``state2``), and ``step`` in the state or in the param group.

    Args:
        optimizer: a class, or a function of parameters and hyperparameters that returns an optimizer.
        op: "adamw", "adam", "sgd", "sgd_ema" or "lion", if the name of the class does not say so.
        dtype: "fp32"; or "bf16" for parameters without fp32 masters and with fp32 moments.
        accept: "any-order" holds it to the bits of a dialect that zproof knows if it has them on typical inputs, else to
            any legal order; or "any-order,fp32-powers", "bits", "dialect:NAME". ``held_to`` of the verdict's results
            names it. None is "any-order", for a compiled Adam or AdamW "any-order,fp32-powers".
        compile: the step is compiled by ``torch.compile``, for parameters of 1, 7, 65 and 1,023 elements that hold the
            elements of a call one portion after the other. It computes beta^t of Adam and AdamW in fp32; a note of the
            report says that this is accepted.
        fills, seed, second_seed: as of :func:`zproof.judge`; "all" adds ties, infinities, NaN and more.
        device: of the parameters.
        options: of the class: ``foreach``, ``fused``, ``capturable`` and others are passed on. Hyperparameters are the
            judge's; one that is given selects the steps with this value (``amsgrad=True``). ``lr`` as a tensor passes
            all of them as tensors of its dtype.

    Returns:
        Verdict: also if the optimizer raises in a step of the judge.

    Raises:
        ValueError: an optimizer that is not known, whose state is not that of its operation, or which cannot make a step
            of a small parameter; a hyperparameter that no step has.
        TypeError: an optimizer that was made already.
        ImportError: PyTorch is not installed.
    """
    framework_named("torch", device)
    from .torch_optimizer import TorchOptimizer

    dtype = word("dtype", dtype)
    if dtype not in ("fp32", "bf16"):
        raise ValueError(f"dtype is '{dtype}' (it is that of the parameters); use fp32 or bf16")
    second_seed = draw_seed() if second_seed is None else count("second_seed", second_seed)
    theirs = TorchOptimizer(optimizer, options, op, dtype, device)
    judged = theirs.op + "_update" + ("_bf16" if dtype == "bf16" else "")
    if flag("compile", compile):
        from .compiled_optimizer import CompiledOptimizer

        theirs.step_by = CompiledOptimizer(theirs)
    with_powers = accept is None and compile and theirs.op in ("adam", "adamw")
    if accept is None:
        accept = "any-order,fp32-powers" if with_powers else "any-order"
    accept = word("accept", accept)
    replay = theirs.call_text("{fill}", seed, second_seed, accept)

    def verdict(accept: str, fills: str | Iterable[str], most: int | None = None) -> Verdict:
        def opened(op: str, dtype: str, operation: Any, framework: str, device: str) -> tuple[Calling, Any]:
            calling = Calling(theirs.function(operation), operation, framework_named(framework, device))
            theirs.choose(calling, operation)
            if with_powers and not accept.startswith("dialect:"):
                calling.notes.append(_POWERS)
            calling.variants = calling.variants[:most]
            return calling, _zproof.GuardedCalls(op, dtype, calling.invoke, calling.framework.read_only)

        return judge_calls(opened, judged, "fp32", fills=fills, seed=seed, second_seed=second_seed, accept=accept,
                           framework="torch", device=device, name=theirs.shown, replay=replay)

    threads = theirs.torch.get_num_threads()
    try:
        for dialect in _DIALECTS.get(theirs.op, []) if accept.startswith("any-order") and dtype == "fp32" else []:
            if verdict("dialect:" + dialect, "training", 1):
                exact = verdict("dialect:" + dialect, fills)
                if exact:
                    return exact
        return verdict(accept, fills)
    finally:
        theirs.torch.set_num_threads(threads)


def operations(file: str | os.PathLike[str], model: Any = None) -> Operations:
    """Records every operation of PyTorch in a part of a program, for ``zeroproof attribute OLD NEW``: its name, the digests
    of all bytes that it reads and writes, module, phase and line; before them libraries, machine, settings and environment.

        with zproof.torch.operations("new.operations"):
            train(steps=3)

    Two recordings of the same program, made with two versions of a library, on two machines or before and after a change,
    then name the first operation whose bits differ. Every operation is written when it has run, so a program that dies
    leaves a recording up to its end. With several ranks each writes a file of its own: ``new.rank0.operations``. The
    program has the same bits as without it, but for compiled functions. Where it cannot record, it ends the recording with
    a warning.

    Not recorded: operations on other threads than the one that opened it (those of backward passes are). Functions of
    ``torch.compile`` run uncompiled meanwhile, so their kernels are not compared. Results of ``empty`` are not compared until
    an operation wrote them, nor are sparse and quantized tensors. A step of a model like nanoGPT's on a CPU takes at most
    twice its time; tensors on a device are copied to the host.

    Args:
        file: is replaced.
        model: whose modules are named; without it, names begin at the outermost module that is called.

    Returns:
        Operations: a context manager, for one recording.

    Raises:
        TypeError: the file is no path, or the model no module.
        OSError: the file cannot be written, when the recording begins.
        ImportError: PyTorch is not installed.
    """
    framework_named("torch", "cpu")
    from .operations import Operations

    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"file is {type(file).__name__} (it names a recording); give a path")
    if model is not None and not hasattr(model, "named_modules"):
        raise TypeError(f"model is {type(model).__name__} (modules are named by it); give a torch.nn.Module, or leave it out")
    return Operations(file, model)


def record(optimizer: Any | Sequence[Any], model: Any, folder: str | os.PathLike[str], every: int = 1, *, reduction: str = "mean",
           max_norm: float | None = None, limit: int = 65536, seed: int = 0, first_step: int = 1,
           loss_scale: float = 1.0, program: str | None = None) -> Recorder:
    """Records a training for ``zeroproof judge-run``: gradients before and after reduction and clipping, parameters and
    state before and after each step, and the parameters that the next forward pass uses.

    Call it on every rank, after the model is wrapped and the optimizer is made:

        with zproof.torch.record(optimizer, model, "recording"):
            train()

    or ``recorder = zproof.torch.record(...)`` and ``recorder.close()``. A program that clips or unscales by itself passes
    ``max_norm`` and calls ``recorder.reduced()`` when its gradients are reduced. It observes one process,
    DistributedDataParallel, ``fully_shard``, ZeroRedundancyOptimizer and DeepSpeed's ZeRO 0 to 3, ``clip_grad_norm_`` and
    ``GradScaler``; updates by AdamW, Adam, SGD and ``torch.optim.Muon`` are judged, those of other optimizers are not. The
    training has the same bits as without it. Where it cannot record, it switches itself off with a warning.

    Args:
        optimizer: whose ``step`` the training calls; with DeepSpeed ``engine.optimizer``. A list of several, such as Muon for
            matrices and AdamW for the rest, of which each makes one step in every step.
        model: whose forward pass the training calls: wrapped, as it is trained.
        folder: gets one file for each recorded step and rank; new, or with earlier steps.
        every: records the first step and every so many after it.
        reduction: "mean" or "sum" over the ranks, as intended. The gradients of micro-batches are summed.
        max_norm: the limit of a clip that the program computes by itself; that of ``clip_grad_norm_`` is found.
        limit: elements recorded of a parameter. Larger ones are sampled in blocks, the same on every rank.
        seed: of the samples.
        first_step: number of the first step, for a resumed training.
        loss_scale: factor of the loss, without a GradScaler.
        program: text for the report.

    Returns:
        Recorder: a context manager.

    Raises:
        ValueError: an argument out of range, or no optimizer.
        ImportError: PyTorch is not installed.
    """
    framework_named("torch", "cpu")
    from .run_recorder import Recorder

    for name, value in (("every", every), ("limit", limit), ("first_step", first_step)):
        if count(name, value) < 1:
            raise ValueError(f"{name} is {value} (it is out of range); use 1 or more")
    if word("reduction", reduction) not in ("mean", "sum"):
        raise ValueError(f"reduction is '{reduction}' (ranks take a mean or a sum); use one of these")
    if isinstance(optimizer, (list, tuple)) and not optimizer:
        raise ValueError("optimizer is an empty list (no step would be recorded); pass those that update the parameters")
    kind: type[Recorder] = Recorder
    if type(optimizer).__module__.startswith("deepspeed.runtime."):
        from .deepspeed_recorder import DeepSpeedRecorder as kind
    elif type(model).__module__.startswith("deepspeed."):
        from .deepspeed_recorder import DeepSpeedEngineRecorder as kind
    return kind(optimizer, model, folder, every, reduction, None if max_norm is None else factor("max_norm", max_norm),
                limit, seed, first_step, factor("loss_scale", loss_scale), program)
