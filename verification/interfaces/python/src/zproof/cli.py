"""The command line: ``python -m zproof verify my_module:adamw_step``.

Commands without a MODULE:FUNCTION are those of the program ``zeroproof``, which gets all arguments (:mod:`zproof.program`).

Exit codes are those of ``zeroproof verify``: 0 passed, 1 something differs, 2 bad usage, 3 something required is missing,
4 nothing was proved, 5 hung, 6 crashed, 9 the callable raised.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from . import __version__, _zproof, contract_version
from .isolation import CallableFailed, CallableProcess
from .judge import Verdict, draw_seed, judge, judge_calls, operations
from .lessons import write_lessons
from .loading import UsageError, load_callable, split_name
from .program import INCLUDE, run

_JUDGING = ["op", "dtype", "seed", "second_seed", "accept", "framework", "device"]
_EXIT_CODES = {"tampered": 1, "hung": 5, "crashed": 6, "error": 9}  # of a callable that failed before its first call
_SUFFIXES: dict[str, Callable[[Verdict, bool], str]] = {
    "json": lambda verdict, strict: verdict.json,
    "junit": Verdict.junit,
    "html": Verdict.html,
}


class _Parser(argparse.ArgumentParser):
    """Reports a usage error in one sentence."""

    def error(self, message: str) -> NoReturn:
        typed = [word for word in message.split() if word.startswith("-")] if "unrecognized" in message else []
        near = _zproof.nearest(typed[0].partition("=")[0], _flags(self)) if typed else ""
        remedy = f"did you mean {near}?" if near else f"{self.prog} --help prints the options"
        self.exit(2, f"zproof: {message} (nothing was judged); {remedy}\n")


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Those of its commands too."""
    flags: set[str] = set()
    for action in parser._actions:
        flags |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                flags |= set(_flags(command))
    return sorted(flags)


def _parser() -> _Parser:
    parser = _Parser(prog="python -m zproof", allow_abbrev=False,
                     description="Judge a Python callable by zeroproof's reference, bit for bit. All other commands, and "
                                 "verify and replay of cases, are those of the program: python -m zproof doctor.")
    parser.add_argument("--version", action="version",
                        version=f"zproof {__version__}  numeric contract {contract_version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    verify = commands.add_parser("verify", allow_abbrev=False, help="judge a callable on an operation",
                                 description="Calls MODULE:FUNCTION with the inputs of an operation and compares every "
                                             "bit of its results with the reference.")
    verify.add_argument("callable", metavar="MODULE:FUNCTION", help="or FILE.py:FUNCTION")
    _judging_flags(verify)
    verify.add_argument("--fill", action="append", metavar="FILL", help="distribution of the inputs: training, ties, "
                        "special, ...; may be given several times (default: all of the operation)")
    _report_flags(verify)
    verify.add_argument("--save-failing", metavar="FOLDER", help="gets a bundle of every failing case, for replay")
    replay = commands.add_parser("replay", allow_abbrev=False, help="judge a callable on a saved failure again",
                                 description="Runs the case of a bundle again, on the callable that failed or a fixed "
                                             "one.")
    replay.add_argument("bundle", metavar="BUNDLE", help="folder that verify --save-failing made")
    replay.add_argument("callable", metavar="MODULE:FUNCTION", help="or FILE.py:FUNCTION")
    _report_flags(replay)
    commands.add_parser("include", allow_abbrev=False, help="the folder of zeroproof_plugin.h, for -I",
                        description="Prints the folder of zeroproof_plugin.h, the header of kernels in C and C++.")
    lessons = commands.add_parser("lessons", allow_abbrev=False, help="the lessons and puzzles, in a new folder",
                                  description="Writes the lessons, as scripts and notebooks, and the puzzles.")
    lessons.add_argument("folder", metavar="FOLDER", nargs="?", default="zeroproof-lessons",
                         help="which does not exist yet (default: zeroproof-lessons)")
    listing = commands.add_parser("operations", allow_abbrev=False, help="operations, their operands and settings",
                                  description="Lists the operations a callable can be judged on; for one, the "
                                              "parameters of a callable.")
    listing.add_argument("op", nargs="?", metavar="OP", help="one of them")
    listing.add_argument("--dtype", default="fp32", help="of its parameter: fp32, bf16, fp16 (default: fp32)")
    return parser


