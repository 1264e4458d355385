"""zeroproof for Python: a bit-for-bit judge of optimizer kernels and of sharded optimizer steps.

``zproof.reference`` computes the operations of the numeric contract, on arrays of numpy, PyTorch or anything else with
``__dlpack__``; ``zproof.judge`` compares a Python callable with it; ``zproof.step`` takes whole steps of the sharded
reference on virtual ranks; ``zproof.torch`` judges optimizers of PyTorch and records trainings, ``zproof.judge_run`` judges
recordings, and ``zproof.ab`` compares a training under two settings. ``python -m zproof`` is the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import reference
from ._zproof import contract_version
from ._zproof import version as __version__

if TYPE_CHECKING:
    from .judge import Verdict, judge
    from .run_judge import RunVerdict, ab, judge_run
    from .step import step
    from .testing import assert_step_close

# Modules are imported at first use: `import zproof` loads only numpy and the extension module.
_HOMES = {
    "judge": "judge",
    "Verdict": "judge",
    "operations": "judge",
    "RunVerdict": "run_judge",
    "ab": "run_judge",
    "judge_run": "run_judge",
    "step": "step",
    "assert_step_close": "testing",
}

__all__ = ["__version__", "contract_version", "reference", "torch", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "torch":
        return import_module(".torch", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'zproof' has no attribute '{name}'")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value  # also in the place of a submodule of the same name
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
