"""`regard caption`: files and folders of pictures to lines of captions, and a page or figure of what was looked at."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.data.images import picture_paths
from regard.errors import RegardError, UsageError
from regard.tasks.captioner import Captioned, Captioner
from regard.views.caption import CaptionMap, caption_figure, caption_page

MOST_ON_A_PAGE = 200  # pictures


def caption_files(
    captioner: Captioner,
    names: Sequence[str],
    *,
    output: str | None,
    as_json: bool,
    tell: Callable[[str], object],
    complain: Callable[[str], object],
    **options: Any,
) -> None:
    """Caption what can be read, batch by batch; whatever cannot is named at once, and is a failure at the end."""
    paths = picture_paths(names)
    if not paths:
        raise UsageError("there are no pictures in what was named: regard caption RUN IMAGE..., or folders of them")
    if output is not None:
        captioner.check_attention()
        if not output.endswith(".html") and len(paths) > 1:
            raise UsageError(f"-o {output}: a figure shows one picture; give one, or write a page.html of all")
    drawn: list[CaptionMap] = []
    broken: list[str] = []
    for first in range(0, len(paths), captioner.at_once):
        part = paths[first : first + captioner.at_once]

        def unreadable(error: RegardError) -> None:
            broken.append(str(error))
            complain(str(error))

        for result in captioner.caption(part, first_number=first, unreadable=unreadable, **options):
            for hypothesis in result.nbest:
                tell(_line(hypothesis, captioner, as_json))
            if output is not None and result.attention is not None and len(drawn) <= MOST_ON_A_PAGE:
                drawn.append(result.attention)
    _draw(drawn, output, complain)
    if broken:
        raise RegardError(f"{len(broken)} of {len(paths)} pictures could not be read; the others are captioned")


def _line(result: Captioned, captioner: Captioner, as_json: bool) -> str:
    if not as_json:
        return f"{result.text}\t{result.score:.4f}\t{result.name}"
    rows, columns = captioner.model.encoder.grid  # type: ignore[union-attr, misc]
    record = {"image": result.name, "text": result.text, "score": result.score, "grid": [rows, columns]}
    return json.dumps({**record, "words": result.regions}, ensure_ascii=False)


def _draw(drawn: Sequence[CaptionMap], output: str | None, complain: Callable[[str], object]) -> None:
    if output is None or not drawn:
        return
    if not output.endswith(".html"):
        caption_figure(drawn[0], output)
        return
    if len(drawn) > MOST_ON_A_PAGE:
        complain(f"{output} shows the first {MOST_ON_A_PAGE} pictures only")
    caption_page(Path(output).stem, drawn[:MOST_ON_A_PAGE], output)
