"""Sources, rasters and the text layer, on PDFs written by hand so that every operator is known."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image

from docvision.pdf import SourceError, open_source, parse_page_range

FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def write_pdf(path: Path, pages: list[str], box: str = "0 0 300 200", extra: str = "") -> Path:
    """A PDF with one content stream a page and Helvetica as /F1."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>", FONT]
    for index, content in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] {extra} /Contents {5 + 2 * index} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content.encode('latin-1'))} >>\nstream\n{content}\nendstream")
    out, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n".encode()
    path.write_bytes(out + f"startxref\n{out.rindex(b'xref')}\n%%EOF\n".encode())
    return path


def text(content: str, x: float, y: float, size: float = 12, before: str = "") -> str:
    return f"BT {before} /F1 {size} Tf {x} {y} Td ({content}) Tj ET"


def words_of(path: Path, page: int = 1) -> list[str]:
    with open_source(path) as source:
        return [word.text for word in source.page(page).layer().words]


def code_of(path: Path, password: str = "") -> str:
    with pytest.raises(SourceError) as caught:
        open_source(path, password)
    assert "\n" not in str(caught.value)
    return caught.value.code


def test_word_boxes_are_points_from_the_top_left(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [text("Hello world", 50, 150, 20)])
    with open_source(path) as source:
        page = source.page(1)
        assert (source.kind, source.page_count, page.width, page.height) == ("pdf", 1, 300, 200)
        hello, world = page.layer().words
    assert (hello.text, world.text, hello.size, hello.font) == ("Hello", "world", 20, "Helvetica")
    assert hello.box.x0 == pytest.approx(50, abs=2) and hello.box.y0 < 50 < hello.box.y1
    assert world.box.x0 > hello.box.x1


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_rotation_and_crop_box_apply_to_words_and_raster_alike(tmp_path: Path, turn: int) -> None:
    """Dark pixels of a page with one word lie inside the word's box, however the page is turned and cropped."""
    extra = f"/Rotate {turn} /CropBox [20 10 280 190]"
    path = write_pdf(tmp_path / "a.pdf", [text("HHHHHH", 60, 120, 24)], extra=extra)
    with open_source(path) as source:
        page = source.page(1)
        (word,) = page.layer().words
        angle = page.layer().angle(0)
        image = page.raster(72, "pdfium").convert("L").point(lambda value: 255 * (value < 128))
    assert image.size == (round(page.width), round(page.height))
    assert {page.width, page.height} == {260, 180} and page.rotation == turn
    x0, y0, x1, y1 = image.getbbox()
    assert word.box.x0 - 2 <= x0 and word.box.y0 - 2 <= y0 and x1 <= word.box.x1 + 2 and y1 <= word.box.y1 + 2
    assert angle == (360 - turn) % 360


def test_engines_agree_on_the_size(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [text("x", 50, 50)])
    with open_source(path) as source:
        assert source.page(1).raster(144).size == source.page(1).raster(144, "pdfium").size == (600, 400)


def test_huge_pages_are_rendered_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docvision.pdf.MAX_RASTER_PIXELS", 1_000_000)
    path = write_pdf(tmp_path / "a.pdf", [text("x", 50, 50)], box="0 0 14000 14000")
    with open_source(path) as source:
        width, height = source.page(1).raster(300, "pdfium").size
    assert 900_000 < width * height < 1_010_000


def test_spaces_come_from_gaps_and_letter_spacing_does_not_cut_words(tmp_path: Path) -> None:
    kerned = "BT /F1 12 Tf 20 150 Td [(one) -300 (two)] TJ ET"
    spaced = "BT /F1 12 Tf 2 Tc 20 100 Td (HEADING WORDS) Tj ET"
    assert words_of(write_pdf(tmp_path / "a.pdf", [kerned])) == ["one", "two"]
    assert words_of(write_pdf(tmp_path / "b.pdf", [spaced])) == ["HEADING", "WORDS"]


def test_a_raised_mark_stays_with_its_word(tmp_path: Path) -> None:
    content = "BT /F1 12 Tf 20 150 Td (cm) Tj /F1 7 Tf 5 Ts (2) Tj /F1 12 Tf 0 Ts ( next) Tj ET"
    assert words_of(write_pdf(tmp_path / "a.pdf", [content])) == ["cm\u00b2", "next"]


