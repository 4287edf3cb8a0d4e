"""Draws samples as an SVG of small panels, one for each series, by hand: no library is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Panel", "draw"]

_COLUMNS = 3
_WIDTH, _HEIGHT = 340, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 50, 36
_HEADING = 46
_MOST_POINTS = 400
_TICKS = 4
_INK, _PALE, _LINE, _BACK = "#1b1f24", "#6b737c", "#1f5f99", "#ffffff"


@dataclass(frozen=True, slots=True)
class Panel:
    """One series: `remark` stands below its title. Both axes are in plain units."""

    title: str
    remark: str
    unit: str
    values: Sequence[float]


def draw(
    heading: str,
    panels: Sequence[Panel],
    minutes: Sequence[float],
    *,
    judged_from: float,
    marks: Sequence[float] = (),
) -> str:
    """Return an SVG: what lies before the minute `judged_from` is shaded, `marks` are dashed."""
    rows = -(-len(panels) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, _HEADING + rows * _HEIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f"<title>{escape(heading)}</title>",
        f'<rect width="{width}" height="{height}" fill="{_BACK}"/>',
        _text(16, 22, heading, size=15, weight="bold"),
        _text(
            16,
            39,
            "shaded: not judged; dashed: the API server was restarted; each axis begins at zero",
            colour=_PALE,
        ),
    ]
    for number, panel in enumerate(panels):
        x = number % _COLUMNS * _WIDTH
        y = _HEADING + number // _COLUMNS * _HEIGHT
        parts.append(f'<g transform="translate({x},{y})">')
        parts += _panel(panel, minutes, judged_from, marks)
        parts.append("</g>")
    return "\n".join((*parts, "</svg>", ""))


def _panel(
    panel: Panel, minutes: Sequence[float], judged_from: float, marks: Sequence[float]
) -> list[str]:
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    right, bottom = _LEFT + inner_width, _TOP + inner_height
    ticks_up = ticks(max((*panel.values, 0.0)))
    end, top = max((*minutes, 1e-9)), ticks_up[-1]

    def across(minute: float) -> float:
        return round(_LEFT + inner_width * minute / end, 1)

    def up(value: float) -> float:
        return round(_TOP + inner_height * (1 - value / top), 1)

    parts = [
        _text(16, 16, f"{panel.title}, {panel.unit}", weight="bold"),
        _text(16, 31, panel.remark, colour=_PALE),
        f'<path d="M{_LEFT} {_TOP}H{across(judged_from)}V{bottom}H{_LEFT}Z" fill="#eef1f4"/>',
    ]
    for value in ticks_up:
        parts += (
            f'<path d="M{_LEFT} {up(value)}H{right}" stroke="#d5dae0" fill="none"/>',
            _text(_LEFT - 6, up(value) + 4, f"{value:g}", anchor="end"),
        )
    dashed = 'stroke="#b06a00" stroke-dasharray="3 3" fill="none"'
    parts += (f'<path d="M{across(mark)} {_TOP}V{bottom}" {dashed}/>' for mark in marks)
    parts += (
        _text(across(minute), bottom + 15, f"{minute:g}", anchor="middle")
        for minute in ticks(end)
        if minute <= end
    )
    parts += (
        _text(right, bottom + 29, "minutes", anchor="end", colour=_PALE),
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="{_INK}" fill="none"/>',
    )
    step = max(1, -(-len(minutes) // _MOST_POINTS))
    shown = list(zip(minutes, panel.values, strict=True))[::step]
    points = " ".join(f"{across(minute)},{up(value)}" for minute, value in shown)
    parts.append(f'<polyline points="{points}" stroke="{_LINE}" stroke-width="1.4" fill="none"/>')
    return parts


def ticks(largest: float) -> list[float]:
    """Return round numbers from zero to at least the largest value, about four steps of them."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [round(step * number, 10) for number in range(math.ceil(largest / step - 1e-9) + 1)]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 11,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
