"""Print levels, their lengths and best returns: ``python -m envs.show NAME``."""

from envs.view.show import main

if __name__ == "__main__":
    main()