def test_overprinted_text_counts_once(tmp_path: Path) -> None:
    shadow = text("Shadow", 20, 150) + " " + text("Shadow", 20.4, 149.7)
    assert words_of(write_pdf(tmp_path / "a.pdf", [shadow])) == ["Shadow"]


def test_letters_doubled_in_a_word_stay(tmp_path: Path) -> None:
    assert words_of(write_pdf(tmp_path / "a.pdf", [text("difference coffee aaa", 20, 150)])) == [
        "difference",
        "coffee",
        "aaa",
    ]


def test_accents_set_apart_join_their_letter(tmp_path: Path) -> None:
    """Old typesetters print the accent first, at the place of the letter, or after the whole line."""
    before = "BT /F1 12 Tf 20 150 Td (Caf) Tj [(\\264) 333 (e)] TJ ET"
    assert words_of(write_pdf(tmp_path / "a.pdf", [before])) == ["Caf\u00e9"]
    after = "BT /F1 12 Tf 20 150 Td (a line) Tj ET " + text("\\264", 21.3, 150)
    assert words_of(write_pdf(tmp_path / "b.pdf", [after])) == ["\u00e1", "line"]


def test_unseen_text_is_kept_apart(tmp_path: Path) -> None:
    content = " ".join(
        [
            text("seen", 20, 150),
            text("invisible", 20, 120, before="3 Tr"),
            "BT 0 Tr 1 1 1 rg /F1 12 Tf 20 90 Td (white) Tj ET",
            text("outside", 900, 60, before="0 0 0 rg"),
        ]
    )
    path = write_pdf(tmp_path / "a.pdf", [content])
    with open_source(path) as source:
        layer = source.page(1).layer()
    assert [word.text for word in layer.words] == ["seen"]
    assert sorted(word.text for word in layer.hidden) == ["invisible", "outside", "white"]


def test_white_text_on_paint_is_seen(tmp_path: Path) -> None:
    content = "0 0 0.5 rg 10 80 100 30 re f 1 1 1 rg " + text("white", 20, 90)
    path = write_pdf(tmp_path / "a.pdf", [content])
    with open_source(path) as source:
        layer = source.page(1).layer()
    assert [word.text for word in layer.words] == ["white"]
    assert [tuple(map(round, box)) for box in layer.fills] == [(10, 90, 110, 120)]


def test_lines_rectangles_and_curves_are_told_apart(tmp_path: Path) -> None:
    content = "1 w 10 100 m 200 100 l S 20 20 40 30 re S 50 150 m 60 180 80 180 90 150 c S " + text("x", 250, 20)
    path = write_pdf(tmp_path / "a.pdf", [content])
    with open_source(path) as source:
        layer = source.page(1).layer()
    assert len(layer.rules) == 5 and len(layer.drawings) == 1 and not layer.fills
    assert any(
        rule.width == pytest.approx(190, abs=2) and rule.y0 == pytest.approx(99.5, abs=1) for rule in layer.rules
    )


def test_boxes_stay_finite_and_on_the_page(tmp_path: Path) -> None:
    content = text("partly off the page", 250, 5, 40) + " " + text("tiny", 20, 50, 0.01)
    path = write_pdf(tmp_path / "a.pdf", [content])
    with open_source(path) as source:
        layer = source.page(1).layer()
    for word in layer.words + layer.hidden:
        assert 0 <= word.box.x0 <= word.box.x1 <= 300 and 0 <= word.box.y0 <= word.box.y1 <= 200


def test_errors_have_codes(tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").write_bytes(b"")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing here")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 40)
    (tmp_path / "notes.txt").write_text("just text")
    codes = [code_of(tmp_path / name) for name in ("none.pdf", "empty.pdf", "broken.pdf", "broken.png", "notes.txt")]
    assert codes == ["missing", "empty", "corrupt", "corrupt", "not-supported"]
    assert code_of(tmp_path) == "not-supported"
    path = write_pdf(tmp_path / "a.pdf", [text("x", 20, 20)])
    with open_source(path) as source, pytest.raises(SourceError) as caught:
        source.page(2)
    assert caught.value.code == "page-out-of-range"


def test_pages_outlive_their_source(tmp_path: Path) -> None:
    """Closing the document closes its pages; dropping a page afterwards must not free it twice."""
    path = write_pdf(tmp_path / "a.pdf", [text("x", 20, 20)])
    with open_source(path) as source:
        page = source.page(1)
    del page
    source.close()


