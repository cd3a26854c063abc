"""Figures one below the other on an HTML page that needs nothing but itself."""

import base64
import html
import io
from collections.abc import Iterable
from dataclasses import dataclass

from matplotlib.figure import Figure

from regard.views.paper import INK

_DPI = 110


@dataclass(frozen=True, eq=False)
class Plate:
    """A figure, what stands above it, and what it shows, for those who cannot see it."""

    figure: Figure
    heading: str
    about: str
    name: str = ""  # in small letters beside the heading

    def html(self) -> str:
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="png", dpi=_DPI)
        picture = base64.b64encode(drawn.getvalue()).decode("ascii")
        heading = html.escape(self.heading)
        small = f" <small>{html.escape(self.name)}</small>" if self.name else ""
        return (
            f"<figure><figcaption><b>{heading}</b>{small}</figcaption>"
            f'<img src="data:image/png;base64,{picture}" alt="{html.escape(self.about)}: {heading}"></figure>'
        )


def plates_page(title: str, plates: Iterable[Plate]) -> str:
    """The page as a string."""
    figures = "\n".join(plate.html() for plate in plates)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>body {{font: 16px sans-serif; color: {INK}; margin: 2em auto; max-width: 70em; padding: 0 1em}}\n"
        "figure {margin: 0 0 2em} img {max-width: 100%}</style>\n"
        f"<h1>{html.escape(title)}</h1>\n{figures}\n</html>\n"
    )
