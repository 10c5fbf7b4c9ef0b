"""Algorithm 1 with a growing proximal weight tends to the consensus solution over the same patches.

Both minimise the same objective: Algorithm 1 a sampled patch at a time, consensus all patches at once. The distance between
their values at the points falls along the run; at a fixed weight it would stop at a floor.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import gpde
from gpde import laplacian

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])


def left_side(u, x):
    return -laplacian(u)(x) + u(x) ** 3


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={"interior": lambda u, x: left_side(u, x) - left_side(exact, x), "boundary": lambda u, x: u(x)},
    reference=exact,
    name="from_mini_batch_to_consensus",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.3), num_interior=100, num_boundary=60, nugget=1e-10),
)

if __name__ == "__main__":
    num_values = 160  # the values of u come first in the latent vector
    # Patches of the nearest points whatever they are, as in Algorithm 1.
    solution = gpde.solve(problem, method=gpde.Consensus(batch_size=32, num_patches=160, known_share=1.0))
    method = gpde.MiniBatch(batch_size=32, num_steps=6_000, proximal_weight="geometric(10, 1e6)")
    steps, distances = [], []

    def watch(progress):
        values = np.asarray(progress.latent)[:num_values]
        steps.append(progress.num_steps)
        distances.append(np.sqrt(np.mean((values - solution.latent[:num_values]) ** 2)))

    gpde.solve(problem, method=method, callback=watch)
    print(f"consensus {solution.result}; distance of Algorithm 1: {distances[0]:.1e} at first, {distances[-1]:.1e} at the end")
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogy(steps, distances)
    axes.set(xlabel="steps of Algorithm 1", ylabel="rms distance to consensus", title="γ grows from 10 to 10⁶")
    figure.savefig("from_mini_batch_to_consensus.png")
