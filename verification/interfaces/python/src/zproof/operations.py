"""Records every operation of PyTorch in a part of a program, with digests of its inputs and outputs, for `zeroproof attribute`.

The file has one JSON value in each line: first an object with `schema`, the rank, libraries, machine, environment and
seed; then objects `{"settings": ...}` and `{"line": [file, number, text]}` as they come up, and an array for each
operation; at last `{"end": COUNT}`. verification/tools/attribute/README.md has the format.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, BinaryIO

from . import _zproof
from .run_settings import autocast, environment, libraries, machine, quick_state, settings

__all__ = ["Operations"]

SCHEMA = "zeroproof-operations/1"

#: results are memory without values
_ALLOCATES = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
              "empty_quantized", "_empty_affine_quantized"}
#: results with the shape of an input whose values are not read
_READS_SHAPES = {"zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "new_zeros", "new_ones",
                 "new_full"}
#: in-place operations that do not read the memory they overwrite
_OVERWRITES = {"fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_",
               "log_normal_", "geometric_", "set_", "_foreach_copy_", "_foreach_zero_", "resize_"}
_SKIPPED = {"profiler", "prim"}
_COLLECTIVES = {"c10d", "_c10d_functional", "_c10d_functional_autograd"}
_VIEWS = {"detach", "alias", "lift_fresh", "lift", "_unsafe_view", "_reshape_alias"}
_NAMES = {"torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
          "torch.bool": "bool", "torch.int64": "i64", "torch.int32": "i32", "torch.int16": "i16", "torch.int8": "i8",
          "torch.uint8": "u8"}
_UNKNOWN = "?"  # in place of a digest: not compared


class _Kind:
    """Facts from the schema of one operation."""

    def __init__(self, func: Any, torch: Any) -> None:
        schema = func._schema
        self.name = str(func)
        self.base = schema.name.rpartition("::")[2]
        namespace = self.name.partition(".")[0]
        self.skipped = namespace in _SKIPPED
        self.collective = namespace in _COLLECTIVES
        self.parameters = [argument.name for argument in schema.arguments]
        self.written = {argument.name for argument in schema.arguments
                        if argument.alias_info is not None and argument.alias_info.is_write}
        #: its results share the memory of an argument, and nothing is computed
        self.view = not self.written and (bool(getattr(func, "is_view", False)) or self.base in _VIEWS)
        self.allocates = self.base in _ALLOCATES
        #: whether the values of its inputs matter
        self.reads = not self.view and not self.allocates and self.base not in _READS_SHAPES
        #: names of arguments whose old values do not matter
        self.overwritten = {argument.name for argument in schema.arguments if argument.name in self.written
                            and (argument.is_out or self.base in _OVERWRITES)}
        self.random = torch.Tag.nondeterministic_seeded in func.tags


class Operations:
    """Records operations from ``with`` to its end; :func:`zproof.torch.operations` makes one.

    It never raises in the program it observes: on a problem it ends the recording with one warning.

    Attributes:
        path: of the file of this rank.
        count: operations recorded so far.
    """

    def __init__(self, file: str | os.PathLike[str], model: Any = None) -> None:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        self.torch = torch
        self.count = 0
        self._opened = False
        self._file: BinaryIO | None = None
        rank, world = self._rank()
        path = Path(file)
        self.path = path.with_name(f"{path.stem}.rank{rank}{path.suffix}") if world > 1 else path
        self._header = {"schema": SCHEMA, "rank": rank, "world": world}
        named = [] if model is None else model.named_modules()
        self._names = {id(module): name or type(model).__name__ for name, module in named}
        self._modules: list[Any] = []
        self._in_step = 0
        self._kinds: dict[Any, _Kind] = {}
        self._texts: dict[Any, str] = {}
        self._plain, self._parameter, self._strided = torch.Tensor, torch.nn.Parameter, torch.strided
        self._task, self._node = torch._C._current_graph_task_id, torch._C._current_autograd_node
        self._sequence = torch._C._autograd._get_sequence_nr
        self._lines: dict[tuple[CodeType, int], int] = {}
        self._foreign: dict[CodeType, bool] = {}
        self._forward_of: dict[int, int] = {}  # sequence number of an autograd node: the operation that made it
        self._handles: list[Any] = []
        self._skipped_folders = (str(Path(torch.__file__).parent) + os.sep, str(Path(__file__).parent) + os.sep)
        self._quick = quick_state(torch)
        self._last_quick: tuple[Any, ...] = ()
        self._last_settings: dict[str, str] = {}
        self._autocast: dict[str, str] = {}
        recorder = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return recorder._dispatch(func, args, kwargs or {})

        self._mode = Mode()

    def _rank(self) -> tuple[int, int]:
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        try:
            return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        except ValueError:
            return 0, 1

    # -- opening and closing -------------------------------------------------------------------------------------------

    def __enter__(self) -> Operations:
        if self._opened:
            raise ValueError(f"the recorder of {self.path} was used already (its file would be overwritten); make another one")
        torch = self.torch
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: recorded operations survive the process.
            self._file = open(self.path, "wb", buffering=0)
        except OSError as error:
            raise OSError(f"recording {self.path} cannot be written ({error.strerror}); name a file in a writable "
                          "folder") from None
        self._opened = True
        self._write({**self._header, "libraries": libraries(torch), "machine": machine(torch), "environment": environment(),
                     "seed": str(torch.initial_seed())})
        self._autocast = autocast(torch)
        self._note_settings()
        module, optimizer = torch.nn.modules.module, importlib.import_module("torch.optim.optimizer")
        self._handles = [module.register_module_forward_pre_hook(self._enter_module),
                         module.register_module_forward_hook(self._leave_module, always_call=True),
                         optimizer.register_optimizer_step_pre_hook(self._enter_step),
                         optimizer.register_optimizer_step_post_hook(self._leave_step)]
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._mode.__exit__(*exception)
        for handle in self._handles:
            handle.remove()
        self._write({"end": self.count})
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, value: Any) -> None:
        if self._file is not None:
            self._file.write(_encode(value).encode() + b"\n")

    def _stop(self, reason: str) -> None:
        try:
            self._write({"stopped": reason})
        except OSError:
            pass
        self._close()
        text = f"zproof records no operations after {self.count}: {reason}"
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors here
            print(text, file=sys.stderr)

    # -- where the program is ------------------------------------------------------------------------------------------

    def _enter_module(self, module: Any, _: Any) -> None:
        if not self._modules and id(module) not in self._names:
            for name, one in module.named_modules():
                self._names.setdefault(id(one), name or type(module).__name__)
        self._note_autocast(outermost=not self._modules)
        self._modules.append(module)

    def _leave_module(self, module: Any, _: Any, __: Any) -> None:
        if module in self._modules:  # exceptions leave several at once
            while self._modules.pop() is not module:
                pass

    def _note_autocast(self, outermost: bool) -> None:
        now = autocast(self.torch)
        if outermost or now != self._autocast:
            self._autocast = now
            self._note_settings()

    def _enter_step(self, *_: Any) -> None:
        self._note_autocast(outermost=True)
        self._in_step += 1

    def _leave_step(self, *_: Any) -> None:
        self._in_step = max(0, self._in_step - 1)

    def _note_settings(self) -> None:
        self._last_quick = self._quick()
        now = {**settings(self.torch), **self._autocast}
        if now != self._last_settings:
            self._write({"settings": now})
            self._last_settings = now

    def _line(self) -> int:
        """The number of the innermost line of the program that is neither PyTorch's nor ours; -1 if there is none."""
        frame = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            foreign = self._foreign.get(code)
            if foreign is None:
                name = code.co_filename
                foreign = self._foreign[code] = name.startswith(self._skipped_folders) or name.startswith("<frozen") \
                    or name.endswith("contextlib.py")
            if not foreign:
                key = (code, frame.f_lineno)
                number = self._lines.get(key)
                if number is None:
                    number = self._lines[key] = len(self._lines)
                    text = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
                    name = code.co_filename
                    try:
                        name = os.path.relpath(name) if not name.startswith("<") else name
                    except (ValueError, OSError):
                        pass
                    self._write({"line": [name if not name.startswith("../..") else code.co_filename, frame.f_lineno, text]})
                return number
            frame = frame.f_back  # type: ignore[assignment]
        return -1

    # -- one operation -------------------------------------------------------------------------------------------------

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._file is None:
            return func(*args, **kwargs)
        try:
            before = self._before(func, args, kwargs)
        except Exception as error:
            self._stop(f"{type(error).__name__}: {str(error).strip() or 'without a message'} (in {func})")
            before = None
        result = func(*args, **kwargs)
        if before is not None:
            try:
                self._after(before, result)
            except Exception as error:
                self._stop(f"{type(error).__name__}: {str(error).strip() or 'without a message'} (after {func})")
        return result

    def _before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _Kind(func, self.torch)
        if kind.skipped:
            return None
        backward = self._task() != -1
        phase = "backward" if backward else "optimizer" if self._in_step else "forward"
        if self._quick() != self._last_quick:
            self._note_settings()
        line = self._line()
        forward = -1
        if backward:
            node = self._node()
            if node is not None:
                forward = self._forward_of.get(node._sequence_nr(), -1)
        elif not self._in_step:
            self._forward_of.setdefault(self._sequence() - 1, self.count)
        module = self._names.get(id(self._modules[-1]), type(self._modules[-1]).__name__) if self._modules else ""
        inputs: list[list[str]] = []
        written: list[tuple[str, Any]] = []
        reads_unset = False
        for name, value in [*zip(kind.parameters, args), *kwargs.items()]:
            overwritten = name in kind.overwritten
            for shown, tensor in self._values(name, value):
                if tensor is None:
                    inputs.append(shown)
                    continue
                text, unset = self._tensor(name, tensor, kind.reads and not overwritten)
                inputs.append(text)
                reads_unset = reads_unset or unset
                if name in kind.written:
                    written.append((name, tensor))
        if kind.random:
            inputs.append(["random state", self._random_state(kwargs.get("generator"), args)])
        return kind, [kind.name, phase, module, line, forward, inputs], written, reads_unset

    def _values(self, name: str, value: Any) -> list[tuple[list[str], Any]]:
        """The tensors in an argument, each as ([], tensor), and everything else as ([name, text], None)."""
        if isinstance(value, self._plain):
            return [([], value)]
        if isinstance(value, (list, tuple)):
            if any(isinstance(one, self._plain) for one in value):
                return [part for one in value for part in self._values(name, one)]
            return [([name, "[" + ", ".join(_shown(one) for one in value) + "]"], None)]
        return [([name, _shown(value)], None)]

    def _random_state(self, generator: Any, args: tuple[Any, ...]) -> str:
        """A digest of the state that the operation draws from."""
        if isinstance(generator, self.torch.Generator):
            state = generator.get_state()
        else:
            device = next((one.device for one in args if isinstance(one, self._plain)), None)
            if device is None or device.type == "cpu":
                state = self.torch.default_generator.get_state()
            else:
                state = self.torch.get_device_module(device).get_rng_state(device)
        return _zproof.memory_digest(state.data_ptr(), state.nbytes)

    def _tensor(self, name: str, tensor: Any, hashed: bool) -> tuple[list[str], bool]:
        """[name, type and shape, digest, writer], and whether it has values that were never set."""
        kind = type(tensor)
        is_parameter = kind is self._parameter
        if kind is not self._plain and not is_parameter:
            is_parameter = isinstance(tensor, self._parameter)
            local = getattr(tensor, "_local_tensor", tensor if is_parameter else None)
            if local is None:
                return [name, f"{self._text(tensor)} {kind.__name__}", _UNKNOWN, ""], False
            tensor = local
        if tensor.layout is not self._strided or tensor.is_quantized or tensor.is_meta:
            return [name, f"{self._text(tensor)} without memory of its own", _UNKNOWN, ""], False
        contiguous = tensor.is_contiguous()
        text = self._text(tensor)
        if not contiguous:
            text += " strides " + _shape(tensor.stride())
        if not tensor.is_cpu:
            text += " " + tensor.device.type
        storage = tensor.untyped_storage()
        note = getattr(storage, "_zproof_note", None)
        if note is None or note.recorder is not self:
            note = storage._zproof_note = _Note(self, "parameter" if is_parameter else "outside")
        elif is_parameter and note.writer == "outside":
            note.writer = "parameter"
        if not hashed:
            return [name, text, "", note.writer], False
        if note.unset is not None and note.has_unset(tensor):
            return [name, text, _UNKNOWN, note.writer], True
        return [name, text, self._digest(tensor, contiguous), note.writer], False

    def _digest(self, tensor: Any, contiguous: bool) -> str:
        if not tensor.is_cpu:
            tensor, contiguous = tensor.detach().cpu(), False
        if contiguous:
            return _zproof.memory_digest(tensor.data_ptr(), tensor.nbytes)
        return _zproof.strided_digest(tensor.data_ptr(), tensor.element_size(), list(tensor.shape), list(tensor.stride()))

    def _text(self, tensor: Any) -> str:
        key = (tensor.dtype, tensor.shape)
        text = self._texts.get(key)
        if text is None:
            name = str(tensor.dtype)
            text = self._texts[key] = _NAMES.get(name, name.removeprefix("torch.")) + _shape(tensor.shape)
        return text

    def _after(self, before: Any, result: Any) -> None:
        kind, record, written, reads_unset = before
        index = str(self.count)
        outputs: list[list[str]] = []
        results = [part for number, one in enumerate(result if isinstance(result, (list, tuple)) else [result])
                   if one is not None for part in self._values(f"result{number}", one)]
        mutated = {id(tensor) for _, tensor in written}
        uncompared = reads_unset or kind.allocates or kind.collective
        for name, tensor in written:
            outputs.append(self._output(name, tensor, kind, index, uncompared))
        for shown, tensor in results:
            if tensor is None:
                outputs.append(shown)
            elif id(tensor) not in mutated:
                outputs.append(self._output("result", tensor, kind, index, uncompared))
        record.append(outputs)
        self._write(record)
        self.count += 1

    def _output(self, name: str, tensor: Any, kind: _Kind, index: str, uncompared: bool) -> list[str]:
        shown, _ = self._tensor(name, tensor, False)
        if shown[2] == _UNKNOWN or kind.view:
            return shown[:3]
        tensor = getattr(tensor, "_local_tensor", tensor)
        note = tensor.untyped_storage()._zproof_note
        note.writer = index
        if kind.collective:
            shown[2] = _UNKNOWN  # it may not be finished; its readers have the digest
            note.unset = None
        elif uncompared:
            shown[2] = _UNKNOWN
            note.set_unset(tensor)
        else:
            if note.unset is not None:
                note.was_set(tensor)
            shown[2] = self._digest(tensor, tensor.is_contiguous())
        return shown[:3]


