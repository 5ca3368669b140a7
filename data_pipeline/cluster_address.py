"""Addresses of Ray clusters: what is one, and whether anything answers there."""

from __future__ import annotations

import asyncio
import re

PROBE_S = 5.0
"""For the first answer."""


def check_address(text: str) -> str:
    """``auto`` or ``HOST:PORT``, as it was given.

    Raises:
        ValueError: it is neither.
    """
    if text.startswith("ray://"):
        raise ValueError(
            f"{text} is the address of a Ray client: run docvision on a machine of the cluster with --ray auto, or "
            "with the HOST:PORT that 'ray start --head' has printed"
        )
    found = re.fullmatch(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):(\d{1,5})", text)
    if text != "auto" and not (found and 0 < int(found[2]) < 65536):
        raise ValueError(f"{text!r} is no address of a Ray cluster: use auto, or HOST:PORT such as 10.0.0.5:6379")
    return text


def answers(address: str) -> bool:
    """Whether a connection is taken; Ray itself tries for a minute and then ends the process."""
    host, _, port = address.rpartition(":")

    async def knock() -> None:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), PROBE_S)
        writer.close()

    try:
        asyncio.run(knock())
    except (OSError, TimeoutError):
        return False
    return True
