"""Plots as SVG, written by hand: for each group of measurements bars, with their spread."""

from pathlib import Path
from xml.sax.saxutils import escape

from .rounds import Measured

_WIDTH, _LABEL, _ROW, _TOP = 900, 190, 24, 60
# Group, what its chart is called. The matrix has too many rows for one.
_CHARTS = {
    "filter": "Scenarios",
    "peers": "Peers",
    "workers": "Workers of Envoy",
    "duplicates": "Share of replays in percent",
    "stored": "Stored keys",
    "reaper": "The reaper",
}


def _bars(title: str, rows: list[Measured], top: int) -> list[str]:
    """Parts of a chart that begins there: median as a bar, least to most as a line."""
    scale = (_WIDTH - _LABEL - 110) / max(max(row.rounds["rate"]) for row in rows)
    parts = [f'<text x="10" y="{top + 24}" font-size="16">{escape(title)}</text>']
    for number, row in enumerate(rows):
        y = top + _TOP + number * _ROW
        median, low, high = row.median("rate"), min(row.rounds["rate"]), max(row.rounds["rate"])
        parts += [
            f'<text x="{_LABEL - 8}" y="{y + 5}" text-anchor="end">{escape(row.name)}</text>',
            f'<rect x="{_LABEL}" y="{y - 8}" width="{median * scale:.1f}" height="16" fill="#4a7ebb"/>',
            f'<path d="M{_LABEL + low * scale:.1f} {y}H{_LABEL + high * scale:.1f}" stroke="#222" '
            'stroke-width="2"/>',
            f'<text x="{_LABEL + high * scale + 8:.1f}" y="{y + 5}">{median:.0f}</text>',
        ]
    return parts


def _svg(parts: list[str], height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def write(results, path: Path) -> None:
    parts, height = [], 10
    for group, title in _CHARTS.items():
        rows = [row for row in results.groups.get(group, {}).values() if row.has("rate")]
        if rows:
            parts += _bars(f"{title}: requests per second, median and least to most", rows, height)
            height += _TOP + len(rows) * _ROW
    if parts:
        path.write_text(_svg(parts, height))
