"""Draws scenes with Pillow, twice as large and then reduced, so that edges are smooth."""

import math
import random
from collections.abc import Callable

from PIL import Image, ImageDraw

from ivqa.scenes.world import Scene, Thing

SIZE = 128
_SCALE = 2
_WIDE = SIZE * _SCALE  # the side of the picture as it is drawn

Color = tuple[int, int, int]
Lighting = Callable[[Color], Color]
"""The colour of a surface at the scene's time of day."""

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
# Backgrounds are pale or dull, so that things of every bright colour are visible on them. The
# sky is a gradient from the first colour to the second.
_SKY: dict[str, tuple[Color, Color]] = {
    "day": ((168, 204, 232), (214, 230, 240)),
    "night": ((34, 40, 72), (66, 74, 108)),
    "sunset": ((172, 128, 150), (236, 188, 150)),
}
_GROUND: dict[str, Color] = {
    "beach": (224, 208, 172),
    "city": (150, 150, 154),
    "desert": (214, 182, 142),
    "field": (158, 186, 128),
    "forest": (112, 140, 108),
    "mountains": (150, 156, 148),
}
_DARK: Color = (20, 22, 40)  # what a surface looks like without light
_LIGHT = {"day": 1.0, "night": 0.5, "sunset": 0.86}  # share of the ground's own colour
_RADIUS = {"large": 0.104, "small": 0.066}  # share of the side; below half a cell of the grid


def render(scene: Scene, rng: random.Random) -> Image.Image:
    """Draws a scene.

    Args:
        scene: The scene.
        rng: Chooses what the scene leaves open: trees, clouds, grain of the ground, rain.

    Returns:
        An RGB picture of `SIZE` x `SIZE` pixels.
    """
    # The order of the draws from `rng` is part of the data set: see `generation.VERSION`.
    picture = _background(scene, rng)
    for thing in scene.things:
        _draw_thing(picture, thing)
    _falling(picture, scene, rng)
    return picture.resize((SIZE, SIZE), Image.Resampling.BOX)


def _background(scene: Scene, rng: random.Random) -> Image.Image:
    """Sky, skyline and ground."""
    top, bottom = _SKY[scene.time]
    if scene.weather in ("rainy", "cloudy", "snowy"):  # a grey sky
        top, bottom = _mix(top, (128, 132, 138), 0.45), _mix(bottom, (150, 152, 156), 0.45)
    column = Image.new("RGB", (1, _WIDE))
    for row in range(_WIDE):
        column.putpixel((0, row), _mix(top, bottom, row / _WIDE))
    picture = column.resize((_WIDE, _WIDE))
    draw = ImageDraw.Draw(picture)
    horizon = int(_WIDE * rng.uniform(0.42, 0.52))
    light = _LIGHT[scene.time]
    ground = _mix(_DARK, _GROUND[scene.place], light)
    if scene.weather == "snowy":
        ground = _mix(ground, (232, 236, 242), 0.6)
    _sky_marks(draw, scene, rng, horizon)
    if scene.place in _SKYLINES:
        _SKYLINES[scene.place](draw, rng, horizon, lambda color: _mix(_DARK, color, light))
    draw.rectangle((0, horizon, _WIDE, _WIDE), fill=ground)
    if scene.place == "beach":
        sea = _mix(_DARK, (120, 172, 190), light)
        draw.rectangle((0, horizon, _WIDE, horizon + int(_WIDE * 0.16)), fill=sea)
    for _ in range(140):  # the ground has a grain
        x, y = rng.randrange(_WIDE), rng.randrange(horizon, _WIDE)
        shade = _mix(ground, (0, 0, 0) if rng.random() < 0.5 else (255, 255, 255), 0.12)
        length = rng.randrange(2, 9)
        if scene.place in ("field", "forest"):
            draw.line((x, y, x + rng.randrange(-2, 3), y - length), fill=shade, width=2)
        else:
            draw.line((x, y, x + length, y), fill=shade, width=2)
    _clouds(picture, scene, rng)
    return picture


def _sky_marks(draw: ImageDraw.ImageDraw, scene: Scene, rng: random.Random, horizon: int) -> None:
    """The sun, or the moon and stars, of a clear sky."""
    if scene.weather != "clear":
        return
    x, y = rng.randrange(20, _WIDE - 20), rng.randrange(14, 34)
    if scene.time == "night":
        for _ in range(26):
            a, b = rng.randrange(_WIDE), rng.randrange(horizon)
            draw.ellipse((a, b, a + 2, b + 2), fill=(220, 222, 236))
        draw.ellipse((x - 11, y - 11, x + 11, y + 11), fill=(228, 228, 214))
        draw.ellipse((x - 5, y - 14, x + 15, y + 6), fill=_SKY["night"][0])
    elif scene.time == "sunset":
        draw.ellipse((x - 22, horizon - 22, x + 22, horizon + 22), fill=(244, 176, 116))
    else:
        draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=(252, 240, 190))


