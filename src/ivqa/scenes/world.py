"""The world of scenes: a background and two to six things on it, with biases."""

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

# Things stand in cells of a coarse grid, a little off its centres. Two things differ in a
# direction only where they are further apart than MARGIN, so nobody has to measure.
COLUMNS, ROWS = 4, 4
JITTER = 0.025
MARGIN = 0.1

# What a shape's colour usually is and how often: the bias that a blind model can learn.
_USUAL_COLOR = {"star": ("yellow", 0.7), "heart": ("red", 0.6), "diamond": ("blue", 0.5)}
# Places have their weather, too.
_USUAL_WEATHER = {"desert": ("clear", 0.6), "mountains": ("snowy", 0.5), "forest": ("rainy", 0.4)}
_FAVOURITE_SHAPES = {"beach": ("star", "circle"), "city": ("square", "cross")}


@dataclass(frozen=True)
class Thing:
    """One thing; x, y: its centre in [0, 1], from the left and from the top."""

    shape: str
    color: str
    size: str
    pattern: str
    x: float
    y: float


@dataclass(frozen=True)
class Scene:
    """What an image shows."""

    place: str
    time: str
    weather: str
    things: tuple[Thing, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain containers, for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """The scene that `to_json` wrote."""
        things = tuple(Thing(**thing) for thing in record["things"])
        return cls(record["place"], record["time"], record["weather"], things)


def sample_scene(rng: random.Random) -> Scene:
    """A scene of two to six things, with the biases of the world."""
    place = rng.choice(PLACES)
    time = rng.choices(TIMES, (5, 3, 2))[0]
    weather = _usually(rng, _USUAL_WEATHER.get(place), WEATHERS)
    number = rng.choices((2, 3, 4, 5, 6), (1, 3, 4, 3, 2))[0]
    cells = rng.sample(range(COLUMNS * ROWS), number)
    things: list[Thing] = []
    for cell in cells:
        x, y = _spot(rng, cell)
        # Things of a kind come in pairs, so that "2" is the favourite count, as in VQA.
        twin = rng.choice(things) if things and rng.random() < 0.3 else None
        things.append(_sample_thing(rng, place, x, y, twin))
    return Scene(place, time, weather, tuple(things))


def change_scene(rng: random.Random, scene: Scene) -> Scene:
    """A similar scene: two or three attributes changed, so that some questions change answers."""
    changed = scene
    for kind in rng.sample(("thing", "thing", "move", "scene", "number"), rng.choice((2, 3))):
        if kind == "scene":
            name = rng.choice(SCENE_ATTRIBUTES)
            other: dict[str, Any] = {name: _another(rng, name, getattr(changed, name))}
            changed = replace(changed, **other)
            continue
        things = list(changed.things)
        index = rng.randrange(len(things))
        if kind == "thing":
            name = rng.choice(THING_ATTRIBUTES)
            value: dict[str, Any] = {name: _another(rng, name, getattr(things[index], name))}
            things[index] = replace(things[index], **value)
        elif kind == "move":
            x, y = _spot(rng, rng.choice(_free_cells(things)))
            things[index] = replace(things[index], x=x, y=y)
        elif len(things) > 2 and (len(things) == 6 or rng.random() < 0.5):
            del things[index]
        else:
            x, y = _spot(rng, rng.choice(_free_cells(things)))
            things.append(_sample_thing(rng, changed.place, x, y, rng.choice(things)))
        changed = replace(changed, things=tuple(things))
    return changed


def _sample_thing(rng: random.Random, place: str, x: float, y: float, twin: Thing | None) -> Thing:
    shapes = _FAVOURITE_SHAPES.get(place)
    shape = rng.choice(shapes) if shapes and rng.random() < 0.25 else rng.choice(SHAPES)
    if twin is not None:
        shape = twin.shape
    return Thing(
        shape=shape,
        color=_usually(rng, _USUAL_COLOR.get(shape), COLORS),
        size=rng.choice(SIZES),
        pattern=rng.choices(PATTERNS, (2, 2, 4, 2))[0],
        x=x,
        y=y,
    )


def _usually(rng: random.Random, usual: tuple[str, float] | None, values: tuple[str, ...]) -> str:
    if usual is not None and rng.random() < usual[1]:
        return usual[0]
    return rng.choice(values)


def _another(rng: random.Random, attribute: str, value: str) -> str:
    return rng.choice([other for other in VALUES[attribute] if other != value])


def _spot(rng: random.Random, cell: int) -> tuple[float, float]:
    row, column = divmod(cell, COLUMNS)
    x = (column + 0.5) / COLUMNS + rng.uniform(-JITTER, JITTER)
    y = (row + 0.5) / ROWS + rng.uniform(-JITTER, JITTER)
    return round(x, 4), round(y, 4)


def _free_cells(things: list[Thing]) -> list[int]:
    taken = {int(thing.y * ROWS) * COLUMNS + int(thing.x * COLUMNS) for thing in things}
    return [cell for cell in range(COLUMNS * ROWS) if cell not in taken]
