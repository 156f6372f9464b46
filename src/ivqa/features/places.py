"""The names and the numbers of positions of features, before they are computed."""

from collections.abc import Callable, Mapping

from ivqa.features.backbones import BackboneFeatures, ResNetFeatures, VGGFeatures
from ivqa.features.concept_features import ConceptFeatures


def offered_places(component: object) -> Mapping[str, int | None] | None:
    """The features that a component computes, with their number of positions.

    Args:
        component: The component that features= configures. One that has a method `places` returns
            this itself.

    Returns:
        The number L of positions of each feature, by name; None for a feature of one vector per
        image. None for a component of another class, whose features are not known in advance.

    Example:
        >>> offered_places(ConceptFeatures(image_size=96))
        {'grid': 144, 'pooled': None, 'concepts': None}
    """
    if (places := getattr(component, "places", None)) is not None:
        return places()
    # The grid of the compact CNN has stride 8 = 2^3; those of ResNet and VGG have stride 32 = 2^5.
    if isinstance(component, ConceptFeatures):
        side = _halved(component.image_size, 3, _half_up)
        return {"grid": side**2, "pooled": None, "concepts": None}
    if isinstance(component, BackboneFeatures) and component.head in (ResNetFeatures, VGGFeatures):
        rounded = _half_up if component.head is ResNetFeatures else _half_down
        return {"grid": _halved(component.image_size, 5, rounded) ** 2, "pooled": None}
    return None


def _half_up(size: int) -> int:
    """The output size of a padded convolution of stride 2."""
    return (size + 1) // 2


def _half_down(size: int) -> int:
    """The output size of a pooling of stride 2 without padding."""
    return size // 2


def _halved(size: int, times: int, half: Callable[[int], int]) -> int:
    for _ in range(times):
        size = half(size)
    return size
