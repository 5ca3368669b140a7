"""Where images come from: Fashion-MNIST, scikit-learn's digits, folders with one sub-folder a class, webdataset tars.

A source hands out bytes (N,H,W,C) by index, so that a folder of any size fits.  A picture that cannot be read is left
out, and :attr:`ImageSet.skipped` says why.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from imagegen.config import DataConfig

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")
FASHION_PLACES = (
    "data/FashionMNIST/raw",
    "~/.cache/torchvision/FashionMNIST/raw",
    "~/data/FashionMNIST/raw",
    "/usr/share/datasets/fashion-mnist",
)


class DataError(ValueError):
    """Images that are missing, or not what the recipe says."""


class ImageSet:
    """Images of one split, in memory.

    Args:
        images_NHWC: bytes.
        labels_N: class numbers.
        names: of the classes.
    """

    def __init__(self, images_NHWC: np.ndarray, labels_N: np.ndarray, names: Sequence[str]) -> None:
        self.images_NHWC, self.labels_N, self.names = images_NHWC, labels_N, tuple(names)
        self.skipped: dict[str, str] = {}
        """Reason by name of each picture that could not be read."""

    def __len__(self) -> int:
        return len(self.labels_N)

    def read(self, indices: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (B,H,W,C) of these images, and which of ``indices`` they are (unreadable ones are left out)."""
        return self.images_NHWC[np.asarray(indices)], np.arange(len(indices))

    def fingerprint(self) -> str:
        """16 hex digits that change with any pixel or label."""
        return hashlib.sha256(self.images_NHWC.tobytes() + self.labels_N.tobytes()).hexdigest()[:16]

    def head(self, limit: int) -> ImageSet:
        """The first ``limit`` images, all of them for 0."""
        if not limit or limit >= len(self):
            return self
        return ImageSet(self.images_NHWC[:limit], self.labels_N[:limit], self.names)


