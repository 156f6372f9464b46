"""Charts of the pages as SVG: lines with intervals, and stacked bars.

Their colours are those of templates/page.css.j2, so that they follow dark mode and print. Each has
a title, labelled axes, and its values as a text for screen readers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markupsafe import Markup

_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 428, 12, 222  # of the plotting area
_DASHES = ("", "7 4", "2 3", "9 3 2 3")  # lines differ by more than their colour
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # ticks of a share
_MOST_TICKS = 5


@dataclass(frozen=True)
class Line:
    """A line of shares in [0, 1], with the interval of each of them where `ends` is not empty."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    ends: Sequence[tuple[float, float]] = ()

    def text(self) -> str:
        """The values in words."""
        ends = self.ends or [(y, y) for y in self.y]
        values = [
            f"{x:g}: {y:.0%}" + (f" ({low:.0%} to {high:.0%})" if high > low else "")
            for x, y, (low, high) in zip(self.x, self.y, ends, strict=True)
        ]
        return f"{self.name}: {', '.join(values)}."


@dataclass(frozen=True)
class Part:
    """One part of stacked bars: its name, its colour in page.css.j2, and its number in each bar."""

    name: str
    color: str
    counts: Sequence[int]


def line_chart(
    title: str,
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float],
    *,
    diagonal: str = "",
) -> Markup:
    """Draws shares against x.

    Args:
        diagonal: What a dotted line from the lower left to the upper right means; "" for none.
    """
    values = [*x_ticks, *(x for line in lines for x in line.x)]
    first, last = min(values), max(values)

    def across(x: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (x - first) / ((last - first) or 1)

    drawn = [_grid([(_up(y), f"{y:.0%}") for y in _SHARES])]
    drawn += [_below(across(x), f"{x:g}") for x in x_ticks]
    if diagonal:
        ends = Markup('<path class="even" stroke-dasharray="2 4" d="M{} {}L{} {}"/>')
        drawn.append(ends.format(_LEFT, _BOTTOM, _RIGHT, _TOP))
    for at, line in enumerate(lines):
        aside = 3 * (at - (len(lines) - 1) / 2)  # intervals at one x stand beside each other
        places = [across(x) + aside for x in line.x]
        path = " ".join(f"{x:.1f},{_up(y):.1f}" for x, y in zip(places, line.y, strict=True))
        form = '<polyline class="line {}" stroke-dasharray="{}" points="{}"/>'
        color, dashes = _style(at)
        drawn.append(Markup(form).format(color, dashes, path))
        for x, (low, high) in zip(places, line.ends, strict=False):
            bar = Markup('<path class="interval {}" d="M{:.1f} {:.1f}V{:.1f}"/>')
            drawn.append(bar.format(color, x, _up(low), _up(high)))
        for x, y in zip(places, line.y, strict=True):
            drawn.append(
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}"/>').format(color, x, _up(y))
            )
    key = Markup(
        '<svg width="28" height="8" aria-hidden="true">'
        '<path class="{}" stroke-dasharray="{}" d="M0 4H28"/></svg>'
    )
    styles = map(_style, range(len(lines)))
    names = [
        (key.format(f"line {color}", dashes), line.name)
        for (color, dashes), line in zip(styles, lines, strict=True)
    ]
    if diagonal:
        names.append((key.format("even", "2 4"), diagonal))
    text = " ".join(line.text() for line in lines)
    return _figure(title, drawn, x_label, y_label, names if len(names) > 1 else [], text)


