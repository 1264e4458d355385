"""Libraries, machine, settings and environment that bits of a PyTorch program may depend on, as texts by name."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["libraries", "machine", "settings", "environment", "quick_state", "autocast"]

_VARIABLES = re.compile(r"(ATEN|BLIS|CUBLAS|CUBLASLT|CUDA|CUDNN|DNNL|GOMP|KMP|MKL|NCCL|NVIDIA|OMP|ONEDNN|OPENBLAS|PYTORCH|"
                        r"TORCH|TORCHINDUCTOR)_\w+|LD_PRELOAD|PYTHONHASHSEED")
_NATIVE = re.compile(r"lib(?:[\w-]*blas[\w-]*|g?omp5?|iomp5|mkl_\w+|dnnl|sleef|tcmalloc|jemalloc)(?:-[0-9a-f]{8})?\.so[\w.]*")


def libraries(torch: Any) -> dict[str, str]:
    """Versions of torch, of the libraries in it, and of every imported package."""
    shown = torch.__config__.show()
    found = {"torch": str(torch.__version__), "torch commit": str(torch.version.git_version or "")}
    for name, pattern in (("oneDNN", r"MKL-DNN v?(\S+)|oneDNN v?(\S+)"),
                          ("MKL", r"Math Kernel Library Version (\S+)"),
                          ("compiler of torch", r"- (GCC \S+|clang \S+|MSVC \S+)")):
        if match := re.search(pattern, shown):
            found[name] = next(group for group in match.groups() if group)
    if torch.version.cuda:
        found["CUDA"] = str(torch.version.cuda)
    found["Python"] = platform.python_version()
    for package in importlib.metadata.distributions():
        name = (package.metadata["Name"] or "").lower()
        if name not in found and name != "zproof" and name.replace("-", "_") in sys.modules:
            found[name] = package.version
    if native := _native_libraries():
        found["loaded libraries"] = native
    return found


def _native_libraries() -> str:
    """BLAS, OpenMP and allocators in this process, by the names of their files."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = {line.rpartition("/")[2] for line in maps.splitlines()}
    return " ".join(sorted(name for name in names if _NATIVE.fullmatch(name)))


def machine(torch: Any) -> dict[str, str]:
    found = {"cores": str(os.cpu_count()), "system": platform.platform()}
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        found["CPU"] = " ".join(re.search(r"model name\s*:\s*(.*)", text).group(1).split())  # type: ignore[union-attr]
    except (OSError, AttributeError):
        found["CPU"] = platform.processor()
    if torch.cuda.is_available():
        found["GPU"] = torch.cuda.get_device_name()
    return found


def _precision(torch: Any, path: str) -> Callable[[], str]:
    owner: Any = torch.backends
    for part in path.split(".")[:-1]:
        owner = getattr(owner, part)
    last = path.rpartition(".")[2]
    getattr(owner, last)
    return lambda: str(getattr(owner, last))


def _flushes() -> bool:
    """Whether the processor flushes denormals; without an operation of PyTorch, which a recording would have."""
    tiny, one = 1e-310, 1.0
    return not tiny * one != 0


def _switch(value: Any) -> str:
    return "on" if value else "off"


def _getters(torch: Any) -> dict[str, Callable[[], str]]:
    """Switches that can change while a program runs; those that this version of PyTorch lacks are left out."""
    candidates: dict[str, Callable[[], Callable[[], str]]] = {
        "threads": lambda: lambda: str(torch.get_num_threads()),
        "interop threads": lambda: lambda: str(torch.get_num_interop_threads()),
        "CPU capability": lambda: lambda: str(torch.backends.cpu.get_cpu_capability()),
        "oneDNN": lambda: lambda: _switch(torch._C._get_mkldnn_enabled() and torch.backends.mkldnn.is_available()),
        "oneDNN deterministic": lambda: _precision(torch, "mkldnn.deterministic"),
        "NNPACK": lambda: lambda: _switch(torch._C._get_nnpack_enabled()),
        "deterministic algorithms": lambda: lambda: ("off", "warn only", "on")[torch.get_deterministic_debug_mode()],
        "fills uninitialized memory":
            lambda: lambda: _switch(torch.utils.deterministic.fill_uninitialized_memory),
        "fp32 matmul precision": lambda: lambda: str(torch.get_float32_matmul_precision()),
        "default dtype": lambda: lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        "flushes denormals": lambda: lambda: _switch(_flushes()),
        "flash attention": lambda: lambda: _switch(torch.backends.cuda.flash_sdp_enabled()),
        "memory-efficient attention": lambda: lambda: _switch(torch.backends.cuda.mem_efficient_sdp_enabled()),
        "attention by matrix products": lambda: lambda: _switch(torch.backends.cuda.math_sdp_enabled()),
    }
    for name in ("mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn", "cuda.matmul", "cudnn.conv"):
        candidates[f"{name}.fp32_precision"] = lambda path=f"{name}.fp32_precision": _precision(torch, path)
    for path in ("cuda.matmul.allow_bf16_reduced_precision_reduction", "cuda.matmul.allow_fp16_reduced_precision_reduction",
                 "cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic"):
        candidates[path] = lambda path=path: _precision(torch, path)
    getters = {}
    for name, candidate in candidates.items():
        try:
            getter = candidate()
            getter()
        except Exception:  # another version of PyTorch
            continue
        getters[name] = getter
    return getters


_known: dict[str, Callable[[], str]] = {}


def settings(torch: Any) -> dict[str, str]:
    """The switches of PyTorch as they are now."""
    if not _known:
        _known.update(_getters(torch))
    found = {}
    for name, getter in _known.items():
        try:
            found[name] = getter()
        except Exception:
            found[name] = "unknown"
    return found


def quick_state(torch: Any) -> Callable[[], tuple[Any, ...]]:
    """A function that is fast enough to call at every operation, and shows that settings() may have changed."""
    threads, onednn = torch.get_num_threads, torch._C._get_mkldnn_enabled
    deterministic, precision = torch.are_deterministic_algorithms_enabled, torch._C._get_float32_matmul_precision
    return lambda: (threads(), onednn(), deterministic(), precision(), _flushes())


def autocast(torch: Any) -> dict[str, str]:
    """The dtypes of autocast; not visible inside of an operation, where it has been applied already."""
    if not hasattr(torch, "get_autocast_dtype"):  # before 2.4
        return {}
    return {f"autocast on {device.upper()}": str(torch.get_autocast_dtype(device)).removeprefix("torch.")
            if torch.is_autocast_enabled(device) else "off" for device in ("cpu", "cuda")}


def environment() -> dict[str, str]:
    """Variables that the libraries read."""
    return {name: os.environ[name] for name in sorted(os.environ) if _VARIABLES.fullmatch(name)}
