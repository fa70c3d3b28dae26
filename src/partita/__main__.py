"""The command `partita`, also as `python -m partita`."""

from .cli.ending import Ending
from .cli.interrupts import INTERRUPTED, handle_interrupts


def main() -> None:
    """The entry point. Ctrl-C is handled before the command line is imported."""
    handle_interrupts()
    ending = Ending()
    try:
        from .cli.main import main as command

        command()
    except KeyboardInterrupt:
        ending.code = INTERRUPTED
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as end:
        ending.code = end.code if isinstance(end.code, int) else None
        raise


if __name__ == "__main__":
    main()
