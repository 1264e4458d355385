"""Where the optimizers of DeepSpeed keep gradients and fp32 masters of a model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["LAYOUTS", "Layout", "Part"]


@dataclass
class Part:
    """Elements of a parameter that this rank updates.

    Attributes:
        parameter: of the model.
        shape: of the undistributed parameter.
        group: index of its param group.
        master: tensor that the inner optimizer has, with the masters of one parameter or of many.
        start: of the elements in the flattened master.
        owned: [[start, length]] in the flattened parameter; empty if other ranks update all of it.
        reduced: returns the gradient of these elements after the reduction, with the loss scale.
    """
    parameter: Any
    shape: tuple[int, ...]
    group: int
    master: Any
    start: int
    owned: list[list[int]]
    reduced: Callable[[], Any]

    def of(self, flat: Any) -> Any:
        """The elements in a tensor of the master's size."""
        return flat.detach().reshape(-1).narrow(0, self.start, self.owned[0][1])


@dataclass
class Layout:
    """Attributes:
        name: for the report.
        parts: of an optimizer.
        replicated: every rank updates all elements.
        refused: what of an optimizer's settings is not recorded, "" for nothing.
        scaled_norm: `_global_grad_norm` includes the loss scale.
    """
    name: Callable[[Any], str]
    parts: Callable[[Any], Iterator[Part]]
    replicated: bool = False
    refused: Callable[[Any], str] = lambda _: ""
    scaled_norm: bool = False


def _mapped(parameter: Any) -> tuple[list[list[int]], int]:
    """Elements of a parameter in this rank's flat partition, and where they begin in it."""
    mapping = getattr(parameter, "_hp_mapping", None)
    if mapping is None:
        return [], 0
    part = mapping.lp_fragment_address
    return [[part.start, part.numel]], mapping.hp_fragment_address.start


def _from_partition(gradient_of: Callable[[int], Any], group: int, start: int, owned: list[list[int]]) -> Callable[[], Any]:
    return lambda: gradient_of(group).detach().reshape(-1).narrow(0, start, owned[0][1])


def _zero_1_and_2(zero: Any) -> Iterator[Part]:
    def gradient(group: int) -> Any:
        if zero.cpu_offload:
            return masters[group].grad
        gradients = zero.averaged_gradients[group]
        return gradients if hasattr(gradients, "numel") else _joined(gradients)

    masters = zero.single_partition_of_fp32_groups
    for group, parameters in enumerate(zero.bit16_groups):
        for parameter in parameters:
            owned, start = _mapped(parameter)
            yield Part(parameter, tuple(parameter.shape), group, masters[group], start, owned,
                       _from_partition(gradient, group, start, owned))


def _joined(tensors: Any) -> Any:
    import torch

    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _bf16(zero: Any) -> Iterator[Part]:
    for group, parameters in enumerate(zero.bf16_groups):
        for parameter in parameters:
            owned, start = _mapped(parameter)
            yield Part(parameter, tuple(parameter.shape), group, zero.fp32_groups_flat_partition[group], start, owned,
                       _from_partition(zero.fp32_groups_gradient_flat_partition.__getitem__, group, start, owned))


def _zero_3(zero: Any) -> Iterator[Part]:
    for sub_group, parameters in enumerate(zero.fp16_groups):
        master = zero.fp32_partitioned_groups_flat[sub_group]
        start = 0
        for position, parameter in enumerate(parameters):
            size = parameter.partition_numel()
            first = size * zero._get_param_partition_rank(parameter)
            length = max(0, min(size, parameter.ds_numel - first))  # the last parts are padded
            owned = [[first, length]] if length else []
            yield Part(parameter, tuple(parameter.ds_shape), zero.sub_group_to_group_id[sub_group], master, start, owned,
                       _of_sub_group(zero, sub_group, position, master, start, length))
            start += size


def _of_sub_group(zero: Any, sub_group: int, position: int, master: Any, start: int, length: int) -> Callable[[], Any]:
    def reduced() -> Any:
        if zero.offload_optimizer:
            return master.grad.detach().narrow(0, start, length)
        return zero.averaged_gradients[sub_group][position].detach().reshape(-1)[:length]

    return reduced


def _gradient_or_zeros(parameter: Any) -> Callable[[], Any]:
    def reduced() -> Any:
        import torch

        return (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).detach().reshape(-1)

    return reduced


def _fp16(zero: Any) -> Iterator[Part]:
    flat = hasattr(zero, "fp32_groups_flat")
    for group, parameters in enumerate(zero.fp16_groups):
        start = 0
        for position, parameter in enumerate(parameters):
            numel = parameter.numel()
            master = zero.fp32_groups_flat[group] if flat else zero.fp32_groups[group][position]
            yield Part(parameter, tuple(parameter.shape), group, master, start, [[0, numel]] if numel else [],
                       _gradient_or_zeros(parameter))
            start += numel if flat else 0


def _stage(zero: Any) -> str:
    return f"ZeRO {2 if zero.partition_gradients else 1}{', offload' if zero.cpu_offload else ''}"


def _refused_3(zero: Any) -> str:
    if zero.swap_optimizer or getattr(zero, "params_in_nvme_and_cpu", False):
        return "offload to NVMe"
    if zero.offload_optimizer and zero.partial_offload != 1.0:
        return "an optimizer that is offloaded in part"
    if zero.zero_hpz_partition_size > 1:
        return "hierarchical partitions (zero_hpz_partition_size)"
    return ""


def _refused_fused(zero: Any) -> str:
    return "a legacy fused optimizer" if zero.fused_adam_legacy else ""


def _refused_unfused(zero: Any) -> str:
    return "a legacy fused optimizer" if zero.fused_lamb_legacy else ""


#: by the class of the optimizer
LAYOUTS = {
    "DeepSpeedZeroOptimizer": Layout(_stage, _zero_1_and_2),
    "BF16_Optimizer": Layout(lambda _: "ZeRO 1", _bf16),
    "DeepSpeedZeroOptimizer_Stage3": Layout(lambda zero: f"ZeRO 3{', offload' if zero.offload_optimizer else ''}", _zero_3,
                                            refused=_refused_3),
    "FP16_Optimizer": Layout(lambda _: "ZeRO 0", _fp16, replicated=True, refused=_refused_fused),
    "FP16_UnfusedOptimizer": Layout(lambda _: "ZeRO 0", _fp16, replicated=True, refused=_refused_unfused, scaled_norm=True),
}
