"""Draws the background of a scene: sky, skyline and ground."""

import random
from collections.abc import Callable

from PIL import Image, ImageDraw

from ivqa.scenes.world import Scene

SIZE = 128
"""Pixels of a side of a picture."""
SCALE = 2
WIDE = SIZE * SCALE
"""Pixels of a side of a picture as it is drawn, before it is reduced to `SIZE`."""

Color = tuple[int, int, int]
Lighting = Callable[[Color], Color]
"""The colour of a surface at the scene's time of day."""

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


def background(scene: Scene, rng: random.Random) -> Image.Image:
    """Draws the sky, the skyline and the ground of a scene, `WIDE` x `WIDE` pixels in RGB.

    `rng` places trees, houses and clouds.
    """
    top, bottom = _SKY[scene.time]
    if scene.weather in ("rainy", "cloudy", "snowy"):  # a grey sky
        top, bottom = mix(top, (128, 132, 138), 0.45), mix(bottom, (150, 152, 156), 0.45)
    # One column of the gradient, stretched to the whole width.
    column = Image.new("RGB", (1, WIDE))
    for row in range(WIDE):
        column.putpixel((0, row), mix(top, bottom, row / WIDE))
    picture = column.resize((WIDE, WIDE))
    draw = ImageDraw.Draw(picture)
    horizon = int(WIDE * rng.uniform(0.42, 0.52))
    light = _LIGHT[scene.time]
    ground = mix(_DARK, _GROUND[scene.place], light)
    if scene.weather == "snowy":
        ground = mix(ground, (232, 236, 242), 0.6)
    # From back to front: what is drawn later hides what was drawn before.
    _sky_marks(draw, scene, rng, horizon)
    if scene.place in _SKYLINES:
        _SKYLINES[scene.place](draw, rng, horizon, lambda color: mix(_DARK, color, light))
    draw.rectangle((0, horizon, WIDE, WIDE), fill=ground)
    if scene.place == "beach":
        sea = mix(_DARK, (120, 172, 190), light)
        draw.rectangle((0, horizon, WIDE, horizon + int(WIDE * 0.16)), fill=sea)
    for _ in range(140):  # the ground has a grain
        x, y = rng.randrange(WIDE), rng.randrange(horizon, WIDE)
        shade = mix(ground, (0, 0, 0) if rng.random() < 0.5 else (255, 255, 255), 0.12)
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
    x, y = rng.randrange(20, WIDE - 20), rng.randrange(14, 34)
    if scene.time == "night":
        for _ in range(26):
            a, b = rng.randrange(WIDE), rng.randrange(horizon)
            draw.ellipse((a, b, a + 2, b + 2), fill=(220, 222, 236))
        draw.ellipse((x - 11, y - 11, x + 11, y + 11), fill=(228, 228, 214))
        # A second disc in the colour of the sky leaves a crescent.
        draw.ellipse((x - 5, y - 14, x + 15, y + 6), fill=_SKY["night"][0])
    elif scene.time == "sunset":
        draw.ellipse((x - 22, horizon - 22, x + 22, horizon + 22), fill=(244, 176, 116))
    else:
        draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=(252, 240, 190))


def _mountains(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """Four mountains with white peaks."""
    for _ in range(4):
        x, wide, tall = rng.randrange(WIDE), rng.randrange(50, 100), rng.randrange(50, 95)
        peak = (x, horizon - tall)
        draw.polygon([(x - wide, horizon), peak, (x + wide, horizon)], fill=lit((124, 128, 138)))
        # Share of the height that is white.
        part = 0.28
        left = (x - int(wide * part), horizon - int(tall * (1 - part)))
        right = (x + int(wide * part), horizon - int(tall * (1 - part)))
        draw.polygon([left, peak, right], fill=lit((222, 226, 232)))


def _forest(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """Thirteen fir trees."""
    for _ in range(13):
        x, tall = rng.randrange(WIDE), rng.randrange(45, 90)
        shade = lit((78 + rng.randrange(16), 112 + rng.randrange(16), 84))
        draw.rectangle((x - 2, horizon - 12, x + 2, horizon), fill=lit((104, 84, 68)))
        draw.polygon(
            [(x - 15, horizon - 8), (x, horizon - tall), (x + 15, horizon - 8)], fill=shade
        )


def _city(draw: ImageDraw.ImageDraw, rng: random.Random, horizon: int, lit: Lighting) -> None:
    """A row of houses with windows, half of them lit."""
    x = 0
    while x < WIDE:
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
        x, tall = rng.randrange(WIDE), rng.randrange(26, 48)
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
    x = rng.randrange(WIDE)
    draw.ellipse((x - 120, horizon - 26, x + 120, horizon + 60), fill=lit((172, 196, 142)))


# What stands on the horizon of a place. The beach has the sea instead, which `background` draws.
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
        x, y = rng.randrange(WIDE), rng.randrange(0, 26)
        for _ in range(4):
            dx, dy, r = rng.randrange(-26, 27), rng.randrange(-7, 8), rng.randrange(10, 20)
            box = (x + dx - r, y + dy - r // 2, x + dx + r, y + dy + r // 2)
            draw.ellipse(box, fill=(gray, gray, gray + 6, 215))


def mix(first: Color, second: Color, share: float) -> Color:
    """Mixes two colours: (1 - share) * first + share * second."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue
