"""Geometry of a degraded page: one map moves the boxes and its inverse the pixels, so both agree to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

Rng = np.random.Generator

MAX_ANGLE = 1.5
"""Largest rotation in degrees."""


@dataclass(frozen=True, slots=True)
class Warp:
    """A homography followed by a vertical bend ``y += bend * (1 - u^2) + wave * sin(...)``, u in [-1, 1] along x."""

    matrix: np.ndarray
    bend: float = 0.0
    wave: float = 0.0
    phase: float = 0.0
    width: float = 1.0

    def offset(self, x: np.ndarray) -> np.ndarray:
        """The bend's vertical shift at output column ``x``."""
        u = 2 * x / self.width - 1
        return self.bend * (1 - u * u) + self.wave * np.sin(2 * np.pi * x / self.width + self.phase)

    def points(self, points_N2: np.ndarray) -> np.ndarray:
        """Where input points land."""
        homogeneous = np.column_stack([points_N2, np.ones(len(points_N2))]) @ self.matrix.T
        moved = homogeneous[:, :2] / homogeneous[:, 2:]
        moved[:, 1] += self.offset(moved[:, 0])
        return moved

    def boxes(self, boxes_N4: np.ndarray) -> np.ndarray:
        """The axis-aligned bounds of each moved box, from 17 points on each of its long edges."""
        if not len(boxes_N4):
            return boxes_N4.copy()
        t = np.linspace(0, 1, 17)
        x0, y0, x1, y1 = (boxes_N4[:, i, None] for i in range(4))
        xs = x0 + (x1 - x0) * t
        grid = np.stack([np.concatenate([xs, xs], 1), np.concatenate([y0 + 0 * xs, y1 + 0 * xs], 1)], axis=-1)
        moved = self.points(grid.reshape(-1, 2)).reshape(len(boxes_N4), -1, 2)
        return np.concatenate([moved.min(1), moved.max(1)], axis=1)

    def image(self, image: np.ndarray) -> np.ndarray:
        """The moved image, of the same size; what comes in from outside repeats the border."""
        height, width = image.shape
        if not self.bend and not self.wave:
            return cv2.warpPerspective(
                image, self.matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
            )
        xs, ys = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
        ys = ys - self.offset(xs[:1]).astype(np.float32)
        inverse = np.linalg.inv(self.matrix).astype(np.float32)
        depth = inverse[2, 0] * xs + inverse[2, 1] * ys + inverse[2, 2]
        map_x = (inverse[0, 0] * xs + inverse[0, 1] * ys + inverse[0, 2]) / depth
        map_y = (inverse[1, 0] * xs + inverse[1, 1] * ys + inverse[1, 2]) / depth
        return cv2.remap(image, map_x, map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def random_warp(
    shape: tuple[int, int], rng: Rng, strength: float, max_angle: float = MAX_ANGLE, bend: float = 0.0
) -> Warp:
    """Rotation, shear, a little perspective and (``bend`` in pixels) curvature about the image's centre."""
    height, width = shape
    angle = np.deg2rad(float(np.clip(rng.normal(0, 0.7 * strength * max_angle), -max_angle, max_angle)))
    shear = float(rng.normal(0, 0.03 * strength))
    cos, sin = np.cos(angle), np.sin(angle)
    centre = np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1.0]])
    turn = np.array([[cos, sin + shear, 0], [-sin, cos, 0], [0, 0, 1.0]])
    # Perspective is bounded by the change of scale at the far edge of the longer side.
    tilt = float(np.clip(rng.normal(0, 0.03 * strength), -0.08, 0.08)) / max(width, height)
    tip = float(np.clip(rng.normal(0, 0.03 * strength), -0.08, 0.08)) / max(width, height)
    project = np.array([[1, 0, 0], [0, 1, 0], [tilt, tip, 1.0]])
    matrix = np.linalg.inv(centre) @ project @ turn @ centre
    return Warp(
        matrix, float(rng.normal(0, bend)), float(rng.normal(0, bend / 3)), float(rng.uniform(0, 6.28)), float(width)
    )
