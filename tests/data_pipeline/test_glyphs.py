"""Glyph sets: one safe class a character, rows a generator can read; pictures that come back as paper and stamps."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_pipeline import build, card, fonts, glyphs, pictures, render, shards, webdataset
from data_pipeline.glyphs import GlyphOptions
from data_pipeline.pictures import PictureError, PictureOptions

RECIPE = build.Recipe(
    "glyphs", 16, {"characters": "Aa0", "faces": 6, "shares": {"character": 3, "stamp": 1, "paper": 1}}
)


def picture_of(row: dict) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return build.make_rows(RECIPE, 3, range(40))


@pytest.fixture
def folder(tmp_path: Path, rows: list[dict]) -> Path:
    """Papers and stamps as they were drawn, with a broken file, a dark one and a tiny one among them."""
    for row in rows:
        if row["kind"] != "character":
            place = tmp_path / row["label"]
            place.mkdir(exist_ok=True)
            (place / f"{row['index']}.png").write_bytes(row["image"]["bytes"])
    bad = tmp_path / "paper-plain"
    bad.mkdir(exist_ok=True)
    (bad / "cut.png").write_bytes(rows[0]["image"]["bytes"][:40])
    Image.new("L", (20, 20), 30).save(bad / "dark.png")
    Image.new("L", (5, 20), 250).save(bad / "narrow.png")
    (bad / "notes.txt").write_text("not a picture, and not meant to be one")
    return tmp_path


def test_class_names_are_apart_even_where_case_does_not_count():
    names = glyphs.classes(GlyphOptions())
    assert len(names) == 62 + 2 + 4 == len({name.casefold() for name in names})
    assert {"latin-capital-a", "latin-small-a", "digit-zero", "stamp-round", "paper-laid"} <= set(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)
    assert glyphs.class_of("é") == "latin-small-e-with-acute" and glyphs.class_of("/") == "solidus"


def test_rows_hold_what_their_class_says(rows):
    assert {row["kind"] for row in rows} == set(glyphs.KINDS)
    for row in rows:
        image = picture_of(row)
        assert image.shape == (32, 32) and image.dtype == np.uint8
        assert row["label"] == glyphs.class_of(row["text"]) if row["kind"] == "character" else row["text"] == ""
        assert row["label"].startswith(("latin-", "digit-", "stamp-", "paper-"))
    clean = [glyphs.sample_glyph(np.random.default_rng(k), GlyphOptions(difficulty=(0, 0), faces=6)) for k in range(30)]
    spread = {
        kind: [np.ptp(picture_of(row)) for row in clean if row["kind"] == kind] for kind in ("character", "stamp")
    }
    assert min(spread["character"]) > 60, "a character without ink"


def test_small_letters_are_smaller_than_capitals():
    """Case must show: o and O differ in size alone."""

    def ink(text: str) -> float:
        options = GlyphOptions(characters=text, shares={"character": 1.0}, difficulty=(0, 0), faces=6)
        images = [picture_of(glyphs.sample_glyph(np.random.default_rng(k), options)).astype(float) for k in range(12)]
        tall = [np.flatnonzero((image < image.max() - 40).any(1)) for image in images]
        return float(np.median([rows[-1] - rows[0] for rows in tall if len(rows)]))

    assert ink("o") + 3 < ink("O")


def test_same_seed_same_bytes(rows):
    assert build.make_rows(RECIPE, 3, range(20, 24)) == rows[20:24]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shares": {"letter": 1.0}}, "unknown kind of glyph 'letter': use some of character, stamp, paper"),
        ({"shares": {"stamp": 0.0}}, "must not all be zero"),
        ({"size": 8}, "size is 8: use 16 to 512 pixels"),
        ({"characters": "a b"}, "none that leaves no ink"),
        ({"difficulty": [0.5, 0.2]}, "use a range within 0 to 1"),
        ({"charcters": "ab"}, "did you mean characters?"),
    ],
)
def test_wrong_options_are_refused(options, told):
    with pytest.raises(ValueError) as caught:
        build.Recipe("glyphs", options=options)
    assert told in str(caught.value)


def test_a_character_that_no_face_has_is_named():
    options = GlyphOptions(characters="\U00013000", shares={"character": 1.0}, faces=6)
    if any("\U00013000" in face.characters for face in fonts.find_faces(6)):
        pytest.skip("a face here has hieroglyphs")
    with pytest.raises(RuntimeError, match="no face on this machine has the character"):
        glyphs.sample_glyph(np.random.default_rng(0), options)


def test_tars_name_the_class_beside_each_picture(rows, tmp_path):
    build.build(RECIPE, tmp_path, 20, 3, form="webdataset")
    found = {}
    for path in sorted(tmp_path.glob("*.tar")):
        with tarfile.open(path) as tar:
            found |= {
                name[:-4]: tar.extractfile(name).read().decode() for name in tar.getnames() if name.endswith("cls")
            }
        assert webdataset.is_whole(path)
    assert found == {f"{row['index']:08d}": row["label"] for row in rows[:20]}
    again = [row for path in sorted(tmp_path.glob("*.tar")) for row in webdataset.rows(path)]
    assert [row["image"]["bytes"] for row in again] == [row["image"]["bytes"] for row in rows[:20]]
    text = (tmp_path / card.NAME).read_text()
    assert "image-classification" in text and "there is no text in them" in text and "| stamp-round |" in text
    assert '"classes": "9"' in (tmp_path / shards.RECIPE).read_text()


# pictures


def test_what_cannot_be_used_is_counted_with_its_reason(folder):
    found = pictures.load(str(folder))
    assert set(found.skipped) == {f"paper-plain/{name}.png" for name in ("cut", "dark", "narrow")}
    assert "too dark for paper: mean grey 30" in found.skipped["paper-plain/dark.png"]
    assert "5 x 20 pixels" in found.skipped["paper-plain/narrow.png"]
    assert found.stamps and sum(map(len, found.papers)) >= 3
    told = pictures.sources(PictureOptions(str(folder)))["pictures"]
    assert told.startswith(found.digest) and "3 left out, the first: paper-plain/cut.png: no picture" in told
    assert pictures.sources(PictureOptions()) == {}


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(PictureError, match="no such folder"):
        pictures.load(str(tmp_path / "nowhere"))
    (tmp_path / "stamp").mkdir()
    (tmp_path / "stamp" / "a.png").write_bytes(b"")
    with pytest.raises(
        PictureError, match=r"no paper and no stamp .* the first of 1 left out: stamp/a.png: no picture"
    ):
        pictures.load(str(tmp_path))
    with pytest.raises(ValueError, match="unknown key 'paper' in pictures in options: did you mean papers"):
        build.Recipe("pages", options={"pictures": {"folder": "x", "paper": 1}})
    with pytest.raises(ValueError, match="pictures.stamps is 2"):
        PictureOptions("x", stamps=2.0)


def test_quilt_has_the_spread_of_its_pieces_and_no_seams():
    """A plain mean of overlapping pieces would halve the spread; a seam would stand out as a row of jumps."""
    source = np.random.default_rng(0)
    papers = [np.clip(source.normal(200, 12, (32, 32)), 0, 255).astype(np.uint8) for _ in range(4)]
    ground = pictures.quilt((300, 210), papers, np.random.default_rng(1))
    assert ground.shape == (300, 210) and abs(ground.mean() - 200) < 3 and 0.8 < ground.std() / 12 < 1.2
    jumps = np.abs(np.diff(ground, axis=0)).mean(1)
    assert jumps.max() < 1.5 * jumps.mean()


def test_lay_darkens_paper_keeps_print_and_draws_chance_only_where_asked(folder):
    page = np.full((400, 300), 255, np.uint8)
    page[100:120, 40:260] = 0
    boxes = np.array([[40.0, 100, 260, 120]])
    both = PictureOptions(str(folder), papers=1.0, stamps=1.0)
    out = pictures.lay(page, boxes, np.random.default_rng(4), both)
    assert (out[100:120, 40:260] == 0).all() and out.shape == page.shape
    assert out[130:].mean() < 253 and np.array_equal(out, pictures.lay(page, boxes, np.random.default_rng(4), both))
    rng = np.random.default_rng(4)
    assert pictures.lay(page, boxes, rng, PictureOptions()) is page
    assert rng.random() == np.random.default_rng(4).random(), "pages without pictures are the ones that they were"
    stamped = pictures.lay(page, boxes, np.random.default_rng(5), replace(both, papers=0.0))
    changed = (stamped != page).sum()
    assert 20 < changed < 0.1 * page.size


def test_pages_take_their_paper_from_the_folder(folder, monkeypatch):
    """The same page with and without: its truth is equal, its paper is not."""
    image, boxes = np.full((500, 400), 255, np.uint8), np.array([[50.0, 60, 300, 80]])
    worn = render.Ageing(0.0, 1.0, 0.0, (0.1, 0.1), PictureOptions(str(folder), papers=1.0, stamps=0.0))
    plain = replace(worn, pictures=PictureOptions())
    out, moved, _ = worn(image, boxes, np.random.default_rng(2))
    same, unmoved, _ = plain(image, boxes, np.random.default_rng(2))
    assert out.mean() < same.mean() - 3 and moved.shape == unmoved.shape
    monkeypatch.setattr(render, "families", lambda: ("any",))
    monkeypatch.setattr(build, "_line_sources", lambda options: {})
    assert "pictures" in build._page_faces(render.PageOptions(pictures=worn.pictures))
    assert "pictures" not in build._page_faces(render.PageOptions())
