"""Records DeepSpeed's ZeRO stages 1 and 2, whose optimizer updates one flat fp32 partition of each param group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .recorded_parameter import RecordedParameter, sampled_blocks
from .run_recorder import NotRecorded, Recorder, _guarded, _number
from .torch_optimizer import operation_of

__all__ = ["DeepSpeedRecorder"]


class DeepSpeedRecorder(Recorder):
    """`optimizer` is that of the engine that `deepspeed.initialize` returns."""

    def _find_wrapper(self) -> None:
        import deepspeed

        zero = self.optimizer
        if type(zero).__name__ != "DeepSpeedZeroOptimizer" or getattr(zero, "cpu_offload", False):
            raise NotRecorded(f"the optimizer is DeepSpeed's {type(zero).__name__}"
                              f"{' with offload' if getattr(zero, 'cpu_offload', False) else ''}; ZeRO stages 1 and 2 without "
                              "offload are recorded")
        self.root = getattr(self.model, "module", self.model)
        self.sharding: list[Any] = []
        self.reduced_by_wrapper = False
        self.update = zero.optimizer
        self.rule = operation_of(self.update)
        if self.rule not in ("adam", "adamw", "sgd"):
            raise NotRecorded(f"DeepSpeed updates with {type(self.update).__name__}; AdamW, Adam and SGD are recorded")
        stage = 2 if zero.partition_gradients else 1
        self.program = self.program or f"DeepSpeed {deepspeed.__version__}, ZeRO {stage}, PyTorch {self.torch.__version__}"

    def _find_parameters(self) -> None:
        names = {id(parameter): name for name, parameter in self.root.named_parameters()}
        self.fetched: dict[str, int] = {}
        self._starts: dict[int, int] = {}  # in the flat partition
        for group, parameters in enumerate(self.optimizer.bit16_groups):
            for parameter in parameters:
                name, numel = names[id(parameter)], parameter.numel()
                mapping = getattr(parameter, "_hp_mapping", None)
                owned = []
                if mapping is not None:
                    part, flat = mapping.lp_fragment_address, mapping.hp_fragment_address
                    owned, self._starts[len(self.parameters)] = [[part.start, part.numel]], flat.start
                self.fetched[name] = len(self.parameters)
                self.parameters.append(RecordedParameter(
                    name, tuple(parameter.shape), group, parameter, owned,
                    sampled_blocks(name, math.prod(parameter.shape) if numel else 0, self.limit, self.seed), False, self.update,
                    self.step))

    def _install(self) -> None:
        self._functions.replace(self.optimizer, "step", self._zero_step_wrapper)
        self._functions.replace(self.optimizer, "unscale_and_clip_grads", self._unscale_and_clip_wrapper)
        self._functions.replace(self.optimizer, "_optimizer_step", self._group_step_wrapper)
        self._hook_forward()
        for index, one in enumerate(self.parameters):
            self._hook_gradient(index, one.tensor)

    def _zero_step_wrapper(self, original: Any) -> Any:
        def step(*arguments: Any, **words: Any) -> Any:
            self._begin_zero_step()
            result = original(*arguments, **words)
            self._end_zero_step()
            return result

        return step

    @_guarded
    def _begin_zero_step(self) -> None:
        if self._due():
            self._write()
            self._scale = float(self.optimizer.loss_scale)
            self._squares = {}

    @_guarded
    def _end_zero_step(self) -> None:
        applied = not self.optimizer.overflow
        if self._due() and not applied:
            for group in range(len(self.optimizer.bit16_groups)):
                for when in ("before", "after"):
                    self._snapshot_group(group, when)
        self._end_step(applied)

    def _unscale_and_clip_wrapper(self, original: Any) -> Any:
        def unscale_and_clip_grads(grads: Any, total_norm: Any, *arguments: Any, **words: Any) -> Any:
            self._take_flat(grads, total_norm)
            return original(grads, total_norm, *arguments, **words)

        return unscale_and_clip_grads

    @_guarded
    def _take_flat(self, grads: Any, total_norm: Any) -> None:
        if not self._due():
            return
        for group, flat in enumerate(self.optimizer.single_partition_of_fp32_groups):
            if any(flat.grad is grad for grad in grads):
                for index, one, part in self._parts(group, flat.grad):
                    self._tensors["reduced." + one.name] = one.of_shard(part)
                    self._squares[index] = self._sum_squares(part)  # type: ignore[index]
        if self.optimizer.clip_grad > 0:
            self._clip["max_norm"] = float(self.optimizer.clip_grad)
        if total_norm is not None:
            self._clip["norm"] = _number(float(total_norm) / self._scale)

    def _group_step_wrapper(self, original: Any) -> Any:
        def _optimizer_step(group: int) -> Any:
            self._around_group(group, "before")
            result = original(group)
            self._around_group(group, "after")
            return result

        return _optimizer_step

    @_guarded
    def _around_group(self, group: int, when: str) -> None:
        if not self._due():
            return
        if when == "before":
            for _, one, part in self._parts(group, self.optimizer.single_partition_of_fp32_groups[group].grad):
                self._tensors["before.grad." + one.name] = one.of_shard(part)
        self._snapshot_group(group, when)

    def _snapshot_group(self, group: int, when: str) -> None:
        flat = self.optimizer.single_partition_of_fp32_groups[group]
        state = {name: value for name, value in self.update.state.get(flat, {}).items()
                 if hasattr(value, "numel") and value.numel() == flat.numel()}
        cut = {name: {index: part for index, _, part in self._parts(group, value)} for name, value in state.items()}
        for index, one, part in self._parts(group, flat):
            self._snapshot_of(one, when, part, {name: parts[index] for name, parts in cut.items()})

    def _parts(self, group: int, flat: Any) -> Any:
        """Elements of each parameter in a flat partition."""
        for index, one in enumerate(self.parameters):
            if one.group == group and one.owned:
                yield index, one, flat.detach().narrow(0, self._starts[index], one.owned[0][1])

    def _snapshot(self, when: str) -> None:
        """Taken by group."""

    def _recorded_now(self) -> list[tuple[int, RecordedParameter]]:
        return list(enumerate(self.parameters))

    def _group(self, one: RecordedParameter) -> Mapping[str, Any]:
        return self.update.param_groups[one.group]

    def _updates_of(self, one: RecordedParameter) -> int:
        flat = self.optimizer.single_partition_of_fp32_groups[one.group]
        count = self.update.state.get(flat, {}).get("step", self._group(one).get("step"))
        return one.updates if count is None else int(float(count))
