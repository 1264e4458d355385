"""A callable in another process than its judge: it gets numbered calls over a connection, and returns arrays alone.

The judge's end is :class:`CallableProcess`; :func:`serve` is the other one. A request is a header (number, kind, length of
the JSON that follows), the JSON and the bytes of all operands; an answer is a header (number of the request, kind, length
of the text that follows) and, of a call that returned, the bytes of all results. The judge reads nothing else from
there, decodes no object, and compares the results itself.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import inspect
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from . import _zproof
from .calling import Calling, sentence_of
from .frameworks import framework_named
from .loading import UsageError, load_callable, source_of

_HEADER = struct.Struct("<QBI")
_START, _CALL, _SETTLE = range(3)  # kinds of requests
_RETURNED, _FAILED, _REFUSED, _MISSING = range(4)  # kinds of answers; the last two to _START alone
_FAILURES = ("fail", "tampered", "error")  # verdicts that come from the callable's process
_LONGEST_TEXT = 1 << 16
_LONGEST_REASON = 2000
_ALIGNMENT = 64
_ENDING = 5.0  # seconds in which all its processes are killed
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


class CallableFailed(Exception):
    """The callable's process failed: a status, and a sentence."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class CallableProcess:
    """The process of one callable, as its judge sees it; started again for the next case after it ended.

    Args:
        where: MODULE:FUNCTION or FILE.py:FUNCTION.
        timeout: seconds for everything; the process is killed afterwards.
    """

    def __init__(self, where: str, timeout: float) -> None:
        if not timeout > 0:
            raise UsageError(f"--timeout is {timeout:g} (the callable needs some time); use seconds above 0")
        self._framework = framework_named("numpy", "cpu")  # now: a callable could write what it imports
        self._where = where
        self._timeout = timeout
        self._until = time.monotonic() + min(timeout, 1e9)
        self._start: dict[str, Any] = {}
        self._declaration = b""
        self._results: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        # /proc/PID/mem of this process is closed to other processes of the user; Landlock closes it to root's too.
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

    def __enter__(self) -> CallableProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def open(self, op: str, dtype: str, operation: Mapping[str, Any], framework: str,
             device: str) -> tuple[Calling, CallableProcess]:
        """Loads the callable. Raises UsageError, ImportError for a framework that is not installed, CallableFailed."""
        self._start = {"where": self._where, "op": op, "dtype": dtype, "framework": framework, "device": device}
        self._results = [name for name, _, access in operation["operands"] if access != "in"]
        self._launch()
        return Calling(_declared(self._declaration), operation, self._framework), self

    def call(self, numel: int, operands: dict[str, np.ndarray], settings: dict[str, Any], num_threads: int,
             text: str) -> tuple[str, str] | None:
        """One call; see _zproof.GuardedCalls."""
        words = {"numel": numel, "settings": settings, "num_threads": num_threads, "text": text,
                 "results": self._results,
                 "operands": [[name, array.dtype.str, array.size, array.ctypes.data % _ALIGNMENT]
                              for name, array in operands.items()]}
        results = [operands[name].view(np.uint8) for name in self._results]
        try:
            answer = self._ask(_CALL, words, [array.tobytes() for array in operands.values()],
                               sum(one.nbytes for one in results))
        except CallableFailed as failure:
            return failure.status, failure.reason
        begin = 0
        for one in results:
            one[...] = np.frombuffer(answer, np.uint8, one.nbytes, begin)
            begin += one.nbytes
        return None

    def settle(self) -> tuple[str, str] | None:
        try:
            self._ask(_SETTLE, {}, [], 0)
            self._expect_silence()
        except CallableFailed as failure:
            return failure.status, failure.reason
        return None

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        self._others = _children()
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with theirs:
            # What it prints goes to the judge's standard error: the report alone is on standard output.
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-X", "faulthandler", "-c",
                 f"from zproof.isolation import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[theirs.fileno()],
                start_new_session=True, preexec_fn=_zproof.forbid_others)
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._printing = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended = os.pidfd_open(self._process.pid)
        ours.setblocking(False)
        self._socket = ours
        self._number = 0
        declaration = self._ask(_START, self._start, [], None)
        try:
            _declared(declaration)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            self._tampered()
        if self._declaration not in (b"", declaration):
            raise CallableFailed("tampered", "its parameters were others when it was loaded again")
        self._declaration = declaration

    def _ask(self, kind: int, words: dict[str, Any], data: list[bytes], results: int | None) -> bytes:
        """The bytes after the header of an answer; `results`: how many, None for a text."""
        if self._process is None:
            if time.monotonic() >= self._until:
                raise CallableFailed("hung", f"it was not called: the {self._timeout:g} seconds of --timeout are over")
            self._launch()
        self._expect_silence()
        self._number += 1
        number = self._number
        text = json.dumps(words).encode()
        self._send(b"".join([_HEADER.pack(number, kind, len(text)), text, *data]))
        answered, verdict, length = _HEADER.unpack(self._receive(_HEADER.size))
        if answered != number or length > _LONGEST_TEXT:
            self._tampered()
        said = self._receive(length)
        if verdict == _RETURNED:
            return said if results is None else self._receive(results)
        reason = _one_line(said)
        if verdict == _FAILED:
            status, _, reason = reason.partition(" ")
            if status in (_FAILURES if kind != _START else ("error",)):
                raise CallableFailed(status, reason)
        if kind == _START and verdict in (_REFUSED, _MISSING):
            raise UsageError(reason) if verdict == _REFUSED else ImportError(reason)
        self._tampered()

    def _expect_silence(self) -> None:
        if not select.select([self._socket], [], [], 0)[0]:
            return
        try:
            if self._socket.recv(1):
                self._tampered()
        except ConnectionError:
            pass
        self._explain_end()

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._wait(for_writing=True)
            try:
                left = left[self._socket.send(left):]
            except BlockingIOError:
                continue
            except OSError:
                self._explain_end()

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            self._wait()
            try:
                got = self._socket.recv_into(left)
            except BlockingIOError:
                continue
            except OSError:
                got = 0
            if got == 0:
                self._explain_end()
            left = left[got:]
        return bytes(data)

    def _wait(self, for_writing: bool = False) -> None:
        """Until the connection is ready. A process that ended may have left others behind that hold it open."""
        readers, writers = ([], [self._socket]) if for_writing else ([self._socket], [])
        while (left := self._until - time.monotonic()) > 0:
            printing = [self._output] if self._printing else []
            can_read, can_write, _ = select.select([*readers, self._ended, *printing], writers, [], left)
            if self._output in can_read:
                self._pass_on_output()
            if self._socket in can_read or can_write:
                return
            if self._ended in can_read:
                self._explain_end()
        self._end()
        raise CallableFailed("hung", f"it did not return within {self._timeout:g} seconds")

    def _pass_on_output(self) -> bool:
        """The next piece of what was printed; False if there is none."""
        try:
            piece = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return False
        self._printing = bool(piece)
        if piece:
            with open(2, "wb", closefd=False) as errors:
                errors.write(_without_controls(self._decoder.decode(piece)).encode())
        return self._printing

    def _tampered(self) -> NoReturn:
        self._end()
        raise CallableFailed("tampered", "it wrote to the connection of the judge")

    def _explain_end(self) -> NoReturn:
        assert self._process is not None
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._end()
            raise CallableFailed("crashed", "it closed the connection of the judge") from None
        self._end()
        raise CallableFailed("crashed", f"its process died of {_signal_name(-code)}" if code < 0 else
                             f"its process ended by itself, with code {code}, before a verdict")

    def _end(self) -> None:
        """Kills the process and all it started: nothing of them runs while the report is written."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        until = time.monotonic() + _ENDING
        while (left := _children() - self._others) and time.monotonic() < until:
            for one in left:  # children of a killed one are then children of this process
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
                    os.waitpid(one, 0)
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for _ in range(_LONGEST_TEXT // 4096):  # of a process that goes on printing
            if not self._pass_on_output():
                break
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._socket.close()
        os.close(self._ended)
        self._process = None
        if left:
            raise CallableFailed("tampered", "it left processes behind that could not be ended")


def _children() -> set[int]:
    """Of this process; empty where the kernel does not list them."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children", encoding="utf-8") as file:
                found |= set(map(int, file.read().split()))
        except OSError:  # the thread has ended
            continue
    return found


