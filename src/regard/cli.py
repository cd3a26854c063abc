"""The command line: one function per verb. Everything heavy is imported when a verb runs, not before."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from regard import __version__
from regard.errors import RegardError, UsageError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Attention models: build, train, run and look inside them.",
)

RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="A run folder or a checkpoint folder.")]
ReplaceUnknowns = Annotated[
    bool, typer.Option("--replace-unknowns", help="Put the source word looked at most in the place of each <unk>.")
]
DataFolder = Annotated[
    str | None, typer.Option("--data", help="Folder of named data sets (default: REGARD_DATA, else the user's cache).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
LengthPenalty = Annotated[float | None, typer.Option(help="The larger, the longer the translations of a beam search.")]
LINES_AT_ONCE = 4096  # translated together; changes speed, never results
TEXTS_AT_ONCE = 256  # classified together; changes speed, never results
MOST_ON_A_PAGE = 200  # documents
Beam = Annotated[int | None, typer.Option("--beam", help="Beams of the search; 1 is greedy.")]


def main() -> NoReturn:
    """Run a verb. Exit codes: 0 done, 1 failed, 2 wrong use."""
    try:
        # Not app(): click would answer a closed pipe itself, with exit code 1.
        command = typer.main.get_command(app)
        with command.make_context("regard", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        code = 0
    except typer.Exit as leaving:
        code = leaving.exit_code
    except RegardError as error:
        code = complain(str(error), error.exit_code)
    except typer.Abort:
        code = complain("interrupted", 1)
    except KeyboardInterrupt:
        code = complain("interrupted", 1)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = complain(f"{error.filename or 'a file'}: {error.strerror or error}", 1)
    except MemoryError:
        code = complain("out of memory: choose a smaller model or smaller batches", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not click's word on wrong arguments
            raise
        code = complain(error.format_message(), 2)
    sys.exit(code)


def complain(message: str, code: int) -> int:
    print(f"regard: {message}", file=sys.stderr)
    return code


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


@app.command()
def recipes(as_json: AsJson = False) -> None:
    """List the named runs, with their data, size and expected result."""
    from regard.recipes import load_recipe, names

    listed = {name: load_recipe(name) for name in names()}
    if as_json:
        print(json.dumps({name: recipe.resolved() for name, recipe in listed.items()}, indent=1))
        return
    for name, recipe in listed.items():
        print(
            f"{name}\n    {recipe.about}\n    data {recipe.data.get('name', 'files')}, model {recipe.model['preset']}"
        )
        if recipe.result:
            print(f"    {recipe.result}")


@app.command()
def train(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE|FILE.yaml", help="See `regard recipes`.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as training.steps=200 model.dropout=0.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Run folder (default: runs/RECIPE).")] = None,
    data: DataFolder = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the run folder's last checkpoint stands.")
    ] = False,
) -> None:
    """Train a recipe into a run folder. Ctrl-C saves and leaves; --resume goes on bit by bit the same."""
    from regard.recipes import load_recipe

    if recipe is None and not (resume and out):
        raise UsageError(
            "say which recipe to train (see: regard recipes), or which run to resume with --resume --out RUN"
        )
    folder = out or f"runs/{Path(recipe or '').stem}"
    if resume:
        if overrides:
            raise UsageError(f"--resume goes on with {folder} as it was configured; {overrides[0]!r} would change it")
        finish_training(None, folder, data)
    else:
        finish_training(load_recipe(recipe or "", overrides or []), folder, data)


def finish_training(recipe: Any, folder: str, data: str | None) -> None:
    """Train or (without a recipe) resume, with a progress bar, and say how it ended."""
    from regard.progress import TrainingBar
    from regard.recipes import runner
    from regard.training.run import Run

    settings = recipe.training_settings() if recipe else runner.recipe_of(Run.open(folder)).training_settings()
    with TrainingBar(settings.steps) as bar:
        if recipe:
            run, outcome = runner.train(recipe, folder, data, bar)
        else:
            run, outcome = runner.resume(folder, data, bar)
    progress = outcome.progress
    if outcome.reason == "stopped":
        print(f"stopped and saved at step {progress.step}; go on with: regard train --resume --out {folder}")
        return
    best = f", best validation loss {progress.best_loss:.4f}" if progress.best_loss is not None else ""
    print(f"trained {progress.step} steps in {progress.seconds:.0f} s{best}; the run is in {run.folder}")


@app.command()
def evaluate(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders; several are compared.")],
    split: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "test",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    replace_unknowns: ReplaceUnknowns = False,
    curve: Annotated[
        str | None, typer.Option("--curve", help="Draw BLEU by source length of all RUNs: curve.svg or curve.png.")
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """BLEU and chrF with intervals, perplexity, BLEU by length, and alignment error where gold links exist."""
    from regard.recipes import runner

    check_curve(curve, runs)
    found = [
        runner.evaluate(
            run, split, data=data, num_beams=beam, length_penalty=length_penalty, replace_unknowns=replace_unknowns
        )
        for run in runs
    ]
    if curve is not None:
        from regard.views.curve import length_curve

        length_curve(dict(zip(short_names(runs), (known.lengths for known in found), strict=True)), curve)
    if as_json:
        records = [{"split": split, **known.as_dict()} for known in found]
        several = [{"run": run, **record} for run, record in zip(runs, records, strict=True)]
        print(json.dumps(several if len(runs) > 1 else records[0], indent=1))
        return
    for run, known in zip(runs, found, strict=True):
        print(f"{run}\n{known.told()}\n" if len(runs) > 1 else known.told())
    if curve is not None:
        print(f"wrote {curve}")


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


@app.command()
def translate(
    run: RunFolder,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="One sentence a line (default: stdin).")] = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Print the N best translations of each line.")] = 1,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word links (source-target, from 0) behind a tab.")
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations instead of searching the best.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the k best tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample among the tokens that hold this much probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sampling.")] = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens of a translation.")] = None,
    replace_unknowns: ReplaceUnknowns = False,
    dictionary: Annotated[
        str | None, typer.Option(metavar="FILE.tsv", help="What to put there instead: source<TAB>target, a line each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines: FILE or standard input to standard output, in order. Empty lines stay empty."""
    from itertools import islice

    from regard.data.parallel import read_lines
    from regard.loading import load_for
    from regard.progress import counting

    lines = enumerate(read_lines(file or "/dev/stdin"))
    translator = load_for("translate", run)
    if alignments:
        translator.check_attention()
    words = known_words(dictionary, replace_unknowns)
    if nbest > 1 and not sample:
        beam = max(nbest, beam or translator.decoding.num_beams)
    # Someone who types wants an answer to each line; a file is quicker in larger pieces.
    at_once = 1 if file is None and sys.stdin.isatty() else LINES_AT_ONCE
    with counting("translating") as finished:
        while chunk := list(islice(lines, at_once)):
            for number, line in chunk:
                if line is None:
                    complain(f"line {number + 1} of the input is too long and was left empty", 0)
            results = translator.translate(
                [line or "" for _, line in chunk],
                num_beams=beam,
                num_return_sequences=nbest,
                do_sample=sample or None,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=seed,
                length_penalty=length_penalty,
                max_new_tokens=max_new_tokens,
                first_number=chunk[0][0],
                replace_unknowns=replace_unknowns,
                dictionary=words,
                finished=finished,
            )
            links = translator.links(results) if alignments else None
            for row, ((number, _), result) in enumerate(zip(chunk, results, strict=True)):
                for rank, hypothesis in enumerate(result.nbest or (result,)):
                    print(_line(number, hypothesis, links[row][rank] if links else None, nbest, as_json))
            sys.stdout.flush()


