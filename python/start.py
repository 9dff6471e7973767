"""Entry point of the host process: moves the protocol off the standard streams, then serves."""

import sys


def main() -> int:
    """Runs the host until its runtime goes away."""
    from hermes_host import stdio

    reader, writer = stdio.take_over()
    from hermes_host.server import Server

    return Server(reader, writer).serve()


if __name__ == "__main__":
    sys.exit(main())
