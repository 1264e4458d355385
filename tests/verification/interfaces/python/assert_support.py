"""Shared helpers of the tests of zproof.assert_step_close."""

import math
import warnings

import numpy as np
from zproof import assert_step_close

try:
    import torch
except ImportError:
    torch = None
try:
    import jax.numpy as jnp
except ImportError:
    jnp = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

warnings.simplefilter("error")  # comparing must not warn
f32 = np.float32
NAN = math.nan


def floats(*values, dtype=np.float32):
    return np.array(values, dtype)


def message(*arguments, **words):
    """The message of the failing assertion."""
    try:
        assert_step_close(*arguments, **words)
    except AssertionError as error:
        return str(error)
    raise AssertionError("it passed")
