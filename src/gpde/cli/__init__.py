"""The command line. jax and matplotlib are imported inside commands, so that help answers at once."""

from gpde.cli.commands import main as main
