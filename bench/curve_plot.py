"""Curves as an SVG file: axes with round numbers, one line a series, a legend. Light enough to read in a diff.

Promises: what is drawn is what is given; points whose value is None are left out; the same series make the same file.
Refuses: a plot without a point (ValueError)."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 256, 40, 52  # margins; the legend is in the right one
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e1b", "#555555", "#17a2b8", "#a0522d")
STYLE = "<style>text{font:13px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}.grid{stroke:#ddd}.axis{stroke:#222}</style>"


def round_ticks(low, high, wanted=5):
    """Some five round numbers (1, 2 or 5 times a power of ten apart) that reach from at or below `low` to at or above `high`."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / wanted))
    apart = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= wanted)
    first, last = math.floor(low / apart + 1e-9), math.ceil(high / apart - 1e-9)
    return [number * apart for number in range(first, max(last, first + 1) + 1)]


class Axis:
    """Where a value lies between two pixels. With `powers` the distance from 1 to 2 is that from 2 to 4."""

    def __init__(self, values, first_pixel, last_pixel, powers=False):
        self.powers = powers
        self.ticks = sorted(set(values)) if powers else round_ticks(min(values), max(values))
        self.first_pixel, self.last_pixel = first_pixel, last_pixel

    def pixel(self, value):
        low, high, at = (math.log2(v) if self.powers else v for v in (self.ticks[0], self.ticks[-1], value))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.first_pixel + share * (self.last_pixel - self.first_pixel), 1)


def text(x, y, words, anchor="middle", **more):
    attributes = "".join(f' {name.rstrip("_")}="{value}"' for name, value in more.items())
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{attributes}>{escape(words)}</text>'


def frame(x_axis, y_axis, title, x_label, y_label):
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [text(LEFT, 22, title, "start", class_="title"), text((LEFT + right) / 2, HEIGHT - 12, x_label),
             text(16, (TOP + bottom) / 2, y_label, transform=f"rotate(-90 16 {(TOP + bottom) / 2})")]
    for tick in y_axis.ticks:
        y = y_axis.pixel(tick)
        parts += [f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>', text(LEFT - 6, y + 4, f"{tick:g}", "end")]
    for tick in x_axis.ticks:
        x = x_axis.pixel(tick)
        parts += [f'<line class="axis" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}"/>', text(x, bottom + 18, f"{tick:g}")]
    return parts + [f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>']


def curve(number, name, points, x_axis, y_axis, marks):
    """One line, its marks and its row of the legend."""
    colour, y = COLOURS[number % len(COLOURS)], TOP + 8 + 20 * number
    dash = ' stroke-dasharray="6 4"' if number >= len(COLOURS) or name.startswith("predicted") else ""
    where = [(x_axis.pixel(x), y_axis.pixel(value)) for x, value in points]
    parts = [f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{" ".join(f"{a},{b}" for a, b in where)}"/>']
    if marks:
        parts += [f'<circle cx="{a}" cy="{b}" r="3.5" fill="{colour}"/>' for a, b in where]
    left = WIDTH - RIGHT + 12
    return parts + [f'<line x1="{left}" y1="{y}" x2="{left + 22}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>',
                    text(left + 28, y + 4, name, "start")]


def svg(title, x_label, y_label, series, powers=False, marks=False):
    """`series`: {name: [(x, y), ...]}, in the legend's order; names that begin with "predicted" are dashed."""
    drawn = {name: [(x, y) for x, y in points if y is not None] for name, points in series.items()}
    drawn = {name: points for name, points in drawn.items() if points}
    if not drawn:
        raise ValueError(f"the plot '{title}' has no point: {sorted(series)} are empty")
    everything = [point for points in drawn.values() for point in points]
    x_axis = Axis([x for x, _ in everything], LEFT, WIDTH - RIGHT, powers)
    y_axis = Axis([y for _, y in everything], HEIGHT - BOTTOM, TOP)
    parts = frame(x_axis, y_axis, title, x_label, y_label)
    for number, (name, points) in enumerate(drawn.items()):
        parts += curve(number, name, points, x_axis, y_axis, marks)
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', STYLE,
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *parts, "</svg>\n"])


def write(path, *arguments, **options):
    """svg(...) into a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(svg(*arguments, **options))
