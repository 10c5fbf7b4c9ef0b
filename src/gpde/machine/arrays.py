"""Arrays that are computed already, handed to JAX."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array


def on_device(values: Any) -> Array:
    """A copy of the values as a JAX array, outside of compiled code: `jnp.asarray` would compile a program for every shape it
    meets, ten milliseconds each."""
    return jax.device_put(np.array(values))
