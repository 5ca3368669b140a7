"""Images and shards: every source, unreadable pictures with their reason, what is encoded is what was there."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from docvision.config import build
from imagegen.batches import ImageStream, TokenStream, encode_set, read_tokens, shuffled
from imagegen.config import DataConfig, TokenizerConfig
from imagegen.images import FASHION, DataError, decode_picture, load_images, read_idx
from imagegen.scores import SCORERS, ScorerError, scores_of
from imagegen.vq import VQTokenizer

FOLDER = DataConfig(kind="folder", size=8)


def png(grey: int, size: tuple[int, int] = (10, 12)) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", size, grey).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def tokenizer() -> VQTokenizer:
    torch.manual_seed(0)
    return VQTokenizer(TokenizerConfig(widths=(8,), codes=16, code_dim=4), 8, 1).eval()


@pytest.fixture
def pictures(tmp_path):
    """Two classes with a split of their own; one picture is cut off, one is text."""
    for split, count in (("train", 6), ("test", 2)):
        for label, name in enumerate(("cat", "dog")):
            place = tmp_path / split / name
            place.mkdir(parents=True)
            for number in range(count):
                (place / f"{number}.png").write_bytes(png(100 * label + number))
    (tmp_path / "train" / "cat" / "5.png").write_bytes(png(5)[:45])
    (tmp_path / "train" / "dog" / "5.png").write_bytes(b"no picture")
    return tmp_path


def test_folder_reads_classes_and_skips_with_a_reason(pictures, tokenizer):
    train, held = load_images(replace(FOLDER, folder=str(pictures)))
    assert train.names == ("cat", "dog") and (len(train), len(held)) == (12, 4)
    pixels, kept = train.read(range(12))
    assert kept.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10] and pixels.shape == (10, 8, 8, 1)
    assert pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]
    assert set(train.skipped) == {"cat/5.png", "dog/5.png"} and all(train.skipped.values())
    tokens = encode_set(tokenizer, train, pictures / "tokens")
    assert tokens.labels_K.tolist() == [0] * 5 + [1] * 5
    assert ImageStream(train, 12, 0).batch(0).labels_B.shape == (10,)


def test_folder_without_a_split_holds_out_by_name(pictures):
    config = replace(FOLDER, folder=str(pictures / "train"), holdout=0.4)
    train, held = load_images(config)
    again, _ = load_images(config)
    assert len(train) + len(held) == 12 and train.fingerprint() == again.fingerprint()
    assert not {name for name, _, _ in train.entries} & {name for name, _, _ in held.entries}


def test_missing_class_is_named(pictures):
    for path in (pictures / "test" / "dog").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"no held-out images of class dog \(1 of 2 classes\): remove the class"):
        load_images(replace(FOLDER, folder=str(pictures)))


def test_folders_that_are_none(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        load_images(replace(FOLDER, folder=str(tmp_path / "nowhere")))
    with pytest.raises(DataError, match="no pictures; one sub-folder a class"):
        load_images(replace(FOLDER, folder=str(tmp_path)))


def test_all_pictures_unreadable(pictures, tokenizer):
    for path in (pictures / "train").rglob("*.png"):
        path.write_bytes(b"")
    train, _ = load_images(replace(FOLDER, folder=str(pictures)))
    with pytest.raises(DataError, match="none of 12 pictures could be read: "):
        encode_set(tokenizer, train, pictures / "tokens")
    assert not (pictures / "tokens").exists()


def test_picture_modes_and_shapes():
    """Transparent ones lie on white; wide ones are cropped at their centre; a size of one pixel is refused."""
    clear = io.BytesIO()
    Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(clear, "PNG")
    assert (decode_picture(clear.getvalue(), FOLDER) == 255).all()
    assert decode_picture(clear.getvalue(), replace(FOLDER, channels=3)).shape == (8, 8, 3)
    wide = Image.new("L", (24, 8), 0)
    wide.paste(200, (8, 0, 16, 8))
    buffer = io.BytesIO()
    wide.save(buffer, "PNG")
    assert (decode_picture(buffer.getvalue(), FOLDER) == 200).all()
    with pytest.raises(ValueError, match="1 x 20 pixels are no picture"):
        decode_picture(png(0, (1, 20)), FOLDER)


def test_webdataset_reads_tars_in_place(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(40):
            for suffix, content in ((".png", png(number)), (".cls", str(number % 2 + 9).encode())):
                info = tarfile.TarInfo(f"{number:03d}{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    train, held = load_images(DataConfig(kind="webdataset", folder=str(tmp_path), size=8, holdout=0.3))
    assert train.names == ("9", "10") and len(train) + len(held) == 40 and len(held) > 3
    pixels, _ = train.read(range(len(train)))
    numbers = [int(name.split("/")[1]) for name, _, _ in train.entries]
    assert pixels[:, 4, 4, 0].tolist() == numbers
    assert train.labels_N.tolist() == [number % 2 for number in numbers]


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_fashion_mnist_from_a_folder_packed_or_not(tmp_path):
    images = np.arange(10 * 784, dtype=np.uint64).astype(np.uint8).reshape(10, 28, 28)
    for prefix in ("train", "t10k"):
        (tmp_path / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(np.arange(10, dtype=np.uint8)))
    train, held = load_images(DataConfig(folder=str(tmp_path)))
    assert train.names == FASHION and np.array_equal(held.images_NHWC[..., 0], images)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.arange(10, dtype=np.uint8))[:12])
    with pytest.raises(DataError, match="not a whole idx file"):
        read_idx(tmp_path / "t10k-labels-idx1-ubyte")


def test_missing_fashion_mnist_says_how_to_get_it(tmp_path):
    with pytest.raises(DataError, match="apt-get install dataset-fashion-mnist, or give data.folder"):
        load_images(DataConfig(folder=str(tmp_path)))


def test_digits_are_whole():
    pytest.importorskip("sklearn")
    train, held = load_images(DataConfig(kind="digits", size=8))
    assert len(train) + len(held) == 1797 and train.images_NHWC.max() == 255 and len(train.names) == 10
    assert len(load_images(DataConfig(kind="digits", size=8, limit=100))[0]) == 100


def test_wrong_sizes_are_told_before_anything_is_read():
    with pytest.raises(ValueError, match="28 x 28 pixels, write data.size=28"):
        build(DataConfig, {"kind": "fashion_mnist", "size": 32}, "recipe")
    with pytest.raises(ValueError, match="data.folder is empty"):
        build(DataConfig, {"kind": "folder"}, "recipe")


def test_batches_are_a_function_of_their_number():
    """An epoch visits every image once (of 10 in batches of 3: nine of them), the next in another order."""
    epochs = [np.concatenate([shuffled(10, 3, epoch * 3 + slot, 7) for slot in range(3)]) for epoch in range(2)]
    assert all(len(set(epoch)) == 9 for epoch in epochs) and not np.array_equal(*epochs)
    assert np.array_equal(shuffled(10, 3, 4, 7), epochs[1][3:6])
    assert len(shuffled(2, 64, 5, 0)) == 2


def test_shards_round_trip_with_mirrored_views(digits, tokenizer, tmp_path):
    tokens = encode_set(tokenizer, digits.train, tmp_path / "t", flip=True)
    again = read_tokens(tmp_path / "t")
    assert tokens.ids_KAN.shape == (200, 2, 16) and np.array_equal(tokens.ids_KAN, again.ids_KAN)
    pixels = torch.from_numpy(digits.train.images_NHWC[:5, :, ::-1].copy())
    assert np.array_equal(tokenizer.encode(pixels).numpy(), tokens.ids_KAN[:5, 1])
    views = TokenStream(tokens, 64, 0)
    batch = views.batch(3)
    rows = shuffled(200, 64, 3, 0)
    either = [(tokens.ids_KAN[rows, view] == batch.ids_BN.numpy()).all(1) for view in (0, 1)]
    assert (either[0] | either[1]).all() and 10 < either[0].sum() < 54


def test_shards_of_another_tokenizer_are_refused(digits, tokenizer, tmp_path):
    encode_set(tokenizer, digits.held, tmp_path / "t")
    torch.manual_seed(1)
    other = VQTokenizer(tokenizer.config, 8, 1).eval()
    with pytest.raises(DataError, match="from other images or by another tokenizer"):
        encode_set(other, digits.held, tmp_path / "t")
    (tmp_path / "t" / "tokens-00000.safetensors").write_bytes(b"cut")
    with pytest.raises(DataError, match="no whole set of tokens"):
        read_tokens(tmp_path / "t")


@pytest.mark.parametrize("name", sorted(SCORERS))
def test_scores_are_positive_and_sum_to_one(name, digits, tmp_path, monkeypatch):
    monkeypatch.setattr("imagegen.scores.VIT_STEPS", 12)
    monkeypatch.setattr("imagegen.scores.VIT_BATCH", 32)
    scores, _ = scores_of(name, digits.train_tokens, digits.tokenizer, tmp_path)
    assert scores.dtype == np.float16 and scores.shape == digits.train_tokens.ids_KAN.shape
    assert (scores > 0).all()
    np.testing.assert_allclose(scores.astype(np.float64).sum(-1), 1 + 16e-4, atol=5e-3)
    again, _ = scores_of(name, digits.train_tokens, digits.tokenizer, tmp_path)
    assert np.array_equal(scores, again)
    if name == "uniform":
        assert len(np.unique(scores)) == 1
    else:
        assert np.ptp(scores.astype(np.float32), axis=-1).mean() > 0.001  # vit-cls has hardly been trained here


def test_surprisal_ranks_rare_codes_above_common_ones(ramp):
    """Five images agree in cell 3, one does not: its cell is the most surprising of all."""
    ramp.ids_KAN[5, 0, 3] = 9
    tokenizer = VQTokenizer(TokenizerConfig(widths=(8,), codes=32, code_dim=4), 10, 1)
    scores, _ = scores_of("surprisal", ramp, tokenizer)
    assert scores[5, 0].argmax() == 3 and np.ptp(scores[0, 0, 4:]) < 1e-3


def test_gradient_scores_lie_where_the_edge_is(digits):
    """Mirrored tokens have mirrored scores: they are read from the tokens, not from the picture files."""
    tokens = digits.held_tokens
    scores, _ = scores_of("gradient", tokens, digits.tokenizer)
    images = digits.tokenizer.decode(torch.from_numpy(tokens.ids_KAN[:20, 0].astype(np.int64)))[..., 0].float()
    cells = images.view(20, 4, 2, 4, 2).permute(0, 1, 3, 2, 4).flatten(3)
    contrast = (cells.max(-1).values - cells.min(-1).values).flatten(1).numpy()
    assert np.corrcoef(contrast.ravel(), scores[:20, 0].astype(np.float64).ravel())[0, 1] > 0.3


def test_unknown_scorer_names_those_there_are(digits):
    with pytest.raises(ScorerError, match="mtar.scorer='dino': one of uniform, surprisal, gradient, vit-cls"):
        scores_of("dino", digits.train_tokens, digits.tokenizer)
