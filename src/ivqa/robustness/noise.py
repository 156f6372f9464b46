"""The protocols of noise: what a noise source has, and what it may have in addition.

A noise source is one class and one file in conf/noise. `BasicQuestionNoise`, `BQDNoise`, `VQABQ`,
`WordShuffling` and `Rephrasing` disturb questions, the classes of `image_noise` images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PIL import Image

from ivqa.errors import UserError


class Noise(Protocol):
    """Disturbs questions. Level 0 is without noise, 1 the least noise, `levels` the most."""

    @property
    def levels(self) -> int:
        """The highest level."""

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Disturbs questions.

        Args:
            questions: N questions.
            training: Questions that the noise may use, such as a pool of basic questions.

        Returns:
            The N disturbed questions at each level 1..levels.
        """


@runtime_checkable
class HasFigures(Protocol):
    """Noise with figures of its own, such as how accurately it was computed."""

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """Computes figures by name; the arguments are those of `disturbed`."""


@runtime_checkable
class Checkable(Protocol):
    """Noise that can check, before a long computation, that it can disturb every question."""

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks in a short time what `disturbed` needs, whose arguments it has.

        Raises:
            UserError: `disturbed` would raise it for these arguments.
        """


@runtime_checkable
class DisturbsImages(Protocol):
    """Noise that disturbs images, with or without the questions."""

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """Disturbs an image.

        Args:
            image: An RGB image. It is not changed.
            image_id: Id of the image, which seeds random noise.
            level: A level in 1..levels.

        Returns:
            The disturbed RGB image, of the same size; the same one in every call.
        """


@dataclass(frozen=True)
class JointNoise:
    """Disturbs the question and the image at once, both at the same level.

    Args:
        question: Noise on questions.
        image: Noise on images, with the same number of levels.

    Raises:
        UserError: The two have different numbers of levels, or `image` does not disturb images.
    """

    question: Noise
    image: Noise

    def __post_init__(self) -> None:
        if not isinstance(self.image, DisturbsImages):
            raise UserError(
                f"{type(self.image).__name__} does not disturb images; choose another noise.image="
            )
        if self.question.levels != self.image.levels:
            raise UserError(
                f"joint noise needs equally many levels, not {self.question.levels} on the "
                f"question and {self.image.levels} on the image"
            )

    @property
    def levels(self) -> int:
        """The number of levels of both."""
        return self.question.levels

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks that the noise on the question can disturb every question."""
        if isinstance(self.question, Checkable):
            self.question.check(questions, training)

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Disturbs questions with the noise on the question."""
        return self.question.disturbed(questions, training)

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """Disturbs an image with the noise on the image."""
        assert isinstance(self.image, DisturbsImages)
        return self.image.disturbed_image(image, image_id, level)

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """The figures of the noise on the question; none where it has none."""
        if isinstance(self.question, HasFigures):
            return self.question.figures(questions, training)
        return {}
