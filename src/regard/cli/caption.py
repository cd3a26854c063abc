"""`regard caption`: files and folders of pictures to lines of captions, and what was looked at."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from regard.cli.drawing import Drawn, check_count, check_name
from regard.cli.options import (
    AsJson,
    Beam,
    Int8,
    LengthPenalty,
    RunFolder,
    Seed,
    Temperature,
    TopK,
    TopP,
    check_sampling,
)
from regard.cli.reading import UnreadablePictures
from regard.errors import UsageError


def caption(
    run: RunFolder,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Pictures, or folders of them.")],
    beam: Beam = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Print the N best captions of each picture.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw captions instead of searching the best.")] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens of a caption.")] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="What each word looked at: page.html, or picture.svg or .png of one."),
    ] = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Say what pictures show. A line of caption, score and file for each.

    A picture that cannot be read is named on standard error, and the others are captioned; the exit code is 1 only if
    no picture can be read.
    """
    from regard.loading import load_for

    check_sampling(sample, beam)
    check_name(output)
    captioner = load_for("caption", run, int8=int8)
    if nbest > 1 and not sample:
        beam = max(nbest, beam or captioner.decoding.num_beams)
    caption_files(
        captioner,
        images,
        output=output,
        as_json=as_json,
        num_beams=beam,
        num_return_sequences=nbest,
        do_sample=sample or None,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        length_penalty=length_penalty,
        max_new_tokens=max_new_tokens,
    )


def caption_files(captioner: Any, names: Sequence[str], *, output: str | None, as_json: bool, **options: Any) -> None:
    """Caption what can be read, batch by batch; what cannot is named at once, and counted at the end."""
    from regard.data.images import picture_paths

    paths = picture_paths(names)
    if not paths:
        raise UsageError("there are no pictures in what was named: regard caption RUN IMAGE..., or folders of them")
    if output is not None:
        captioner.check_attention()
    check_count(output, len(paths))
    drawn = Drawn(output, "pictures")
    unreadable = UnreadablePictures()
    for first in range(0, len(paths), captioner.at_once):
        part = paths[first : first + captioner.at_once]
        for result in captioner.caption(part, first_number=first, unreadable=unreadable, **options):
            for hypothesis in result.nbest:
                print(captioned(hypothesis, captioner, as_json), flush=True)
            drawn.add(result)
    unreadable.report(len(paths))
    drawn.draw()


def captioned(result: Any, captioner: Any, as_json: bool) -> str:
    if not as_json:
        return f"{result.text}\t{result.score:.4f}\t{result.name}"
    rows, columns = captioner.model.encoder.grid
    record = {"image": result.name, "text": result.text, "score": result.score, "grid": [rows, columns]}
    return json.dumps({**record, "words": result.regions}, ensure_ascii=False)
