"""`regard evaluate`: the scores of runs, and what 8 bits change of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import AsJson, Beam, DataFolder, LengthPenalty, ReplaceUnknowns
from regard.errors import UsageError


def evaluate(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders; several are compared.")],
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    replace_unknowns: ReplaceUnknowns = False,
    stride: Annotated[
        int | None, typer.Option("--stride", help="Tokens a language model's window moves on (default: half of it).")
    ] = None,
    shots: Annotated[
        int | None, typer.Option("--shots", help="Examples of each label for a few-shot run (default: as trained).")
    ] = None,
    curve: Annotated[
        str | None, typer.Option("--curve", help="Draw BLEU by source length of all RUNs: curve.svg or curve.png.")
    ] = None,
    data: DataFolder = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="With large matrices in 8 bits, beside the whole model.")
    ] = False,
    texts: Annotated[
        str | None,
        typer.Option("--texts", help="With --int8: how far the vectors of these texts (one a line) turn, no split."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score runs on a split of their own data.

    BLEU and chrF with intervals, perplexity, accuracy, BLEU by length, and alignment error where gold links exist. With
    --int8 --texts FILE, any checkpoint that makes vectors is compared with itself in 8 bits.
    """
    from functools import partial

    from regard.recipes import runner

    if texts is not None:
        if not int8 or curve is not None:
            raise UsageError("--texts compares vectors with those in 8 bits: it goes with --int8, and without --curve")
        show(runs, [turned(run, texts) for run in runs], as_json)
        return
    check_curve(curve, runs)
    scored = partial(
        runner.evaluate,
        split=split,
        data=data,
        num_beams=beam,
        length_penalty=length_penalty,
        replace_unknowns=replace_unknowns,
        stride=stride,
        shots=shots,
    )
    found = [scored(run) for run in runs]
    in_8_bits = [scored(run, int8=True) for run in runs] if int8 else []
    if curve is not None:
        from regard.views.curve import length_curve

        length_curve(dict(zip(short_names(runs), (known.lengths for known in found), strict=True)), curve)
    show(runs, found, as_json, split, in_8_bits)
    if curve is not None and not as_json:
        print(f"wrote {curve}")


def show(
    runs: list[str], found: list[Any], as_json: bool, split: str | None = None, in_8_bits: Sequence[Any] = ()
) -> None:
    """All that was found of the runs, and of the same in 8 bits if they were asked."""
    if as_json:
        records = [({"split": split} if split else {}) | known.as_dict() for known in found]
        for record, known in zip(records, in_8_bits, strict=False):
            record["int8"] = known.as_dict()
        several = [{"run": run, **record} for run, record in zip(runs, records, strict=True)]
        print(json.dumps(several if len(runs) > 1 else records[0], indent=1))
        return
    blocks = [[known.told()] for known in found]
    for block, whole, known in zip(blocks, found, in_8_bits, strict=False):
        block += ["in 8 bits:", *changes(whole.as_dict(), known.as_dict())]
    for run, block in zip(runs, blocks, strict=True):
        print("\n".join([run, *block, ""] if len(runs) > 1 else block))


def turned(run: str, file: str) -> Any:
    """How far 8 bits turn the vectors a run makes of the texts of a file."""
    from regard.cli.embed import load_embedder
    from regard.cli.reading import documents
    from regard.progress import counting
    from regard.tasks.embedding_scores import turned_vectors

    texts = [text for text in documents(file, "text") if text.strip()]
    if not texts:
        raise UsageError(f"--texts {file}: there is no text in it")
    vectors = []
    for int8 in (False, True):
        with counting("in 8 bits" if int8 else "whole", len(texts)) as finished:
            vectors.append(load_embedder(run, int8).embed(texts, finished=finished))
    return turned_vectors(texts, *vectors)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What quantisation did to every number of an evaluation."""
    numbers = [name for name, value in before.items() if isinstance(value, float) and isinstance(after[name], float)]
    return [f"  {name} {before[name]:.4g} -> {after[name]:.4g} ({after[name] - before[name]:+.2g})" for name in numbers]


def check_curve(path: str | None, runs: list[str]) -> None:
    """Refuse what could not be drawn before the minutes an evaluation takes, and runs that are not there."""
    from regard.recipes import runner
    from regard.training.run import Run

    tasks = [runner.recipe_of(Run.open(run)).task for run in runs]
    if path is None:
        return
    if Path(path).suffix not in (".svg", ".png"):
        raise UsageError(f"--curve {path}: the name must end in .svg or .png")
    for run, task in zip(runs, tasks, strict=True):
        if task != "translate":
            raise UsageError(f"--curve draws BLEU by length, but {run} is a run of the task {task!r}; leave it out")


def short_names(runs: list[str]) -> list[str]:
    """What a legend calls the runs: their folders' names, or what was typed where these would be the same."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else runs
