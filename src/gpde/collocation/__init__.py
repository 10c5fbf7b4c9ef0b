"""A problem on points: functionals, residuals, the layout of the latent vector, neighbours and covers."""
