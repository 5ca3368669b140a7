"""Forms, lists, mixed sets: what is filled in stands in the truth, boxes are markers, turned pages keep words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest

from data_pipeline import checks, form_fields, genres, mixed, render, text
from data_pipeline.extract import TruthError
from data_pipeline.layouts import Item, Look, PageStyle, Plan
from docvision.page import Document, Page

NOBODY = (None, None, None)


def style(**changes: Any) -> PageStyle:
    plan = genres.plan_page(np.random.default_rng(3), render.families(), text.load_corpus("builtin"), {"form": 1.0})
    wide = replace(plan.style, width=500, height=400, margins=(30, 30, 30, 30), columns=1, size=10.0)
    return replace(wide, **changes)


def page_of(*items: Item) -> tuple[Page, np.ndarray]:
    made = render.render_plan(Plan("form", style(), NOBODY, NOBODY, (), items), 120)
    return made.page, made.image


LOOK = Look(first=0, align="left")


@pytest.mark.parametrize("name", ["line", "dots", "frame", "comb:9", "value", "under", "spaced"])
def test_a_field_is_one_line_of_label_and_value(name: str) -> None:
    page, _ = page_of(Item("text", (("Name: ", ""), ("MILLER", name)), look=LOOK))
    (block,) = page.blocks
    assert block.kind == "text" and block.text == "Name: MILLER"
    (line,) = block.lines
    assert [word.text for word in line.words] == ["Name:", "MILLER"]


@pytest.mark.parametrize("name", ["line", "dots", "frame", "comb:9"])
def test_an_empty_field_draws_its_place_and_says_nothing(name: str) -> None:
    """The rule or box adds ink to the right of the label, and no text."""
    empty, drawn = page_of(Item("text", (("Name: ", ""), ("", name)), look=LOOK))
    _, bare = page_of(Item("text", (("Name: ", ""),), look=LOOK))
    assert empty.blocks[0].text == "Name:"
    assert (drawn < 200).sum() > (bare < 200).sum() + 60


def test_leaders_are_drawn_and_not_read() -> None:
    page, image = page_of(Item("list", (("Introduction ", ""), ("", "leader"), ("12", "")), look=LOOK))
    first, last = page.blocks[0].lines[0].words
    assert (first.text, last.text) == ("Introduction", "12")
    x0, x1 = (int(page.to_pixels(box).x0) for box in (first.box.shift(first.box.width, 0), last.box))
    y0, y1 = int(page.to_pixels(first.box).y0), int(page.to_pixels(first.box).y1) + 2
    assert x1 - x0 > 200 and (image[y0:y1, x0:x1] < 200).any(axis=0).mean() > 0.1


def test_tick_boxes_are_markers() -> None:
    if style().ticks is None:
        pytest.skip("no face here has tick boxes")
    ticks = [
        Item("list", ((name, ""),), marker=mark, look=replace(LOOK, hanging=1.5))
        for name, mark in (("yes", "☒"), ("no", "☐"))
    ]
    page, _ = page_of(*ticks)
    assert [(block.kind, block.marker, block.text) for block in page.blocks] == [
        ("list", "☒", "yes"),
        ("list", "☐", "no"),
    ]


def test_forms_hold_labels_values_and_boxes() -> None:
    """Over 12 forms: values in another family than the labels, tick boxes, combs and frames all occur."""
    styles: set[str] = set()
    markers: set[str] = set()
    for seed in range(12):
        plan = genres.plan_page(
            np.random.default_rng(seed), render.families(), text.load_corpus("builtin"), {"form": 1.0}
        )
        for item in checks._items(plan.flow):
            styles |= {name.partition(":")[0] for _, name in item.runs}
            markers.add(item.marker)
    assert {"line", "frame", "comb"} <= styles
    assert {"☐"} <= markers or plan.style.ticks is None


def test_a_missing_glyph_never_reaches_the_truth() -> None:
    """A face without a letter would print an empty box for it: such a plan is dropped, whatever it stands in."""
    poor = style()
    poor = replace(poor, body=replace(poor.body, characters=poor.body.characters - {"q"}), filled=None, ticks=None)
    for item in (
        Item("text", (("quick", ""),)),
        Item("list", (("other", ""),), marker="q)"),
        Item("text", (("Name ", ""), ("Jacques", "comb:9"))),
    ):
        kept, reason = checks.check_plan(Plan("form", poor, NOBODY, NOBODY, (), (item,)))
        assert not kept and reason.endswith(f"lacks a character of a {item.kind}")
    sound = Item("text", (("plain", ""),))
    assert checks.check_plan(Plan("form", poor, NOBODY, NOBODY, (), (sound,))) == (True, "")


@pytest.mark.parametrize("kind", list(genres.KINDS))
def test_poor_faces_are_fitted_or_dropped(kind: str) -> None:
    """With families that own ASCII without z, no plan that is kept holds another character or a z."""
    allowed = frozenset(chr(code) for code in range(33, 127)) - {"z"}
    families = {
        group: tuple(replace(family, characters=family.characters & allowed) for family in members)
        for group, members in render.families().items()
    }
    kept = 0
    for seed in range(4):
        try:
            plan = genres.plan_page(
                np.random.default_rng([4, seed]), families, text.load_corpus("builtin"), {kind: 1.0}
            )
        except TruthError:
            continue
        kept += 1
        for item in (*checks._items(plan.title), *checks._items(plan.flow)):
            printed = "".join(content for content, _ in checks._printed(item, plan.style))
            assert set(printed) <= allowed | {" ", "\n"}, printed
    assert kept or kind == "form", "most plans must come through"


def test_repeats_are_found_by_their_text() -> None:
    row = {"document": Document("a", [page_of(Item("text", (("Same words", ""),), look=LOOK))[0]]).to_json()}
    other = {"document": Document("a", [page_of(Item("text", (("Other words", ""),), look=LOOK))[0]]).to_json()}
    seen: set[int] = set()
    assert [checks.is_repeat(entry, seen) for entry in (row, other, row)] == [False, False, True]
    assert not checks.is_repeat({"text": "a line"}, seen)


def test_turned_pages_turn_their_boxes() -> None:
    """The ink of a word lies under its turned box, for each quarter; four quarters give the page back."""
    page, image = page_of(Item("text", (("WORDS to turn", ""),), look=LOOK))
    data = cv2.imencode(".png", image)[1].tobytes()
    row = {"image": {"bytes": data, "path": None}, "document": Document("a", [page]).to_json(), "width": 0, "height": 0}
    for quarters in (1, 2, 3, 4):
        turned = mixed.turn_row(row, quarters, 95)
        found = Document.from_json(turned["document"]).pages[0]
        picture = cv2.imdecode(np.frombuffer(turned["image"]["bytes"], np.uint8), cv2.IMREAD_GRAYSCALE)
        assert picture is not None and picture.shape == (turned["height"], turned["width"])
        outside = picture < 128
        for word in found.words():
            x0, y0, x1, y1 = (round(value) for value in found.to_pixels(word.box))
            assert (picture[y0:y1, x0:x1] < 128).mean() > 0.1
            outside[y0 - 2 : y1 + 2, x0 - 2 : x1 + 2] = False
        assert not outside.any()
        assert found.blocks[0].lines[0].angle == {1: -90.0, 2: -180.0, 3: 90.0, 4: 0.0}[quarters]
    assert np.allclose(found.blocks[0].box, page.blocks[0].box, atol=0.02)


def test_the_mixture_has_one_schema() -> None:
    """Pages and tables alike: the columns of pages, and a kind that says which it is."""
    for share, kinds in (("tables", {mixed.TABLE_KIND}), ("forms", {"form"})):
        options = mixed.MixedOptions(corpus="builtin", shares={share: 1.0}, clean=1.0, scanned=0.0)
        row = mixed.sample_mixed(np.random.default_rng(2), options)
        assert {*row, "index"} == set(render.PAGE_SCHEMA.names) and row["kind"] in kinds
        assert json.loads(row["document"])["pages"][0]["pixels"] == [row["width"], row["height"]]
    with pytest.raises(ValueError, match="unknown part 'posters'.*pages"):
        mixed.MixedOptions(shares={"posters": 1.0})


def test_long_s_stands_where_printers_set_it() -> None:
    assert text.old_print("das Wissen ist eins, sagst du", spelling=False) == "das Wiſſen iſt eins, ſagſt du"
    assert text.old_print("Teil gibt Kultur") == "Theil giebt Cultur"


def test_styles_are_known_to_the_writer() -> None:
    """A misspelt style would print its text as plain: every style of filled parts is drawn."""
    for name in (*form_fields.FILLED, "leader", "gap", "under", "spaced"):
        assert form_fields.draw_run("A", "comb:3" if name == "comb" else name, style())
    assert form_fields.draw_run("A", "bold", style()) is None