def known_words(path: str | None, wanted: bool) -> dict[str, str] | None:
    """The dictionary for unknown words; what of it cannot be used is said."""
    from collections import Counter

    from regard.tasks.unknowns import read_dictionary

    if path is None:
        return None
    if not wanted:
        raise UsageError(f"--dictionary {path} serves only to replace unknown words: add --replace-unknowns")
    skipped: Counter[str] = Counter()
    words = read_dictionary(path, skipped)
    if skipped:
        complain(f"{path}: entries left out: {', '.join(f'{count} {why}' for why, count in skipped.items())}", 0)
    return words


def _line(number: int, result: Any, links: str | None, nbest: int, as_json: bool) -> str:
    if as_json:
        record = {"line": number + 1, "source": result.source, "text": result.text, "score": result.score}
        return json.dumps({**record, **({"alignment": links} if links is not None else {})}, ensure_ascii=False)
    text = f"{number} ||| {result.text} ||| {result.score:.4f}" if nbest > 1 else result.text
    return text if links is None else f"{text}\t{links}"


@app.command()
def classify(
    run: RunFolder,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="One text a line (default: stdin), or a .jsonl, .tsv, .csv or .parquet."),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show the sentences and words that weighed most.")] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="page.html of all texts, or picture.svg or .png of one.")
    ] = None,
    text_column: Annotated[str, typer.Option("--text-column", help="Of a table.")] = "text",
    as_json: AsJson = False,
) -> None:
    """Classify texts: label and probability of each, in order. Empty lines stay empty."""
    from itertools import islice

    from regard.loading import load_for
    from regard.progress import counting
    from regard.views.document import document_terminal

    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")
    texts = enumerate(documents(file, text_column), 1)
    classifier = load_for("classify", run)
    at_once = 1 if file is None and sys.stdin.isatty() else TEXTS_AT_ONCE
    drawn: list[Any] = []
    with counting("classifying") as finished:
        while chunk := list(islice(texts, at_once)):
            results = classifier.classify([text for _, text in chunk], finished=finished)
            for (number, _), result in zip(chunk, results, strict=True):
                print(verdict(number, result, why, as_json))
                if why and result.label and not as_json:
                    print(document_terminal(result.attention, colour=sys.stdout.isatty()))
                if output is not None and result.label and len(drawn) <= MOST_ON_A_PAGE:
                    drawn.append(result.attention)
            sys.stdout.flush()
    if output is not None:
        draw_documents(drawn, output)


