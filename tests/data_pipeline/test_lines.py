"""Lines: truth within vocabulary and face, crops of the promised shape, ink where text is, faces and text cleaned."""

import dataclasses
import shutil

import cv2
import numpy as np
import pytest

from data_pipeline import fields, fonts, lines, sources, strips, text
from data_pipeline.lines import HEIGHT, MAX_WIDTH, LineOptions, sample_line
from docvision.tokens import CHARACTERS

FACES = 60
BUILTIN = LineOptions(corpus="builtin", faces=FACES)
SAMPLES = 150


def only(kind: str) -> LineOptions:
    return dataclasses.replace(BUILTIN, kinds={kind: 1.0})


def decode(row: dict) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(row["image"]["bytes"], np.uint8), cv2.IMREAD_UNCHANGED)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [sample_line(np.random.default_rng([3, index]), BUILTIN) for index in range(SAMPLES)]


def test_images_have_the_readers_shape(rows: list[dict]) -> None:
    for row in rows:
        image = decode(row)
        assert image.dtype == np.uint8 and image.ndim == 2
        assert image.shape == (HEIGHT, row["width"]) and 4 <= row["width"] <= MAX_WIDTH


def test_truth_is_normalised_and_in_the_face(rows: list[dict]) -> None:
    """A character that the face lacks would be a box or nothing in the picture."""
    faces: dict[str, set[frozenset[str]]] = {}
    for face in fonts.find_faces(FACES):
        faces.setdefault(face.name, set()).add(face.characters)
    for row in rows:
        content = row["text"]
        assert set(content) <= set(CHARACTERS)
        assert content == " ".join(content.split()) == text.normalise(content)
        assert (row["kind"] == "empty") == (content == "")
        if content:
            assert any(known.issuperset(content.replace(" ", "")) for known in faces[row["font"]])


def test_same_generator_same_row() -> None:
    """Caches of fonts and faces must not leak from one sample into the next."""
    first = [sample_line(np.random.default_rng([5, index]), BUILTIN) for index in range(12)]
    second = [sample_line(np.random.default_rng([5, index]), BUILTIN) for index in reversed(range(12))]
    assert first == second[::-1]


@pytest.mark.parametrize("kind", ["print", "typewriter", "receipt", "dotmatrix", "script", "blackletter", "empty"])
def test_each_kind_draws_itself(kind: str) -> None:
    """On a machine without a kind's faces other faces stand in; ink is there exactly when text is."""
    options = dataclasses.replace(only(kind), clean=1.0)
    for index in range(8):
        row = sample_line(np.random.default_rng([7, index]), options)
        assert row["kind"] == kind
        if kind != "empty":
            image = decode(row).astype(int)
            assert image.max() - image.min() > 40, row["text"]


def test_lengths_are_spread(rows: list[dict]) -> None:
    """Shares over 150 samples; each bound lies more than four standard deviations off."""
    lengths = np.array([len(row["text"]) for row in rows if row["text"]])
    assert (lengths <= 4).mean() > 0.01
    assert (lengths <= 20).mean() < 0.65
    assert (lengths > 60).mean() > 0.05
    assert lengths.max() <= 165


def test_ink_box_is_the_ink() -> None:
    """The box of a drawn line holds all its ink, and touches it on all four sides."""
    face = fonts.find_faces(FACES)[0]
    strip = strips.draw_line(np.random.default_rng(4), face, "Hxgp", 40, strips.Setting())
    x0, y0, x1, y1 = (int(value) for value in strip.box)
    inside = strip.ink[y0:y1, x0:x1] > 48
    assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()


def test_small_capitals_are_small_capitals() -> None:
    """Small letters are drawn as their capitals at a smaller size; capitals, digits and marks stay as they are."""
    face = fonts.find_faces(FACES)[0]
    pieces = strips._pieces("Été-Bar1", strips.Setting(small_caps=0.75))
    assert pieces == [("É", False), ("TÉ", True), ("-B", False), ("AR", True), ("1", False)]
    rng = np.random.default_rng(3)
    small = strips.draw_line(rng, face, "Hxxx", 40, strips.Setting(small_caps=0.75))
    x0, y0, x1, y1 = (int(value) for value in small.box)
    first, rest = small.ink[y0:y1, x0 : x0 + 20], small.ink[y0:y1, x1 - 20 : x1]
    tall = [int((part > 48).any(axis=1).sum()) for part in (first, rest)]
    assert tall[1] == pytest.approx(0.75 * tall[0], abs=2)
    assert lines._has_small_caps(face, "Bar") and not lines._has_small_caps(face, "Straße")
    assert not lines._has_small_caps(face, "BAR 12")


