"""The command `partita`, also as `python -m partita`."""

from .cli.interrupts import INTERRUPTED, handle_interrupts


def main() -> None:
    """The entry point. Ctrl-C is handled before the command line is imported."""
    handle_interrupts()
    try:
        from .cli.main import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
