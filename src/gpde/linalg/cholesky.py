r"""The linear algebra of Gram matrices: block nugget, Cholesky factors that say when they fail, conditioning.

Everything a Gauss-Newton step of any form needs is one formula. With the equations linearised as $\Psi z = b$, prior
covariance $K$ and noise $\Lambda$ (a diagonal),

$$\operatorname{argmin}_z \; z^T K^{-1} z + |\Psi z - b|^2_{\Lambda} = K \Psi^T (\Psi K \Psi^T + \Lambda)^{-1} b ,$$

an $N \times N$ system whatever the number of functionals per point, and no inverse of $K$.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float

from gpde.functionals.functionals import Functionals, Kernels, prior_variances


def nugget_scale(kernels: Kernels, functionals: Functionals) -> Float[Array, " size"]:
    r"""The diagonal of $\mathcal R$: for every functional the mean prior variance of its operator's block.

    Relative to each block, as in Sec. 3.4 of Chen, Hosseini, Owhadi and Stuart (2021): a nugget that suits $u$ is far too
    small for $\Delta u$.
    """
    means = [jnp.broadcast_to(jnp.mean(v), v.shape) for v in prior_variances(kernels, functionals)]
    return jnp.concatenate(means)


def factor(matrix: Float[Array, "size size"]) -> tuple[Float[Array, "size size"], Bool[Array, ""]]:
    """The lower Cholesky factor, and whether there is one: `jnp.linalg.cholesky` returns NaN and never raises."""
    # LAPACK wants columns. The transpose of a symmetric matrix is the same matrix, made by rows: without it everything
    # that the matrix is computed from would be read across its rows, twice as slow in all.
    lower = jnp.linalg.cholesky(matrix.T, symmetrize_input=False)
    return lower, jnp.isfinite(lower[-1, -1])


def large_factor(matrix: Float[Array, "size size"]) -> tuple[Float[Array, "size size"], Bool[Array, ""]]:
    """`factor` of a single large matrix, without the pass that clears what lies above the diagonal: do not read it.

    It has no batched form and no derivative.
    """
    return jax.lax.platform_dependent(matrix, cpu=_lapack_factor, default=factor)


def _lapack_factor(matrix: Float[Array, "size size"]) -> tuple[Float[Array, "size size"], Bool[Array, ""]]:
    _load_lapack()
    results = jax.ShapeDtypeStruct(matrix.shape, matrix.dtype), jax.ShapeDtypeStruct((), np.int32)
    potrf = jax.ffi.ffi_call("lapack_dpotrf_ffi", results, input_output_aliases={0: 0})
    upper, info = potrf(matrix, uplo=np.uint8(ord("L")))  # by columns the lower triangle, by rows the upper one
    return upper.T, (info == 0) & jnp.isfinite(upper[-1, -1])  # OpenBLAS lets NaN pass


@functools.cache
def _load_lapack() -> None:
    """JAX looks up LAPACK's functions when it translates its first factorisation; a call by name crashes before that."""
    jax.jit(jnp.linalg.cholesky).trace(jax.ShapeDtypeStruct((1, 1), np.float64)).lower(lowering_platforms=("cpu",))


def cholesky_solve(lower: Float[Array, "size size"], rhs: Float[Array, "size *columns"]) -> Float[Array, "size *columns"]:
    r"""$(LL^T)^{-1} b$."""
    return cho_solve((lower, True), rhs)


def half_solve(lower: Float[Array, "size size"], rhs: Float[Array, "size *columns"]) -> Float[Array, "size *columns"]:
    r"""$L^{-1} b$, so that $|L^{-1}b|^2 = b^T (LL^T)^{-1} b$."""
    return solve_triangular(lower, rhs, lower=True)


def second_half_solve(lower: Float[Array, "size size"], rhs: Float[Array, "size *columns"]) -> Float[Array, "size *columns"]:
    r"""$L^{-T} b$: `solve` is one after the other."""
    return solve_triangular(lower, rhs, lower=True, trans="T")
