"""Recordings of a training, judged step by step; and two settings of one training against each other.

Both use the program ``zeroproof judge-run`` of this package, whose page describes phases and bounds.
"""

from __future__ import annotations

import functools
import json as json_text
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .program import output_of
from .values import real, word

__all__ = ["RunVerdict", "ab", "judge_run"]

_VERDICTS = (0, 1, 4)  # exit codes of a program that has judged


@dataclass(frozen=True)
class RunVerdict:
    """The verdict about a recording, or about two of them. True if everything that was judged is right: ``assert
    zproof.judge_run("recording")``.

    Attributes:
        exit_code: as of ``zeroproof judge-run``: 0 right, 1 a phase is wrong or differs, 4 nothing was judged.
        text: the report for the terminal, at most 100 columns wide.
        json: the report as JSON, schema ``zeroproof-report/2``.
        results: a dict for every step and phase, as in the JSON: id, status, class ("bitwise" if two recordings have the
            same bits), reason, compared, differing, worst_ratio, divergence.
    """

    exit_code: int
    text: str
    json: str

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    @functools.cached_property
    def results(self) -> list[dict[str, Any]]:
        return json_text.loads(self.json)["cases"]  # type: ignore[no-any-return]

    @property
    def status(self) -> str:
        """Of one recording "right" or "wrong"; of two "equal", "within" (the bounds) or "different"; "unproved" if nothing
        was judged."""
        two = any(one["suite"] == "against" for one in self.results)
        if self.exit_code == 4:
            return "unproved"
        if self.exit_code:
            return "different" if two else "wrong"
        if not two:
            return "right"
        return "equal" if all(one["class"] == "bitwise" for one in self.results) else "within"

    @property
    def first(self) -> dict[str, Any] | None:
        """The first phase in the order of the steps that is wrong or differs; of :attr:`results`."""
        return next((one for one in self.results if one["status"] not in ("pass", "skipped")), None)

    @property
    def difference(self) -> str:
        """The first difference in some lines: step, phase, rank, tensor, element, both values, hint; "" if there is none."""
        if self.first is None:
            return ""
        begin = self.text.find(f"FAIL {self.first['id']}\n")
        if begin < 0:  # not among the failures that the text shows
            return f"FAIL {self.first['id']}\n  reason    {self.first['reason']}"
        return self.text[begin:].partition("\n\n")[0].rstrip()

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text


def _judged(folder: str | os.PathLike[str], words: Mapping[str, str | None]) -> RunVerdict:
    with tempfile.TemporaryDirectory(prefix="zproof-") as temporary:
        report = Path(temporary, "report.json")
        argv = ["judge-run", os.fspath(folder)]
        for flag, value in words.items():
            argv += [] if value is None else [flag, value]
        done = output_of("zeroproof", [*argv, "--report", f"text,json:{report}"])
        if done.returncode not in _VERDICTS:
            said = done.stderr.strip().removeprefix("zeroproof: ")
            raise (ValueError if done.returncode == 2 else RuntimeError)(said or f"zeroproof ended with {done.returncode} (it "
                                                                         "judged nothing); run it by itself")
        text = done.stdout.replace(f"report: {report}\n", "")
        return RunVerdict(done.returncode, text, report.read_text(encoding="utf-8"))


def _words(against: str | os.PathLike[str] | None, gradients_within: float | None, steps: str | None,
           accumulate: str = "any") -> dict[str, str | None]:
    return {"--against": None if against is None else os.fspath(against),
            "--gradients-within": None if gradients_within is None else repr(real("gradients_within", gradients_within)),
            "--steps": None if steps is None else word("steps", steps),
            "--accumulate": None if accumulate == "any" else word("accumulate", accumulate)}


def judge_run(folder: str | os.PathLike[str], *, against: str | os.PathLike[str] | None = None,
              gradients_within: float | None = None, steps: str | None = None, accumulate: str = "any") -> RunVerdict:
    """Judges a recording of :func:`zproof.torch.record`: ``zeroproof judge-run FOLDER``.

    Args:
        folder: the recording, with the files of all ranks.
        against: another recording of the same training under other settings (world size, sharding, accumulation, resume,
            compiler, offload), which this one is compared with instead: equal bits, within the bounds, or the first
            difference.
        gradients_within: with ``against``: gradients of the backward pass that other kernels compute may differ by this
            times the largest element of their tensor. Without it they are judged by their bits and by the bound of their
            sum, and only where both sides have the same parameters.
        steps: only these, as in "3..8".
        accumulate: "any", or "fp32": then gradient sums in bf16 and fp16 are wrong.

    Returns:
        RunVerdict: true if everything that was judged is right.

    Raises:
        ValueError: no recording, one that cannot be used, or recordings of two trainings.
        OSError: the program cannot be executed.
    """
    return _judged(folder, _words(against, gradients_within, steps, accumulate))


def ab(train: Callable[..., Any], a: Mapping[str, Any], b: Mapping[str, Any], *,
       folder: str | os.PathLike[str] | None = None, gradients_within: float | None = None, steps: str | None = None,
       show: bool = True) -> RunVerdict:
    """Trains under two settings and compares the trainings, step by step and phase by phase.

        def train(folder, stage):
            ...
            with zproof.torch.record(optimizer, model, folder):
                ...

        assert zproof.ab(train, a={"stage": 1}, b={"stage": 2})

    Nothing is stored between runs: both trainings run in the same environment. ``train`` may start ranks
    (``torch.multiprocessing.spawn``) and returns when all of them have ended. Both trainings begin with the same parameters
    and use the same data.

    Args:
        train: called as ``train(folder, **a)`` and ``train(folder, **b)``; records into the folder, on every rank.
        a, b: the settings: keywords of ``train``.
        folder: gets the recordings ``a`` and ``b``, which must not exist. By default a temporary folder that is removed,
            unless the trainings differ: then the report has its name.
        gradients_within, steps: as of :func:`judge_run`.
        show: prints the report.

    Returns:
        RunVerdict: its ``status`` is "equal", "within", "different" or "unproved".

    Raises:
        ValueError: a training that recorded nothing, or trainings that cannot be compared: other parameters, rules, steps.
        OSError: the folder cannot be written, or the program not be executed.
    """
    words = _words("b", gradients_within, steps)
    parent = Path(tempfile.mkdtemp(prefix="zproof-ab-") if folder is None else folder)
    recordings = [parent / name for name in ("a", "b")]
    for recording in recordings:
        if recording.exists():
            raise ValueError(f"{recording} exists (it has an earlier training); choose a new folder")
    verdict = None
    try:
        for recording, settings in zip(recordings, (a, b)):
            recording.mkdir(parents=True)
            train(os.fspath(recording), **settings)
            if not any(recording.glob("step*.safetensors")):
                raise ValueError(f"train({', '.join(f'{name}={value!r}' for name, value in settings.items())}) recorded nothing "
                                 "(there is nothing to compare); call zproof.torch.record(optimizer, model, folder) on every "
                                 "rank")
        verdict = _judged(recordings[0], {**words, "--against": os.fspath(recordings[1])})
    finally:
        if folder is None and (verdict is None or verdict.passed):
            shutil.rmtree(parent, ignore_errors=True)
    if show:
        print(verdict.text, end="")
    return verdict
