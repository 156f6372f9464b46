"""The protocols of noise: what a noise source has, and what it may have in addition.

A noise source is one class and one file in conf/noise. `BasicQuestionNoise`, `BQDNoise`, `VQABQ`
and `WordShuffling` disturb questions, the classes of `image_noise` images.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from PIL import Image


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
class Certified(Protocol):
    """Noise with figures of how accurately it was computed."""

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """Computes figures of the noise.

        Args:
            questions: N questions, as for `disturbed`.
            training: Questions that the noise may use, as for `disturbed`.

        Returns:
            Figures by name.
        """


@runtime_checkable
class Checkable(Protocol):
    """Noise that can check, before a long computation, that it can disturb every question."""

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks in a short time what `disturbed` needs.

        Args:
            questions: N questions, as for `disturbed`.
            training: Questions that the noise may use, as for `disturbed`.

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
