"""PDFs made to do harm, each a few kilobytes: what they ask for is far more than what they are."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from apps.doctor import assemble

PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << %s >> /Contents 4 0 R >>"
FONT = b"/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >>"
TEXT = b"BT /F 12 Tf 72 700 Td (Read the height at every full hour.) Tj ET"


def stream(content: bytes, head: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (head, len(content), content)


def one_page(
    content: bytes = TEXT, catalog: bytes = b"", head: bytes = b"", more: Sequence[bytes] = (), resources: bytes = FONT
) -> bytes:
    """One page with this content stream; ``more`` objects are numbered from 5."""
    return assemble(
        [
            b"<< /Type /Catalog /Pages 2 0 R %s >>" % catalog,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            PAGE % resources,
            stream(content, head),
            *more,
        ]
    )


def endless() -> bytes:
    """Keeps PDFium busy for years: forms that draw a form ten times each, fifteen levels deep."""
    depth = 15
    forms = []
    for level in range(depth):
        last = level == depth - 1
        below = b"" if last else b"/Resources << /XObject << /X %d 0 R >> >>" % (level + 6)
        head = b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] " + below
        forms.append(stream(b"0 0 10 10 re f" if last else b"/X Do " * 10, head))
    return one_page(b"/X Do", more=forms, resources=b"/XObject << /X 5 0 R >>")


def packed(content: bytes, times: int) -> bytes:
    """A page whose content stream unpacks to ``content`` repeated, packed twice so that megabytes become bytes."""
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush the packer knows nothing of what came before, so the same bytes may be written again.
    block = squeezed.compress(content) + squeezed.flush(zlib.Z_FULL_FLUSH)
    check = 1
    for _ in range(times):
        check = zlib.adler32(content, check)
    once = b"\x78\xda" + block * times + squeezed.flush() + check.to_bytes(4, "big")
    return one_page(zlib.compress(once, 9), head=b"/Filter [/FlateDecode /FlateDecode]")


def many_pages(count: int, own_objects: bool = True) -> bytes:
    """A document of ``count`` pages with a line each; without ``own_objects`` the number is only claimed."""
    if not own_objects:
        objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count %d >>" % count]
        return assemble([*objects, PAGE % FONT, stream(TEXT)])
    kids = b" ".join(b"%d 0 R" % (number + 5) for number in range(count))
    return assemble(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>",
            stream(TEXT),
            *[PAGE % FONT] * count,
        ]
    )


def with_script(listed: bool) -> bytes:
    """JavaScript in the action on opening, with a program to launch after it; ``listed`` in the name tree too."""
    catalog = b"/Names << /JavaScript << /Names [(a) 5 0 R] >> >> " * listed + b"/OpenAction 6 0 R"
    script = (
        b"<< >>" if not listed else b"<< /Type /Action /S /JavaScript /JS (app.launchURL\\('http://example.com'\\)) >>"
    )
    launch = b"<< /Type /Action /S /Launch /F (/bin/sh) >>"
    return one_page(catalog=catalog, more=[script, b"<< /S /JavaScript /JS (app.alert\\(1\\)) /Next 7 0 R >>", launch])


def with_attachment(name: bytes = b"../../evil.exe") -> bytes:
    catalog = b"/Names << /EmbeddedFiles << /Names [(%s) 5 0 R] >> >>" % name
    file = b"<< /Type /Filespec /F (%s) /UF (%s) /EF << /F 6 0 R >> >>" % (name, name)
    return one_page(catalog=catalog, more=[file, stream(b"MZ attached and never read", b"/Type /EmbeddedFile")])
