"""Which features a component will offer, and at how many places, before it computes them."""

from collections.abc import Callable, Mapping

from ivqa.features.backbones import BackboneFeatures, ResNetFeatures, VGGFeatures
from ivqa.features.concept_features import ConceptFeatures


def offered_places(component: object) -> Mapping[str, int | None] | None:
    """The names of the features that `component` computes, and the places of each.

    Args:
        component: What features= configures.

    Returns:
        Places of an image, None for one vector an image; None for a component of one's own, of
        which nothing is known before it has computed features.

    >>> offered_places(ConceptFeatures(image_size=96))
    {'grid': 144, 'pooled': None, 'concepts': None}
    """
    if isinstance(component, ConceptFeatures):
        side = _halved(component.image_size, 3, _up)
        return {"grid": side**2, "pooled": None, "concepts": None}
    if isinstance(component, BackboneFeatures) and component.head in (ResNetFeatures, VGGFeatures):
        rounded = _up if component.head is ResNetFeatures else _down
        return {"grid": _halved(component.image_size, 5, rounded) ** 2, "pooled": None}
    return None


def _up(size: int) -> int:
    """Half of it, of a padded convolution."""
    return (size + 1) // 2


def _down(size: int) -> int:
    """Half of it, of pooling without padding."""
    return size // 2


def _halved(size: int, times: int, half: Callable[[int], int]) -> int:
    for _ in range(times):
        size = half(size)
    return size
