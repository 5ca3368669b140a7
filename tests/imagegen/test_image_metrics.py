"""Metrics: known values, an independent root of the matrix product, collapse and copying are seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from imagegen.metrics import (
    MetricError,
    PixelPca,
    agreement,
    class_score,
    export_npz,
    frechet,
    inception_distance,
    kernel_distance,
    memorisation,
    precision_recall,
)


def cloud(count: int, dim: int, shift: float = 0.0, spread: float = 1.0, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)).double() * spread + shift


def test_frechet_of_a_set_with_itself_is_zero():
    points = cloud(200, 8)
    assert frechet(points, points) < 1e-9


def test_frechet_of_a_shift_is_its_squared_length():
    points = cloud(200, 8)
    assert frechet(points, points + 0.5) == pytest.approx(8 * 0.25)


def test_frechet_equals_the_root_of_scipy():
    """The textbook formula with a general matrix root, on covariances that do not commute."""
    linalg = pytest.importorskip("scipy.linalg")
    mix = cloud(6, 6, seed=3)
    first, second = cloud(300, 6) @ mix, cloud(300, 6, 0.3, 1.4, seed=1)
    cov_1, cov_2 = (np.cov(points.numpy().T) for points in (first, second))
    root = linalg.sqrtm(cov_1 @ cov_2).real
    wanted = float((first.mean(0) - second.mean(0)).pow(2).sum()) + np.trace(cov_1 + cov_2 - 2 * root)
    assert frechet(first, second) == pytest.approx(wanted, rel=1e-8)


def test_frechet_of_degenerate_sets_is_finite():
    """Fewer images than features: the covariance is singular, where a general root goes wrong."""
    assert 0 <= frechet(cloud(5, 30), cloud(6, 30, seed=1)) < 200
    with pytest.raises(MetricError, match="1 image"):
        frechet(cloud(1, 4), cloud(9, 4))


def test_kernel_distance_is_unbiased_and_sees_a_shift():
    """Two draws of one cloud: the mean over subsets lies within three of its spreads of zero."""
    same, spread = kernel_distance(cloud(600, 8), cloud(600, 8, seed=1), rows=200)
    far, _ = kernel_distance(cloud(600, 8), cloud(600, 8, 1.0, seed=1), rows=200)
    assert abs(same) < 3 * spread and far > 10 * abs(same)


def test_collapse_has_precision_and_no_recall():
    real = cloud(400, 4).float()
    tight = real[:1] + cloud(400, 4, spread=1e-3, seed=1).float()
    precision, recall = precision_recall(real, tight)
    assert precision > 0.95 and recall < 0.05
    assert precision_recall(real, real) == (1.0, 1.0)
    away = precision_recall(real, real + 100)
    assert away == (0.0, 0.0)


def test_class_score_and_agreement():
    sure = torch.eye(4).repeat(5, 1)
    assert class_score(sure) == pytest.approx(4, rel=1e-3) and class_score(torch.full((9, 4), 0.25)) == pytest.approx(1)
    assert agreement(sure, torch.arange(4).repeat(5)) == 1.0
    assert agreement(sure, torch.zeros(20, dtype=torch.long)) == 0.25


def test_pca_keeps_the_directions_that_vary():
    images = torch.zeros(50, 4, 4, 1, dtype=torch.uint8)
    images[:, 1, 2, 0] = torch.arange(50, dtype=torch.uint8) * 5
    features = PixelPca(images, 3)(images)
    assert features.shape == (50, 3)
    assert features[:, -1].std() > 0.2 and features[:, :-1].abs().max() < 1e-6


def test_copies_of_training_images_are_noticed():
    source = torch.Generator().manual_seed(0)
    pools = [torch.randint(256, (300, 6, 6, 1), generator=source, dtype=torch.uint8) for _ in range(3)]
    train, held, fresh = pools
    assert memorisation(fresh, held, train)["copies"] < 0.1
    copied = memorisation(train[:100], held, train)
    assert copied["copies"] == 1.0 and copied["nearest_made"] == 0 and copied["nearest_held"] > 10


def test_npz_is_what_adms_evaluator_reads(tmp_path):
    images = torch.arange(2 * 3 * 3, dtype=torch.uint8).view(2, 3, 3, 1)
    export_npz(images, torch.tensor([4, 5]), tmp_path / "made" / "a.npz")
    with np.load(tmp_path / "made" / "a.npz") as held:
        assert held["arr_0"].shape == (2, 3, 3, 3) and held["arr_0"].dtype == np.uint8
        assert np.array_equal(held["arr_0"][..., 2], images[..., 0].numpy()) and held["arr_1"].tolist() == [4, 5]


def test_fid_without_its_weights_says_what_is_missing(tmp_path):
    with pytest.raises(MetricError, match=r"torch-fidelity|no such file"):
        inception_distance(torch.zeros(2, 4, 4, 1), torch.zeros(2, 4, 4, 1), tmp_path / "none.pth")