class FileSet(ImageSet):
    """Pictures on disk, read when asked for.

    Args:
        entries: name, place (a path, or a tar with offset and length) and class number of each.
        names: of the classes.
        config: size and channels.
    """

    def __init__(
        self, entries: Sequence[tuple[str, tuple[Path, int, int], int]], names: Sequence[str], config: DataConfig
    ) -> None:
        labels_N = np.array([label for _, _, label in entries], dtype=np.int64)
        super().__init__(np.zeros((0, config.size, config.size, config.channels), np.uint8), labels_N, names)
        self.entries, self.config = list(entries), config

    def read(self, indices: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images, kept = [], []
        for slot, index in enumerate(indices):
            name, (path, offset, length), _ = self.entries[int(index)]
            if name in self.skipped:
                continue
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    content = file.read(length) if length else file.read()
                images.append(decode_picture(content, self.config))
                kept.append(slot)
            except (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                self.skipped[name] = " ".join(str(error).replace(str(path), path.name).split())[:120]
        shape = (0, self.config.size, self.config.size, self.config.channels)
        return (np.stack(images) if images else np.zeros(shape, np.uint8)), np.array(kept, dtype=np.int64)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, (path, offset, length), label in self.entries:
            digest.update(f"{name} {length or path.stat().st_size} {offset} {label}\n".encode())
        return digest.hexdigest()[:16]

    def head(self, limit: int) -> ImageSet:
        return FileSet(self.entries[:limit], self.names, self.config) if limit else self


def decode_picture(content: bytes, config: DataConfig) -> np.ndarray:
    """A picture's bytes, turned as its EXIF says, scaled to cover ``config.size`` and cropped at its centre."""
    with Image.open(io.BytesIO(content)) as opened:
        upright = ImageOps.exif_transpose(opened)
        if upright.mode in ("RGBA", "LA", "PA", "P"):
            upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright.convert("RGBA"))
        picture = upright.convert("L" if config.channels == 1 else "RGB")
    if min(picture.size) < 2:
        raise ValueError(f"{picture.width} x {picture.height} pixels are no picture")
    fitted = ImageOps.fit(picture, (config.size, config.size), Image.Resampling.LANCZOS)
    return np.asarray(fitted, np.uint8).reshape(config.size, config.size, config.channels)


def load_images(config: DataConfig) -> tuple[ImageSet, ImageSet]:
    """Training and held-out images.

    Raises:
        DataError: nothing there, damaged files, or a class without images.
    """
    loader = {"fashion_mnist": _fashion, "digits": _digits, "folder": _folder, "webdataset": _webdataset}[config.kind]
    train, held = loader(config)
    train = train.head(config.limit)
    for split, images in (("training", train), ("held-out", held)):
        missing = [name for label, name in enumerate(images.names) if not (images.labels_N == label).any()]
        if missing:
            raise DataError(
                f"no {split} images of class {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}"
                f" ({len(missing)} of {len(images.names)} classes): remove the class, add images, or raise data.limit"
            )
    return train, held


def _fashion(config: DataConfig) -> tuple[ImageSet, ImageSet]:
    places = [config.folder] if config.folder else FASHION_PLACES
    for place in places:
        folder = Path(place).expanduser()
        if any((folder / f"train-images-idx3-ubyte{suffix}").is_file() for suffix in ("", ".gz")):
            break
    else:
        raise DataError(
            f"no Fashion-MNIST in {', '.join(places)}: apt-get install dataset-fashion-mnist, or give data.folder a"
            " folder with the four idx files (train-images-idx3-ubyte.gz, ...)"
        )
    sets = []
    for prefix in ("train", "t10k"):
        images_NHW = read_idx(folder / f"{prefix}-images-idx3-ubyte")
        labels_N = read_idx(folder / f"{prefix}-labels-idx1-ubyte").astype(np.int64)
        if images_NHW.ndim != 3 or images_NHW.shape[1:] != (28, 28) or len(images_NHW) != len(labels_N):
            raise DataError(
                f"{folder}: {prefix} holds {images_NHW.shape} images and {len(labels_N)} labels, not 28 x 28"
            )
        sets.append(ImageSet(images_NHW[..., None], labels_N, FASHION))
    return sets[0], sets[1]


def read_idx(path: Path) -> np.ndarray:
    """A file of MNIST's idx format, packed or not (``path`` without the .gz).

    Raises:
        DataError: missing or damaged.
    """
    try:
        packed = path.with_name(path.name + ".gz")
        content = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
        dimensions = content[3]
        shape = np.frombuffer(content, ">u4", dimensions, 4)
        return np.frombuffer(content, np.uint8, int(shape.prod()), 4 + 4 * dimensions).reshape(shape)
    except (OSError, EOFError, IndexError, ValueError) as error:
        raise DataError(f"{path}: not a whole idx file ({error}): copy or install it again") from error


def _digits(config: DataConfig) -> tuple[ImageSet, ImageSet]:
    """1797 grey digits of 8 x 8 pixels, read from the installed package without importing it; every tenth held out."""
    found = importlib.util.find_spec("sklearn")
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz" if found and found.origin else None
    if path is None or not path.is_file():
        raise DataError("data.kind=digits: the digits come with scikit-learn, pip install scikit-learn")
    with gzip.open(path, "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    images = np.minimum(rows[:, :64] * (255 / 16), 255).round().astype(np.uint8).reshape(-1, 8, 8, 1)
    labels = rows[:, 64].astype(np.int64)
    held = np.arange(len(rows)) % 10 == 9
    names = [str(digit) for digit in range(10)]
    return ImageSet(images[~held], labels[~held], names), ImageSet(images[held], labels[held], names)


def _split(
    entries: Sequence[tuple[str, tuple[Path, int, int], int]], names: Sequence[str], config: DataConfig
) -> tuple[ImageSet, ImageSet]:
    """Hold out a share by a hash of the name: the same pictures whatever is added later.

    A class too small for its share has its first picture by that hash held out, if it has another to train on.
    """

    def place(entry: tuple[str, tuple[Path, int, int], int]) -> float:
        return int(hashlib.sha256(entry[0].encode()).hexdigest()[:8], 16) / 2**32

    held = {entry[0] for entry in entries if place(entry) < config.holdout}
    by_class: dict[int, list[tuple[str, tuple[Path, int, int], int]]] = {}
    for entry in entries:
        by_class.setdefault(entry[2], []).append(entry)
    for own in by_class.values():
        if len(own) > 1 and not any(entry[0] in held for entry in own):
            held.add(min(own, key=place)[0])
    kept = [[entry for entry in entries if (entry[0] in held) == wanted] for wanted in (False, True)]
    return FileSet(kept[0], names, config), FileSet(kept[1], names, config)


def _folder(config: DataConfig) -> tuple[ImageSet, ImageSet]:
    root = Path(config.folder).expanduser()
    if not root.is_dir():
        raise DataError(f"data.folder={config.folder}: no such folder")
    test = next((root / name for name in ("test", "val", "validation") if (root / name).is_dir()), None)
    train = root / "train" if (root / "train").is_dir() else root
    names = sorted(entry.name for entry in train.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    entries = _pictures(train, names)
    if not entries:
        raise DataError(f"{train}: no pictures; one sub-folder a class is expected ({', '.join(sorted(SUFFIXES))})")
    if test is None or train == root:
        return _split(entries, names, config)
    return FileSet(entries, names, config), FileSet(_pictures(test, names), names, config)


def _pictures(root: Path, names: Sequence[str]) -> list[tuple[str, tuple[Path, int, int], int]]:
    return [
        (str(path.relative_to(root)), (path, 0, 0), label)
        for label, name in enumerate(names)
        for path in sorted((root / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]


def _webdataset(config: DataConfig) -> tuple[ImageSet, ImageSet]:
    """Tars with KEY.png (or .jpg) beside KEY.cls, a class number or name; unpacked ones are read in place."""
    root = Path(config.folder).expanduser()
    tars = sorted(root.glob("*.tar"))
    if not tars:
        raise DataError(f"data.folder={config.folder}: no .tar files there")
    places: dict[str, tuple[Path, int, int]] = {}
    classes: dict[str, str] = {}
    for path in tars:
        try:
            with tarfile.open(path, "r:") as tar:
                for member in tar:
                    key, suffix = f"{path.stem}/{member.name.rpartition('.')[0]}", Path(member.name).suffix.lower()
                    if suffix in SUFFIXES:
                        places[key] = (path, member.offset_data, member.size)
                    elif suffix == ".cls" and (held := tar.extractfile(member)):
                        classes[key] = held.read().decode("utf-8", "replace").strip()
        except (tarfile.TarError, OSError) as error:
            raise DataError(f"{path}: not a whole tar ({error}): copy it again") from error
    keys = sorted(places.keys() & classes.keys())
    if not keys:
        raise DataError(f"{root}: no picture has a .cls file beside it")
    numeric = all(classes[key].isdigit() for key in keys)
    names = sorted({classes[key] for key in keys}, key=(lambda name: int(name)) if numeric else None)
    return _split([(key, places[key], names.index(classes[key])) for key in keys], names, config)