def _mountains(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """Four mountains with white peaks."""
    for _ in range(4):
        x, wide, tall = rng.randrange(_WIDE), rng.randrange(50, 100), rng.randrange(50, 95)
        peak = (x, horizon - tall)
        draw.polygon([(x - wide, horizon), peak, (x + wide, horizon)], fill=lit((124, 128, 138)))
        part = 0.28
        left = (x - int(wide * part), horizon - int(tall * (1 - part)))
        right = (x + int(wide * part), horizon - int(tall * (1 - part)))
        draw.polygon([left, peak, right], fill=lit((222, 226, 232)))


def _forest(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """Thirteen fir trees."""
    for _ in range(13):
        x, tall = rng.randrange(_WIDE), rng.randrange(45, 90)
        shade = lit((78 + rng.randrange(16), 112 + rng.randrange(16), 84))
        draw.rectangle((x - 2, horizon - 12, x + 2, horizon), fill=lit((104, 84, 68)))
        draw.polygon(
            [(x - 15, horizon - 8), (x, horizon - tall), (x + 15, horizon - 8)], fill=shade
        )


def _city(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """A row of houses with windows, half of them lit."""
    x = 0
    while x < _WIDE:
        wide, tall = rng.randrange(18, 40), rng.randrange(34, 100)
        gray = rng.randrange(112, 142)
        draw.rectangle((x, horizon - tall, x + wide, horizon), fill=lit((gray, gray, gray + 8)))
        for a in range(x + 4, x + wide - 4, 8):
            for b in range(horizon - tall + 5, horizon - 6, 10):
                on = rng.random() < 0.5
                draw.rectangle(
                    (a, b, a + 3, b + 4), fill=(226, 214, 160) if on else lit((96, 98, 108))
                )
        x += wide + rng.randrange(0, 6)


def _desert(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """Three cacti."""
    for _ in range(3):
        x, tall = rng.randrange(_WIDE), rng.randrange(26, 48)
        shade = lit((112, 132, 98))
        draw.rounded_rectangle((x - 4, horizon - tall, x + 4, horizon), 4, fill=shade)
        draw.rounded_rectangle(
            (x - 14, horizon - tall // 2 - 4, x, horizon - tall // 2 + 2), 3, fill=shade
        )
        draw.rounded_rectangle(
            (x - 14, horizon - tall + 4, x - 9, horizon - tall // 2 + 2), 3, fill=shade
        )


def _field(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """A hill."""
    x = rng.randrange(_WIDE)
    draw.ellipse((x - 120, horizon - 26, x + 120, horizon + 60), fill=lit((172, 196, 142)))


# What stands on the horizon of a place. The beach has the sea instead, which `_background` draws.
_SKYLINES: dict[str, Callable[[ImageDraw.ImageDraw, random.Random, int, Lighting], None]] = {
    "mountains": _mountains,
    "forest": _forest,
    "city": _city,
    "desert": _desert,
    "field": _field,
}


def _clouds(picture: Image.Image, scene: Scene, rng: random.Random) -> None:
    """Five clouds of four ellipses, lighter without rain."""
    if scene.weather not in ("cloudy", "rainy"):
        return
    draw = ImageDraw.Draw(picture, "RGBA")
    gray = 226 if scene.weather == "cloudy" else 164
    for _ in range(5):
        x, y = rng.randrange(_WIDE), rng.randrange(0, 26)
        for _ in range(4):
            dx, dy, r = rng.randrange(-26, 27), rng.randrange(-7, 8), rng.randrange(10, 20)
            box = (x + dx - r, y + dy - r // 2, x + dx + r, y + dy + r // 2)
            draw.ellipse(box, fill=(gray, gray, gray + 6, 215))


def _falling(picture: Image.Image, scene: Scene, rng: random.Random) -> None:
    """Rain and snow, in front of everything else."""
    draw = ImageDraw.Draw(picture, "RGBA")
    if scene.weather == "rainy":
        for _ in range(90):
            x, y = rng.randrange(_WIDE), rng.randrange(_WIDE)
            draw.line((x, y, x - 4, y + 12), fill=(206, 220, 236, 150), width=2)
    if scene.weather == "snowy":
        for _ in range(100):
            x, y, r = rng.randrange(_WIDE), rng.randrange(_WIDE), rng.choice((1, 2, 2))
            draw.ellipse((x - r, y - r, x + r, y + r), fill=(255, 255, 255, 220))


def _draw_thing(picture: Image.Image, thing: Thing) -> None:
    """Pastes a thing: an outline in a contrasting colour, with the pattern inside."""
    radius = _RADIUS[thing.size] * _WIDE
    side = int(radius * 2) + 6
    middle = side / 2
    paint = _PAINT[thing.color]
    # Edge and pattern are darker than a light colour and lighter than a dark one.
    light = thing.color in ("white", "yellow", "orange")
    edge = _mix(paint, (0, 0, 0), 0.55) if light else _mix(paint, (255, 255, 255), 0.55)
    mark = _mix(paint, (0, 0, 0), 0.62) if light else _mix(paint, (255, 255, 255), 0.72)
    outline = _outline(thing.shape, middle, radius)
    inner = _outline(thing.shape, middle, radius - 3.5)
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    face = Image.new("RGB", (side, side), edge)
    core = Image.new("L", (side, side))
    ImageDraw.Draw(core).polygon(inner, fill=255)
    face.paste(_pattern(thing.pattern, side, paint, mark), (0, 0), core)
    corner = (round(thing.x * _WIDE - middle), round(thing.y * _WIDE - middle))
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


def _mix(first: Color, second: Color, share: float) -> Color:
    """The colour (1 - share) * first + share * second."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue
