"""Stored correct arrays in a file beside their test: the counterpart of `zeroproof golden` for arrays.

FILE.safetensors holds the arrays, FILE.safetensors.toml records the test, the digests, and the reasons of
changes, FILE.operations the operations of PyTorch that made them, if the test records them. All are committed together.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _zproof
from .elements import Elements, read_array
from .program import FOLDER
from .tensor_files import read_arrays, write_arrays
from .testing import assert_step_close

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # a dependency of pytest

__all__ = ["GoldenFile", "recorded_seed", "refuse_in_ci"]

SCHEMA = "zproof-golden/1"


def refuse_in_ci() -> None:
    """Raises ValueError where CI is set."""
    if os.environ.get("CI"):
        raise ValueError("golden files cannot be recorded where CI is set (a test that records its own "
                         "expectation proves nothing); record them locally, and commit")


def _sha256(path: pathlib.Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass
class _Record:
    test: str
    digest: str
    seed: int | None = None  # of the fixture's inputs; None in files of earlier versions
    operations: str = ""  # digest of FILE.operations; empty where there is none
    history: list[dict[str, Any]] = field(default_factory=list)

    def text(self) -> str:
        """TOML; JSON writes texts as TOML reads them."""
        lines = [f"schema = {json.dumps(SCHEMA)}", f"test = {json.dumps(self.test)}",
                 f"digest = {json.dumps(self.digest)}"]
        if self.seed is not None:
            lines.append(f"seed = {json.dumps(str(self.seed))}")  # TOML's integers have 63 bits
        if self.operations:
            lines.append(f"operations = {json.dumps(self.operations)}")
        for entry in self.history:
            lines += ["", "[[history]]", *(f"{name} = {json.dumps(entry[name])}" for name in sorted(entry))]
        return "\n".join(lines) + "\n"


def recorded_seed(folder: pathlib.Path, test: str) -> int | None:
    """The seed of the golden files of a test; None if it has none. Files that cannot be read are left to check()."""
    for path in sorted(folder.glob("*.safetensors.toml")):
        try:
            record = GoldenFile(path.with_suffix(""), test)._record()
        except (AssertionError, OSError):
            continue
        if record.test == test and record.seed is not None:
            return record.seed
    return None


class GoldenFile:
    """One file. test: the id of the test it belongs to; seed: of that test's inputs; operations: the test's own recording of
    them (:func:`zproof.torch.operations`)."""

    def __init__(self, path: pathlib.Path, test: str, seed: int | None = None,
                 operations: pathlib.Path | None = None) -> None:
        self.seed = seed
        self.operations = operations
        self.operations_path = path.with_suffix(".operations")
        self.path = path
        self.record_path = path.with_name(path.name + ".toml")
        self.test = test

    def _digest(self) -> str:
        return _sha256(self.path)

    def _record(self) -> _Record:
        """Errors: AssertionError if there is nothing valid to compare with: the test fails."""
        if not self.record_path.exists():
            raise AssertionError(f"{self.path.name} has no {self.record_path.name} beside it (its record is "
                                 "required); restore it, or remove the file and run pytest with --zp-regen REASON")
        try:
            table = tomllib.loads(self.record_path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise AssertionError(f"{self.record_path.name} is no TOML ({error}); restore it") from None
        if table.get("schema") != SCHEMA:
            raise AssertionError(f"{self.record_path.name} is of schema {table.get('schema')!r}, not {SCHEMA!r} (it "
                                 "was not made by a test); files of zeroproof golden belong to zeroproof golden")
        seed = str(table.get("seed", ""))
        return _Record(str(table.get("test")), str(table.get("digest")), int(seed) if seed.isdecimal() else None,
                       str(table.get("operations", "")), list(table.get("history", [])))

    def check(self, arrays: Mapping[str, Any], **rules: Any) -> bool:
        """Asserts that the arrays are those of the file, as assert_step_close with its rules.

        Returns whether they have its bits: under a rule they may differ.
        """
        __tracebackhide__ = True
        if not self.path.exists():
            raise AssertionError(f"there is no golden file {self.path} (this test has nothing to compare with); run "
                                 "pytest with --zp-regen REASON where the results are correct, and commit it")
        record = self._record()
        if record.digest != self._digest():
            raise AssertionError(f"{self.path.name} is not the file that {self.record_path.name} describes (one of the "
                                 "two was changed without the other); restore both")
        kept, _ = read_arrays(self.path)
        try:
            assert_step_close(dict(arrays), kept, **rules)
        except AssertionError as error:
            other = "" if record.test == self.test else \
                f"\nIt was recorded by {record.test}: the inputs of zproof.rng depend on the test's id."
            raise AssertionError(f"{error}\n\nThe golden file is {self.path}{other}{self._attributed(record)}\nIf the new results are right, keep "
                                 f"them: pytest {shlex.quote(self.test)} --zp-regen REASON") from None
        return self._same(arrays, kept)

    def _attributed(self, record: _Record) -> str:
        """Lines about the first operation with other bits, and the cause; nothing if no operations are recorded."""
        path = self.operations_path
        if not record.operations:
            return "" if self.operations is None else \
                f"\nIts operations are not recorded: there is no {path.name} to compare with, which --zp-regen makes."
        if not path.exists() or _sha256(path) != record.operations:
            return f"\nNo cause can be named: {path.name} is not the file that {self.record_path.name} describes; restore both."
        if self.operations is None:
            return f"\n{path.name} has the operations that made it: give operations= to learn the cause."
        words = ["attribute", os.fspath(path), os.fspath(self.operations)]
        try:
            done = subprocess.run([FOLDER / "zeroproof", *words], capture_output=True, text=True, errors="replace")
        except OSError as error:
            return f"\nNo cause can be named: {FOLDER / 'zeroproof'} cannot be executed ({error.strerror})."
        lines = done.stdout.splitlines()
        if done.returncode == 0:
            return "\nThe recorded operations have the same bits: the arrays were made, or changed, outside of them."
        if done.returncode != 1 or not lines:
            return f"\nNo cause can be named: {done.stderr.strip()}"
        return "\n" + lines[-1] + "\n  " + "\n  ".join(lines[:-1])

    @staticmethod
    def _same(arrays: Mapping[str, Any], kept: Mapping[str, Elements]) -> bool:
        try:
            assert_step_close(dict(arrays), dict(kept), equal_nan=True)
        except AssertionError:
            return False
        return True

    def renew(self, arrays: Mapping[str, Any], reason: str) -> bool:
        """Records these arrays and the reason. Returns False if it holds their bits already.

        Errors: ValueError without a reason, or where CI is set; TypeError as read_array.
        """
        refuse_in_ci()
        if not reason.strip():
            raise ValueError("golden files cannot be recorded without a reason (the history must explain "
                             "why the numbers changed); give one")
        read = {name: read_array(array, f"the array {name}") for name, array in arrays.items()}
        history: list[dict[str, Any]] = []
        if self.path.exists():
            record = self._record()
            if record.seed == self.seed and record.digest == self._digest() and self._keeps_operations(record) \
                    and self._same(read, read_arrays(self.path)[0]):
                return False
            history = record.history
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(self.path, read, {"test": self.test})
        digest = self._digest()
        history.append({"date": datetime.date.today().isoformat(), "digest": digest,
                        "program": f"zproof {_zproof.version}", "reason": reason.strip()})
        operations = ""
        if self.operations is not None:
            shutil.copyfile(self.operations, self.operations_path)
            operations = _sha256(self.operations_path)
        else:
            self.operations_path.unlink(missing_ok=True)  # of other arrays
        self.record_path.write_text(_Record(self.test, digest, self.seed, operations, history).text(), encoding="utf-8")
        return True

    def _keeps_operations(self, record: _Record) -> bool:
        if self.operations is None:
            return not record.operations
        return self.operations_path.exists() and _sha256(self.operations_path) == record.operations
