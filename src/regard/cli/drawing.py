"""`-o`: a page of all that was worked on, or a figure of one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.options import complain
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.views.look import Look, Shown

MOST_ON_A_PAGE = 200


def check_name(output: str | None) -> None:
    """Refuse what could not be drawn before any work is done."""
    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")


def check_count(output: str | None, pictures: int) -> None:
    if output is not None and not output.endswith(".html") and pictures > 1:
        raise UsageError(f"-o {output}: a figure shows one picture; give one, or write a page.html of all")


class Drawn:
    """The looks to be drawn, as far as a page has room for them."""

    def __init__(self, output: str | None, things: str):
        self.output, self.things = output, things
        self.looks: list[Look] = []

    def add(self, result: "Shown") -> None:
        if self.output is None or len(self.looks) > MOST_ON_A_PAGE:  # one more, to know that there are more
            return
        look = result.look()
        if look is not None:
            self.looks.append(look)

    def draw(self) -> None:
        from regard.views.look import save_page

        if self.output is None or not self.looks:
            return
        if not self.output.endswith(".html"):
            self.looks[0].save(self.output)
            return
        if len(self.looks) > MOST_ON_A_PAGE:
            complain(f"{self.output} shows the first {MOST_ON_A_PAGE} {self.things} only")
        save_page(Path(self.output).stem, self.looks[:MOST_ON_A_PAGE], self.output)


def show(result: "Shown") -> None:
    """On the terminal."""
    look = result.look()
    if look is not None:
        print(look.terminal(colour=sys.stdout.isatty()))