class _Note:
    """State of a storage, an attribute of it, so both end together.

    writer: the number of the last operation that wrote it; "parameter" or "outside" if none did.
    unset: for each element whether no operation has given it a value; None if all have one.
    """

    __slots__ = ("recorder", "writer", "unset", "size")

    def __init__(self, recorder: Operations, writer: str) -> None:
        self.recorder = recorder
        self.writer = writer
        self.unset: Any = None
        self.size = 0  # of the elements of unset, in bytes

    def _marks(self, tensor: Any) -> Any:
        """Those of a tensor, in its shape; all of the storage for elements of another size."""
        if tensor.element_size() != self.size:
            return self.unset
        return self.unset.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def has_unset(self, tensor: Any) -> bool:
        return bool(self._marks(tensor).any())

    def set_unset(self, tensor: Any) -> None:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        if self.unset is None or self.unset.numel() != count:  # a storage may grow
            marks = self.recorder.torch.zeros(count, dtype=self.recorder.torch.bool)
            if self.unset is not None:
                marks.fill_(True)
            self.unset, self.size = marks, tensor.element_size()
        self._marks(tensor).fill_(True)

    def was_set(self, tensor: Any) -> None:
        if tensor.element_size() != self.size:
            if tensor.nbytes < tensor.untyped_storage().nbytes():
                return
            self.unset = None
        elif tensor.numel() < self.unset.numel():
            self._marks(tensor).fill_(False)
        else:
            self.unset = None


def _shape(sizes: Any) -> str:
    return "[" + ",".join(map(str, sizes)) + "]"


def _shown(value: Any) -> str:
    """An argument that is no tensor; floats with all their digits."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    kind = type(value).__module__
    return str(value).removeprefix("torch.") if kind.startswith("torch") and "object at 0x" not in str(value) \
        and type(value).__name__ in ("dtype", "device", "layout", "memory_format") else type(value).__name__


_encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
