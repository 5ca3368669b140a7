"""How good generated images are, with names that say what was measured.

Frechet distance, kernel distance, precision and recall over the features of our own classifier or of a PCA of the
pixels.  They are never called FID, IS or LPIPS: those names belong to networks that are not here.  Every distance is
printed with N and its floors, what real images score among themselves.

Shape suffixes: N M images, D features, K classes, P pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

Features = Callable[[Tensor], Tensor]
"""Bytes (N,H,W,C) to features (N,D) in double."""


class MetricError(ValueError):
    """Too few images for a figure, or sets that do not fit each other."""


def moments(features_ND: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (D) and covariance (D,D), in double.

    Raises:
        MetricError: fewer than two rows.
    """
    if len(features_ND) < 2:
        raise MetricError(f"{len(features_ND)} image(s): a covariance needs at least 2")
    features_ND = features_ND.double()
    return features_ND.mean(0), torch.cov(features_ND.T).reshape(features_ND.shape[1], -1)


def frechet(first_ND: Tensor, second_MD: Tensor) -> float:
    """Frechet distance of two Gaussians fitted to the rows: |m1-m2|^2 + Tr(S1 + S2 - 2 (S1 S2)^(1/2)).

    The trace of the root is the sum of the roots of the eigenvalues of S1^(1/2) S2 S1^(1/2), which is symmetric, so no
    complex root is ever taken.
    """
    mean_1, cov_1 = moments(first_ND)
    mean_2, cov_2 = moments(second_MD)
    values, vectors = torch.linalg.eigh(cov_1)
    root_1 = vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.T
    cross = torch.linalg.eigvalsh(root_1 @ cov_2 @ root_1).clamp(min=0).sqrt().sum()
    return max(0.0, float((mean_1 - mean_2).pow(2).sum() + cov_1.trace() + cov_2.trace() - 2 * cross))


def kernel_distance(
    first_ND: Tensor, second_MD: Tensor, seed: int = 0, subsets: int = 50, rows: int = 500
) -> tuple[float, float]:
    """Unbiased squared MMD under (x.y / D + 1)^3, mean and spread over subsets, as KID does with other features."""
    rows = min(rows, len(first_ND), len(second_MD))
    if rows < 2:
        raise MetricError("a kernel distance needs at least 2 images on each side")
    generator = torch.Generator().manual_seed(seed)
    D = first_ND.shape[1]
    found = []
    for _ in range(subsets):
        x = first_ND[torch.randperm(len(first_ND), generator=generator)[:rows]].double()
        y = second_MD[torch.randperm(len(second_MD), generator=generator)[:rows]].double()
        xx, yy, xy = ((a @ b.T / D + 1) ** 3 for a, b in ((x, x), (y, y), (x, y)))
        inside = (xx.sum() - xx.trace() + yy.sum() - yy.trace()) / (rows * (rows - 1))
        found.append(float(inside - 2 * xy.mean()))
    return float(np.mean(found)), float(np.std(found))


def precision_recall(real_ND: Tensor, made_MD: Tensor, k: int = 3) -> tuple[float, float]:
    """Share of made images inside the real ones' k-nearest balls, and the other way round (arXiv 1904.06991)."""
    return _covered(real_ND, made_MD, k), _covered(made_MD, real_ND, k)


def _covered(balls_ND: Tensor, points_MD: Tensor, k: int, chunk: int = 1000) -> float:
    if len(balls_ND) <= k:
        raise MetricError(f"{len(balls_ND)} images: balls to the {k}rd neighbour need more than {k}")
    radius_N = torch.cat([torch.cdist(part, balls_ND).kthvalue(k + 1, 1).values for part in balls_ND.split(chunk)])
    inside = [(torch.cdist(part, balls_ND) <= radius_N).any(1) for part in points_MD.split(chunk)]
    return float(torch.cat(inside).double().mean())


