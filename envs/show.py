"""Print levels, their lengths and best returns: ``drest show NAME``."""

import sys

from drest_torch.envs.view.show import main

if __name__ == "__main__":
    sys.exit(main())
