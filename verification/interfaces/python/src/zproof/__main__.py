"""``python -m zproof``: see :mod:`zproof.cli`."""

import os
import sys



def _is_current(folder: str) -> bool:
    try:
        return os.path.samefile(folder or ".", ".")
    except OSError:
        return False


# The callable may write modules into the current folder, which this process would then import.
sys.path[:] = [folder for folder in sys.path if not _is_current(folder)]

from .cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
