"""What the user is told."""

import sys


class Problem(Exception):
    """One sentence for the user, and the exit code."""

    def __init__(self, code, problem, why, remedy):
        super().__init__(f"{problem} ({why}); {remedy}")
        self.code = code


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)
