"""`regard generate`: on from a prompt."""

import json
from typing import Annotated, Any

import typer

from regard.cli.options import (
    Actors,
    AsJson,
    Beam,
    Engine,
    Int8,
    OutFolder,
    PartRows,
    RunFolder,
    Seed,
    Temperature,
    TextColumn,
    TopK,
    TopP,
    check_sampling,
)
from regard.cli.reading import in_pieces, lines
from regard.errors import UsageError

PROMPTS_AT_ONCE = 64  # gone on from together; changes speed, never results


def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to go on from; empty for a new text.")] = "",
    file: Annotated[str | None, typer.Option("--file", help="Go on from every line of this file instead.")] = None,
    beam: Beam = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw the next token instead of taking the best.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", help="Draw N texts from each prompt; with --beam: the N best.")
    ] = 1,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens after the prompt.")] = None,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="End before this string; may be repeated.")] = None,
    text_column: TextColumn = "text",
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Go on from a prompt, or from every line of a file. A single text appears while it is made."""
    from regard.bulk.verb import Wishes, in_bulk
    from regard.loading import load_for

    check_sampling(sample, beam)
    if file is not None and prompt:
        raise UsageError(f"both the prompt {prompt!r} and --file {file} are given; leave one of them out")
    options: dict[str, Any] = {
        "num_beams": beam,
        "do_sample": sample or (samples > 1 and not beam) or None,
        "num_return_sequences": samples,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "stop": stop or (),
    }
    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    table = file or (prompt if out is not None else None) or None
    if in_bulk("generate", run, table, [text_column], wishes, options, not_with={"--samples": samples > 1}):
        return
    model = load_for("generate", run, int8=int8)
    if file is None and samples == 1 and not as_json:
        model.generate(prompt, **options, streamed=lambda part: print(part, end="", flush=True))
        print()
        return
    for piece in in_pieces([prompt] if file is None else lines(file), PROMPTS_AT_ONCE):
        for result in model.generate([text for _, text in piece], **options, first_number=piece[0][0]):
            for one in result.nbest:
                print(continued(one, as_json, model.tokenizer.keeps_blanks))


def continued(result: Any, as_json: bool, several_lines: bool) -> str:
    """A text for people, an empty line behind it where it may have several lines; or for machines."""
    if as_json:
        return json.dumps({"prompt": result.prompt, "text": result.text, "score": result.score}, ensure_ascii=False)
    return f"{result.text}\n" if several_lines else str(result.text)
