"""The patches of consensus: six of those that cover 300 points, with the points that each of them owns."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import gpde
from gpde import laplacian
from gpde.collocation.cover import cover

jax.config.update("jax_enable_x64", True)


def exact(x):
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])


problem = gpde.Problem(
    domain=gpde.Box((0.0, 0.0), (1.0, 1.0)),
    equations={"interior": lambda u, x: laplacian(u)(x) - laplacian(exact)(x), "boundary": lambda u, x: u(x)},
    reference=exact,
    name="cover_of_patches",
    defaults=gpde.Defaults(kernel=gpde.Gaussian(0.3), num_interior=240, num_boundary=60, nugget=1e-10),
)

if __name__ == "__main__":
    method = gpde.Consensus(batch_size=24, num_patches=40)
    solution = gpde.solve(problem, method=method)
    print(solution.result)
    points = np.concatenate(list(solution.points.values()))
    patches = cover(points, method.batch_size, 40)
    targets = [(0.2, 0.25), (0.5, 0.2), (0.8, 0.3), (0.25, 0.75), (0.55, 0.6), (0.85, 0.8)]
    chosen = [np.argmin(np.hypot(*(points[patches.centres] - target).T)) for target in targets]
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.plot(*points.T, ".", color="0.8", markersize=4)
    for number, patch in enumerate(chosen):
        members, centre, colour = points[patches.members[patch]], points[patches.centres[patch]], f"C{number}"
        reach = np.hypot(*(members - centre).T).max()
        axes.add_patch(Circle(tuple(centre), reach, facecolor=colour, alpha=0.08, edgecolor=colour))
        axes.plot(*members.T, "o", color=colour, fillstyle="none", markersize=5)
        axes.plot(*points[patches.owner == patch].T, "o", color=colour, markersize=5)
    axes.set(aspect="equal", xticks=[], yticks=[], title="six patches: members as rings, owned points filled")
    figure.savefig("cover.png", dpi=110)
