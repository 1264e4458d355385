"""Records the steps of a training in PyTorch as `zeroproof judge-run` reads them."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _zproof
from .recorded_parameter import RecordedParameter, blocks_of_shard, sampled_blocks
from .run_hooks import FunctionHooks, Hook
from .torch_optimizer import recorded_rule, settings_of, state_names_of

__all__ = ["Recorder"]

_FILE_NAMES = {"torch.float32": "F32", "torch.bfloat16": "BF16", "torch.float16": "F16"}
_CHUNK = 1 << 20  # elements that are converted to fp64 at once


class NotRecorded(Exception):
    """What this recorder cannot record, and the remedy."""


def _guarded(method: Callable[..., None]) -> Callable[..., None]:
    """A method that is called from the training: it switches the recorder off instead of raising."""
    @functools.wraps(method)
    def call(self: Recorder, *arguments: Any) -> None:
        if not self.active:
            return
        try:
            method(self, *arguments)
        except NotRecorded as reason:
            self.switch_off(str(reason))
        except Exception as error:
            self.switch_off(f"{type(error).__name__}: {str(error).strip() or 'without a message'}")

    return call


def local(tensor: Any) -> Any:
    """The part of a DTensor on this rank; any other tensor is returned."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Recorder:
    """Observes a training from its creation until close; :func:`zproof.torch.record` makes one.

    It never raises while the training runs: on a problem it switches itself off with one warning, and the steps after
    that are missing in the recording.

    Attributes:
        active: False after it was closed or has switched itself off.
        step: calls of the optimizer's step so far.
    """

    def __init__(self, optimizer: Any | Sequence[Any], model: Any, folder: str | os.PathLike[str], every: int, reduction: str,
                 max_norm: float | None, limit: int, seed: int, first_step: int, loss_scale: float,
                 program: str | None) -> None:
        import torch

        self.torch = torch
        self.optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self.updates: list[Any] = []  # whose steps read gradients and state, one for each optimizer
        self.folder = Path(folder)
        self.every, self.reduction, self.limit, self.seed = every, reduction, limit, seed
        self.max_norm, self.loss_scale, self.program = max_norm, loss_scale, program
        self.step = first_step - 1
        self.active = True
        self.parameters: list[RecordedParameter] = []
        self._handles: list[Any] = []
        self._functions = FunctionHooks()
        self._hooked: dict[int, Any] = {}
        self._in_pass = False
        self._stepped = False
        self._pending: tuple[dict[str, Any], dict[str, Any]] | None = None  # complete but for model.*
        self._begin_step()
        self._open(model)

    @property
    def optimizer(self) -> Any:
        return self.optimizers[0]

    @property
    def update(self) -> Any:
        return self.updates[0]

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- opening and closing -------------------------------------------------------------------------------------------

    @_guarded
    def _open(self, model: Any) -> None:
        distributed = self.torch.distributed
        running = distributed.is_available() and distributed.is_initialized()
        self.rank, self.world = (distributed.get_rank(), distributed.get_world_size()) if running else (0, 1)
        self.model = model
        if not hasattr(self.torch.nn.utils.clip_grad, "_clip_grads_with_norm_"):
            raise NotRecorded(f"PyTorch {self.torch.__version__} clips in one function, which cannot be observed; use 2.6 or "
                              "later")
        self._find_wrapper()
        self._find_parameters()
        self.folder.mkdir(parents=True, exist_ok=True)
        later = [path.name for path in sorted(self.folder.glob(f"step*.rank{self.rank}.safetensors"))
                 if int(path.name[4:path.name.index(".")]) > self.step]
        if later:
            raise NotRecorded(f"{self.folder} has {later[0]} of another recording; choose a new folder, or first_step after it")
        self._install()

    def _find_wrapper(self) -> None:
        torch = self.torch
        self.root = self.model
        self.reduced_by_wrapper = False
        shown = "no wrapper"
        while True:
            if isinstance(self.root, torch.nn.parallel.DistributedDataParallel):
                if self.root.process_group.size() != self.world:
                    raise NotRecorded(f"DDP reduces over {self.root.process_group.size()} of {self.world} ranks; record a run "
                                      "whose data-parallel group has all ranks")
                shown, self.reduced_by_wrapper, self.root = "DDP", True, self.root.module
            elif hasattr(self.root, "_orig_mod"):  # of torch.compile
                self.root = self.root._orig_mod
            else:
                break
        if type(self.root).__name__ == "FullyShardedDataParallel":
            raise NotRecorded("the model is FullyShardedDataParallel (FSDP1); use fully_shard")
        self.sharding = [module for module in self.root.modules() if type(module).__name__.startswith("FSDP")
                         and hasattr(module, "unshard")]
        if self.sharding:
            shown, self.reduced_by_wrapper = "FSDP2", True
        self._prefixes = {id(module): name for name, module in self.root.named_modules()}
        for optimizer in self.optimizers:
            divided = type(optimizer).__name__ == "ZeroRedundancyOptimizer"
            if divided and getattr(optimizer, "_overlap_with_ddp", False):
                raise NotRecorded("ZeroRedundancyOptimizer overlaps its step with DDP; use overlap_with_ddp=False")
            self.updates.append(optimizer.optim if divided else optimizer)
        if any(one is not other for one, other in zip(self.updates, self.optimizers)):
            shown += ", ZeroRedundancyOptimizer"
        self.program = self.program or f"PyTorch {torch.__version__}, {shown}"
        self._require_optimizers()

    def _require_optimizers(self) -> None:
        for update in self.updates:
            if not isinstance(update, self.torch.optim.Optimizer):
                raise NotRecorded(f"the optimizer is {type(update).__name__}, no torch.optim.Optimizer; pass the one that "
                                  "updates the parameters")

    def _settings(self, update: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        """Of a param group, with its rule."""
        rule = recorded_rule(update, group)
        return {"rule": rule, **({} if rule == "other" else settings_of(rule, group))}

    def _groups(self) -> Iterator[tuple[Any, Any, Mapping[str, Any]]]:
        """Optimizer, the one that updates, and param group, one optimizer after the other."""
        for optimizer, update in zip(self.optimizers, self.updates):
            for group in optimizer.param_groups:
                yield optimizer, update, group

    def _find_parameters(self) -> None:
        names = {id(parameter): name for name, parameter in self.root.named_parameters()}
        self.fetched: dict[str, int] = {}
        mine = {id(parameter) for update in self.updates for group in update.param_groups for parameter in group["params"]}
        for number, (optimizer, update, group) in enumerate(self._groups()):
            for position, parameter in enumerate(group["params"]):
                if not parameter.requires_grad:
                    continue
                name = names.get(id(parameter), f"group{number}.parameter{position}")
                if name in self.fetched:
                    raise NotRecorded(f"{name} is in two optimizers; one updates a parameter")
                self.fetched[name] = len(self.parameters)
                self.parameters.append(self._recorded(name, number, parameter, id(parameter) in mine, update,
                                                      update is optimizer))

    def _recorded(self, name: str, group: int, parameter: Any, mine: bool, update: Any,
                  replicated: bool) -> RecordedParameter:
        kind = str(parameter.dtype)
        if kind not in _FILE_NAMES:
            raise NotRecorded(f"{name} is {kind.removeprefix('torch.')}; fp32, bf16 and fp16 are recorded")
        shape = tuple(parameter.shape)
        numel = math.prod(shape)
        owned = [[0, numel]] if mine and numel else []
        if hasattr(parameter, "to_local"):
            replicated = False
            mesh, placements = parameter.device_mesh, parameter.placements
            if mesh.size() != self.world or sum(not one.is_replicate() for one in placements) > 1:
                raise NotRecorded(f"{name} is distributed as {placements} over {mesh.size()} of {self.world} ranks; record "
                                  "data parallelism over all ranks")
            from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
            part, offset = compute_local_shape_and_global_offset(shape, mesh, placements)
            coordinate = mesh.get_coordinate()
            replica = any(one.is_replicate() and at for one, at in zip(placements, coordinate))
            owned = [] if replica else blocks_of_shard(shape, part, offset)
        return RecordedParameter(name, shape, group, parameter, owned, sampled_blocks(name, numel, self.limit, self.seed),
                                 replicated, update, self.step)

    def _install(self) -> None:
        clip_grad = self.torch.nn.utils.clip_grad
        functions, handles = self._functions, self._handles
        functions.replace(clip_grad, "_get_total_norm", self._norm_wrapper)
        functions.replace(clip_grad, "_clip_grads_with_norm_", self._clip_wrapper)
        functions.replace(self.torch.nn.utils, "get_total_norm", self._norm_wrapper)
        functions.replace(self.torch.nn.utils, "clip_grads_with_norm_", self._clip_wrapper)
        functions.replace(self.torch.amp.GradScaler, "unscale_", self._unscale_wrapper)
        functions.replace(self.torch.amp.GradScaler, "step", self._scaled_step_wrapper)
        for optimizer in self.optimizers:
            functions.replace(optimizer, "zero_grad", self._zero_grad_wrapper)
        functions.replace(self.torch.nn.Module, "zero_grad", self._module_zero_grad_wrapper)
        disable = self.torch.compiler.disable  # hooks are no part of a compiled step or model
        for update in self.updates:
            handles.append(update.register_step_pre_hook(Hook(disable(self._before_step))))
            handles.append(update.register_step_post_hook(Hook(disable(self._after_step))))
        self._hook_forward()
        if not self.sharding:
            for index, one in enumerate(self.parameters):
                self._hook_gradient(index, one.tensor)

    def _hook_forward(self) -> None:
        disable = self.torch.compiler.disable
        for module in self.sharding or [self.model]:
            self._handles.append(module.register_forward_pre_hook(Hook(disable(self._before_forward))))
        self._handles.append(self.model.register_forward_hook(Hook(disable(self._after_forward))))

    def _hook_gradient(self, index: int, tensor: Any) -> None:
        self._hooked[index] = tensor
        self._handles.append(tensor.register_hook(Hook(functools.partial(self._leaf, index))))
        self._handles.append(tensor.register_post_accumulate_grad_hook(Hook(functools.partial(self._accumulated, index))))

    def close(self) -> None:
        """Writes the last step and removes all hooks. Without a forward pass after it, FSDP2's last step has no model.*."""
        self._finish_last()
        self.active = False
        self._functions.close()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooked.clear()
        self._forget()

    @_guarded
    def _finish_last(self) -> None:
        if self._pending and not self.sharding:
            self._read_model((one.name, one.tensor) for one in self.parameters)
        self._write()

    def switch_off(self, reason: str) -> None:
        """Ends the recording, with a warning; the training goes on."""
        self.active = False
        self._forget()
        rank = f" on rank {self.rank}" if getattr(self, "world", 1) > 1 else ""
        text = f"zproof records no steps after {self.step}{rank}: {reason}"
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors here
            print(text, file=sys.stderr)

    def _forget(self) -> None:
        self._pending = None
        self._begin_step()

    # -- one step ------------------------------------------------------------------------------------------------------

    def _begin_step(self) -> None:
        self._micro_batches = 0
        self._in_pass = False
        self._depth = 0  # a subclass may call the step of its base, with hooks of its own
        self._now: list[tuple[int, RecordedParameter]] | None = None  # with a gradient; from the first step of an optimizer
        self._ended: dict[int, bool] = {}  # whether the steps of this step's optimizers so far were applied
        self._leaves: dict[str, Any] = {}
        self._arrived: dict[int, Any] = {}  # gradients by parameter, before they are accumulated
        self._tensors: dict[str, Any] = {}
        self._squares: dict[int, float] | None = None  # until the reduced gradients are taken
        self._norm_type: float | str = 2
        self._clip: dict[str, Any] = {}
        self._scale = self.loss_scale

    def _due(self) -> bool:
        """Whether the next step is recorded."""
        return self.active and self.step % self.every == 0

    def _leaf(self, index: int, grad: Any) -> None:
        if self._due():
            self._take_leaf(index, grad)

    @_guarded
    def _take_leaf(self, index: int, grad: Any) -> None:
        one = self.parameters[index]
        if grad.layout is not self.torch.strided or grad.is_complex():
            kind = "complex" if grad.is_complex() else "sparse"
            raise NotRecorded(f"the gradient of {one.name} is {kind}; dense real gradients are recorded")
        self._arrived[index] = one.of_whole(grad)

    def _accumulated(self, index: int, _: Any) -> None:
        if self._due():
            self._keep_leaf(index)

    @_guarded
    def _keep_leaf(self, index: int) -> None:
        """The gradient is one of a backward pass. `torch.autograd.grad` calls hooks too, and accumulates nothing."""
        if not self._in_pass:
            self._in_pass = True
            # after the callbacks of DDP and FSDP2, which are queued later in this pass
            engine = self.torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: engine.queue_callback(self._after_backward))
        # The passes inside of reentrant checkpoints count as micro-batches of their own.
        self._leaves[f"leaf.{self._micro_batches}.{self.parameters[index].name}"] = self._arrived.pop(index)

    @_guarded
    def _after_backward(self) -> None:
        self._micro_batches += 1
        self._in_pass = False
        if self.max_norm is not None and self.reduced_by_wrapper:  # the program clips by itself, unobserved
            self._drop_reduced()
            self._take_reduced()

    def _drop_reduced(self) -> None:
        self._squares = None
        self._tensors = {name: tensor for name, tensor in self._tensors.items() if not name.startswith("reduced.")}

    def reduced(self) -> None:
        """For programs that clip or unscale by themselves: call it when the gradients are reduced. Without a call they are
        taken at `clip_grad_norm_`, `GradScaler.unscale_` or the optimizer's step, whichever is first."""
        if self._due():
            self._take_reduced()

    @_guarded
    def _take_reduced(self) -> None:
        if self._squares is not None:
            return
        self._squares = {}
        for index, one in enumerate(self.parameters):
            grad = self._gradient(one)
            if grad is not None and one.owned:
                self._tensors["reduced." + one.name] = one.of_shard(grad)
                self._squares[index] = self._sum_squares(grad)

    def _gradient(self, one: RecordedParameter) -> Any:
        grad = one.tensor.grad
        return None if grad is None else local(grad)

    def _sum_squares(self, tensor: Any) -> float:
        flat = tensor.detach().reshape(-1)
        return sum(float(part.double().square().sum()) for part in flat.split(_CHUNK)) if flat.numel() else 0.0

    def _norm_wrapper(self, original: Any) -> Any:
        def get_total_norm(tensors: Any, norm_type: float = 2.0, *arguments: Any, **words: Any) -> Any:
            self._norm_type = norm_type
            return original(tensors, norm_type, *arguments, **words)

        return get_total_norm

    def _clip_wrapper(self, original: Any) -> Any:
        def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, *arguments: Any, **words: Any) -> Any:
            if self._due():
                parameters = [parameters] if isinstance(parameters, self.torch.Tensor) else list(parameters)
                self._take_clip(parameters, max_norm, total_norm)
            return original(parameters, max_norm, total_norm, *arguments, **words)

        return clip_grads_with_norm_

    @_guarded
    def _take_clip(self, parameters: Iterable[Any], max_norm: float, total_norm: Any) -> None:
        given = {id(one) for one in parameters if one.grad is not None}
        mine = {id(one.tensor) for _, one in self._recorded_now()}
        if not given & mine:
            return  # those of another optimizer
        if given != mine:
            raise NotRecorded(f"the norm is of {len(given)} parameters with a gradient, and the optimizer updates {len(mine)}; "
                              "clip the parameters of the optimizer, in one call, or pass all optimizers as a list")
        self._take_reduced()
        if "max_norm" in self._clip:
            return  # clipped a second time: the norm is of clipped gradients
        kind = float(self._norm_type)
        self._clip = {"norm_type": "inf" if math.isinf(kind) else kind}
        # A rank's part of a norm is no norm yet, and reducing it would change what clipping does with it.
        if all(one.is_replicate() for one in getattr(total_norm, "placements", ())):
            self._clip["norm"] = _number(float(local(total_norm)))
        if math.isfinite(float(max_norm)):  # else the program reads the norm
            self._clip["max_norm"] = float(max_norm)

    def _unscale_wrapper(self, original: Any) -> Any:
        def unscale_(scaler: Any, optimizer: Any) -> Any:
            if any(optimizer is one for one in self.optimizers) and self._due() and scaler.is_enabled():
                self._take_scale(scaler)
                self._take_reduced()
            return original(scaler, optimizer)

        return unscale_

    @_guarded
    def _take_scale(self, scaler: Any) -> None:
        if len(self.optimizers) > 1:
            raise NotRecorded("a GradScaler skips the step of each optimizer by itself, which is no step of all; train several "
                              "optimizers without one")
        self._scale = float(scaler.get_scale())

    def _scaled_step_wrapper(self, original: Any) -> Any:
        def step(scaler: Any, optimizer: Any, *arguments: Any, **words: Any) -> Any:
            if not any(optimizer is one for one in self.optimizers) or not scaler.is_enabled():
                return original(scaler, optimizer, *arguments, **words)
            if self._due():
                self._take_scale(scaler)
            self._stepped = False
            result = original(scaler, optimizer, *arguments, **words)
            if not self._stepped:
                self._skipped()
            return result

        return step

    def _zero_grad_wrapper(self, original: Any) -> Any:
        def zero_grad(*arguments: Any, **words: Any) -> Any:
            if not self._ended:  # of an optimizer that has made its step while another has not
                self._begin_step()  # gradients that no step has used are discarded
            return original(*arguments, **words)

        return zero_grad

    def _module_zero_grad_wrapper(self, original: Any) -> Any:
        def zero_grad(module: Any, *arguments: Any, **words: Any) -> Any:
            if (module is self.model or module is self.root) and not self._ended:
                self._begin_step()
            return original(module, *arguments, **words)

        return zero_grad

    @_guarded
    def _before_step(self, optimizer: Any, arguments: tuple[Any, ...], words: Mapping[str, Any]) -> None:
        self._stepped = True
        self._depth += 1
        if self._depth > 1:
            return
        if any(one is not None for one in (*arguments[1:], words.get("closure"))):  # the first is the optimizer
            raise NotRecorded("the optimizer's step gets a closure; call backward before step()")
        if id(optimizer) in self._ended:
            raise NotRecorded(f"{type(optimizer).__name__} makes a second step before another optimizer made one; record "
                              "optimizers that step in turn each by itself")
        first = not self._ended
        if first:
            self._now = self._recorded_now()
        if not self._due():
            return
        if first:
            self._write()
            self._require_known()
            self._take_reduced()
        self._snapshot("before", optimizer)

    @_guarded
    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        overflow = getattr(optimizer, "found_inf", None)
        self._end_step(overflow is None or not float(overflow), optimizer)

    @_guarded
    def _skipped(self) -> None:
        """A GradScaler has not called the optimizer."""
        if self._due():
            self._write()
            self._require_known()
            self._snapshot("before")
        self._end_step(False)

    def _require_known(self) -> None:
        known = {id(one.tensor) for one in self.parameters}
        for number, (_, _, group) in enumerate(self._groups()):
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) not in known:
                    raise NotRecorded(f"a parameter of group {number}, of {list(parameter.shape)} elements, is trained that was "
                                      "not when the recording began; record from here on in a new recorder with first_step")

    def _end_step(self, applied: bool, optimizer: Any = None) -> None:
        """Of one optimizer, or of all; the step ends with the last one."""
        due = self._due()
        for _, one in self._recorded_now(optimizer):
            one.updates += applied
        if due:
            # Fused optimizers divide by the scale inside of the step and leave the quotient in the gradient.
            if applied and getattr(optimizer or self.update, "grad_scale", None) is not None:
                self._snapshot_gradients(optimizer)
            self._snapshot("after", optimizer)
        self._ended[id(optimizer or self.update)] = applied
        if len(self._ended) < len(self.updates):
            return
        self.step += 1
        if not due:
            self._begin_step()
            return
        self._pending = self._metadata(applied), {**self._leaves_of_step(), **self._tensors}
        self._begin_step()

    def _recorded_now(self, optimizer: Any = None) -> list[tuple[int, RecordedParameter]]:
        """Parameters that have a gradient in this step, of one optimizer or of all."""
        now = self._now
        if now is None:
            now = [(index, one) for index, one in enumerate(self.parameters) if one.tensor.grad is not None]
        return [(index, one) for index, one in now if optimizer is None or one.optimizer is optimizer]

    def _snapshot_gradients(self, optimizer: Any = None) -> None:
        for _, one in self._recorded_now(optimizer):
            if one.owned:
                self._tensors["before.grad." + one.name] = one.of_shard(self._gradient(one))

    def _snapshot(self, when: str, optimizer: Any = None) -> None:
        if when == "before":
            self._snapshot_gradients(optimizer)
        for _, one in self._recorded_now(optimizer):
            if one.owned:
                state = one.optimizer.state.get(one.tensor, {})
                self._snapshot_of(one, when, local(one.tensor), {name: local(value) for name, value in state.items()})

    def _snapshot_of(self, one: RecordedParameter, when: str, master: Any, state: Mapping[str, Any]) -> None:
        """Parameters and state of this rank's elements."""
        self._tensors[f"{when}.master.{one.name}"] = copied = one.of_shard(master)
        settings = self._settings(one.optimizer, self._group(one))
        rule = settings["rule"]
        wanted = {} if rule == "other" else state_names_of(rule, settings)
        for name, known in wanted.items():
            value = next((state[other] for other in known if state.get(other) is not None), None)
            if value is not None:
                self._tensors[f"{when}.{name}.{one.name}"] = one.of_shard(value)
            elif rule != "sgd":  # Adam and Muon make their state of zeros in the first step
                self._tensors[f"{when}.{name}.{one.name}"] = self.torch.zeros_like(copied)

    def _group(self, one: RecordedParameter) -> Mapping[str, Any]:
        return next(itertools.islice(self._groups(), one.group, None))[2]

    def _leaves_of_step(self) -> dict[str, Any]:
        """A micro-batch in which a parameter has no part has a gradient of zeros, also if other ranks have one."""
        leaves: dict[str, Any] = {}
        for index, one in self._recorded_now():
            names = [f"leaf.{micro}.{one.name}" for micro in range(self._micro_batches)]
            zeros = next((self.torch.zeros_like(self._leaves[name]) for name in names if name in self._leaves), None)
            if zeros is None and (self.world > 1 or (self._squares or {}).get(index) == 0):
                zeros = self.torch.zeros(sum(length for _, length in one.sample), dtype=one.tensor.dtype)
            if zeros is not None:  # else the program has set it
                leaves |= {name: self._leaves.get(name, zeros) for name in names}
        return leaves

    def _metadata(self, applied: bool) -> dict[str, Any]:
        parameters = []
        for index, one in self._recorded_now():
            shown = {"name": one.name, "shape": list(one.shape), "group": one.group, "t": self._updates_of(one),
                     "owned": one.recorded, "replicated": one.replicated}
            if one.sampled:
                shown["leaf"] = one.sample
            if self._squares and index in self._squares:
                shown["sum_squares"] = _number(self._squares[index])
            parameters.append(shown)
        return {"version": 1, "program": self.program, "rank": self.rank, "world": self.world, "step": self.step,
                "micro_batches": self._micro_batches, "reduction": self.reduction, "loss_scale": self._scale,
                "applied": applied, **({"max_norm": self.max_norm} if self.max_norm is not None else {}), **self._clip,
                "groups": [self._settings(update, group) for _, update, group in self._groups()],
                "parameters": parameters}

    def _updates_of(self, one: RecordedParameter) -> int:
        count = one.optimizer.state.get(one.tensor, {}).get("step")
        return one.updates if count is None or not one.owned else int(float(count))

    # -- the next forward pass -----------------------------------------------------------------------------------------

    @_guarded
    def _before_forward(self, module: Any, arguments: Any) -> None:
        if not self.sharding:
            if self._pending:
                self._read_model((one.name, one.tensor) for one in self.parameters)
            return
        for name, tensor in self._gathered(module):
            if name not in self.fetched:
                continue
            if self._pending:
                self._read_model([(name, tensor)])
            if tensor.requires_grad and self._hooked.get(self.fetched[name]) is not tensor:
                self._hook_gradient(self.fetched[name], tensor)

    def _gathered(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Parameters that are complete during the forward pass of a module, with their names in the model."""
        prefix = self._prefixes[id(module)]
        for name, tensor in module.named_parameters():
            if not hasattr(tensor, "to_local"):  # a shard: gathered by a module inside of this one
                yield f"{prefix}.{name}" if prefix else name, tensor

    def _read_model(self, tensors: Iterable[tuple[str, Any]]) -> None:
        metadata, recorded = self._pending  # type: ignore[misc]
        present = {one["name"] for one in metadata["parameters"]}
        for name, tensor in tensors:
            if name in present:
                recorded.setdefault("model." + name, self.parameters[self.fetched[name]].of_whole(tensor))

    @_guarded
    def _after_forward(self, *_: Any) -> None:
        self._write()

    def _write(self) -> None:
        if self._pending is None:
            return
        metadata, tensors = self._pending
        self._pending = None
        path = self.folder / f"step{metadata['step']:06d}.rank{self.rank}.safetensors"
        _zproof.write_tensors(os.fspath(path),
                              [(name, self._file_name(name, tensor), list(tensor.shape), self._bytes(tensor))
                               for name, tensor in tensors.items()], {"zeroproof_recording": json.dumps(metadata)})

    def _file_name(self, name: str, tensor: Any) -> str:
        kind = str(tensor.dtype)
        if kind not in _FILE_NAMES:
            raise NotRecorded(f"{name} is {kind.removeprefix('torch.')}; fp32, bf16 and fp16 are recorded")
        return _FILE_NAMES[kind]

    def _bytes(self, tensor: Any) -> Any:
        return tensor.contiguous().view(self.torch.uint8).numpy()


def _number(value: float) -> float | str:
    """JSON has no infinity and no NaN."""
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "inf"
