"""A sheet of small samples of a data set: whether they look like documents is seen at a glance.

python -m data_pipeline.contact_sheet -o sheet.jpg             # 24 of the mixed recipe
python -m data_pipeline.contact_sheet forms -o sheet.png --seed 3 --across 4 --down 3
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

from data_pipeline.build import SampleError, load_recipe, make_rows

_GAP, _GROUND = 10, 96


def contact_sheet(images: list[np.ndarray], across: int, cell: tuple[int, int] = (300, 400)) -> np.ndarray:
    """Grey pictures in rows on a grey ground, each as large as its cell of (width, height) allows."""
    width, height = cell
    down = -(-len(images) // across)
    shape = down * (height + _GAP) + _GAP, across * (width + _GAP) + _GAP
    sheet: np.ndarray = np.full(shape, _GROUND, np.uint8)
    for number, image in enumerate(images):
        scale = min(width / image.shape[1], height / image.shape[0])
        size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        x = _GAP + number % across * (width + _GAP) + (width - size[0]) // 2
        y = _GAP + number // across * (height + _GAP) + (height - size[1]) // 2
        sheet[y : y + size[1], x : x + size[0]] = small
    return sheet


def write_sheet(path: Path, sheet: np.ndarray, most_bytes: int = 600_000) -> int:
    """Write PNG or, at the best quality that stays within ``most_bytes``, JPEG; the size in bytes.

    Raises:
        ValueError: another ending than .png, .jpg or .jpeg.
    """
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise ValueError(f"{path} ends in {path.suffix!r}: use .png or .jpg")
    if path.suffix.lower() == ".png":
        data = cv2.imencode(".png", sheet, [cv2.IMWRITE_PNG_COMPRESSION, 9])[1].tobytes()
    else:
        for quality in range(92, 20, -6):
            data = cv2.imencode(".jpg", sheet, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
            if len(data) <= most_bytes:
                break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return len(data)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m data_pipeline.contact_sheet", description="Samples on one sheet.")
    parser.add_argument("recipe", nargs="?", default="mixed", help="a recipe's name or path (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="a .png or .jpg file")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--across", type=int, default=6, help="samples in a row (default %(default)s)")
    parser.add_argument("--down", type=int, default=4, help="rows (default %(default)s)")
    given = parser.parse_args(arguments)
    if given.across < 1 or given.down < 1 or given.seed < 0:
        parser.error("--across and --down must be at least 1, --seed at least 0")
    try:
        rows = make_rows(load_recipe(given.recipe), given.seed, range(given.across * given.down))
        images = [cv2.imdecode(np.frombuffer(row["image"]["bytes"], np.uint8), cv2.IMREAD_GRAYSCALE) for row in rows]
        size = write_sheet(given.output, contact_sheet([image for image in images if image is not None], given.across))
    except (ValueError, OSError, SampleError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(f"{given.output}: {len(images)} samples of {given.recipe}, {size / 1e3:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