def _judging_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--op", help="adamw, adam, sgd, sgd_ema, lion, lamb, or a name printed by operations (default: "
                         "that in the function's name, as in adamw_step)")
    command.add_argument("--dtype", default="fp32", help="bf16 or fp16: updates also output a param of that dtype "
                         "(default: fp32)")
    command.add_argument("--seed", type=int, default=1, help="of the first inputs (default: 1)")
    command.add_argument("--second-seed", type=int, help="of the second inputs (default: drawn)")
    command.add_argument("--accept", default="bits", help="bits; any-order, updates in any legal order of operations; "
                         "any-order,fp32-powers, also with powers of beta in fp32; or dialect:NAME, the bits of another "
                         "library (default: bits)")
    command.add_argument("--framework", default="numpy", help="arrays the callable gets: numpy, torch (default: numpy)")
    command.add_argument("--device", default="cpu", help="where torch's tensors are (default: cpu)")


def _report_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--report", action="append", metavar="WHERE", help="text, json:FILE, junit:FILE, html:FILE, github "
                         "(annotations and job summary of GitHub), or several with commas between (default: text)")
    command.add_argument("--strict", action="store_true", help="mistrusted cases count as failed")
    command.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="after which the callable's "
                         "process is ended, and the verdict is hung (default: 600)")
    command.add_argument("--in-process", action="store_true", help="call it in the process of the judge, which "
                         "it can then change: a crash ends it; no timeout (for debuggers)")


def _targets(words: list[str] | None) -> tuple[set[str], list[tuple[str, str, Path | None]]]:
    """Reports on standard output, text and github, and (kind, file, the file it replaces or None) of every other one;
    files are tried before anything is judged, when the callable has not yet made others of them."""
    shown, files = set(), []
    for word in [part for value in words or ["text"] for part in value.split(",")]:
        kind, _, file = word.partition(":")
        if word in ("text", "github"):
            shown.add(word)
        elif kind in _SUFFIXES and file:
            folder = Path(file).resolve().parent
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise UsageError(f"--report {word} cannot be written (its folder does not exist or is not writable); "
                                 "name a file in a writable folder")
            files.append((kind, file, None if _is_in_place(file) else Path(file).resolve()))
        else:
            near = _zproof.nearest(kind, ["text", "github", *_SUFFIXES])
            raise UsageError(f"--report is '{word}' (it names the reports); "
                             + (f"did you mean {near}?" if near else "use text, json:FILE, junit:FILE, html:FILE or github"))
    return shown, files


def _is_in_place(file: str) -> bool:
    """A device, a pipe, or an open descriptor: written, not replaced."""
    if os.path.realpath(os.path.dirname(os.path.abspath(file))) in ("/dev", os.path.realpath("/dev/fd")):
        return True
    return os.path.exists(file) and not stat.S_ISREG(os.stat(file).st_mode)


def _write(file: str, content: str, replaced: Path | None) -> None:
    if replaced is None:
        Path(file).write_text(content, encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(dir=replaced.parent, prefix=".zproof-") as folder:
        whole = Path(folder, "report")
        whole.write_text(content, encoding="utf-8")
        os.replace(whole, replaced)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _replay_line(args: argparse.Namespace) -> str:
    defaults = {"dtype": "fp32", "accept": "bits", "framework": "numpy", "device": "cpu"}
    words = ["python", "-m", "zproof", "verify", args.callable]
    for name in _JUDGING:
        if getattr(args, name) != defaults.get(name):
            words += [_flag(name), str(getattr(args, name))]
    return " ".join(shlex.quote(word) for word in words) + " --fill {fill}"


def _report(verdict: Verdict, args: argparse.Namespace) -> None:
    shown, files = args.targets
    if "text" in shown:
        sys.stdout.write(verdict.text)
        sys.stdout.flush()
    for kind, file, replaced in files:
        _write(file, _SUFFIXES[kind](verdict, args.strict), replaced)
        if "text" in shown:
            print(f"report: {file}")
    if "github" in shown:
        with warnings.catch_warnings(record=True) as problems:
            warnings.simplefilter("always")
            sys.stdout.write(verdict.github(args.strict))
        for problem in problems:
            sys.stderr.write(f"zproof: {problem.message}\n")


def _op_in(name: str) -> str:
    """The operation a function is named after: adamw_step, my_adamw, cast_to_bf16_kernel."""
    words = name.lower().replace("-", "_").split("_")
    rules = [one.removesuffix("_update") for one in operations() if one.endswith("_update")]
    known = [one for one in [*operations(), *rules] if f"_{one}_" in "_" + "_".join(words) + "_"]
    if not known:
        raise UsageError(f"{name} is named after no operation (the operation is unknown); use --op, as in --op adamw")
    return max(known, key=len)


def _judge(args: argparse.Namespace, fills: Any) -> Verdict:
    args.targets = _targets(args.report)
    name = split_name(args.callable)[1].rpartition(".")[2]
    args.op = args.op or _op_in(name)
    args.second_seed = draw_seed() if args.second_seed is None else args.second_seed
    words = dict(fills=fills, seed=args.seed, second_seed=args.second_seed, accept=args.accept, framework=args.framework,
                 device=args.device, name=name, replay=_replay_line(args))
    if args.in_process:
        return judge(load_callable(args.callable), args.op, args.dtype, **words)
    with CallableProcess(args.callable, args.timeout) as process:
        return judge_calls(process.open, args.op, args.dtype, **words)


def _verify(args: argparse.Namespace) -> int:
    verdict = _judge(args, args.fill or "all")
    _report(verdict, args)
    if args.save_failing:
        for folder in verdict.save(args.save_failing):
            print(f"saved: {folder}")
    return verdict.report.exit_code(args.strict)


def _bundle(folder: str) -> dict[str, Any]:
    path = Path(folder)
    path = path if path.is_file() else path / "bundle.json"
    try:
        bundle = json.loads(path.read_text(encoding="utf-8"))
        flags = dict(zip(bundle["flags"][::2], bundle["flags"][1::2]))
        if flags.keys() != set(map(_flag, _JUDGING)):  # the callable is the user's: never from a bundle
            raise ValueError
        fill = bundle["id"].rpartition("fill:")[2]
        return {"fill": fill, "failure": bundle["failure"], **{name: flags[_flag(name)] for name in _JUDGING}}
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a folder made by verify --save-failing") \
            from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is no bundle of a callable (its settings are others); use zeroproof replay for "
                         "those of the program") from None


