"""One step of a PyTorch optimizer on the judge's numbers, whatever class it is."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["TorchOptimizer", "operation_of", "recorded_rule", "settings_of", "state_names_of"]

#: names of the state in optimizers of PyTorch, lion-pytorch and pytorch_optimizer, and in bitsandbytes
_STATE_NAMES = {"exp_avg": ("exp_avg", "state1"), "exp_avg_sq": ("exp_avg_sq", "state2"),
                "max_exp_avg_sq": ("max_exp_avg_sq",), "momentum_buffer": ("momentum_buffer", "state1")}
#: settings that the judge varies in every step, and settings that an optimizer may lack
_REQUIRED = {"adam": ["lr", "beta1", "beta2", "eps", "weight_decay"], "adamw": ["lr", "beta1", "beta2", "eps", "weight_decay"],
             "lion": ["lr", "beta1", "beta2", "weight_decay"], "sgd": ["lr", "weight_decay"],
             "sgd_ema": ["lr", "weight_decay", "momentum"]}
_OPTIONAL = {"adam": ["amsgrad", "maximize", "bias_correction"], "adamw": ["amsgrad", "maximize", "bias_correction"],
             "lion": ["maximize"], "sgd": ["momentum", "dampening", "nesterov", "maximize"], "sgd_ema": ["maximize"]}
#: a class or one of its bases: torch.optim.AdamW, DeepSpeedCPUAdam, FusedAdam, bitsandbytes' AdamW32bit
_CLASS = re.compile(r"(?:DeepSpeedCPU|Fused)?(AdamW|Adam|SGD|Lion)(?:32bit)?")
#: options of classes named Adam or AdamW that choose where the decay is applied
_DECOUPLED = ("decoupled_weight_decay", "weight_decouple", "decoupled_decay", "adam_w_mode")
_FLAGS = {"amsgrad", "maximize", "nesterov", "bias_correction"}
_SETTINGS = {name for names in (*_REQUIRED.values(), *_OPTIONAL.values()) for name in names} | {"betas"}


def operation_of(optimizer: Any) -> str | None:
    """The operation that an optimizer computes, by the names of its class and bases."""
    for base in type(optimizer).__mro__:
        found = _CLASS.fullmatch(base.__name__)
        if found:
            op = found.group(1).lower()
            break
    else:
        return None
    if op in ("adam", "adamw"):
        for name in _DECOUPLED:
            chosen = optimizer.param_groups[0].get(name, getattr(optimizer, name, None))
            if isinstance(chosen, (bool, int)):
                return "adamw" if chosen else "adam"
    return op


#: of torch.optim.Muon, by the names of R28
_MUON_SCALES = {None: "original", "original": "original", "match_rms_adamw": "match_rms_adamw",
                "spectral_unclamped": "unit_rms_norm"}
_MUON_POLYNOMIAL = (3.4445, -4.7750, 2.0315)


def recorded_rule(optimizer: Any, group: Mapping[str, Any]) -> str:
    """The rule of a param group in a recording; "other" for one whose update is not judged."""
    import torch

    if isinstance(optimizer, getattr(torch.optim, "Muon", ())):
        known = tuple(group["ns_coefficients"]) == _MUON_POLYNOMIAL and 1 <= group["ns_steps"] <= 64
        return "muon" if known and group["momentum"] < 1 else "other"
    rule = operation_of(optimizer)
    return rule if rule in ("adam", "adamw", "sgd") else "other"


def _muon_settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: float(group[name]) for name in ("lr", "weight_decay", "momentum", "eps")},
            "nesterov": int(group["nesterov"]), "steps": int(group["ns_steps"]), "coefficients": "simple", "family": "ema",
            "floor": "clamp", "scale": _MUON_SCALES[group["adjust_lr_fn"]]}


def settings_of(op: str, group: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a param group by the names of operations."""
    if op == "muon":
        return _muon_settings(group)
    given = {**group, **(dict(zip(("beta1", "beta2"), group["betas"])) if "betas" in group else {})}
    return {name: int(given[name]) if name in _FLAGS else float(given[name])
            for name in (*_REQUIRED[op], *_OPTIONAL[op]) if name in given}


