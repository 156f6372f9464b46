"""Noise on images, and joint noise."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from ivqa.robustness import (
    BasicQuestionNoise,
    Blur,
    GaussianNoise,
    ImageNoise,
    JointNoise,
    JPEGCompression,
    Occlusion,
    WordShuffling,
)
from ivqa.robustness.noise import DisturbsImages

NOISES = [GaussianNoise(), Blur(), JPEGCompression(), Occlusion()]


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
    disturbed = joint.disturbed_image(picture, 1, 4)
    assert disturbed.tobytes() == pixels.disturbed_image(picture, 1, 4).tobytes()
    assert joint.figures(questions, []) == {}
    with pytest.raises(ValueError, match="equally many levels, not 3 on the question and 7"):
        JointNoise(WordShuffling(levels=3), pixels)
    with pytest.raises(ValueError, match="WordShuffling does not disturb images"):
        JointNoise(words, words)


def test_joint_noise_has_the_certificate_of_its_question_noise() -> None:
    class Known(BasicQuestionNoise):
        def figures(self, questions: Any, training: Any) -> dict[str, float]:
            return {"gap": 1e-9}

    assert JointNoise(Known(None), Blur()).figures([], []) == {"gap": 1e-9}  # type: ignore[arg-type]