def test_many_pages_do_not_pile_up(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [text(f"page {number}", 20, 20) for number in range(1, 41)])
    with open_source(path) as source:
        texts = [" ".join(word.text for word in page.layer().words) for page in source.pages()]
    assert texts == [f"page {number}" for number in range(1, 41)]


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tiff"])
def test_images_are_pages(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scan.{suffix}"
    Image.new("RGB", (400, 200), "white").save(path, dpi=(200, 200))
    with open_source(path) as source:
        page = source.page(1)
        assert source.kind == "image" and source.page_count == 1 and page.layer() is None
        dpi = 72 if suffix == "webp" else 200  # WebP carries no resolution
        assert (page.width, page.height) == pytest.approx((400 * 72 / dpi, 200 * 72 / dpi), rel=1e-3)
        assert page.raster(dpi).size == (400, 200)


def test_tiff_pages_exif_turns_and_transparency(tmp_path: Path) -> None:
    first, second = Image.new("L", (30, 20), 0), Image.new("L", (50, 40), 255)
    first.save(tmp_path / "a.tiff", save_all=True, append_images=[second])
    with open_source(tmp_path / "a.tiff") as source:
        assert [page.raster(72).size for page in source.pages()] == [(30, 20), (50, 40)]
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / "b.jpg", exif=exif)
    with open_source(tmp_path / "b.jpg") as source:
        assert source.page(1).raster(72).size == (20, 30)
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(tmp_path / "c.png")
    with open_source(tmp_path / "c.png") as source:
        assert source.page(1).raster(72).getpixel((5, 5)) == (255, 255, 255)


def test_too_many_pixels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docvision.pdf.MAX_IMAGE_PIXELS", 5_000)
    Image.new("L", (100, 100)).save(tmp_path / "big.png")
    assert code_of(tmp_path / "big.png") == "too-large"


def test_form_values_are_text(tmp_path: Path) -> None:
    """A text note with its own appearance is read where it is drawn, as form fields are."""
    path = write_pdf(tmp_path / "a.pdf", [text("Label", 20, 150)])
    document = pypdfium2.PdfDocument(path)
    raw = pypdfium2.raw
    page = document[0]
    note = raw.FPDFPage_CreateAnnot(page, raw.FPDF_ANNOT_STAMP)
    raw.FPDFAnnot_SetRect(note, raw.FS_RECTF(100, 165, 200, 140))
    item = raw.FPDFPageObj_NewTextObj(document, b"Helvetica", 12)
    value = "value".encode("utf-16-le") + b"\0\0"
    raw.FPDFText_SetText(item, ctypes.cast(ctypes.create_string_buffer(value), ctypes.POINTER(ctypes.c_ushort)))
    raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, 105, 150)
    assert raw.FPDFAnnot_AppendObject(note, item)
    raw.FPDFPage_CloseAnnot(note)
    document.save(tmp_path / "b.pdf")
    document.close()
    assert words_of(tmp_path / "b.pdf") == ["Label", "value"]


@pytest.mark.parametrize(
    ("selection", "pages"),
    [
        ("1-5,8,r2-r1", [1, 2, 3, 4, 5, 8, 9, 10]),
        ("r1", [10]),
        ("3,1,3", [3, 1]),
        ("4-2", [4, 3, 2]),
        ("9-", [9, 10]),
        ("-2", [1, 2]),
        ("", list(range(1, 11))),
        ("all", list(range(1, 11))),
    ],
)
def test_page_selections(selection: str, pages: list[int]) -> None:
    assert parse_page_range(selection, 10) == pages


@pytest.mark.parametrize("selection", ["0", "11", "r11", "1-11", "x", "1,,2", "-", "1.5", "2 3"])
def test_bad_page_selections(selection: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_page_range(selection, 10)
    assert caught.value.code == "page-out-of-range"


def test_pages_may_be_numbers() -> None:
    assert parse_page_range(2, 5) == [2]
    assert parse_page_range([4, 2, 4], 5) == [4, 2]
    assert parse_page_range(range(1, 4), 5) == [1, 2, 3]
    for wrong in (0, -1, [], [1, 0], [9]):
        with pytest.raises(SourceError, match="page"):
            parse_page_range(wrong, 5)
