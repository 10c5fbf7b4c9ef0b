"""The faults: a sign, a factor, a swapped index, a dropped term, a missing mask. Each must be found by the suite."""

from typing import NamedTuple


class Fault(NamedTuple):
    """In `file` (below src/gpde) `right` becomes `wrong`; `tests` (below tests) are the ones most likely to see it."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


FAULTS = (
    Fault("sign of a derivative in the second argument", "kernels/radial.py",
          "(-1) ** sum(beta) * a * b", "a * b", "kernels"),
    Fault("a Gaussian whose derivatives do not alternate", "kernels/gaussian.py",
          "[(-1) ** k * value for k", "[value for k", "kernels"),
    Fault("a Matérn off by a factor in its derivatives", "kernels/matern.py",
          "(-2 * self.nu) ** k /", "(-self.nu) ** k /", "kernels"),
    Fault("binomial coefficients missing from Leibniz's rule", "kernels/compose.py",
          "ways * c))", "c))", "kernels"),
    Fault("Bell polynomials with a wrong binomial", "kernels/radial.py",
          "math.comb(n - 1, i - 1) * c", "math.comb(n, i - 1) * c", "kernels"),
    Fault("the derivatives of a circle in the wrong order", "kernels/radial.py",
          "circle = (sin, cos, -sin, -cos)", "circle = (sin, -cos, -sin, cos)", "kernels"),
    Fault("the lengthscale of the first coordinate for all", "kernels/radial.py",
          "else self.lengthscale[axis]", "else self.lengthscale[0]", "kernels"),
    Fault("an offset that its derivatives do not lose", "kernels/offset.py",
          "if not any(alpha))", ")", "kernels"),
    Fault("Grams of several fields that mix them", "functionals/functionals.py",
          "shared = [(kernels[f], terms, right_terms[f])", "shared = [(kernels[0], terms, right_terms[f])",
          "functionals collocation methods"),
    Fault("a block below the diagonal not transposed", "functionals/functionals.py",
          "blocks[j, i] = blocks[i, j].T", "blocks[j, i] = blocks[i, j]", "functionals methods"),
    Fault("a stored block of a Gram matrix not transposed", "functionals/block_gram.py",
          "return self.blocks[j, i].T if", "return self.blocks[j, i] if", "collocation functionals"),
    Fault("products with a Gram matrix without its lower half", "functionals/block_gram.py",
          "if (j, i) not in self.blocks:\n                sums", "if False:\n                sums", "collocation methods"),
    Fault("the nugget on the wrong rows", "functionals/block_gram.py",
          "add_diagonal(block, diagonal[i : i + len(block)]) if", "add_diagonal(block, diagonal[: len(block)]) if",
          "collocation methods"),
    Fault("a factor that is never bad", "linalg/cholesky.py",
          "return lower, jnp.isfinite(lower[-1, -1])", "return lower, jnp.isfinite(matrix[-1, -1])", "linalg methods"),
    Fault("half of a triangular solve for the other half", "linalg/cholesky.py",
          'lower=True, trans="T")', "lower=True)", "linalg methods"),
    Fault("a line search that accepts what is higher", "linalg/line_search.py",
          "(value <= current + _ROUNDING", "(value <= 2 * current + _ROUNDING", "linalg"),
    Fault("a line search that returns the rejected point", "linalg/line_search.py",
          "jnp.where(accepted, new, old), point, start)", "new, point, start)", "linalg"),
    Fault("fronts that forget those below them", "linalg/direct.py",
          "_add_at(full, below, left.pop(child))", "left.pop(child)", "linalg"),
    Fault("back substitution without its transpose", "linalg/direct.py",
          "_trsv(own, rest, lower=1, trans=1)", "_trsv(own, rest, lower=1)", "linalg"),
    Fault("a sum of blocks without the dropped rows' mask", "linalg/block_sum.py",
          "minlength=self.size + 1)[: self.size]", "minlength=self.size + 1)[1 : self.size + 1]", "linalg"),
    Fault("right sides without the linear part", "collocation/collocation.py",
          'moved.append(jnp.einsum("ped,pd->pe", a, values) - ', "moved.append(-", "collocation methods"),
    Fault("observations whose noise is not squared", "collocation/collocation.py",
          "np.asarray(data.noise)[:, None] ** 2", "np.asarray(data.noise)[:, None]", "collocation problem"),
    Fault("the transpose of the rows with swapped parts", "collocation/collocation.py",
          "offset += len(terms[0][1])", "offset += 0", "collocation"),
    Fault("an order of derivatives read one too low", "equations/linear_operators.py",
          "basis[row] /= basis[row, column]", "basis[row] /= abs(basis[row, column])", "equations"),
    Fault("coefficients of an elimination with the wrong sign", "collocation/point_table.py",
          "without[k] = without[k] + float(c) * gap[e]", "without[k] = without[k] - float(c) * gap[e]", "collocation methods"),
    Fault("slots without an equation not masked", "collocation/point_table.py",
          "jnp.where(self.has_equation[index], raw - self.rhs[index], 0.0)", "raw - self.rhs[index]", "collocation methods"),
    Fault("a period that neighbours do not see", "collocation/neighbours.py",
          "columns += [radius * np.cos(angle), radius * np.sin(angle)]", "columns += [x / scale]", "collocation"),
    Fault("a patch whose mean forgets its equations", "methods/consensus/patch.py",
          "inverse.T @ (mean - inverse @ values)", "inverse.T @ (-(inverse @ values))", "methods"),
    Fault("a patch without the mask of unused equations", "methods/consensus/patch.py",
          "rhs = jnp.where(equations.used, equations.rhs, 0.0)[members]", "rhs = equations.rhs[members]", "methods"),
    Fault("samples without the overlap of the patches", "methods/consensus/system.py",
          "overlap = members.size / len(fixed)", "overlap = 1.0", "methods"),
    Fault("the proximal centre without its weight", "methods/mini_batch/proximal.py",
          "pull = weight * prior.metric * (old.T", "pull = prior.metric * (old.T", "methods"),
    Fault("a smoother without the regularization", "methods/mini_batch/proximal.py",
          "jnp.broadcast_to(regularization, (m,))", "jnp.broadcast_to(1.0, (m,))", "methods"),
    Fault("bounds released with the wrong sign", "methods/mini_batch/active_set.py",
          "turning = side * new < 0", "turning = side * new > 0", "methods"),
    Fault("variances that keep what is explained", "methods/representer.py",
          "(points) - jnp.sum(half**2, axis=0))", "(points) - 0.5 * jnp.sum(half**2, axis=0))", "methods solution"),
)  # fmt: skip
