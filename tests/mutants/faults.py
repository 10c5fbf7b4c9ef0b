"""The faults: a sign, a factor, a swapped index, a dropped term, a missing mask. Each must be found by the suite."""

from typing import NamedTuple


class Fault(NamedTuple):
    """In `file` (below src/gpde) `right` becomes `wrong`; `tests` (below tests) are the ones most likely to see it."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


# The tests of several.
_DERIVATIVES = "kernels/test_kernels.py::test_derivatives_of_a_kernel_are_those_of_its_formula"
_UNUSED = "methods/test_consensus.py::test_equations_that_a_point_does_not_have_say_nothing_whatever_stands_in_their_place"
_GRAM = "collocation/test_collocation.py::test_blocks_are_the_gram_matrix"

FAULTS = (
    Fault("sign of a derivative in the second argument", "kernels/radial.py",
          "(-1) ** sum(beta) * a * b", "a * b", _DERIVATIVES),
    Fault("a Gaussian whose derivatives do not alternate", "kernels/gaussian.py",
          "[(-1) ** k * value for k", "[value for k", _DERIVATIVES),
    Fault("a Matérn off by a factor in its derivatives", "kernels/matern.py",
          "(-2 * self.nu) ** k /", "(-self.nu) ** k /", _DERIVATIVES),
    Fault("binomial coefficients missing from Leibniz's rule", "kernels/compose.py",
          "ways * c))", "c))", _DERIVATIVES),
    Fault("Bell polynomials with a wrong binomial", "kernels/radial.py",
          "math.comb(n - 1, i - 1) * c", "math.comb(n, i - 1) * c", _DERIVATIVES),
    Fault("the derivatives of a circle in the wrong order", "kernels/radial.py",
          "circle = (sin, cos, -sin, -cos)", "circle = (sin, -cos, -sin, cos)", _DERIVATIVES),
    Fault("the lengthscale of the first coordinate for all", "kernels/radial.py",
          "else self.lengthscale[axis]", "else self.lengthscale[0]", _DERIVATIVES),
    Fault("an offset that its derivatives do not lose", "kernels/offset.py",
          "if not any(alpha))", ")", _DERIVATIVES),
    Fault("Grams of several fields that mix them", "functionals/functionals.py",
          "shared = [(kernels[f], terms, right_terms[f])", "shared = [(kernels[0], terms, right_terms[f])",
          "functionals/test_functionals.py"),
    Fault("a block below the diagonal not transposed", "functionals/functionals.py",
          "blocks[j, i] = blocks[i, j].T", "blocks[j, i] = blocks[i, j]", "functionals/test_functionals.py"),
    Fault("a stored block of a Gram matrix not transposed", "functionals/block_gram.py",
          "return self.blocks[j, i].T if", "return self.blocks[j, i] if", _GRAM),
    Fault("products with a Gram matrix without its lower half", "functionals/block_gram.py",
          "if (j, i) not in self.blocks:\n                sums", "if False:\n                sums", _GRAM),
    Fault("the nugget on the wrong rows", "functionals/block_gram.py",
          "add_diagonal(block, diagonal[i : i + len(block)]) if", "add_diagonal(block, diagonal[: len(block)]) if", _GRAM),
    Fault("a factor that is never bad", "linalg/cholesky.py",
          "return lower, jnp.isfinite(lower[-1, -1])", "return lower, jnp.isfinite(matrix[-1, -1])", "linalg/test_cholesky.py"),
    Fault("half of a triangular solve for the other half", "linalg/cholesky.py",
          'lower=True, trans="T")', "lower=True)", "linalg/test_cholesky.py methods/test_full_batch.py"),
    Fault("a line search that accepts what is higher", "linalg/line_search.py",
          "(value <= current + _ROUNDING", "(value <= 2 * current + _ROUNDING", "linalg/test_line_search.py"),
    Fault("a line search that returns the rejected point", "linalg/line_search.py",
          "jnp.where(accepted, new, old), point, start)", "new, point, start)", "linalg/test_line_search.py"),
    Fault("fronts that forget those below them", "linalg/direct.py",
          "_add_at(full, below, left.pop(child))", "left.pop(child)", "linalg/test_linear_solvers.py"),
    Fault("back substitution without its transpose", "linalg/direct.py",
          "_trsv(own, rest, lower=1, trans=1)", "_trsv(own, rest, lower=1)", "linalg/test_linear_solvers.py"),
    Fault("a sum of blocks without the dropped rows' mask", "linalg/block_sum.py",
          "minlength=self.size + 1)[: self.size]", "minlength=self.size + 1)[1 : self.size + 1]",
          "linalg/test_linear_solvers.py"),
    Fault("right sides without the linear part", "collocation/collocation.py",
          'jnp.einsum("ped,pd->pe", a, values) - part.residual(values)', "-part.residual(values)",
          "collocation/test_collocation.py"),
    Fault("observations whose noise is not squared", "collocation/collocation.py",
          "np.asarray(data.noise)[:, None] ** 2", "np.asarray(data.noise)[:, None]", "collocation/test_collocation.py"),
    Fault("the transpose of the rows with swapped parts", "collocation/collocation.py",
          "offset += rows.size", "offset += 0", "collocation/test_collocation.py"),
    Fault("operators whose leading coefficient may be negative", "equations/linear_operators.py",
          "basis[row] /= basis[row, column]", "basis[row] /= abs(basis[row, column])",
          "equations/test_equations.py::test_the_fewest_functionals_are_found"),
    Fault("coefficients of an elimination with the wrong sign", "collocation/point_table.py",
          "without[k] = without[k] + float(c) * gap[e]", "without[k] = without[k] - float(c) * gap[e]",
          "collocation/test_point_table.py"),
    Fault("slots without an equation not masked", "collocation/point_table.py",
          "has_equation[rows, : part.num_equations] = part.weights", "has_equation[rows] = part.weights",
          "collocation/test_point_table.py"),
    Fault("what stands in slots without an equation counted", "collocation/point_table.py",
          "jnp.where(self.has_equation[index], raw - self.rhs[index], 0.0)", "raw - self.rhs[index]",
          "collocation/test_point_table.py"),
    Fault("a period that neighbours do not see", "collocation/neighbours.py",
          "columns += [radius * np.cos(angle), radius * np.sin(angle)]", "columns += [x / scale]",
          "collocation/test_neighbours.py"),
    Fault("a patch whose mean forgets its equations", "methods/consensus/patch.py",
          "inverse.T @ (mean - inverse @ values)", "inverse.T @ (-(inverse @ values))",
          "methods/test_consensus.py::test_one_patch_of_all_points_is_the_full_gp"),
    Fault("a patch without the mask of unused equations on their noise", "methods/consensus/patch.py",
          "noise = jnp.where(used, equations.noise_variance[members].T.reshape(-1), 1.0)",
          "noise = equations.noise_variance[members].T.reshape(-1)",
          _UNUSED),
    Fault("a patch without the mask of unused equations on right sides", "methods/consensus/patch.py",
          "rhs = jnp.where(equations.used, equations.rhs, 0.0)[members]", "rhs = equations.rhs[members]", _UNUSED),
    Fault("a patch without the mask of unused equations on coefficients", "methods/consensus/patch.py",
          "return jnp.where(equations.used[members][..., None], equations.coefficients[members], 0.0)",
          "return equations.coefficients[members]",
          _UNUSED),
    Fault("samples without the overlap of the patches", "methods/consensus/system.py",
          "overlap = members.size / len(fixed)", "overlap = 1.0",
          "methods/test_consensus.py::test_error_bars_are_those_of_the_full_gp_when_data_are_noisy"),
    Fault("the proximal centre without its weight", "methods/mini_batch/proximal.py",
          "pull = weight * prior.metric * ((old", "pull = prior.metric * ((old",
          "methods/test_anchored.py::test_iterating_on_a_linear_problem_ends_at_the_fixed_point_solved_for_directly"),
    Fault("a smoother without the regularization", "methods/mini_batch/proximal.py",
          "jnp.broadcast_to(regularization, (m,))", "jnp.broadcast_to(1.0, (m,))",
          "methods/test_mini_batch.py::test_noisy_observations_pull_by_their_variance_whatever_the_regularization"),
    Fault("bounds that are never released", "methods/mini_batch/active_set.py",
          "return jnp.any(side * new < 0)", "return jnp.any(side * new < -jnp.inf)",
          "methods/test_mini_batch.py::test_the_most_likely_point_in_a_box_is_that_of_bounded_least_squares"),
    Fault("variances that keep what is explained", "methods/representer.py",
          "(points) - jnp.sum(half**2, axis=0))", "(points) - 0.5 * jnp.sum(half**2, axis=0))",
          "methods/test_full_batch.py::test_a_linear_problem_is_solved_by_the_kriging_formula"),
)  # fmt: skip
