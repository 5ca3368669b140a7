"""What a request must pass before any of it is believed: the host's name, the key, the size of the body.

This is plain ASGI around the application, so nothing of a body is read for a caller without a key, and a body that
grows beyond the limit is cut off while it arrives, whatever its headers said.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from apps.serve.answers import Refusal, ServiceSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/health", "/ready", "/openapi.json")
"""Answered without a key: a watchdog has none."""


class Gate:
    """Lets a request through to ``application``, or refuses it.

    Args:
        application: what answers.
        settings: keys, hosts and limits.
    """

    def __init__(self, application: Application, settings: ServiceSettings) -> None:
        self.application = application
        self.settings = settings
        self._digests = [_digest(key.encode()) for key in settings.keys]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        try:
            self._check_host(headers)
            scope["docvision.owner"] = self._owner(scope["path"], headers)
            limit = self.settings.max_bytes
            if (told := headers.get(b"content-length", b"0")).isdigit() and int(told) > limit:
                raise _too_many_bytes(limit)
        except Refusal as refusal:
            await _refuse(refusal, send)
            return
        await self.application(scope, _counted(receive, limit), send)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """An open service answers under its own names only: a page from elsewhere must not reach it by a trick."""
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.settings.hosts and name.lower() not in self.settings.hosts:
            raise Refusal("wrong-host", f"{name[:80]!r} is not a name of this service")

    def _owner(self, path: str, headers: dict[bytes, bytes]) -> str:
        """Who asks: a digest of the key, the same for all where no key is needed.

        Raises:
            Refusal: ``no-key``.
        """
        if not self._digests or path in OPEN_PATHS:
            return ""
        given = headers.get(b"x-api-key", b"")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if not given and scheme.lower() == b"bearer":
            given = token.strip()
        digest = _digest(given)
        # All are compared, each in constant time, so that time tells nothing about a key.
        if not any([hmac.compare_digest(digest, known) for known in self._digests]):
            raise Refusal("no-key", "the key is wrong" if given else "this service asks for a key")
        return digest.hex()


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _too_many_bytes(limit: int) -> Refusal:
    return Refusal("too-many-bytes", f"a request has {limit / 1e6:g} MB at most here")


def _counted(receive: Receive, limit: int) -> Receive:
    """``receive`` that raises a refusal as soon as more than ``limit`` bytes have come."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            raise _too_many_bytes(limit)
        return message

    return counted


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = refusal.to_json()
    headers = {**refusal.headers(), "Content-Type": "application/json", "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
