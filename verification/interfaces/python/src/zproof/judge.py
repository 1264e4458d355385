"""A Python callable under the same judge as zeroproof's own implementations and C plug-ins."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _zproof
from .calling import Calling, shown_name
from .frameworks import framework_named
from .loading import source_of
from .values import count, listed, word

__all__ = ["Verdict", "judge", "operations"]


@dataclass(frozen=True)
class Verdict:
    """The verdict about a callable. True if it passed: ``assert zproof.judge(fn, op="adamw")``.

    Attributes:
        passed: every case passed (nothing failed, nothing was mistrusted, something was judged).
        status: "pass", or the worst status of a case: "fail", "mistrusted", "skipped", "error", "tampered".
        exit_code: as of ``zeroproof verify``: 0 passed, 1 something differs, 4 nothing was proved, 9 it raised.
        results: a dict for every case: id, status, reason, held_to ("contract", "dialect:NAME", "any-order",
            "any-order,fp32-powers", "bound"), compared, differing, failure (one line), details (several), hint, order,
            replay.
        flags: of ``python -m zproof verify``, for the same settings.
        notes: skipped variants and powers of beta in fp32 that judge_optimizer accepts, with the reason; part of
            :attr:`text` and :attr:`json`.
        source: file and line of the callable, ("", 0) if unknown.
    """

    report: _zproof.Report
    flags: list[str]
    results: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
    source: tuple[str, int] = ("", 0)

    @property
    def exit_code(self) -> int:
        return self.report.exit_code(False)

    @property
    def passed(self) -> bool:
        return self.report.exit_code(True) == 0

    @property
    def status(self) -> str:
        order = ["pass", "skipped", "mistrusted", "fail", "tampered", "error", "hung", "crashed"]
        return max((one["status"] for one in self.results), key=order.index, default="skipped")

    @property
    def text(self) -> str:
        """The report for the terminal, at most 100 columns wide."""
        return self.report.text(False)

    @property
    def json(self) -> str:
        """The report as JSON, schema ``zeroproof-report/2``."""
        return self.report.json()

    def junit(self, strict: bool = False) -> str:
        """The report as JUnit XML; with ``strict`` mistrusted cases are failures."""
        return self.report.junit(strict)

    def html(self, strict: bool = False) -> str:
        """The report as one HTML page without external resources."""
        return self.report.html(strict)

    def github(self, strict: bool = False) -> str:
        """Annotations for GitHub, at the callable's source: lines for standard output. Where ``GITHUB_STEP_SUMMARY`` is
        set the cases are appended to the job summary; RuntimeWarning if that fails."""
        if problem := self.report.append_job_summary(strict):
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        return self.report.github(strict, *self.source)

    def save(self, folder: str) -> list[str]:
        """Saves a bundle of every case that failed, with the inputs and both sides' results of the first call that
        failed, for ``python -m zproof replay``; returns their folders. Raises OSError if one cannot be written."""
        return self.report.save(str(folder), self.flags)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text


def operations() -> list[str]:
    """Names of the operations that a callable can be judged on; "adamw" and other names of rules select the update."""
    return _zproof.operation_names()


def draw_seed() -> int:
    """A random second seed."""
    return 2**32 + secrets.randbits(32)


def judge(fn: Callable[..., Any], op: str, dtype: str = "fp32", *, fills: str | Iterable[str] = "all",
          seed: int = 1, second_seed: int | None = None, accept: str = "bits", framework: str = "numpy",
          device: str = "cpu", name: str | None = None, replay: str | None = None) -> Verdict:
    """Calls ``fn`` with the inputs that zeroproof's own implementations get, and compares every bit of its results.

    ``fn`` is called with keywords: operands and settings of the operation, as far as it has parameters of their names
    (``zproof.operations()``, ``zeroproof explain adamw_update``). It writes its results into the arrays of operands
    that are outputs, which hold NaN unless they are inputs too; or it returns them, as a dict by name or as a tuple in
    the order of the operands. Besides settings by their names it may ask for ``betas`` (a pair), ``step`` (= ``t``),
    ``scalars`` (the scalars of R5, rounded once to fp32, as attributes), ``settings`` (a dict of
    everything) and ``num_threads``. Options it does not take (amsgrad, maximize, ...) are skipped, with a note.

    Every call has its own arrays: inputs must not change, and neither must the arrays of earlier calls.
    All cases run again with the inputs of a second seed. Expected results are computed after the call.

    Args:
        fn: the callable.
        op: "adamw", "adam", "sgd", "sgd_ema", "lion", "lamb", or a name of :func:`operations`.
        dtype: "fp32"; or, of updates, "bf16" or "fp16": then there is also an output ``param``, the rounded master.
        fills: distributions of the inputs: "all", "training", "ties", "special", ... or several of them.
        seed: of the first inputs.
        second_seed: of the second inputs, another number; None draws it. The report and its replay line have it.
        accept: "bits"; "any-order" for updates in any legal order of operations; "any-order,fp32-powers" for those that
            also compute beta^t of a bias correction in fp32 ([Bound:powers]); "dialect:NAME" for the bits of another
            library (``zeroproof explain dialects``).
        framework: "numpy", or "torch" for tensors (bf16 as torch.bfloat16). In numpy bf16 and fp8 are ml_dtypes' if
            that package is installed, else unsigned integers with their bits.
        device: with torch: device of the tensors passed to ``fn``; results are copied back.
        name: in reports; by default the callable's.
        replay: the command for a rerun in reports; ``{fill}`` is replaced by the case's.

    Returns:
        Verdict: also when ``fn`` raises, which is the verdict "error".

    Raises:
        ValueError: an operation, dtype, fill, dialect or framework that does not exist, with the nearest name; two
            equal seeds.
        TypeError: ``fn`` is not callable, or has a parameter without default that is neither operand nor setting.
        ImportError: the framework is not installed.
    """
    def here(op: str, dtype: str, operation: Mapping[str, Any], framework: str, device: str) -> tuple[Calling, Any]:
        calling = Calling(fn, operation, framework_named(framework, device))
        return calling, _zproof.GuardedCalls(op, dtype, calling.invoke, calling.framework.read_only)

    return judge_calls(here, op, dtype, fills=fills, seed=seed, second_seed=second_seed, accept=accept,
                       framework=framework, device=device, name=name, replay=replay)


def judge_calls(opened: Callable[..., tuple[Calling, Any]], op: str, dtype: str, *, fills: str | Iterable[str], seed: int,
                second_seed: int | None, accept: str, framework: str, device: str, name: str | None,
                replay: str | None) -> Verdict:
    """:func:`judge` of the callable that ``opened(op, dtype, operation, framework, device)`` returns, and of its calls: a
    _zproof.GuardedCalls, or an object with its functions."""
    op, dtype, accept, framework, device = (word(what, value) for what, value in (
        ("op", op), ("dtype", dtype), ("accept", accept), ("framework", framework), ("device", device)))
    seed = count("seed", seed)
    second_seed = draw_seed() if second_seed is None else count("second_seed", second_seed)
    if second_seed == seed:
        raise ValueError(f"second_seed is {seed}, and so is seed (the same inputs twice show nothing new); use another "
                         "number")
    operation = _zproof.describe_operation(op, dtype)
    calling, calls = opened(op, dtype, operation, framework, device)
    words = [fills] if isinstance(fills, str) else [word("a fill", one) for one in listed("fills", fills)]
    words = operation["fills"] if words == ["all"] else words
    if not words:
        raise ValueError("fills is empty (nothing would be judged); use 'all', or some of "
                         + ", ".join(operation["fills"]))
    shown = shown_name(word("name", name)) if name else calling.name
    flags = {"--op": op, "--dtype": dtype, "--seed": str(seed), "--second-seed": str(second_seed), "--accept": accept,
             "--framework": framework, "--device": device}
    words_of_call = [f"op={op!r}", f"dtype={dtype!r}", "fills='{fill}'", f"seed={seed}", f"second_seed={second_seed}"]
    if accept != "bits":
        words_of_call.append(f"accept={accept!r}")
    if framework != "numpy":
        words_of_call += [f"framework={framework!r}", f"device={device!r}"]
    line = replay or f"zproof.judge({shown}, " + ", ".join(words_of_call) + ")"
    notes = [*calling.notes, f"{shown} also got inputs of a second seed, {second_seed}"]
    report = _zproof.judge(op, dtype, words, calling.variants, shown, calls, accept, seed, second_seed,
                           line, notes)
    return Verdict(report, [word for pair in flags.items() for word in pair], report.results(), tuple(calling.notes),
                   source_of(calling.fn))
