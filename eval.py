"""Evaluates a run and samples from it: `python eval.py runs/first --lengths 64,128 --sample 200`;
see --help.
"""

import sys

from zoo.cli.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