def documents(file: str | None, text_column: str) -> Any:
    """The texts to classify, streamed; a line that is too long is said and left empty."""
    from regard.data.labelled import FORMS, LONGEST_TEXT, read_texts
    from regard.data.parallel import read_lines

    if file is not None and file.lower().removesuffix(".gz").endswith(FORMS):
        return read_texts(file, text_column)
    lines = enumerate(read_lines(file or "/dev/stdin", longest=LONGEST_TEXT), 1)

    def said(number: int, line: str | None) -> str:
        if line is None:
            complain(f"line {number} of the input is too long and was left empty", 0)
        return line or ""

    return (said(number, line) for number, line in lines)


def verdict(number: int, result: Any, why: bool, as_json: bool) -> str:
    if not as_json:
        return f"{result.label}\t{result.probability:.4f}" if result.label else ""
    record: dict[str, Any] = {"line": number, "label": result.label or None, "probabilities": result.probabilities}
    if why and result.label:
        from dataclasses import asdict

        record["sentences"] = [asdict(sentence) for sentence in result.sentences]
    return json.dumps(record, ensure_ascii=False)


def draw_documents(drawn: list[Any], output: str) -> None:
    from regard.views.document import document_figure, document_page

    if not drawn:
        raise UsageError(f"-o {output}: there is no text with a word in it to draw")
    if not output.endswith(".html"):
        if len(drawn) > 1:
            raise UsageError(f"-o {output}: a picture shows one text; give one, or write a page.html of all")
        document_figure(drawn[0], output)
        return
    if len(drawn) > MOST_ON_A_PAGE:
        complain(f"{output} shows the first {MOST_ON_A_PAGE} texts only", 0)
    document_page(Path(output).stem, drawn[:MOST_ON_A_PAGE], output)


@app.command()
def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to go on from; empty for a new line.")] = "",
    beam: Beam = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw the next token instead of taking the best.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the k best tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample among the tokens that hold this much probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sampling.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens after the prompt.")] = None,
    as_json: AsJson = False,
) -> None:
    """Go on from a prompt to the end of its line."""
    from regard.loading import load_for

    result = load_for("generate", run).generate(
        prompt,
        num_beams=beam,
        do_sample=sample or None,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        max_new_tokens=max_new_tokens,
    )[0]
    if as_json:
        print(json.dumps({"prompt": prompt, "text": result.text, "score": result.score}, ensure_ascii=False))
    else:
        print(result.text)


@app.command()
def look(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence to translate and look at.")],
    target: Annotated[str | None, typer.Option("--target", help="Look at this translation instead of our own.")] = None,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Such as 0,2 or -1, counted from 0 (default: all).")
    ] = None,
    heads: Annotated[str | None, typer.Option("--heads", help="Such as 0,3, counted from 0 (default: all).")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="page.html, map.svg or map.png.")] = None,
) -> None:
    """See what a translation attends to: a page, a picture, or a map on the terminal."""
    from regard.loading import load_for
    from regard.looking import draw

    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")
    print(draw(load_for("look", run), text, target, numbers(layers, "--layers"), numbers(heads, "--heads"), output))


def numbers(text: str | None, option: str) -> list[int] | None:
    """`0,2,-1` as a list."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a list of whole numbers such as 0,2 or -1") from None


@app.command()
def demo(
    out: Annotated[str, typer.Option("--out", help="Run folder; an earlier demo there is replaced.")] = "runs/demo",
) -> None:
    """Train the demo translator (English to Spanish), score it, and write the page of what it attends to."""
    from regard.demo import run_demo

    run_demo(Path(out))
