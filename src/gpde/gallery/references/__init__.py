"""Reference solutions by classical methods, for problems that have no closed form. Nothing here comes from gpde."""