def serve(descriptor: int) -> None:
    """In the callable's process: answers requests until the connection is closed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.set_inheritable(descriptor, False)
    connection = socket.socket(fileno=descriptor)
    calls: Any = None
    while (header := _read(connection, _HEADER.size)) is not None:
        number, kind, length = _HEADER.unpack(header)
        words = json.loads(_read(connection, length) or b"")
        operands = {name: _operand(connection, *how) for name, *how in words.get("operands", [])}
        said: tuple[str, str] | None = None
        verdict, text = _RETURNED, ""
        try:
            if kind == _START:
                calls, text = _load(**words)
            elif kind == _CALL:
                said = calls.call(words["numel"], operands, words["settings"], words["num_threads"], words["text"])
            else:
                said = calls.settle()
        except UsageError as error:
            verdict, text = _REFUSED, str(error)
        except ImportError as error:
            verdict, text = _MISSING, str(error)
        except BaseException as error:
            said = ("error", sentence_of(error))
        _LIBC.fflush(None)
        if said is not None:
            verdict, text = _FAILED, " ".join(said)
        data = text.encode(errors="replace")[:_LONGEST_TEXT]
        returned = [operands[name].tobytes() for name in words.get("results", [])] if verdict == _RETURNED else []
        try:
            connection.sendall(b"".join([_HEADER.pack(number, verdict, len(data)), data, *returned]))
        except OSError:  # the callable closed it
            return


def _load(where: str, op: str, dtype: str, framework: str, device: str) -> tuple[Any, str]:
    """The callable, ready for calls, and its declaration as JSON."""
    fn = load_callable(where)
    try:
        calling = Calling(fn, _zproof.describe_operation(op, dtype), framework_named(framework, device))
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    try:
        parameters = [[one.name, one.kind.name, one.default is not one.empty]
                      for one in inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):  # written in another language: it gets everything
        parameters = [["everything", "VAR_KEYWORD", False]]
    return (_zproof.GuardedCalls(op, dtype, calling.invoke, calling.framework.read_only),
            json.dumps({"name": calling.name, "parameters": parameters, "source": source_of(fn)}))


def _declared(text: bytes) -> Callable[..., Any]:
    """A function with the name and the parameters of the callable; errors of many kinds for another text."""
    words = json.loads(text)

    def declared() -> None:
        pass

    declared.__name__ = words["name"]
    file, line = words["source"]
    declared.zproof_source = (str(file), int(line))  # type: ignore[attr-defined]
    empty = inspect.Parameter.empty
    declared.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter(name, getattr(inspect.Parameter, kind), default=None if optional is True else empty)
        for name, kind, optional in words["parameters"]])
    return declared


def _operand(connection: socket.socket, dtype: str, numel: int, offset: int) -> np.ndarray:
    """An array with the next bytes of the connection, so many bytes behind a multiple of the alignment."""
    size = numel * np.dtype(dtype).itemsize
    memory = np.empty(size + 2 * _ALIGNMENT, np.uint8)
    begin = (offset - memory.ctypes.data) % _ALIGNMENT
    memory[begin:begin + size] = np.frombuffer(_read(connection, size) or b"", np.uint8)
    return memory[begin:begin + size].view(dtype)


def _read(connection: socket.socket, size: int) -> bytes | None:
    """None at the end."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _one_line(said: bytes) -> str:
    return _without_controls(said.decode(errors="replace")[:_LONGEST_REASON], "")


def _without_controls(text: str, allowed: str = "\t\n\r") -> str:
    """With ? for all that a terminal would obey: C0, C1 (U+009B begins a sequence, as ESC [ does), directions of text."""
    return "".join(c if c.isprintable() or c in allowed else "?" for c in text)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
