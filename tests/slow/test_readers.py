"""The libraries that read our shards: importing them takes longer than all tests of the shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_pipeline import build, shards

COUNT = 20
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet")
    build.build(build.load_recipe("tiny"), folder, COUNT, seed=1)
    return folder


@pytest.fixture(scope="module")
def tars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tars")
    build.build(build.load_recipe("tiny"), folder, COUNT, seed=1, form="webdataset")
    return folder


def test_datasets_streams_the_shards(finished: Path, tars: Path) -> None:
    """Images decode by themselves, from the features that the shards name."""
    datasets = pytest.importorskip("datasets")
    (expected, *_) = shards.read_rows(finished)
    for kind, pattern in (("parquet", finished / "part-*.parquet"), ("webdataset", tars / "part-*.tar")):
        rows = list(datasets.load_dataset(kind, data_files=str(pattern), split="train", streaming=True))
        assert len(rows) == COUNT
        truth = rows[0] if kind == "parquet" else rows[0]["json"]
        image = rows[0]["image" if kind == "parquet" else "png"]
        assert image.size == (expected["width"], 32) and truth["text"] == expected["text"]


def test_the_webdataset_library_reads_the_tars(tars: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    paths = [str(path) for path in sorted(tars.glob("*.tar"))]
    samples = list(webdataset.WebDataset(paths, shardshuffle=False).decode("pil"))
    assert [sample["json"]["index"] for sample in samples] == list(range(COUNT))
    assert samples[3]["png"].size[1] == 32
