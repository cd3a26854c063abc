"""`-o`: a page of all that was worked on, or a figure of one."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.cli.options import complain
from regard.errors import UsageError

MOST_ON_A_PAGE = 200


def check_name(output: str | None) -> None:
    """Refuse what could not be drawn before any work is done."""
    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")


def check_count(output: str | None, pictures: int) -> None:
    if output is not None and not output.endswith(".html") and pictures > 1:
        raise UsageError(f"-o {output}: a figure shows one picture; give one, or write a page.html of all")


class Drawn:
    """What is to be drawn, as far as a page has room for it."""

    def __init__(self, output: str | None, things: str):
        self.output, self.things = output, things
        self.kept: list[Any] = []

    def add(self, thing: Any) -> None:
        if self.output is not None and len(self.kept) <= MOST_ON_A_PAGE:  # one more, to know that there are more
            self.kept.append(thing)

    def draw(self, figure: Callable[[Any, str], Any], page: Callable[[str, Sequence[Any], str], Any]) -> None:
        if self.output is None or not self.kept:
            return
        if not self.output.endswith(".html"):
            figure(self.kept[0], self.output)
            return
        if len(self.kept) > MOST_ON_A_PAGE:
            complain(f"{self.output} shows the first {MOST_ON_A_PAGE} {self.things} only")
        page(Path(self.output).stem, self.kept[:MOST_ON_A_PAGE], self.output)
