"""Print levels, their lengths and best returns: ``python -m envs.show NAME``."""

import sys

from envs.view.show import main

if __name__ == "__main__":
    sys.exit(main())
