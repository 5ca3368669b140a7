"""Annotation of folders: regions, duplicates, resuming, failures, the command line."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from data_pipeline import annotate
from data_pipeline.gather import ROW_SCHEMA, Votes
from data_pipeline.page_rows import read_parts
from data_pipeline.phash import HashIndex, distance, perceptual_hash
from data_pipeline.regions import find_regions
from docvision.page import Box

FONT = ImageFont.load_default(18)
PARAGRAPHS = (
    "The harbour was dredged in the spring\nand the tide gauge moved to the new\nquay, where it has stood since then.",
    "Of eleven sheets that were returned,\nfour had been corrected by hand and\ntwo were missing altogether.",
    "Readings begin at noon on each day\nand are written down by the keeper,\nwho signs them in the last column.",
)


def draw_page(*items: tuple[int, int, str], size: tuple[int, int] = (900, 700)) -> Image.Image:
    page = Image.new("L", size, 255)
    for x, y, text in items:
        ImageDraw.Draw(page).multiline_text((x, y), text, fill=0, font=FONT, spacing=8)
    return page


# Looking alike


def test_hash_survives_scanning_and_tells_pages_apart() -> None:
    pages = [draw_page((20, 20, text), size=(420, 120)) for text in PARAGRAPHS]
    for page in pages:
        stream = io.BytesIO()
        page.resize((357, 102)).filter(ImageFilter.GaussianBlur(0.6)).save(stream, "JPEG", quality=60)
        assert distance(perceptual_hash(page), perceptual_hash(Image.open(stream))) <= 4
    assert all(
        distance(perceptual_hash(one), perceptual_hash(two)) > 8
        for number, one in enumerate(pages)
        for two in pages[:number]
    )


@pytest.mark.parametrize("reach", [0, 1, 4, 9])
def test_hash_index_misses_nothing(reach: int) -> None:
    """Against comparison with all; neighbours are made, since random hashes are about 32 apart."""
    rng = np.random.default_rng(reach)
    base = [int(value) for value in rng.integers(0, 2**63, 6)]
    values = [
        value ^ sum(1 << int(bit) for bit in rng.choice(64, int(rng.integers(0, 14)), replace=False))
        for value in base
        for _ in range(20)
    ]
    index = HashIndex(reach)
    for item, value in enumerate(values):
        index.add(value, item)
    for value in base:
        near = sorted((distance(value, other), item) for item, other in enumerate(values))
        assert index.near(value) == [pair for pair in near if pair[0] <= reach]


# Regions


def test_regions_come_in_reading_order() -> None:
    """A heading over two columns, the left one of two paragraphs, and a ruled table below all."""
    page = draw_page(
        (40, 30, "A heading across both columns of the page, set in one line"), (40, 110, PARAGRAPHS[0]),
        (40, 250, PARAGRAPHS[1]), (480, 110, f"{PARAGRAPHS[2]}\n{PARAGRAPHS[1]}"),
    )  # fmt: skip
    pen = ImageDraw.Draw(page)
    for y in (460, 500, 540, 580):
        pen.line((40, y, 700, y), fill=0, width=2)
    for x in (40, 300, 500, 700):
        pen.line((x, 460, x, 580), fill=0, width=2)
        for y in (468, 508, 548):
            pen.text((x + 10, y), "1912" if x < 700 else "", fill=0, font=FONT)
    found = find_regions(page)
    assert [region.kind for region in found] == ["text"] * 4 + ["table"]
    corners = np.array([region.box[:2] for region in found])
    assert np.abs(corners - [(40, 30), (40, 110), (40, 250), (480, 110), (40, 460)]).max() < 10
    assert found[4].box.iou(Box(40, 460, 701, 581)) > 0.95


def test_blank_pages_and_pictures_are_no_text() -> None:
    assert find_regions(Image.new("L", (500, 700), 255)) == []
    page = draw_page((40, 30, PARAGRAPHS[0]))
    ImageDraw.Draw(page).ellipse((200, 300, 500, 600), outline=0, width=5)
    assert [region.kind for region in find_regions(page)] == ["text", "figure"]


# A folder


class Echo:
    """Says the size of a picture, or what it is told to say; counts what it was asked."""

    def __init__(self, name: str, say: Callable[[Image.Image], str] = lambda image: f"{image.width} {image.height}"):
        self.name, self.say, self.asked = name, say, 0

    def __call__(self, images: list[Image.Image], kind: str) -> list[str]:
        self.asked += len(images)
        return [self.say(image) for image in images]


def quiet(line: str) -> None:
    """Reports are tested where they are printed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pages: a picture, and a two-page TIFF in a sub-folder whose second page repeats the picture."""
    inside = tmp_path / "in" / "sub"
    inside.mkdir(parents=True)
    first = draw_page((40, 40, PARAGRAPHS[0]), (40, 300, PARAGRAPHS[1]))
    draw_page((60, 60, PARAGRAPHS[2])).save(inside / "two.tif", save_all=True, append_images=[first])
    first.save(tmp_path / "in" / "one.png")
    return tmp_path / "in"


def rows_of(out: Path) -> list[dict]:
    return list(read_parts(out))


def test_a_folder_from_start_to_end(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    liar = Echo("liar", lambda image: "not at all")
    marker = annotate.annotate_folder(folder, out, [Echo("a"), liar, Echo("b")], report=quiet)
    rows = rows_of(out)
    assert marker["pages"] == 3 and not marker["failed"] and marker["decisions"] == {"keep": 3, "drop": 2}
    assert json.loads((out / "_SUCCESS").read_text())["count"] == len(rows) == 5
    assert [row["decision"] for row in rows] == ["keep"] * 3 + ["drop"] * 2
    assert [row["reason"] for row in rows[3:]] == [f"duplicate of region {n}, 0 bits of 64 apart" for n in (0, 1)]
    assert [(row["source"], row["page"], row["index"]) for row in rows[:3]] == [
        ("one.png", 1, 0), ("one.png", 1, 1), ("sub/two.tif", 1, 2),
    ]  # fmt: skip
    for row in rows:
        with Image.open(io.BytesIO(row["image"]["bytes"])) as picture:
            assert picture.size == (row["width"], row["height"])
            assert [one["text"] for one in row["candidates"]] == [f"{picture.width} {picture.height}", "not at all"] + [
                f"{picture.width} {picture.height}"
            ]
    assert rows[0]["text"] == f"{rows[0]['width']} {rows[0]['height']}"
    assert rows[3]["text"] is None, "a row without a label never passes for one of an empty picture"
    assert rows[0]["candidates"][0]["similarity"] > rows[0]["candidates"][1]["similarity"]


def test_resuming_reads_only_what_is_new(folder: Path, tmp_path: Path) -> None:
    out, readers = tmp_path / "out", [Echo("a"), Echo("b")]
    annotate.annotate_folder(folder, out, readers, report=quiet)
    before, asked = rows_of(out), readers[0].asked
    annotate.annotate_folder(folder, out, readers, report=quiet)
    assert rows_of(out) == before and readers[0].asked == asked == 5
    draw_page((40, 500, PARAGRAPHS[2].upper())).save(folder / "three.png")
    annotate.annotate_folder(folder, out, readers, report=quiet)
    assert readers[0].asked == asked + 1 and len(rows_of(out)) == 6
    with pytest.raises(ValueError, match="made with another annotators: give -o a new folder"):
        annotate.annotate_folder(folder, out, [Echo("a"), Echo("c")], report=quiet)


def test_another_threshold_needs_no_reading(folder: Path, tmp_path: Path) -> None:
    out, readers = tmp_path / "out", [Echo("a"), Echo("b", lambda image: f"{image.width} {image.height}!")]
    marker = annotate.annotate_folder(folder, out, readers, votes=Votes(threshold=0.99), report=quiet)
    assert marker["decisions"] == {"hard": 3, "drop": 2} and not any(row["text"] for row in rows_of(out))
    marker = annotate.annotate_folder(folder, out, readers, votes=Votes(threshold=0.8), report=quiet)
    assert marker["decisions"] == {"keep": 3, "drop": 2} and readers[0].asked == 5


def test_a_failure_costs_only_itself_and_is_tried_again(folder: Path, tmp_path: Path) -> None:
    """A damaged file, a finder that fails on one page, and an annotator that fails on one picture."""
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    broken = True

    def moody(image: Image.Image) -> str:
        if broken and image.width > 315:  # the upper paragraph is the wider
            raise RuntimeError("no\nmood")
        return "all the same"

    def finder(image: Image.Image) -> list:
        found = find_regions(image)
        if broken and found[0].box.x0 > 50:
            raise RuntimeError("cannot cut")
        return found

    out, readers = tmp_path / "out", [Echo("a", lambda image: "all the same"), Echo("b", moody)]
    marker = annotate.annotate_folder(folder, out, readers, finder=finder, report=quiet)
    failed = {(one["source"], one["page"]): one["error"] for one in marker["failed"]}
    assert failed.keys() == {("broken.pdf", 0), ("sub/two.tif", 1)} and marker["pages"] == 2
    assert failed["sub/two.tif", 1] == "RuntimeError: cannot cut"
    rows = rows_of(out)
    errors = [one["error"] for row in rows for one in row["candidates"] if one["error"]]
    assert errors and set(errors) == {"RuntimeError: no mood"} and marker["errors"] == {"b": len(errors)}
    assert any(not row["candidates"][1]["error"] for row in rows), "the other pictures of the batch were read"
    broken = False
    marker = annotate.annotate_folder(folder, out, readers, finder=finder, report=quiet)
    assert [one["source"] for one in marker["failed"]] == ["broken.pdf"] and not marker["errors"]


def test_an_interruption_keeps_finished_pages(folder: Path, tmp_path: Path) -> None:
    asked = 0

    def stop(image: Image.Image) -> str:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt
        return "x"

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        annotate.annotate_folder(folder, out, [Echo("a"), Echo("b", stop)], report=quiet)
    assert len(list((out / "pages").iterdir())) == 1 and not (out / "_SUCCESS").exists()
    first = Echo("a")
    marker = annotate.annotate_folder(folder, out, [first, Echo("b")], report=quiet)
    assert first.asked == 3 and marker["pages"] == 3


def test_command_line(folder: Path, tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    specs = [
        "--annotators",
        f"a=command:{program} - {{kind}} {{image}},b=command:{program} {{out}} {{kind}} {{images}}",
    ]
    out = ["-o", str(tmp_path / "out")]
    assert annotate.main([str(folder), *out, *specs]) == 0
    shown = capsys.readouterr().out
    assert "one.png page 1: 2 regions" in shown and '"keep": 3' in shown
    assert annotate.main([str(folder), *out, *specs, "--dpi", "200"]) == 2
    assert "made with another dpi" in capsys.readouterr().err
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    assert annotate.main([str(folder), *out, *specs]) == 3
    assert "failed: broken.pdf page 0" in capsys.readouterr().err
    assert annotate.main([str(folder / "broken.pdf"), "-o", str(tmp_path / "none"), *specs]) == 1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--annotators", "tesserct"], "unknown annotator 'tesserct'"),
        (["--annotators", "command:cat {image}"], "1 annotator: a majority needs two"),
        (["--annotators", "command:cat {image},command:cat {image}"], "two annotators are called cat"),
        (["--annotators", "command:cat {image},b=command:cat {image}"], "holds no file to read"),
        (["--threshold", "1.5"], "threshold is 1.5"),
        (["--hamming", "64"], "hamming distance is 64"),
        (["--dpi", "7"], "dpi is 7"),
    ],
)
def test_wrong_use_is_one_line(
    options: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert annotate.main([str(tmp_path / "empty"), "-o", str(tmp_path / "out"), *options]) == 2
    said = capsys.readouterr().err
    assert fault in said and said.count("\n") == 1


def test_rows_have_the_columns_that_line_training_reads() -> None:
    from data_pipeline.shards import LINE_SCHEMA

    for name in ("image", "text", "width", "kind"):
        assert ROW_SCHEMA.field(name).type == LINE_SCHEMA.field(name).type
