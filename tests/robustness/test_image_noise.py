"""Noise on images, and joint noise."""

from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from ivqa.robustness import (
    Blur,
    GaussianNoise,
    JointNoise,
    JPEGCompression,
    MotionBlur,
    Occlusion,
    SaltAndPepper,
    WordShuffling,
)
from ivqa.robustness.image_noise import ImageNoise, motion_kernel
from ivqa.robustness.noise import DisturbsImages

NOISES = [GaussianNoise(), Blur(), MotionBlur(), JPEGCompression(), Occlusion(), SaltAndPepper()]


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    """A picture with edges, a gradient and a texture, 120 x 80 pixels."""
    rng = np.random.default_rng(0)
    pixels = np.zeros((80, 120, 3))
    pixels[..., 0] = np.linspace(0, 255, 120)
    pixels[20:60, 30:70, 1] = 200
    pixels[..., 2] = rng.random((80, 120)) * 120
    return Image.fromarray(pixels.astype(np.uint8))


def _change(noise: ImageNoise, picture: Image.Image, level: int) -> float:
    disturbed = np.asarray(noise.disturbed_image(picture, 7, level), dtype=float)
    return float(np.abs(disturbed - np.asarray(picture, dtype=float)).mean())


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_a_higher_level_changes_the_image_more_but_not_the_question(
    noise: ImageNoise, picture: Image.Image
) -> None:
    before = picture.tobytes()
    changes = [_change(noise, picture, level) for level in range(1, noise.levels + 1)]
    assert len(changes) == 7
    assert (np.diff(changes) > 0).all()
    assert changes[0] > 0
    assert picture.tobytes() == before
    disturbed = noise.disturbed_image(picture, 7, 3)
    assert (disturbed.size, disturbed.mode) == (picture.size, "RGB")
    assert disturbed.tobytes() == noise.disturbed_image(picture, 7, 3).tobytes()
    assert noise.disturbed(["Is it?", "Why?"], []) == [["Is it?", "Why?"]] * 7
    assert isinstance(noise, DisturbsImages)


def test_the_level_is_proportional_to_the_strength(picture: Image.Image) -> None:
    grey = Image.new("RGB", (200, 200), (128, 128, 128))
    noisy = np.asarray(GaussianNoise(step=0.02).disturbed_image(grey, 1, 3), dtype=float)
    assert noisy.std() / 255 == pytest.approx(0.06, rel=0.02)
    other = np.asarray(GaussianNoise(step=0.02).disturbed_image(grey, 2, 3), dtype=float)
    assert np.corrcoef(noisy.ravel(), other.ravel())[0, 1] == pytest.approx(0, abs=0.02)
    white = Image.new("RGB", (200, 100), "white")
    previous = np.zeros((100, 200), dtype=bool)
    for level in range(1, 8):
        shown = np.asarray(Occlusion(step=0.08).disturbed_image(white, 1, level))
        hidden = (shown == 128).all(axis=2)
        assert hidden.mean() == pytest.approx(0.08 * level, abs=0.01)
        assert not (previous & ~hidden).any()  # a higher level contains the lower one
        previous = hidden


def test_joint_noise_is_both_at_the_same_level(picture: Image.Image) -> None:
    words, pixels = WordShuffling(), Occlusion()
    joint = JointNoise(words, pixels)
    questions = ["What color is the small car?"]
    assert joint.disturbed(questions, []) == words.disturbed(questions, [])
    found = [joint.disturbed_image(picture, 1, level).tobytes() for level in range(1, 8)]
    assert found == [pixels.disturbed_image(picture, 1, at).tobytes() for at in range(1, 8)]
    assert len(set(found)) == 7
    assert joint.figures(questions, []) == {}
    with pytest.raises(ValueError, match="equally many levels, not 3 on the question and 7"):
        JointNoise(WordShuffling(levels=3), pixels)
    with pytest.raises(ValueError, match="WordShuffling does not disturb images"):
        JointNoise(words, words)


class _Appended:
    """Noise on questions that appends the pool, and refuses a question without words."""

    levels = 7

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        if "" in questions:
            raise ValueError(f"an empty question, and a pool of {len(training)}")

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        return [[" ".join([text, *training]) for text in questions]] * 7

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        return {"gap": len(questions), "pool": len(training)}


def test_joint_noise_asks_its_noise_on_questions() -> None:
    joint = JointNoise(_Appended(), Blur())
    assert joint.levels == 7
    assert joint.disturbed(["Is it?"], ["Why?"])[6] == ["Is it? Why?"]
    assert joint.figures(["Is it?"], ["Why?", "How?"]) == {"gap": 1, "pool": 2}
    joint.check(["Is it?"], ["Why?"])
    with pytest.raises(ValueError, match="an empty question, and a pool of 1"):
        joint.check([""], ["Why?"])
    JointNoise(WordShuffling(), Blur()).check([""], [])  # it has nothing to check


def test_the_kernel_of_a_motion_blur_lies_on_its_line() -> None:
    # Horizontal, length 4: the ends share half a pixel with their neighbours outside.
    across = motion_kernel(4.0, 0.0)
    assert across.shape == (5, 5)
    assert across.sum() == pytest.approx(1)
    assert across[[0, 1, 3, 4]].sum() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(across[2], [0.125, 0.25, 0.25, 0.25, 0.125], atol=0.01)
    np.testing.assert_allclose(motion_kernel(4.0, np.pi / 2), across.T, atol=1e-9)
    falling = motion_kernel(6.0, np.pi / 4)  # upwards to the right
    assert np.trace(falling[:, ::-1]) > 0.6
    np.testing.assert_allclose(falling, falling[::-1, ::-1], atol=1e-9)
    np.testing.assert_allclose(motion_kernel(0.0, 1.0), [[1.0]])


def test_a_motion_blur_is_a_mean_along_its_line() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    noise = MotionBlur(step=0.05)
    found = np.asarray(noise.disturbed_image(Image.fromarray(pixels), 7, 3), dtype=float)
    angle = np.pi * np.random.default_rng([0, 7]).random()
    kernel = motion_kernel(0.05 * 3 * 40, angle)
    radius = len(kernel) // 2
    for row, column in ((20, 25), (0, 0), (39, 12)):
        rows = np.clip(np.arange(row - radius, row + radius + 1), 0, 39)
        columns = np.clip(np.arange(column - radius, column + radius + 1), 0, 49)
        patch = pixels[np.ix_(rows, columns)].astype(float)
        # Symmetric, so convolution and correlation are the same.
        expected = (patch * kernel[:, :, None]).sum(axis=(0, 1))
        np.testing.assert_allclose(found[row, column], expected, atol=0.51)


def test_salt_and_pepper_hits_the_stated_share_of_the_pixels() -> None:
    grey = Image.new("RGB", (200, 200), (100, 150, 200))
    noise = SaltAndPepper(step=0.05)
    earlier = np.zeros((200, 200), dtype=bool)
    for level in (1, 3, 7):
        pixels = np.asarray(noise.disturbed_image(grey, 1, level))
        white, black = (pixels == 255).all(axis=2), (pixels == 0).all(axis=2)
        hit = white | black
        # The standard deviation of a share of 40,000 pixels is 0.0025 at most.
        assert hit.mean() == pytest.approx(0.05 * level, abs=0.01)
        assert white.mean() == pytest.approx(0.025 * level, abs=0.01)
        assert (pixels[~hit] == (100, 150, 200)).all()
        assert (hit | ~earlier).all()  # contains the pixels of the level below
        earlier = hit
