"""`python -m tune_cd.replay`: see `--help`."""

import sys

from tune_cd.landscapes.replay import main

if __name__ == "__main__":
    sys.exit(main())
