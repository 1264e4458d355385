"""child.py PUZZLE FILE DESCRIPTOR: runs a learner's file, and writes the verdict as JSON to the descriptor.

A separate process, so that a crash of the file does not end the judge. FILE may be a C++ library.
"""

import json
import os
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from judge import compiled_cases  # noqa: E402
from judge.catalogue import PUZZLES  # noqa: E402
from judge.ranks import DeadEnd, Misuse  # noqa: E402
from judge.verdict import Judge, Wrong  # noqa: E402


def where(error, path):
    """The innermost line of the learner's file in an error's traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" in line {lines[-1]}" if lines else ""


def of_rank(error):
    return f" on rank {error.rank}" if hasattr(error, "rank") else ""


def function_of(name, path):
    """The learner's function; raises Wrong if the file has none."""
    if path.endswith(".so"):
        return compiled_cases.function_of(name, path)
    try:
        code = compile(pathlib.Path(path).read_bytes(), path, "exec")
    except (SyntaxError, ValueError) as error:
        at = f" at line {error.lineno}" if getattr(error, "lineno", None) else ""
        raise Wrong(f"the file does not parse{at}: {getattr(error, 'msg', error)}",
                    "refused") from None
    names = {"__name__": "puzzle", "__file__": path}
    exec(code, names)
    if not callable(names.get(name)):
        raise Wrong(
            f"the file has no function {name}; notebooks/puzzle start {name} writes a template",
            "refused")
    return names[name]


def verdict(name, path):
    judge = None
    try:
        judge = Judge(name, function_of(name, path))
        what = (compiled_cases.JUDGES if path.endswith(".so") else PUZZLES)[name][1](judge)
        return {"status": "pass", "text": f"{judge.cases:,} cases of {what}, {judge.elements:,} results, every bit"}
    except Wrong as wrong:
        return {"status": wrong.status, "text": wrong.text}
    except (DeadEnd, Misuse) as error:
        return {"status": "fail", "text": f"{error}{of_rank(error)}{where(error, path)}"}
    except compiled_cases.Refusal as refusal:
        return {
            "status": "fail",
            "text": f"{name} rejected valid arguments after {judge.cases:,} cases: "
            f"{refusal}"
        }
    except SystemExit as error:
        return {
            "status": "ended",
            "text": f"the function called exit{where(error, path)}; return the result "
            f"instead"
        }
    except BaseException as error:  # noqa: B902  (any error of the learner's code)
        message = str(error).splitlines()[0][:200] if str(error) else "no message"
        return {
            "status": "error",
            "text": f"{type(error).__name__}{of_rank(error)}{where(error, path)}: {message}"
        }


if __name__ == "__main__":
    result = json.dumps(verdict(sys.argv[1], sys.argv[2]))
    try:
        sys.stdout.flush()
    except OSError:
        pass
    os.write(int(sys.argv[3]), result.encode())
    os._exit(0)