def class_score(shares_NK: Tensor) -> float:
    """exp of the mean KL of p(class | image) from p(class): from 1 to the number of classes."""
    shares = shares_NK.double().clamp(min=1e-12)
    mean = shares.mean(0)
    return float((shares * (shares.log() - mean.log())).sum(1).mean().exp())


def agreement(shares_NK: Tensor, labels_N: Tensor) -> float:
    """Share of images that the classifier puts into the class they were drawn for."""
    return float((shares_NK.argmax(1) == labels_N).double().mean())


class PixelPca:
    """Principal components of training pixels: features that know no labels.

    Args:
        images_NHWC: training images.
        components: D.
    """

    def __init__(self, images_NHWC: Tensor, components: int = 64) -> None:
        pixels_NP = images_NHWC.flatten(1).double() / 255
        self.mean_P = pixels_NP.mean(0)
        values, vectors = torch.linalg.eigh(torch.cov(pixels_NP.T))
        self.basis_PD = vectors[:, -min(components, len(values)) :]

    def __call__(self, images_NHWC: Tensor) -> Tensor:
        return (images_NHWC.flatten(1).double() / 255 - self.mean_P) @ self.basis_PD


def nearest_distances(images_NHWC: Tensor, train_MHWC: Tensor, chunk: int = 256) -> tuple[Tensor, Tensor]:
    """Root mean squared difference (of 255) to the nearest training image, and which one that is."""
    train_MP = train_MHWC.flatten(1).float()
    best = [torch.cdist(part.flatten(1).float(), train_MP).min(1) for part in images_NHWC.split(chunk)]
    return torch.cat([b.values for b in best]) / train_MP.shape[1] ** 0.5, torch.cat([b.indices for b in best])


def memorisation(made_NHWC: Tensor, held_MHWC: Tensor, train: Tensor) -> dict[str, float]:
    """Are made images closer to the training set than unseen real ones are?

    Returns:
        Median distances of both, and ``copies``: the share of made images that are nearer to a training image than all
        but the closest hundredth of the held-out images. 0.01 is what an honest generator of real-looking images has.
    """
    made, _ = nearest_distances(made_NHWC, train)
    held, _ = nearest_distances(held_MHWC, train)
    return {
        "nearest_made": float(made.median()),
        "nearest_held": float(held.median()),
        "copies": float((made < held.quantile(0.01)).double().mean()),
    }


def export_npz(images_NHWC: Tensor, labels_N: Tensor, path: Path) -> None:
    """Write ``arr_0`` (bytes N,H,W,3) and ``arr_1`` (labels), as ADM's evaluator reads them for the real FID."""
    colour = images_NHWC.expand(-1, -1, -1, 3) if images_NHWC.shape[-1] == 1 else images_NHWC
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, arr_0=np.ascontiguousarray(colour.numpy()), arr_1=labels_N.numpy())


def inception_distance(made_NHWC: Tensor, real_NHWC: Tensor, weights: Path) -> float:
    """FID by torch-fidelity's code and Inception weights, where both are on this machine.

    Raises:
        MetricError: package or weights are missing.
    """
    try:
        from torch_fidelity import feature_extractor_inceptionv3 as inception
    except ImportError as error:
        raise MetricError("FID needs torch-fidelity: pip install 'docvision[fid]'") from error
    if not weights.is_file():
        raise MetricError(f"{weights}: no such file; FID needs torch-fidelity's pt_inception-2015-12-05-6726825d.pth")
    network = inception.FeatureExtractorInceptionV3("inception-v3-compat", ["2048"], str(weights)).eval()

    def look(images: Tensor) -> Tensor:
        colour = images.expand(-1, -1, -1, 3) if images.shape[-1] == 1 else images
        with torch.inference_mode():
            return torch.cat([network(part.permute(0, 3, 1, 2).contiguous())[0] for part in colour.split(64)])

    return frechet(look(made_NHWC), look(real_NHWC))