def test_fraktur_is_set_with_long_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a face has it; the face's own characters decide.  Faces of other groups are not looked at."""
    listed = fonts._from_fontconfig if shutil.which("fc-list") else fonts._from_folders
    faces = [face for face in listed() if face.group == "blackletter"]
    for name in ("_from_fontconfig", "_from_folders"):
        monkeypatch.setattr(fonts, name, lambda: faces)
    found = fonts.find_faces.__wrapped__(0)
    monkeypatch.setattr(fonts, "find_faces", lambda limit=0: found)
    monkeypatch.setattr(lines, "_families", lines._families.__wrapped__)
    texts = [sample_line(np.random.default_rng([9, index]), only("blackletter"))["text"] for index in range(60)]
    assert any("ſ" in content for content in texts) or not any(
        "ſ" in face.characters for face in fonts.by_group(found).get("blackletter", ())
    )


def test_a_dash_gets_the_height_of_a_letter() -> None:
    """Else a crop of '-' would be blown up to a black bar."""
    ink = np.zeros((100, 100), np.uint8)
    ink[60:63, 40:60] = 255
    box = strips.ink_box(ink, 70, 40, 40)
    assert box[3] - box[1] == pytest.approx(0.45 * 40) and box[1] < 60 < 63 < box[3]


def test_wide_lines_lose_words_not_pixels() -> None:
    """A line of 300 capitals is cut at a word and its truth with it."""
    face = fonts.find_faces(FACES)[0]
    rng = np.random.default_rng(1)
    image, content = lines._printed_line(rng, face, "print", "WIDE WORDS " * 27 + "END", 0.0, BUILTIN)
    assert image.shape[1] <= MAX_WIDTH
    assert content.startswith("WIDE WORDS") and set(content.split()) == {"WIDE", "WORDS"}


def test_faces_are_usable() -> None:
    faces = fonts.find_faces(FACES)
    assert faces and len({(face.family, face.style) for face in faces}) == len(faces)
    for face in faces:
        assert face.group in fonts.GROUPS and set("AZaz09") <= face.characters
    assert fonts.digest(faces) == fonts.digest(tuple(faces)) != fonts.digest(faces[:-1])


def test_bundled_face_needs_no_installed_font() -> None:
    face = fonts._bundled_face()
    strip = strips.draw_line(np.random.default_rng(0), face, "Abc 123", 24, strips.Setting(uneven=0.01, scale=2))
    assert strip.ink.max() > 100 and set("Abc123") <= face.characters


def test_capitals_only_faces_are_found_out() -> None:
    """A font whose small letters are capitals would teach 'a' for the picture of an A."""
    font = fonts.load_font(fonts.find_faces(FACES)[0], 32)
    assert fonts._likeness(font, "A", "A") == 1.0
    assert fonts._likeness(font, "a", "A") < fonts._CAPITAL_LIKENESS


def test_fontconfig_coverage_is_read() -> None:
    assert fonts._expand("20-22 41 e9 1f600") == frozenset(' !"Aé')


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\u00a0\u2009b\n c", "a b c"),
        ("e\u0301te\u0301", "été"),
        ("soft\u00adhyphen \u2010 \ufb01n", "softhyphen - fin"),
        ("日本 OK", "OK"),
    ],
)
def test_normalise(raw: str, clean: str) -> None:
    assert text.normalise(raw) == clean


def test_fit_prefers_plainer_forms_to_holes() -> None:
    ascii_only = frozenset(chr(code) for code in range(33, 127))
    assert text.fit("“Ça va…” – 5 × 3 €", ascii_only) == '"Ca va..." - 5 x 3'


def test_manual_pages_lose_their_markup(tmp_path) -> None:
    page = tmp_path / "page.1"
    page.write_text(".SH NOM\nls \\- \\fBAfficher\\fP tout\\ ;\n.B \\-\\-all\nou \\(co rien\n.PP\nFin\n")
    found = [part for part in sources._manual_paragraphs(page) if part]
    assert found == ["ls - Afficher tout ; --all ou © rien", "Fin"]


@pytest.mark.parametrize("name", fields.MAKERS)
def test_makers_make_something(name: str) -> None:
    maker, share = fields.MAKERS[name]
    made = [maker(np.random.default_rng([2, index])) for index in range(200)]
    assert share > 0 and all(part.strip() for part in made) and len(set(made)) > 20
    assert all(text.normalise(part) for part in made)


def test_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="unknown line kind 'poster'.*print"):
        LineOptions(kinds={"poster": 1.0})
