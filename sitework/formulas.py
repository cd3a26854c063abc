"""Formulas become MathML while the site is built: nothing to load and nothing to run where it is read."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves in a page: \(inline\) in a span, \[on a line of its own\] in a div.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def mathml(found: re.Match[str]) -> str:
    kind, latex = found[1], html.unescape(found[2]).strip()
    latex = latex.replace("{aligned}", "{align*}")  # GitHub knows the first name only, latex2mathml the second
    drawn = convert(latex, display="block" if kind == "div" else "inline")
    return f'<div class="formula">{drawn}</div>' if kind == "div" else drawn


def on_page_content(text: str, **_: Any) -> str:
    return FORMULA.sub(mathml, text)