def state_names_of(op: str, settings: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Tensors of the state that a step reads and writes, with the names they may have."""
    if op in ("sgd", "muon"):
        names = ["momentum_buffer"] if settings.get("momentum") or op == "muon" else []
    else:
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if settings.get("amsgrad") else [])
    return {name: _STATE_NAMES[name] for name in names}


class TorchOptimizer:
    """Builds an optimizer for every call, because its state and its hyperparameters are those of the call.

    Attributes:
        name: its class and the options it was given, as reports show them.
        op: the operation it is judged as.
        settings: names of the settings that it has.
        shown: its name in ids.
        step_by: makes the steps: itself, or a CompiledOptimizer.
    """

    def __init__(self, factory: Callable[..., Any], options: Mapping[str, Any], op: str | None, dtype: str,
                 device: str) -> None:
        import torch

        self.torch = torch
        if not callable(factory):
            raise TypeError(f"the optimizer is a {type(factory).__name__} (the judge makes one for every call, with other "
                            "hyperparameters); pass its class and its options: judge_optimizer(torch.optim.AdamW, fused=True)")
        self.options = dict(options)
        self.lr = self.options.pop("lr", None) if isinstance(self.options.get("lr"), torch.Tensor) else None
        self.factory = factory
        bare = factory.func if isinstance(factory, functools.partial) else factory
        self.option_words = [f"{name}={value!r}" for name, value in options.items()]
        self.class_name = getattr(bare, "__name__", type(bare).__name__).strip("<>")
        self.name = self.class_name + (f"({', '.join(self.option_words)})" if options else "")
        self.shown = "-".join([self.class_name, *(name if value is True else f"{name}-{value}"
                                                  for name, value in self.options.items())])
        self.step_by: Any = self
        self.first_step_checked = False
        self.parameter_dtype = torch.bfloat16 if dtype == "bf16" else torch.float32
        self.device = device
        self._keywords = self._accepted_keywords(bare)
        self._layouts: dict[Any, tuple[dict[str, str], str | None, Any]] = {}
        probe = self._attempt({"momentum": 0.9})
        self.op = op or self._operation(probe)
        if self.op not in _REQUIRED:
            raise ValueError(f"op is '{self.op}' (optimizers are judged as {', '.join(_REQUIRED)}; a trust ratio is taken over "
                             "a whole tensor); use zproof.judge, or record a step for zeroproof identify")
        self.settings = self._known_settings(probe.param_groups[0])

    def _accepted_keywords(self, bare: Any) -> set[str] | None:
        """Keywords of its constructor; None if it takes all."""
        try:
            parameters = inspect.signature(bare).parameters.values()
        except (TypeError, ValueError):
            return None
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return None
        return {one.name for one in parameters}

    def _attempt(self, settings: Mapping[str, Any]) -> Any:
        """An optimizer of a small parameter after its first step."""
        parameter = self._parameter()
        try:
            optimizer = self.build([parameter], settings)
            groups = optimizer.param_groups
            optimizer.step()
            optimizer.state[parameter]  # noqa: B018  its layout is read later
        except Exception as error:
            hint = ("judge its recorded steps: zproof.torch.record, zeroproof judge-run" if "Muon" in self.class_name
                    else "pass a class like torch.optim.AdamW and its options")
            raise ValueError(f"{self.name} cannot make a step of 3 {str(self.parameter_dtype).removeprefix('torch.')} elements "
                             f"on {self.device} ({_first_line(error)}); {hint}") from None
        if len(groups) != 1:
            raise ValueError(f"{self.name} made {len(groups)} param groups of one parameter (the judge sets hyperparameters in "
                             "one); pass a class like torch.optim.AdamW")
        return optimizer

    def _parameter(self) -> Any:
        parameter = self.torch.nn.Parameter(self.torch.full((3,), 0.5, dtype=self.parameter_dtype, device=self.device))
        parameter.grad = self.torch.full_like(parameter, 0.25)
        return parameter

    def build(self, parameters: list[Any], settings: Mapping[str, Any]) -> Any:
        """An optimizer with these hyperparameters, in its constructor and in its param group."""
        wanted = {"lr": 1e-3, **settings}
        if "beta1" in wanted:
            wanted["betas"] = (wanted["beta1"], wanted["beta2"])
        if self.lr is not None:
            wanted["lr"] = self.lr.new_tensor(wanted["lr"])
        accepted = self._keywords if self._keywords is not None else set(wanted) & ({"lr"} | getattr(self, "group_keys", set()))
        optimizer = self.factory(parameters, **{**{name: value for name, value in wanted.items() if name in accepted},
                                                **self.options})
        for group in optimizer.param_groups:
            group.update({name: value for name, value in wanted.items() if name in group})
        return optimizer

    def _operation(self, probe: Any) -> str:
        op = operation_of(getattr(probe, "optimizer", probe))  # of a wrapper
        if op is None:
            raise ValueError(f"{self.name} is no optimizer whose formula zproof knows (it knows Adam, AdamW, SGD and Lion, by "
                             "the names of the class and its bases); if it computes one of them, pass op='adamw' or another")
        return op

    def _known_settings(self, group: Mapping[str, Any]) -> list[str]:
        self.group_keys = set(group)
        names = self.group_keys | ({"beta1", "beta2"} if "betas" in group else set())
        missing = [name for name in _REQUIRED[self.op] if name not in names]
        if missing:
            raise ValueError(f"{self.name} has no {missing[0]} in its param group (a step of {self.op} is judged with several); "
                             "let it read lr, betas, eps and weight_decay from there")
        return _REQUIRED[self.op] + [name for name in _OPTIONAL[self.op] if name in names]

    def layout(self, settings: Mapping[str, Any], operands: Iterable[str]) -> tuple[dict[str, str], str | None, Any]:
        """Operand to name in the state, where the step is counted ("state", "group" or None), and an example of it."""
        chosen = tuple(bool(settings.get(name)) for name in ("amsgrad", "nesterov", "momentum"))
        if chosen not in self._layouts:
            self._layouts[chosen] = self._layout_after(self._attempt(settings), settings, operands)
        return self._layouts[chosen]

    def _layout_after(self, probe: Any, settings: Mapping[str, Any],
                      operands: Iterable[str]) -> tuple[dict[str, str], str | None, Any]:
        parameter = probe.param_groups[0]["params"][0]
        state = {name: value for name, value in probe.state[parameter].items() if value is not None}
        wanted = [name for name in operands if name in _STATE_NAMES]
        names: dict[str, str] = {}
        for operand in wanted:
            found = [name for name in _STATE_NAMES[operand] if name in state]
            if found:
                names[operand] = found[0]
            elif not ((operand == "max_exp_avg_sq" and not settings.get("amsgrad"))
                      or (operand == "momentum_buffer" and not settings.get("momentum"))):
                raise ValueError(f"{self.name} keeps no {operand} after a step of {self.op} (its state has "
                                 f"{', '.join(map(str, state)) or 'nothing'}); name its state as torch.optim does")
        unknown = [name for name in state if name not in names.values() and name != "step"]
        if unknown:
            raise ValueError(f"{self.name} keeps {unknown[0]} in its state (a step of {self.op} has no such value to begin "
                             "with); write a function for zproof.judge that sets it")
        for operand, name in names.items():
            kind = str(state[name].dtype).removeprefix("torch.")
            if state[name].dtype != self.torch.float32:
                raise ValueError(f"{self.name} keeps {name} in {kind} for parameters in "
                                 f"{str(self.parameter_dtype).removeprefix('torch.')} (the contract has {operand} in fp32, and "
                                 "another formula follows); pass an optimizer that keeps fp32 moments")
        where, count = ("state", state["step"]) if "step" in state else ("group", probe.param_groups[0].get("step"))
        if count is None:
            if self.op in ("adam", "adamw"):
                raise ValueError(f"{self.name} counts no steps in its state or param group (the bias correction of {self.op} "
                                 "needs the step); keep it as step")
            return names, None, None
        return names, where, count

    def seed(self, optimizer: Any, parameters: list[Any], buffers: list[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """The state of the step before."""
        names, where, count = self.layout(settings, buffers[0])
        t = settings["t"]
        for parameter, own in zip(parameters, buffers):
            state = {name: own[operand] for operand, name in names.items()}
            if self.op == "sgd" and t == 1:
                state = {}  # PyTorch allocates the buffer in its first step
            if where == "state":
                state["step"] = self._counted(count, t - 1)
            optimizer.state[parameter] = state
        if where == "group":
            optimizer.param_groups[0]["step"] = self._counted(count, t - 1)

    def _counted(self, like: Any, number: int) -> Any:
        """A count of the kind of `like`."""
        if isinstance(like, self.torch.Tensor):
            return self.torch.full_like(like, number)
        return type(like)(number)

    def call(self, operands: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """A step on the operands of a call, which are split into parameters of unequal sizes."""
        buffers = [{name: tensor[begin:end] for name, tensor in operands.items()}
                   for begin, end in _parts(operands["master"].numel())]
        parameters = []
        for own in buffers:
            parameters.append(self.torch.nn.Parameter(own["master"]))
            parameters[-1].grad = own["grad"].clone()  # an optimizer may use up gradients
        optimizer = self.build(parameters, settings)
        self.seed(optimizer, parameters, buffers, settings)
        optimizer.step()
        self.read(optimizer, parameters, buffers, settings)

    def read(self, optimizer: Any, parameters: list[Any], buffers: list[dict[str, Any]], settings: Mapping[str, Any]) -> None:
        """Results that were not written in place."""
        names, _, _ = self.layout(settings, buffers[0])
        for parameter, own in zip(parameters, buffers):
            state = optimizer.state[parameter]
            for operand, value in (("master", parameter.detach()), *((one, state[name]) for one, name in names.items())):
                if value.data_ptr() != own[operand].data_ptr():
                    own[operand].copy_(value)

    def _check_first_step(self, settings: Mapping[str, Any]) -> None:
        """The first step of a new optimizer is that from zero moments; the judge's own steps begin with a seeded state."""
        settings = {**settings, "t": 1}
        names, _, _ = self.layout(settings, ())
        new = self._attempt(settings)
        parameter = self._parameter()
        zeros = {operand: self.torch.zeros_like(parameter.detach(), dtype=self.torch.float32) for operand in names}
        seeded = self.build([parameter], settings)
        self.seed(seeded, [parameter], [zeros], settings)
        seeded.step()
        (theirs,) = new.param_groups[0]["params"]
        wrong = [operand for operand, name in names.items()
                 if not self.torch.equal(new.state[theirs][name], seeded.state[parameter][name])]
        if wrong or not self.torch.equal(theirs, parameter):
            raise RuntimeError(f"the first step of {self.name} is not that from zero moments ({(*wrong, 'master')[0]} differs)")

    def function(self, operation: Mapping[str, Any]) -> Callable[..., Any]:
        """For zproof.judge: its parameters are the settings that the optimizer has."""
        operands = [name for name, _, _ in operation["operands"]]

        def step(num_threads: int, **given: Any) -> None:
            self.torch.set_num_threads(num_threads)
            settings = {name: given[name] for name in (*self.settings, "t") if name in given}
            if self.op != "sgd" and not self.first_step_checked:
                self._check_first_step(settings)
                self.first_step_checked = True
            self.step_by.call({name: given[name] for name in operands if name in given}, settings)

        without_effect = [] if self.op in ("adam", "adamw") else ["bias_correction"]
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                      for name in dict.fromkeys([*operands, "t", *self.settings, *without_effect, "num_threads"])]
        step.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        step.__name__ = self.shown
        return step

    def choose(self, calling: Any, operation: Mapping[str, Any]) -> None:
        """Leaves the variants that have the hyperparameters among the options. Raises ValueError if there are none, and if
        the optimizer has another state than the operation."""
        given = {name: value for name, value in self.options.items() if name in _SETTINGS}
        if "betas" in given:
            given["beta1"], given["beta2"] = given.pop("betas")
        for name, value in given.items():
            before = [operation["variants"][one][1] for one in calling.variants]
            calling.variants = [one for one in calling.variants if _same(operation["variants"][one][1].get(name), value)]
            if not calling.variants:
                has = ", ".join(dict.fromkeys(f"{float(np.float32(variant[name])):.7g}" for variant in before if name in variant))
                raise ValueError(f"{name} is {value!r} (the steps of the judge have {has or 'none'}); omit it")
        taken, reason = [], None
        for one in calling.variants:
            variant = operation["variants"][one][1]
            settings = {name: bool(variant[name]) if name in _FLAGS else variant[name] for name in (*self.settings, "t")}
            try:
                self.build([self._parameter()], settings)
            except Exception as error:
                reason = f"{self.name} raises {_first_line(error)}"
                continue
            self.layout(settings, [name for name, _, _ in operation["operands"]])
            taken.append(one)
        if reason and not taken:
            raise ValueError(f"{reason} (with all hyperparameters of the judge); let its constructor take them")
        if reason:
            calling.notes.append(f"{len(calling.variants) - len(taken)} of {len(operation['variants'])} variants were not "
                                 f"judged: {reason}")
        calling.variants = taken

    def call_text(self, fill: str, seed: int, second_seed: int, accept: str) -> str:
        """The line that judges it again."""
        words = [self.class_name, f"op={self.op!r}", f"fills='{fill}'", f"seed={seed}", f"second_seed={second_seed}",
                 f"accept={accept!r}"]
        if self.parameter_dtype == self.torch.bfloat16:
            words.append("dtype='bf16'")
        if self.step_by is not self:
            words.append("compile=True")
        if self.device != "cpu":
            words.append(f"device={self.device!r}")
        return "zproof.torch.judge_optimizer(" + ", ".join([*words, *self.option_words]) + ")"


def _first_line(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return type(error).__name__ + (f": {words[0].rstrip('.')}" if words else "")


def _same(value: Any, given: Any) -> bool:
    """Settings are equal if fp32 makes them so."""
    try:
        return np.float32(value) == np.float32(given)
    except (TypeError, ValueError):
        return False


def _parts(numel: int) -> list[tuple[int, int]]:
    """Multiples of 64 and a rest: elements that a loop over vectors leaves over are the last ones, as without a split."""
    cuts = [0, *(cut for cut in (64, 192) if cut < numel), numel]
    return list(zip(cuts, cuts[1:]))


