"""The step of a PyTorch optimizer, compiled by torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: elements of the parameters that are compiled for; a call's elements pass through them in portions
_SIZES = (1, 7, 65, 1023)


class CompiledOptimizer:
    """Keeps an optimizer for each set of hyperparameters: a compiled step belongs to the tensors and the numbers it was
    compiled for.

    Attributes:
        optimizer: a TorchOptimizer.
    """

    def __init__(self, optimizer: Any) -> None:
        import torch

        self.torch = torch
        self.optimizer = optimizer
        self._kept: dict[Any, tuple[Any, list[Any], list[dict[str, Any]], Any]] = {}

    def call(self, operands: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        numel, portion = operands["master"].numel(), sum(_SIZES)
        for begin in range(0, numel, portion):
            self._step({name: tensor[begin:begin + portion] for name, tensor in operands.items()}, settings)
        if numel == 0:
            self._step(operands, settings)

    def _step(self, operands: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        chosen = tuple(sorted(settings.items())), tuple(operands)
        if chosen not in self._kept:
            self._kept[chosen] = self._made(operands, settings)
        built, parameters, buffers, compiled = self._kept[chosen]
        for own, parts in self._portions(buffers, operands):
            for name, part in parts.items():
                own[name].zero_()
                own[name][:part.numel()].copy_(part)
        with self.torch.no_grad():
            for parameter, own in zip(parameters, buffers):
                parameter.copy_(own["master"])
                parameter.grad.copy_(own["grad"])
        if not any("step" in built.state[one] for one in parameters):
            self.optimizer.seed(built, parameters, buffers, settings)
        for one in parameters:  # another tensor would have to be compiled for
            if "step" in built.state[one]:
                built.state[one]["step"].fill_(settings["t"] - 1)
        compiled()
        self.optimizer.read(built, parameters, buffers, settings)
        for own, parts in self._portions(buffers, operands):
            for name, part in parts.items():
                if name != "grad":
                    part.copy_(own[name][:part.numel()])

    def _portions(self, buffers: list[dict[str, Any]], operands: Mapping[str, Any]) -> Any:
        begin = 0
        for own in buffers:
            end = begin + own["master"].numel()
            yield own, {name: tensor[begin:end] for name, tensor in operands.items()}
            begin = end

    def _made(self, operands: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
        from torch._dynamo import config
        from torch._dynamo.utils import counters

        buffers = [{name: self.torch.zeros(size, dtype=tensor.dtype, device=tensor.device)
                    for name, tensor in operands.items()} for size in _SIZES]
        parameters = []
        for own in buffers:
            parameters.append(self.torch.nn.Parameter(own["master"].clone()))
            parameters[-1].grad = self.torch.zeros_like(own["grad"])
        built = self.optimizer.build(parameters, settings)
        compiled = self.torch.compile(built.step)

        def step() -> None:
            graphs = counters["stats"]["unique_graphs"]
            # beyond the limit PyTorch would run the step without compiling it
            with config.patch(recompile_limit=1000, accumulated_recompile_limit=100000, fail_on_recompile_limit_hit=True):
                compiled()
            step.graphs += counters["stats"]["unique_graphs"] - graphs
            if step.graphs == 0:
                raise RuntimeError(f"torch.compile made no graph of the step of {self.optimizer.name}")

        step.graphs = 0
        return built, parameters, buffers, step
