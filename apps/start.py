"""The ``docvision`` program: hears Ctrl-C from its first moment, then hands over to the command line.

Nothing is imported before the handler stands; the packages that follow take a good part of a second.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Nothing has been done yet, so there is nothing to put in order."""
    os.write(2, b"docvision: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line and return its exit code."""
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    from apps import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
