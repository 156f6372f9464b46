"""The scenes: a place with a time and a weather, and two to six things, drawn with biases.

The biases are those of VQA 1.0: a model that does not see the image can learn them (Goyal et al.,
VQA 2.0, CVPR 2017, section 1).
"""

import random
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

PLACES = ("beach", "city", "desert", "field", "forest", "mountains")
TIMES = ("day", "night", "sunset")
WEATHERS = ("clear", "cloudy", "rainy", "snowy")
SHAPES = ("circle", "cross", "diamond", "heart", "hexagon", "square", "star", "triangle")
COLORS = ("black", "blue", "green", "orange", "purple", "red", "white", "yellow")
SIZES = ("large", "small")
PATTERNS = ("checkered", "dotted", "plain", "striped")

VALUES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "color": COLORS,
    "size": SIZES,
    "pattern": PATTERNS,
    "place": PLACES,
    "time": TIMES,
    "weather": WEATHERS,
}
THING_ATTRIBUTES = ("shape", "color", "size", "pattern")
SCENE_ATTRIBUTES = ("place", "time", "weather")

# Things stand in the cells of a coarse grid, up to JITTER from the centres. Two things are in a
# relation only where their centres differ by more than MARGIN. Things of one row or column
# differ by at most 2 * JITTER, things of neighbouring ones by at least 0.25 - 2 * JITTER, so no
# relation is close to the margin. All are shares of the side of the image.
COLUMNS, ROWS = 4, 4
JITTER = 0.025
MARGIN = 0.1

# The usual colour of a shape, and with which probability it is chosen without another draw.
_USUAL_COLOR = {"star": ("yellow", 0.7), "heart": ("red", 0.6), "diamond": ("blue", 0.5)}
# The usual weather of a place, and the shapes that are more frequent there.
_USUAL_WEATHER = {"desert": ("clear", 0.6), "mountains": ("snowy", 0.5), "forest": ("rainy", 0.4)}
_FAVOURITE_SHAPES = {"beach": ("star", "circle"), "city": ("square", "cross")}


@dataclass(frozen=True)
class Thing:
    """One thing of a scene; its centre (x, y) in [0, 1] is from the left and from the top."""

    shape: str
    color: str
    size: str
    pattern: str
    x: float
    y: float


@dataclass(frozen=True)
class Scene:
    """The content of an image; the things are in the order in which they are drawn."""

    place: str
    time: str
    weather: str
    things: tuple[Thing, ...]

    def to_json(self) -> dict[str, Any]:
        """The scene as JSON values, which `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Reads the scene that `to_json` wrote.

        Raises:
            KeyError: A key is missing.
            TypeError: A thing has other keys.
        """
        things = tuple(Thing(**thing) for thing in record["things"])
        return cls(record["place"], record["time"], record["weather"], things)


def sample_scene(rng: random.Random) -> Scene:
    """Draws a scene of two to six things, with the biases of this module."""
    place = rng.choice(PLACES)
    # Weights of day, night and sunset.
    time = rng.choices(TIMES, (5, 3, 2))[0]
    weather = _usual_or_any(rng, _USUAL_WEATHER.get(place), WEATHERS)
    number = rng.choices((2, 3, 4, 5, 6), (1, 3, 4, 3, 2))[0]
    cells = rng.sample(range(COLUMNS * ROWS), number)
    things: list[Thing] = []
    for cell in cells:
        x, y = _position_in(rng, cell)
        # Shapes often come in pairs, so that "2" is the most frequent count, as in VQA.
        same_shape = rng.choice(things) if things and rng.random() < 0.3 else None
        things.append(_sample_thing(rng, place, x, y, same_shape))
    return Scene(place, time, weather, tuple(things))


def change_scene(rng: random.Random, scene: Scene) -> Scene:
    """Draws a similar scene that answers some questions differently, as in VQA 2.0.

    Two or three changes are made: an attribute of the scene or of a thing, the position of a thing,
    or one thing more or less.
    """
    changed = scene
    # A thing's attribute is changed twice as often as anything else.
    for kind in rng.sample(("thing", "thing", "move", "scene", "number"), rng.choice((2, 3))):
        if kind == "scene":
            name = rng.choice(SCENE_ATTRIBUTES)
            other: dict[str, Any] = {name: _other_value(rng, name, getattr(changed, name))}
            changed = replace(changed, **other)
            continue
        things = list(changed.things)
        index = rng.randrange(len(things))
        if kind == "thing":
            name = rng.choice(THING_ATTRIBUTES)
            value: dict[str, Any] = {name: _other_value(rng, name, getattr(things[index], name))}
            things[index] = replace(things[index], **value)
        elif kind == "move":
            x, y = _position_in(rng, rng.choice(_free_cells(things)))
            things[index] = replace(things[index], x=x, y=y)
        elif len(things) > 2 and (len(things) == 6 or rng.random() < 0.5):
            # With six things one must go; with two, none can.
            del things[index]
        else:
            x, y = _position_in(rng, rng.choice(_free_cells(things)))
            things.append(_sample_thing(rng, changed.place, x, y, rng.choice(things)))
        changed = replace(changed, things=tuple(things))
    return changed


def holds(thing: Thing, relation: str, anchor: Thing) -> bool:
    """Whether a relation to an anchor, such as "left", is true by more than `MARGIN`."""
    distance = {
        "left": anchor.x - thing.x,
        "right": thing.x - anchor.x,
        "above": anchor.y - thing.y,
        "below": thing.y - anchor.y,
    }
    return distance[relation] > MARGIN


def _sample_thing(
    rng: random.Random, place: str, x: float, y: float, same_shape: Thing | None
) -> Thing:
    shapes = _FAVOURITE_SHAPES.get(place)
    shape = rng.choice(shapes) if shapes and rng.random() < 0.25 else rng.choice(SHAPES)
    if same_shape is not None:
        shape = same_shape.shape
    return Thing(
        shape=shape,
        color=_usual_or_any(rng, _USUAL_COLOR.get(shape), COLORS),
        size=rng.choice(SIZES),
        pattern=rng.choices(PATTERNS, (2, 2, 4, 2))[0],
        x=x,
        y=y,
    )


def _usual_or_any(
    rng: random.Random, usual: tuple[str, float] | None, values: tuple[str, ...]
) -> str:
    if usual is not None and rng.random() < usual[1]:
        return usual[0]
    return rng.choice(values)


def _other_value(rng: random.Random, attribute: str, value: str) -> str:
    return rng.choice([other for other in VALUES[attribute] if other != value])


def _position_in(rng: random.Random, cell: int) -> tuple[float, float]:
    row, column = divmod(cell, COLUMNS)
    x = (column + 0.5) / COLUMNS + rng.uniform(-JITTER, JITTER)
    y = (row + 0.5) / ROWS + rng.uniform(-JITTER, JITTER)
    return round(x, 4), round(y, 4)


def _free_cells(things: list[Thing]) -> list[int]:
    taken = {int(thing.y * ROWS) * COLUMNS + int(thing.x * COLUMNS) for thing in things}
    return [cell for cell in range(COLUMNS * ROWS) if cell not in taken]
