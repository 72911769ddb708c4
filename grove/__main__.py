"""`python -m grove` is the `grove` command."""

from grove.cli import main

main(prog_name="grove")
