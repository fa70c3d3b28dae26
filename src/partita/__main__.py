"""`python -m partita` is the command `partita`."""

from .cli.main import main

if __name__ == "__main__":
    main()
