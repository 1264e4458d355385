"""Records the optimizers of DeepSpeed, which update fp32 masters, most of them in one flat partition of a param group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .deepspeed_layout import LAYOUTS, Part
from .recorded_parameter import RecordedParameter, sampled_blocks
from .run_hooks import Hook
from .run_recorder import NotRecorded, Recorder, _guarded, _number

__all__ = ["DeepSpeedEngineRecorder", "DeepSpeedRecorder"]


class DeepSpeedRecorder(Recorder):
    """`optimizer` is that of the engine that `deepspeed.initialize` returns."""

    def _find_wrapper(self) -> None:
        import deepspeed

        zero = self.optimizer
        layout = LAYOUTS.get(type(zero).__name__)
        if layout is None:
            raise NotRecorded(f"the optimizer is DeepSpeed's {type(zero).__name__}; ZeRO 0 to 3 are recorded")
        refused = layout.refused(zero)
        if getattr(zero, "torch_autocast_gradscaler", None):
            refused = "the GradScaler of torch_autocast"
        group = getattr(zero, "dp_process_group", None)
        if group is not None and group.size() != self.world:
            refused = f"data parallelism over {group.size()} of {self.world} ranks"
        if refused:
            raise NotRecorded(f"DeepSpeed has {refused}, which is not recorded; train without it")
        self.layout = layout
        self.root = getattr(self.model, "module", self.model)
        self.reduced_by_wrapper = False
        self.updates = [zero.optimizer]
        self._require_optimizers()
        self.program = self.program or (f"DeepSpeed {deepspeed.__version__}, {layout.name(zero)}, "
                                        f"PyTorch {self.torch.__version__}")
        # ZeRO 3 gathers the parameters of a module before its forward pass.
        self.sharding = [module for module in self.root.modules() if any(
            hasattr(parameter, "ds_status") for parameter in module.parameters(recurse=False))]

    def _find_parameters(self) -> None:
        names = {id(parameter): name for name, parameter in self.root.named_parameters()}
        self.fetched: dict[str, int] = {}
        self._parts: list[Part] = []
        for part in self.layout.parts(self.optimizer):
            name = names[id(part.parameter)]
            self.fetched[name] = len(self.parameters)
            self._parts.append(part)
            numel = part.parameter.numel() if not self.sharding else part.parameter.ds_numel
            self.parameters.append(RecordedParameter(
                name, part.shape, part.group, part.parameter, part.owned, sampled_blocks(name, numel, self.limit, self.seed),
                self.layout.replicated, self.update, self.step))
        self._names = names

    def _install(self) -> None:
        self._functions.replace(self.optimizer, "step", self._zero_step_wrapper)
        self._handles.append(self.update.register_step_pre_hook(Hook(self._before_update)))
        self._hook_forward()
        for index, one in enumerate(self.parameters):
            self._hook_gradient(index, one.tensor)

    def _gathered(self, module: Any) -> Iterator[tuple[str, Any]]:
        for parameter in module.parameters(recurse=False):
            if id(parameter) in self._names and parameter.numel() == parameter.ds_numel:
                yield self._names[id(parameter)], parameter

    def _zero_step_wrapper(self, original: Any) -> Any:
        def step(*arguments: Any, **words: Any) -> Any:
            self._begin_zero_step()
            result = original(*arguments, **words)
            self._end_zero_step()
            return result

        return step

    @_guarded
    def _begin_zero_step(self) -> None:
        if not self._due():
            return
        self._write()
        self._scale = float(getattr(self.optimizer, "loss_scale", None) or 1.0)  # bf16 has none
        self._squares = {}
        for index, (one, part) in enumerate(zip(self.parameters, self._parts)):
            if one.owned:
                gradient = part.reduced()
                self._tensors["reduced." + one.name] = one.of_shard(gradient).float()
                self._squares[index] = self._sum_squares(gradient)
        self._snapshot("before")

    @_guarded
    def _before_update(self, optimizer: Any, *_: Any) -> None:
        if not self._due():
            return
        updated = {id(master) for group in optimizer.param_groups for master in group["params"]}
        for one, part in zip(self.parameters, self._parts):
            if one.owned and id(part.master) in updated:
                self._tensors["before.grad." + one.name] = one.of_shard(part.of(part.master.grad))

    @_guarded
    def _end_zero_step(self) -> None:
        applied = not self.optimizer.overflow
        if self._due():
            self._take_norm(applied)
            if applied and not all("before.grad." + one.name in self._tensors for one in self.parameters if one.owned):
                raise NotRecorded(f"DeepSpeed has not called {type(self.update).__name__}.step for every param group; use "
                                  "an optimizer of PyTorch or DeepSpeed")
        self._end_step(applied)

    def _take_norm(self, applied: bool) -> None:
        if self.optimizer.clip_grad > 0:
            self._clip["max_norm"] = float(self.optimizer.clip_grad)
        norm = getattr(self.optimizer, "_global_grad_norm", None)
        if applied and norm is not None:
            self._clip["norm"] = _number(float(norm) / (self._scale if self.layout.scaled_norm else 1.0))

    def _snapshot(self, when: str, optimizer: Any = None) -> None:
        for one, part in zip(self.parameters, self._parts):
            if one.owned:
                self._snapshot_of(one, when, part.of(part.master),
                                  {name: part.of(value) for name, value in self.update.state.get(part.master, {}).items()
                                   if hasattr(value, "numel") and value.numel() == part.master.numel()})

    def _recorded_now(self, optimizer: Any = None) -> list[tuple[int, RecordedParameter]]:
        return list(enumerate(self.parameters))

    def _group(self, one: RecordedParameter) -> Mapping[str, Any]:
        return self.update.param_groups[one.group]

    def _updates_of(self, one: RecordedParameter) -> int:
        master = self._parts[self.fetched[one.name]].master
        count = self.update.state.get(master, {}).get("step", self._group(one).get("step"))
        return one.updates if count is None else int(float(count))


class DeepSpeedEngineRecorder(Recorder):
    """An engine in fp32 without ZeRO, whose optimizer is that of PyTorch: the engine averages and clips."""

    def _find_wrapper(self) -> None:
        import deepspeed

        engine = self.model
        if getattr(engine, "torch_autocast_z0_gradscaler", None):
            raise NotRecorded("DeepSpeed has the GradScaler of torch_autocast, which is not recorded; train without it")
        self.root = engine.module
        self.reduced_by_wrapper = False
        self.sharding = []
        self.updates = [self.optimizer]
        self._require_optimizers()
        self.program = self.program or f"DeepSpeed {deepspeed.__version__}, ZeRO 0, PyTorch {self.torch.__version__}"

    def _install(self) -> None:
        super()._install()
        from deepspeed.runtime import engine

        self._functions.replace(engine, "clip_grad_norm_", self._engine_clip_wrapper)

    def _engine_clip_wrapper(self, original: Any) -> Any:
        def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2, *arguments: Any, **words: Any) -> Any:
            parameters = list(parameters)
            mine = any(one.tensor is parameter for one in self.parameters for parameter in parameters)
            if mine:
                self.reduced()
            norm = original(parameters, max_norm, norm_type, *arguments, **words)
            if mine:
                self._take_engine_clip(parameters, max_norm, norm, norm_type)
            return norm

        return clip_grad_norm_

    @_guarded
    def _take_engine_clip(self, parameters: list[Any], max_norm: float, norm: Any, norm_type: float) -> None:
        if self._due():
            self._norm_type = norm_type
            self._take_clip(parameters, max_norm, norm)
