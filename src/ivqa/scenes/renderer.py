"""Draws scenes with Pillow, twice as large and then reduced, so that edges are smooth."""

import math
import random

from PIL import Image, ImageDraw

from ivqa.scenes.backgrounds import SIZE, WIDE, Color, background, mix
from ivqa.scenes.world import Scene, Thing

_PAINT: dict[str, Color] = {
    "black": (28, 28, 32),
    "blue": (38, 84, 214),
    "green": (30, 150, 62),
    "orange": (245, 132, 22),
    "purple": (136, 48, 176),
    "red": (214, 32, 40),
    "white": (246, 246, 242),
    "yellow": (250, 214, 30),
}
_RADIUS = {"large": 0.104, "small": 0.066}  # share of the side; below half a cell of the grid


def render(scene: Scene, rng: random.Random) -> Image.Image:
    """Draws a scene as an RGB picture of `SIZE` x `SIZE` pixels.

    `rng` chooses what the scene leaves open: trees, clouds, grain of the ground, rain.
    """
    # The order of the draws from `rng` is part of the data set: see `generation.VERSION`.
    picture = background(scene, rng)
    for thing in scene.things:
        _draw_thing(picture, thing)
    _falling(picture, scene, rng)
    return picture.resize((SIZE, SIZE), Image.Resampling.BOX)


def _falling(picture: Image.Image, scene: Scene, rng: random.Random) -> None:
    """Rain and snow, in front of everything else."""
    draw = ImageDraw.Draw(picture, "RGBA")
    if scene.weather == "rainy":
        for _ in range(90):
            x, y = rng.randrange(WIDE), rng.randrange(WIDE)
            draw.line((x, y, x - 4, y + 12), fill=(206, 220, 236, 150), width=2)
    if scene.weather == "snowy":
        for _ in range(100):
            x, y, r = rng.randrange(WIDE), rng.randrange(WIDE), rng.choice((1, 2, 2))
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(255, 255, 255, 220))


def _draw_thing(picture: Image.Image, thing: Thing) -> None:
    """Pastes a thing: an outline in a contrasting colour, with the pattern inside."""
    radius = _RADIUS[thing.size] * WIDE
    # A few pixels more than the thing, so that its outline is not cut.
    side = int(radius * 2) + 6
    middle = side / 2
    paint = _PAINT[thing.color]
    # Edge and pattern are darker than a light colour and lighter than a dark one.
    light = thing.color in ("white", "yellow", "orange")
    edge = mix(paint, (0, 0, 0), 0.55) if light else mix(paint, (255, 255, 255), 0.55)
    mark = mix(paint, (0, 0, 0), 0.62) if light else mix(paint, (255, 255, 255), 0.72)
    outline = _outline(thing.shape, middle, radius)
    # The outline is 3.5 pixels wide before the picture is reduced.
    inner = _outline(thing.shape, middle, radius - 3.5)
    # `mask` has the whole thing, `core` the part inside the outline, where the pattern is.
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    face = Image.new("RGB", (side, side), edge)
    core = Image.new("L", (side, side))
    ImageDraw.Draw(core).polygon(inner, fill=255)
    face.paste(_pattern(thing.pattern, side, paint, mark), (0, 0), core)
    corner = (round(thing.x * WIDE - middle), round(thing.y * WIDE - middle))
    picture.paste(face, corner, mask)


def _pattern(pattern: str, side: int, paint: Color, mark: Color) -> Image.Image:
    """A square of `side` pixels with the pattern; "plain" has one colour."""
    tile = Image.new("RGB", (side, side), paint)
    draw = ImageDraw.Draw(tile)
    step = 12
    if pattern == "striped":
        for x in range(-side, side, step):
            draw.line((x, side, x + side, 0), fill=mark, width=5)
    elif pattern == "dotted":
        for row, y in enumerate(range(2, side, step - 2)):
            for x in range(2 + (row % 2) * 5, side, step - 2):
                draw.ellipse((x - 2.6, y - 2.6, x + 2.6, y + 2.6), fill=mark)
    elif pattern == "checkered":
        cell = 8
        for row in range(side // cell + 1):
            for column in range(row % 2, side // cell + 1, 2):
                draw.rectangle(
                    (column * cell, row * cell, (column + 1) * cell - 1, (row + 1) * cell - 1),
                    fill=mark,
                )
    return tile


def _outline(shape: str, middle: float, radius: float) -> list[tuple[float, float]]:
    """Corners of the shape around (middle, middle), in pixels.

    The radii of the shapes differ so that all look about equally large. The heart is the curve
    x = 16 sin^3 t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t.
    """
    if shape == "circle":
        points = _regular(40, radius * 0.95)
    elif shape == "square":
        points = _regular(4, radius * 1.15, turn=math.pi / 4)
    elif shape == "triangle":
        points = [(x, y + radius * 0.15) for x, y in _regular(3, radius * 1.12, turn=-math.pi / 2)]
    elif shape == "diamond":
        points = [(0, -radius), (radius * 0.68, 0), (0, radius), (-radius * 0.68, 0)]
    elif shape == "hexagon":
        points = _regular(6, radius)
    elif shape == "star":
        outer = _regular(5, radius * 1.06, turn=-math.pi / 2)
        inner = _regular(5, radius * 0.46, turn=-math.pi / 2 + math.pi / 5)
        points = [point for pair in zip(outer, inner, strict=True) for point in pair]
    elif shape == "heart":
        angles = [2 * math.pi * step / 40 for step in range(40)]
        points = [
            (
                radius * math.sin(t) ** 3,
                -radius
                / 16
                * (13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)),
            )
            for t in angles
        ]
    else:  # cross
        a, b = radius * 0.34, radius * 0.95
        points = [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a)]
        points += [(a, b), (-a, b), (-a, a), (-b, a), (-b, -a), (-a, -a)]
    return [(middle + x, middle + y) for x, y in points]


def _regular(corners: int, radius: float, turn: float = 0.0) -> list[tuple[float, float]]:
    """Corners of a regular polygon around (0, 0), the first one at the angle `turn`."""
    angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]
