"""`python -m sgrl.cli` is the command `sgrl`."""

from sgrl.cli import main

main()
