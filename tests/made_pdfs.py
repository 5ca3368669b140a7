"""Small PDFs, written byte by byte, so that a test says exactly what is in its document."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

PASSWORD_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


@dataclass(frozen=True)
class MadePage:
    """Lines of text from the top down, and an optional picture under them."""

    lines: Sequence[str] = ()
    picture: Image.Image | None = None
    """Grey; fills the page."""
    invisible: bool = False
    """Text render mode 3, as OCR programs write it."""
    size: tuple[int, int] = (612, 792)
    line_step: int = 24


def write_pdf(path: Path, pages: Sequence[MadePage], password: str = "") -> Path:
    """Write a PDF of ``pages``; with a password it is encrypted (RC4, 40 bits)."""
    objects: dict[int, tuple[bytes, bytes | None]] = {1: (b"<< /Type /Catalog /Pages 2 0 R >>", None)}
    objects[3] = (b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>", None)
    kids = []
    for page in pages:
        number = len(objects) + 2
        kids.append(f"{number} 0 R")
        resources = "/Font << /F 3 0 R >>"
        if page.picture is not None:
            pixels = page.picture.convert("L")
            head = f"/Type /XObject /Subtype /Image /Width {pixels.width} /Height {pixels.height}"
            head += " /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /FlateDecode"
            objects[number + 2] = (head.encode(), zlib.compress(pixels.tobytes()))
            resources += f" /XObject << /I {number + 2} 0 R >>"
        box = f"[0 0 {page.size[0]} {page.size[1]}]"
        head = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Resources << {resources} >> /Contents {number + 1} 0 R >>"
        )
        objects[number] = (head.encode(), None)
        objects[number + 1] = (b"", _content(page))
    objects[2] = (f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode(), None)
    trailer = "/Root 1 0 R"
    key = b""
    if password:
        key, entry = _encryption(password)
        trailer += f" /Encrypt {entry} /ID [<00> <00>]"
    path.write_bytes(_assemble(objects, trailer, key))
    return path


def _content(page: MadePage) -> bytes:
    out = [f"q {page.size[0]} 0 0 {page.size[1]} 0 0 cm /I Do Q"] if page.picture is not None else []
    out.append("BT /F 12 Tf" + (" 3 Tr" if page.invisible else ""))
    for number, line in enumerate(page.lines):
        text = line.encode("cp1252").decode("latin-1").replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        out.append(f"1 0 0 1 72 {page.size[1] - 80 - page.line_step * number} Tm ({text}) Tj")
    return "\n".join([*out, "ET"]).encode("latin-1")


def _assemble(objects: dict[int, tuple[bytes, bytes | None]], trailer: str, key: bytes) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number in sorted(objects):
        head, stream = objects[number]
        places.append(len(out))
        body = head
        if stream is not None:
            if key:
                stream = rc4(hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10], stream)
            body = b"<< %s /Length %d >>\nstream\n%s\nendstream" % (head, len(stream), stream)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer.encode(), start)
    return bytes(out)


def _encryption(password: str) -> tuple[bytes, str]:
    """Key and /Encrypt dictionary of the standard handler, revision 2 (PDF 1.4, algorithms 3.2 to 3.4)."""
    padded = (password.encode() + PASSWORD_PADDING)[:32]
    owner = rc4(hashlib.md5(padded).digest()[:5], padded)
    permissions = -4
    key = hashlib.md5(padded + owner + permissions.to_bytes(4, "little", signed=True) + b"\0").digest()[:5]
    user = rc4(key, PASSWORD_PADDING)
    return key, f"<< /Filter /Standard /V 1 /R 2 /O <{owner.hex()}> /U <{user.hex()}> /P {permissions} >>"


def rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
