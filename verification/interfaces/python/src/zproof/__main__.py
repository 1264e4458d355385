"""``python -m zproof``: see :mod:`zproof.cli`."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