def _replay(args: argparse.Namespace) -> int:
    saved = _bundle(args.bundle)
    for name in _JUDGING:
        setattr(args, name, int(saved[name]) if name.endswith("seed") else saved[name])
    verdict = _judge(args, saved["fill"])
    _report(verdict, args)
    now = verdict.results[0]["failure"]
    same = now == saved["failure"]
    print("bundle: the same failure as the saved one" if same else f"bundle: NOT the saved failure: {saved['failure']}")
    return verdict.report.exit_code(args.strict)


def _operations(args: argparse.Namespace) -> int:
    if args.op is None:
        print("\n".join(operations()))
        return 0
    operation = _zproof.describe_operation(args.op, args.dtype)
    print(operation["name"])
    for name, dtype, access in operation["operands"]:
        print(f"  {access.replace('_', ' and '):<11}{name:<18}{dtype}")
    settings = list(operation["variants"][0][1]) if operation["variants"] else []
    plain = [name for name in settings if "." not in name]
    scalars = [name[7:] for name in settings if name.startswith("scalar.")]
    for title, names in (("settings", plain), ("scalars", scalars), ("fills", operation["fills"])):
        if names:
            print(f"  {title:<11}{' '.join(names)}")
    return 0


def _of_the_program(argv: list[str]) -> bool:
    """Whether zeroproof has the command: `verify` of a case, as in op/adamw_update/*, and all commands that are not here."""
    if not argv or argv[0].startswith("-"):
        return False
    if argv[0] not in ("verify", "replay"):
        return argv[0] not in ("operations", "include", "lessons")
    words = argv[1:]
    if argv[0] == "replay" and any(os.path.exists(word) for word in words):  # a saved bundle
        return False
    is_callable = any(re.search(r"(^[\w.]+|\.py):[^/]+$", word) for word in words)
    return not is_callable and any("/" in word or word == "--plugin" for word in words)


def main(argv: list[str]) -> int:
    """Runs one command; returns its exit code."""
    if _of_the_program(argv):
        run("zeroproof", argv)
    args = _parser().parse_args(argv)
    try:
        if args.command == "include":
            print(INCLUDE)
            return 0
        if args.command == "lessons":
            first = write_lessons(args.folder) / "01_the_curve_looks_fine"
            print(f"{first.parent}: thirteen lessons and their puzzles; run python {first}.py, or open {first}.ipynb in Jupyter")
            return 0
        if args.command == "operations":
            return _operations(args)
        return _verify(args) if args.command == "verify" else _replay(args)
    except CallableFailed as failure:
        print(f"{failure.status.upper()} {args.callable}\n  reason    {failure.reason}\n\n0 pass, 1 {failure.status}")
        return _EXIT_CODES[failure.status]
    except KeyboardInterrupt:
        return 130
    except (UsageError, ValueError, TypeError, OSError) as error:
        sys.stderr.write(f"zproof: {error}\n")
        return 2
    except MemoryError:
        sys.stderr.write("zproof: there is no memory left (nothing was judged); free some, or raise the limit\n")
        return 3
    except ImportError as error:
        sys.stderr.write(f"zproof: {error}\n")
        return 3
