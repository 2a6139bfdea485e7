"""`python -m sgrl` is the command `sgrl`."""

from sgrl.cli import main

main()
