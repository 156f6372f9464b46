"""The names and the numbers of positions of features, before they are computed."""

from collections.abc import Callable, Mapping


def offered_places(component: object) -> Mapping[str, int | None] | None:
    """The features that a component computes, with their number of positions.

    Args:
        component: The component that features= configures. One that knows its features in advance
            has a method `places`, which returns what this function returns.

    Returns:
        The number L of positions of each feature, by name; None for a feature of one vector per
        image. None for a component whose features are not known in advance.

    Example:
        >>> from ivqa.features import ConceptFeatures
        >>> offered_places(ConceptFeatures(image_size=96))
        {'grid': 144, 'pooled': None, 'concepts': None}
    """
    places: Callable[[], Mapping[str, int | None] | None] | None
    places = getattr(component, "places", None)
    return None if places is None else places()


def half_up(size: int) -> int:
    """The output size of a padded convolution of stride 2."""
    return (size + 1) // 2


def half_down(size: int) -> int:
    """The output size of a pooling of stride 2 without padding."""
    return size // 2


def halved(size: int, times: int, half: Callable[[int], int]) -> int:
    """The output size of several layers of stride 2.

    Args:
        size: Pixels of a side of the input.
        times: Number of the layers.
        half: Output size of one layer, `half_up` or `half_down`.

    Returns:
        Positions of a side of the output.
    """
    for _ in range(times):
        size = half(size)
    return size
