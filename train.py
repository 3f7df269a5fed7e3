"""Trains one config: `python train.py --config=configs/llama.py:tiny --workdir=runs/first`; see
--help.
"""

import sys

from zoo.cli.train import main

if __name__ == "__main__":
    sys.exit(main())
