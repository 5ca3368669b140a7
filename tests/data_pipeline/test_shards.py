"""Shards and builds: same bytes for any number of workers, whole after a kill, damage seen and mended."""

import json
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from data_pipeline import build, card, inspection, render, shards

COUNT = 20


@pytest.fixture(scope="module")
def recipe() -> build.Recipe:
    return build.load_recipe("tiny")


@pytest.fixture(scope="module")
def finished(recipe: build.Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    build.build(recipe, folder, COUNT, seed=1, workers=1)
    return folder


@pytest.fixture(scope="module")
def tars(recipe: build.Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tars")
    build.build(recipe, folder, COUNT, seed=1, workers=1, form="webdataset")
    return folder


def copy(source: Path, target: Path) -> Path:
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_workers_do_not_change_the_bytes(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    build.build(recipe, tmp_path, COUNT, seed=1, workers=2)
    assert contents(tmp_path) == contents(finished)


def test_both_formats_hold_the_same_samples(recipe: build.Recipe, finished: Path, tars: Path, tmp_path: Path) -> None:
    assert list(shards.read_rows(tars)) == list(shards.read_rows(finished))
    build.build(recipe, tmp_path, COUNT, seed=1, workers=2, form="webdataset")
    assert contents(tmp_path) == contents(tars)
    with tarfile.open(tars / "part-00002.tar") as tar:
        entries = tar.getmembers()
    assert [entry.name for entry in entries][:2] == ["00000016.png", "00000016.json"]
    assert {(entry.mtime, entry.uid, entry.gid, entry.uname) for entry in entries} == {(0, 0, 0, "")}


def test_features_name_images_lists_and_structs() -> None:
    import pyarrow as pa

    schema = pa.schema([("image", shards.IMAGE_TYPE), ("boxes", pa.list_(pa.float32())), ("n", pa.int64())])
    assert card.features(schema) == {
        "image": {"_type": "Image"}, "boxes": [{"dtype": "float32", "_type": "Value"}],
        "n": {"dtype": "int64", "_type": "Value"},
    }  # fmt: skip


def test_rows_are_complete_and_in_order(finished: Path) -> None:
    rows = list(shards.read_rows(finished))
    assert [row["index"] for row in rows] == list(range(COUNT))
    assert pq.read_schema(shards.shard_path(finished, 0)).equals(shards.LINE_SCHEMA)
    marker = json.loads((finished / shards.MARKER).read_text())
    assert marker["count"] == COUNT and [entry["rows"] for entry in marker["files"]] == [8, 8, 4]
    assert marker["recipe"]["seed"] == 1 and set(marker["recipe"]["sources"]) >= {"fonts", "corpus"}


def test_a_sample_depends_on_seed_and_index_only(recipe: build.Recipe, finished: Path) -> None:
    rows = list(shards.read_rows(finished))
    (alone,) = build.make_rows(recipe, 1, range(13, 14))
    assert alone["image"] == rows[13]["image"] and alone["text"] == rows[13]["text"]
    (other,) = build.make_rows(recipe, 2, range(13, 14))
    assert other["image"] != rows[13]["image"]


def test_resume_makes_only_what_is_missing(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    for name in ("recipe.json", "part-00000.parquet", "part-00002.parquet"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    (tmp_path / ".part-00001.parquet.99.tmp").write_bytes(b"half a shard")
    stamp = (tmp_path / "part-00000.parquet").stat().st_mtime_ns
    build.build(recipe, tmp_path, COUNT, seed=1, workers=1)
    assert contents(tmp_path) == contents(finished)
    assert (tmp_path / "part-00000.parquet").stat().st_mtime_ns == stamp


def test_another_recipe_is_refused(recipe: build.Recipe, finished: Path) -> None:
    with pytest.raises(shards.ShardError, match="another seed .seed 1 there, 9 here.: give -o a new folder"):
        build.build(recipe, finished, COUNT, seed=9)


def test_a_short_shard_is_not_finished(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    for path in finished.glob("*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-00002.parquet").write_bytes((finished / "part-00001.parquet").read_bytes())
    with pytest.raises(shards.ShardError, match="holds 8 rows instead of 4"):
        shards.finish(tmp_path)
    (tmp_path / "part-00002.parquet").unlink()
    with pytest.raises(shards.ShardError, match="part-00002.parquet is missing"):
        shards.finish(tmp_path)


@pytest.mark.parametrize("form", ["parquet", "webdataset"])
def test_a_damaged_shard_is_found_and_made_again(
    form: str, recipe: build.Recipe, finished: Path, tars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One byte in the middle of a picture, a file cut short, an empty one: each is seen, each comes back the same."""
    source = finished if form == "parquet" else tars
    copy(source, tmp_path)
    paths = [shards.shard_path(tmp_path, number, form) for number in range(3)]
    data = bytearray(paths[0].read_bytes())
    data[len(data) // 2] ^= 0xFF
    paths[0].write_bytes(data)
    paths[1].write_bytes(paths[1].read_bytes()[:2000])
    paths[2].write_bytes(b"")
    report = inspection.inspect(tmp_path)
    assert sorted(report.damaged) == [path.name for path in paths] and not report.complete and report.rows == 0
    build.build(recipe, tmp_path, COUNT, seed=1, form=form)
    assert capsys.readouterr().err.count("is damaged and made again") == 3
    assert contents(tmp_path) == contents(source)


def test_a_shard_of_another_place_is_not_taken(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    copy(finished, tmp_path)
    (tmp_path / "part-00001.parquet").write_bytes((finished / "part-00000.parquet").read_bytes())
    assert inspection.inspect(tmp_path).damaged == {"part-00001.parquet": "it holds rows of another place"}
    build.build(recipe, tmp_path, COUNT, seed=1)
    assert contents(tmp_path) == contents(finished)


def test_no_marker_stands_over_a_missing_shard(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    copy(finished, tmp_path)
    (tmp_path / "part-00001.parquet").unlink()
    described = json.loads((finished / shards.RECIPE).read_text())
    assert shards.open_folder(tmp_path, described) == ([1], {})
    assert not (tmp_path / shards.MARKER).exists()


def test_two_builds_do_not_share_a_folder(
    recipe: build.Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_LOCK_PATIENCE_S", 0.0)
    with shards.locked(tmp_path), pytest.raises(shards.ShardError, match="is being built by another process"):
        build.build(recipe, tmp_path, COUNT, seed=1)
    with shards.locked(tmp_path):
        assert not list(tmp_path.iterdir())


def test_drop_reasons_are_counted_whoever_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that drops by its index: the counts are the same with one worker and with two, and stand in the card."""

    def sample(rng: np.random.Generator, options: object) -> dict[str, object]:
        draw = int(rng.integers(4))
        render.DROPPED.update({f"too dark in {draw} of 9 words": draw, f"it reads '{draw}' there": 1, "kept": 1})
        return {"image": {"bytes": b"png", "path": None}, "text": "a" * draw, "kind": "print", "difficulty": 0.5}

    kind = build.Kind(sample, build.KINDS["lines"].options, shards.LINE_SCHEMA, lambda options: {})
    monkeypatch.setitem(build.KINDS, "lines", kind)
    monkeypatch.setattr(build, "typst_ran", lambda: False)  # workers must see this kind
    recipe = build.Recipe("lines", rows=3)
    made = [build.build(recipe, tmp_path / str(workers), 12, seed=2, workers=workers) for workers in (1, 2)]
    draws = [int(build.sample_rng(2, index).integers(4)) for index in range(12)]
    assert made[0] == made[1] and made[0]["dropped"] == {
        "it reads ...": 12, "too dark in N of N words": sum(draws)
    }  # fmt: skip
    assert f"| too dark in N of N words | {sum(draws)} |" in (tmp_path / "1" / "README.md").read_text()
    assert inspection.inspect(tmp_path / "2").dropped == made[0]["dropped"]


def test_a_recipe_with_little_to_say_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of one and the same text: tried again some times, counted, and kept then."""
    from docvision.page import Page, page_to_json

    document = page_to_json(Page(1, 9, 9))
    kind = build.Kind(
        lambda rng, options: {"document": document}, build.KINDS["lines"].options, None, lambda options: {}
    )
    monkeypatch.setitem(build.KINDS, "lines", kind)
    before = render.DROPPED["repeated text"]
    assert len(build.make_rows(build.Recipe("lines"), 0, range(3))) == 3
    assert render.DROPPED["repeated text"] - before == 2 * build._REDRAWS


def test_the_card_counts_and_says_how_to_make_it_again(finished: Path, tars: Path) -> None:
    import yaml

    text = (finished / "README.md").read_text()
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["license"] == "apache-2.0" and header["size_categories"] == ["n<1K"]
    info = header["dataset_info"]
    assert info["splits"] == [
        {"name": "train", "num_bytes": sum(p.stat().st_size for p in finished.glob("*.parquet")), "num_examples": COUNT}
    ]
    assert {"name": "image", "dtype": "image"} in info["features"]
    kinds = Counter(row["kind"] for row in shards.read_rows(finished, ["kind"]))
    for kind, count in kinds.items():
        assert f"| {kind} | {count} | {100 * count / COUNT:.1f} % |" in text
    assert "docvision make recipe.yaml -o DIR --count 20 --seed 1\n" in text
    assert "--format webdataset" in (tars / "README.md").read_text()


def test_inspection_says_what_is_there(recipe: build.Recipe, finished: Path, tmp_path: Path) -> None:
    report = inspection.inspect(finished)
    shown = "\n".join(inspection.lines(report))
    assert report.complete and "20 of 20 samples" in shown and "complete" in shown
    assert sum(report.tally.counts["difficulty"].values()) == COUNT
    copy(finished, tmp_path)
    (tmp_path / "part-00000.parquet").unlink()
    (tmp_path / "part-00007.parquet").write_bytes(b"of something else")
    shown = "\n".join(inspection.lines(inspection.inspect(tmp_path)))
    assert "12 of 20 samples" in shown and "missing: part-00000.parquet" in shown
    assert "not of this data set: part-00007.parquet" in shown


def test_previews_show_picture_and_truth(tmp_path: Path) -> None:
    from PIL import Image

    assert build.main(["tiny", "-o", str(tmp_path), "--preview", "3", "--seed", "1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000.png", "000001.png", "000002.png"]
    rows = build.make_rows(build.load_recipe("tiny"), 1, range(3))
    for row in rows:
        with Image.open(tmp_path / f"{row['index']:06d}.png") as picture:
            assert picture.width >= 2 * row["width"] and picture.height == 64 + 54
            below = np.asarray(picture.convert("L"))[64:]
            assert (below < 128).sum() > 20  # the text is written there


@pytest.mark.parametrize("path", sorted(build.RECIPES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_loads(path: Path) -> None:
    assert build.load_recipe(str(path)).sample_options()