def _style(at: int) -> tuple[str, str]:
    """The class of the colour and the dashes of a line; the first 16 lines all differ."""
    number = len(_DASHES)  # of colours too: s0 to s3 in page.css.j2
    return f"s{at % number}", _DASHES[(at + at // number) % number]


def bar_chart(title: str, parts: Sequence[Part], x_label: str, y_label: str) -> Markup:
    """Draws bars of equal width over [0, 1], in which the first part is the lowest."""
    totals = [sum(own) for own in zip(*(part.counts for part in parts), strict=True)]
    ticks = _round_ticks(max(totals, default=0))
    width = (_RIGHT - _LEFT) / max(len(totals), 1)
    drawn = [_grid([(_up(tick / ticks[-1]), f"{tick:,}") for tick in ticks])]
    drawn += [_below(_LEFT + (_RIGHT - _LEFT) * x, f"{x:g}") for x in _SHARES]
    block = Markup(
        '<rect style="--c: var(--{})" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
    )
    for bar in range(len(totals)):
        tops = list(accumulate((part.counts[bar] for part in parts), initial=0))
        for part, low, high in zip(parts, tops, tops[1:], strict=False):
            if high > low:
                top, height = _up(high / ticks[-1]), (_BOTTOM - _TOP) * (high - low) / ticks[-1]
                place = _LEFT + bar * width + 0.5, top, width - 1, height
                drawn.append(block.format(part.color, *place))
    key = Markup('<i class="swatch" style="--c: var(--{})"></i>')
    where = ["", *[", above" for _ in parts]]
    names = [
        (key.format(part.color), part.name + (where[at] if len(parts) > 1 else ""))
        for at, part in enumerate(parts)
    ]
    edges = [f"{at / len(totals):g} to {(at + 1) / len(totals):g}" for at in range(len(totals))]
    text = " ".join(
        f"{edge}: {', '.join(f'{part.counts[at]:,} {part.name}' for part in parts)}."
        for at, edge in enumerate(edges)
        if totals[at]
    )
    return _figure(title, drawn, x_label, y_label, names, text)


def noise_chart(models: Mapping[str, Mapping[str, float]]) -> Markup | None:
    """Draws robustness/partition_K/accuracy of each model against the level K; None without it."""
    lines = []
    for name, metrics in models.items():
        means = accuracies(metrics)
        low, high = (accuracies(metrics, f"accuracy_{end}") for end in ("low", "high"))
        ends = list(zip(low, high, strict=True)) if len(low) == len(high) == len(means) else []
        if means:
            lines.append(Line(name, range(len(means)), means, ends))
    if not lines:
        return None
    levels = range(max(len(line.x) for line in lines))
    return line_chart("Accuracy under noise", lines, "level of noise", "accuracy", levels)


def accuracies(metrics: Mapping[str, float], figure: str = "accuracy") -> list[float]:
    """Collects the accuracy (or another figure) at levels 0, 1, ...; empty without noise.

    >>> accuracies({"robustness/partition_0/accuracy": 0.8, "robustness/partition_1/accuracy": 0.6})
    [0.8, 0.6]
    """
    means: list[float] = []
    while (name := f"robustness/partition_{len(means)}/{figure}") in metrics:
        means.append(metrics[name])
    return means


def _up(share: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * share


def _grid(ticks: Sequence[tuple[float, str]]) -> Markup:
    form = Markup(
        '<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
    )
    return Markup("").join(
        form.format(_LEFT, y, _RIGHT, _LEFT - 6, y + 4, label) for y, label in ticks
    )


def _below(x: float, label: str) -> Markup:
    form = Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>')
    return form.format(x, _BOTTOM + 18, label)


def _round_ticks(highest: int) -> list[int]:
    """Round numbers from 0 to at least `highest`, at most five of them."""
    steps = (scale * step for scale in map((10).__pow__, range(12)) for step in (1, 2, 5))
    step = next(step for step in steps if step * (_MOST_TICKS - 1) >= max(highest, 1))
    return list(range(0, max(highest, 1) + step, step))


def _figure(
    title: str,
    drawn: Sequence[Markup],
    x_label: str,
    y_label: str,
    names: Sequence[tuple[Markup, str]],
    text: str,
) -> Markup:
    """A figure: title, legend, and the drawing with its axes' labels."""
    legend = Markup("").join(Markup("<span>{}{}</span>").format(key, name) for key, name in names)
    labels = Markup(
        '<text x="{}" y="{}" text-anchor="middle">{}</text>'
        '<text transform="translate(13 {}) rotate(-90)" text-anchor="middle">{}</text>'
    ).format((_LEFT + _RIGHT) / 2, _HEIGHT - 6, x_label, (_TOP + _BOTTOM) / 2, y_label)
    return Markup(
        '<figure class="chart"><figcaption>{}<small>{}</small></figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg></figure>'
    ).format(title, legend, _WIDTH, _HEIGHT, f"{title}. {text}", labels, Markup("").join(drawn))
