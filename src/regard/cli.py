"""The command line: one function per verb. Everything heavy is imported when a verb runs, not before."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from regard import __version__
from regard.errors import RegardError, UsageError, is_out_of_memory

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Attention models: build, train, run and look inside them.",
)

RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint folder, or hf:OWNER/NAME.")]
ReplaceUnknowns = Annotated[
    bool, typer.Option("--replace-unknowns", help="Put the source word looked at most in the place of each <unk>.")
]
DataFolder = Annotated[
    str | None, typer.Option("--data", help="Folder of named data sets (default: REGARD_DATA, else the user's cache).")
]
TextColumn = Annotated[str, typer.Option("--text-column", "--column", help="Of a table.")]
OutFolder = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", help="Parquet (a file, folder or glob) in, parts with the results out, restartable."
    ),
]
Engine = Annotated[str, typer.Option("--engine", metavar="plain|ray", help="Of --out: this process, or actors of Ray.")]
Actors = Annotated[int | None, typer.Option("--actors", help="Of --engine ray: how many load the model.")]
PartRows = Annotated[int | None, typer.Option("--part-rows", help="Of --out: rows of a part (default: 2048).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Large matrices in 8 bits: faster on a CPU, a little less exact.")]
LengthPenalty = Annotated[float | None, typer.Option(help="The larger, the longer the translations of a beam search.")]
LINES_AT_ONCE = 4096  # translated together; changes speed, never results
TEXTS_AT_ONCE = 256  # classified together; changes speed, never results
PROMPTS_AT_ONCE = 64  # gone on from together; changes speed, never results
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
    except Exception as error:
        if is_out_of_memory(error):
            code = complain("out of memory: choose a smaller model or smaller batches", 1)
        elif hasattr(error, "format_message"):  # click's word on wrong arguments
            code = complain(error.format_message(), 2)
        else:
            raise
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
    from regard.training.company import leads
    from regard.training.run import Run

    settings = recipe.training_settings() if recipe else runner.recipe_of(Run.open(folder)).training_settings()
    with TrainingBar(settings.steps) as bar:
        if recipe:
            run, outcome = runner.train(recipe, folder, data, bar)
        else:
            run, outcome = runner.resume(folder, data, bar)
    progress = outcome.progress
    if not leads():
        return
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
    as_json: AsJson = False,
) -> None:
    """BLEU and chrF with intervals, perplexity, BLEU by length, and alignment error where gold links exist."""
    from functools import partial

    from regard.recipes import runner

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
    if as_json:
        records = [{"split": split, **known.as_dict()} for known in found]
        for record, known in zip(records, in_8_bits, strict=False):
            record["int8"] = known.as_dict()
        several = [{"run": run, **record} for run, record in zip(runs, records, strict=True)]
        print(json.dumps(several if len(runs) > 1 else records[0], indent=1))
        return
    for run, known in zip(runs, found, strict=True):
        print(f"{run}\n{known.told()}\n" if len(runs) > 1 else known.told())
    for whole, known in zip(found, in_8_bits, strict=False):
        print("\n".join(["in 8 bits:", *changes(whole.as_dict(), known.as_dict())]))
    if curve is not None:
        print(f"wrote {curve}")


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
    text_column: TextColumn = "text",
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Translate lines: FILE or standard input to standard output, in order. Empty lines stay empty."""
    from itertools import islice

    from regard.bulk.verb import Wishes, in_bulk
    from regard.data.parallel import read_lines
    from regard.loading import load_for
    from regard.progress import counting

    search: dict[str, Any] = {
        "do_sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "length_penalty": length_penalty,
        "max_new_tokens": max_new_tokens,
        "replace_unknowns": replace_unknowns,
        "dictionary": known_words(dictionary, replace_unknowns),
    }
    options = {**search, "num_beams": beam, "alignments": alignments or None}
    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    if in_bulk("translate", run, file, [text_column], wishes, options, not_with={"--nbest": nbest > 1}):
        return
    lines = enumerate(read_lines(file or "/dev/stdin"))
    translator = load_for("translate", run, int8=int8)
    if alignments:
        translator.check_attention()
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
                **search,
                num_beams=beam,
                num_return_sequences=nbest,
                first_number=chunk[0][0],
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
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE | IMAGE...]",
            help="One text a line (default: stdin), or a .jsonl, .tsv, .csv or .parquet; or pictures or their folders.",
        ),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show the words or patches that weighed most.")] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="page.html of all, or picture.svg or .png of one.")
    ] = None,
    text_column: TextColumn = "text",
    second_column: Annotated[
        str | None, typer.Option("--second-column", help="Of a table of pairs; in lines a tab separates the two texts.")
    ] = None,
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Classify texts or pictures: label and probability of each, in order. Empty lines stay empty."""
    from itertools import islice

    from regard.bulk.verb import Wishes, in_bulk
    from regard.loading import load_for
    from regard.progress import counting
    from regard.tasks.image_classifier import ImageClassifier
    from regard.views.document import document_terminal

    columns = [text_column] if second_column is None else [text_column, second_column]
    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    several = {"a second file (name a folder, or a glob in quotes)": bool(files) and len(files or ()) > 1}
    source, not_with = files[0] if files else None, {"--why": why, "-o": output is not None, **several}
    if in_bulk("classify", run, source, columns, wishes, {}, not_with):
        return
    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")
    classifier = load_for("classify", run, int8=int8)
    if isinstance(classifier, ImageClassifier):
        classify_pictures(classifier, files or [], why, output, as_json)
        return
    if files and len(files) > 1:
        raise UsageError(f"{run} classifies texts, of one file at a time: leave out {files[1]}")
    file = files[0] if files else None
    texts = enumerate(documents(file, text_column, second_column, pairs=classifier.frame is not None), 1)
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


def documents(file: str | None, text_column: str, second_column: str | None = None, pairs: bool = False) -> Any:
    """The texts to read, streamed, or the pairs; a line that is too long is said and left empty."""
    from regard.data.frames import as_pair
    from regard.data.labelled import FORMS, LONGEST_TEXT, read_text_pairs, read_texts
    from regard.data.parallel import read_lines

    if file is not None and file.lower().removesuffix(".gz").endswith(FORMS):
        if second_column is not None:
            return read_text_pairs(file, text_column, second_column)
        return read_texts(file, text_column)
    lines = enumerate(read_lines(file or "/dev/stdin", longest=LONGEST_TEXT), 1)

    def said(number: int, line: str | None) -> str:
        if line is None:
            complain(f"line {number} of the input is too long and was left empty", 0)
        return line or ""

    texts = (said(number, line) for number, line in lines)
    return map(as_pair, texts) if pairs else texts


def verdict(number: int, result: Any, why: bool, as_json: bool) -> str:
    if not as_json:
        return f"{result.label}\t{result.probability:.4f}" if result.label else ""
    record: dict[str, Any] = {"line": number, "label": result.label or None, "probabilities": result.probabilities}
    if why and result.label:
        from dataclasses import asdict

        record["sentences"] = [asdict(sentence) for sentence in result.sentences]
    return json.dumps(record, ensure_ascii=False)


def classify_pictures(classifier: Any, files: list[str], why: bool, output: str | None, as_json: bool) -> None:
    """A line per picture; one that cannot be read is said, and its line has no label."""
    from regard.data.images import picture_paths
    from regard.progress import counting
    from regard.views.image import image_figure, image_page, image_terminal

    paths = picture_paths(files)
    if not paths:
        raise UsageError("say which pictures to classify: regard classify RUN IMAGE..., or folders of them")
    if output is not None and not output.endswith(".html") and len(paths) > 1:
        raise UsageError(f"-o {output}: a figure shows one picture; give one, or write a page.html of all")
    drawn: list[Any] = []
    count = 0
    with counting("classifying", len(paths)) as finished:
        for first in range(0, len(paths), classifier.at_once):
            part = paths[first : first + classifier.at_once]
            for result in classifier.classify(
                part, finished=finished, unreadable=lambda error: complain(str(error), 0)
            ):
                count += bool(result.label)
                print(picture_verdict(result, as_json))
                if why and result.label and not as_json:
                    print(image_terminal(result.attention, colour=sys.stdout.isatty()))
                if output is not None and result.label and len(drawn) <= MOST_ON_A_PAGE:
                    drawn.append(result.attention)
            sys.stdout.flush()
    if not count:
        raise RegardError(f"none of the {len(paths)} pictures could be read")
    if output is not None and not output.endswith(".html"):
        image_figure(drawn[0], output)
    elif output is not None:
        if len(drawn) > MOST_ON_A_PAGE:
            complain(f"{output} shows the first {MOST_ON_A_PAGE} pictures only", 0)
        image_page(Path(output).stem, drawn[:MOST_ON_A_PAGE], output)


def picture_verdict(result: Any, as_json: bool) -> str:
    if as_json:
        record = {"image": result.name, "label": result.label or None, "probabilities": result.probabilities}
        return json.dumps(record, ensure_ascii=False)
    return f"{result.label}\t{result.probability:.4f}\t{result.name}" if result.label else f"\t\t{result.name}"


@app.command()
def match(
    run: RunFolder,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder per label, with example pictures in it.")],
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Pictures to label, or folders of them.")],
    why: Annotated[bool, typer.Option("--why", help="Show the examples that weighed most.")] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="page.html of all, or picture.svg or .png of one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Label pictures by a few examples: label, its probability, the file, and all probabilities, a line each."""
    from regard.data.images import picture_paths
    from regard.loading import load_for
    from regard.progress import counting
    from regard.views.match import match_terminal

    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")
    paths = picture_paths(queries)
    if not paths:
        raise UsageError("say which pictures to label: regard match RUN FOLDER QUERY..., or folders of them")
    if output is not None and not output.endswith(".html") and len(paths) > 1:
        raise UsageError(f"-o {output}: a figure shows one picture; give one, or write a page.html of all")
    matcher = load_for("match", run)

    def say(error: RegardError) -> None:
        complain(str(error), 0)

    examples = matcher.examples(folder, unreadable=say)
    with counting("matching", len(paths)) as finished:
        results = matcher.match(examples, paths, finished=finished, unreadable=say)
    for result in results:
        print(matched(result, why, as_json))
        if why and result.label and not as_json:
            print(match_terminal(result.attention))
    readable = [result for result in results if result.label]
    if output is not None and readable:
        draw_matches([result.attention for result in readable[: MOST_ON_A_PAGE + 1]], output)
    if len(readable) < len(results):
        raise RegardError(f"{len(results) - len(readable)} of the {len(results)} pictures could not be read")


def matched(result: Any, why: bool, as_json: bool) -> str:
    if as_json:
        record = {"image": result.name, "label": result.label or None, "probabilities": result.probabilities}
        if why and result.label:
            paid = result.attention.weights[-1, :-1].tolist()
            record["examples"] = dict(zip(result.attention.names, paid, strict=True))
        return json.dumps(record, ensure_ascii=False)
    if not result.label:
        return f"\t\t{result.name}\t"
    ranked = sorted(result.probabilities.items(), key=lambda entry: -entry[1])
    told = "  ".join(f"{label} {chance:.4f}" for label, chance in ranked)
    return f"{result.label}\t{result.probability:.4f}\t{result.name}\t{told}"


def draw_matches(drawn: list[Any], output: str) -> None:
    from regard.views.match import match_figure, match_page

    if not output.endswith(".html"):
        match_figure(drawn[0], output)
        return
    if len(drawn) > MOST_ON_A_PAGE:
        complain(f"{output} shows the first {MOST_ON_A_PAGE} pictures only", 0)
    match_page(Path(output).stem, drawn[:MOST_ON_A_PAGE], output)


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
def tag(
    run: RunFolder,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sentence a line, blanks between words (default: stdin), or a .conllu."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tag the words of sentences: word/TAG word/TAG ..., a line each, in order. Empty lines stay empty."""
    from itertools import islice

    from regard.loading import load_for
    from regard.progress import counting

    sentences = enumerate(sentences_of_words(file), 1)
    tagger = load_for("tag", run)
    at_once = 1 if file is None and sys.stdin.isatty() else LINES_AT_ONCE
    with counting("tagging") as finished:
        while chunk := list(islice(sentences, at_once)):
            results = tagger.tag([words for _, words in chunk], finished=finished)
            for (number, _), result in zip(chunk, results, strict=True):
                known = {"words": result.words, "tags": result.tags, "probabilities": result.probabilities}
                record = {"line": number, **known}
                print(json.dumps(record, ensure_ascii=False) if as_json else result.text)
            sys.stdout.flush()


def sentences_of_words(file: str | None) -> Any:
    """The sentences to tag, streamed; a line that is too long is said and left empty."""
    from regard.data.conllu import read_conllu
    from regard.data.parallel import read_lines

    if file is not None and file.lower().endswith((".conllu", ".conllu.gz")):
        return (sentence.words for sentence in read_conllu(file, column=None))
    lines = enumerate(read_lines(file or "/dev/stdin"), 1)

    def words(number: int, line: str | None) -> list[str]:
        if line is None:
            complain(f"line {number} of the input is too long and was left empty", 0)
        return (line or "").split()

    return (words(number, line) for number, line in lines)


@app.command()
def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to go on from; empty for a new text.")] = "",
    file: Annotated[str | None, typer.Option("--file", help="Go on from every line of this file instead.")] = None,
    beam: Beam = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw the next token instead of taking the best.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", help="Draw N texts from each prompt; with --beam: the N best.")
    ] = 1,
    temperature: Annotated[float | None, typer.Option(help="Of the sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the k best tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample among the tokens that hold this much probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sampling.")] = None,
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
    """Go on from a prompt, or from every line of a file; a single text appears while it is made."""
    from itertools import islice

    from regard.bulk.verb import Wishes, in_bulk
    from regard.data.parallel import read_lines
    from regard.loading import load_for

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
    prompts = enumerate([prompt] if file is None else (prompt_line(*line) for line in enumerate(read_lines(file), 1)))
    while chunk := list(islice(prompts, PROMPTS_AT_ONCE)):
        for result in model.generate([text for _, text in chunk], **options, first_number=chunk[0][0]):
            for one in result.nbest:
                print(continued(one, as_json, model.tokenizer.keeps_blanks))
        sys.stdout.flush()


def prompt_line(number: int, line: str | None) -> str:
    """A line that is too long is said, and counts as empty."""
    if line is None:
        complain(f"line {number} of the prompts is too long and was left empty", 0)
    return line or ""


def continued(result: Any, as_json: bool, several_lines: bool) -> str:
    """A text for people, an empty line behind it where it may have several lines; or for machines."""
    if as_json:
        return json.dumps({"prompt": result.prompt, "text": result.text, "score": result.score}, ensure_ascii=False)
    return f"{result.text}\n" if several_lines else str(result.text)


@app.command()
def fill(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="With a [MASK] for every word to find.")],
    top: Annotated[int, typer.Option("--top", help="How many words to offer for each gap.")] = 5,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Find the words behind every [MASK] of a text."""
    from dataclasses import asdict

    from regard.loading import load_for

    result = load_for("fill", run, int8=int8).fill(text, top=top)[0]
    if as_json:
        gaps = [[asdict(guess) for guess in gap] for gap in result.guesses]
        record = {"source": text, "text": result.text, "score": result.score, "guesses": gaps}
        print(json.dumps(record, ensure_ascii=False))
        return
    print(result.text)
    for gap in result.guesses:
        print("  ".join(f"{guess.word} {guess.probability:.4f}" for guess in gap))


@app.command()
def embed(
    run: RunFolder,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="One text a line (default: stdin), or a .jsonl, .tsv, .csv or .parquet."),
    ] = None,
    pooling: Annotated[str | None, typer.Option("--pooling", help="mean or cls (default: as it was built).")] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Whether vectors get length one (default: as it was built)."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="vectors.npy, a row per text, in place of numbers to read.")
    ] = None,
    text_column: TextColumn = "text",
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """One vector per text: a line of numbers each, in order. Of long texts the beginning is read."""
    from itertools import islice

    from regard.bulk.verb import Wishes, in_bulk
    from regard.loading import load_for
    from regard.progress import counting

    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    options = {"pooling": pooling, "normalize": normalize}
    if in_bulk("embed", run, file, [text_column], wishes, options, not_with={"-o": output is not None}):
        return
    if output is not None and Path(output).suffix != ".npy":
        raise UsageError(f"-o {output}: the name must end in .npy")
    texts = enumerate(documents(file, text_column), 1)
    embedder = load_for("embed", run, int8=int8)
    at_once = 1 if file is None and sys.stdin.isatty() else TEXTS_AT_ONCE
    rows: list[Any] = []
    with counting("embedding") as finished:
        while chunk := list(islice(texts, at_once)):
            read = [text for _, text in chunk]
            vectors = embedder.embed(read, pooling=pooling, normalize=normalize, finished=finished)
            if output is not None:
                rows.append(vectors)
                continue
            for (number, _), vector in zip(chunk, vectors.tolist(), strict=True):
                plain = " ".join(f"{value:.6g}" for value in vector)
                print(json.dumps({"line": number, "embedding": vector}) if as_json else plain)
            sys.stdout.flush()
    if output is not None:
        save_vectors(rows, output)


def save_vectors(parts: list[Any], output: str) -> None:
    import numpy as np

    from regard.files import whole_file

    if not parts:
        raise UsageError(f"-o {output}: there is no text to embed")
    with whole_file(Path(output)) as opened:
        np.save(opened, np.concatenate(parts), allow_pickle=False)


@app.command()
def caption(
    run: RunFolder,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Pictures, or folders of them.")],
    beam: Beam = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Print the N best captions of each picture.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw captions instead of searching the best.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the k best words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among the words that hold this much probability.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the sampling.")] = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens of a caption.")] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="What each word looked at: page.html, or picture.svg or .png of one."),
    ] = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Say what pictures show: a line of caption, score and file for each.

    A picture that cannot be read is named, the others are captioned, and the exit code is 1.
    """
    from regard.loading import load_for
    from regard.tasks.caption_verb import caption_files

    if output is not None and Path(output).suffix not in (".html", ".svg", ".png"):
        raise UsageError(f"-o {output}: the name must end in .html, .svg or .png")
    captioner = load_for("caption", run, int8=int8)
    if nbest > 1 and not sample:
        beam = max(nbest, beam or captioner.decoding.num_beams)
    caption_files(
        captioner,
        images,
        output=output,
        as_json=as_json,
        tell=lambda line: print(line, flush=True),
        complain=lambda message: complain(message, 0),
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


@app.command()
def look(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look at, or the file of a picture.")],
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
def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run or checkpoint folders, or hf:OWNER/NAME.")],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    api_key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Clients must know the key in its first line, or in REGARD_API_KEY."),
    ] = None,
    max_body: Annotated[float, typer.Option(help="Megabytes of a request.")] = 10,
    max_tokens: Annotated[int, typer.Option(help="Of a request's texts, and of what is made of each.")] = 4096,
    max_concurrent: Annotated[int, typer.Option(help="Requests at once, those that wait included.")] = 64,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer.")] = 60,
) -> None:
    """Serve runs to programs: a REST API, on this machine only unless told otherwise. /docs says what it can do."""
    from regard.explorer.limits import MEGABYTE, Limits
    from regard.explorer.serving import serve as serve_runs

    limits = Limits(max_body * MEGABYTE, max_tokens, max_concurrent, timeout)
    serve_runs(runs, host=host, port=port, limits=limits, key_file=api_key_file)


@app.command()
def export(
    run: RunFolder,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="hf, onnx, ctranslate2 or gguf.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder for the exported model.")],
    quantization: Annotated[
        str | None, typer.Option("--quantization", help="int8 of ctranslate2, q8_0 of gguf (default: float32).")
    ] = None,
) -> None:
    """Take a model elsewhere, and compare it there with itself here; a copy that differs is not kept.

    regard export runs/sst2-bert --to hf --out sst2-hf

    regard export runs/demo --to ctranslate2 --quantization int8 --out demo-int8
    """
    from regard.export import export_run

    export_run(run, to, out, quantization=quantization, tell=print)
    print(f"wrote {out}")


@app.command()
def plan(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="Such as gpt2:xl, or a recipe: see `regard recipes`.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as model.vocabulary=50000.")
    ] = None,
    devices: Annotated[int, typer.Option("--devices", help="How many.")] = 1,
    device: Annotated[
        str | None, typer.Option("--device", help="Of which kind: h100, a100, p100, tpu-v3, cpu, ... (default: a100).")
    ] = None,
    strategy: Annotated[str, typer.Option("--strategy", help="ddp: copies; fsdp: shards.")] = "ddp",
    batch_tokens: Annotated[int | None, typer.Option(help="Of a step, on all devices.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a row.")] = None,
    precision: Annotated[str | None, typer.Option(help="Of products: fp32, tf32, bf16, fp16.")] = None,
    efficiency: Annotated[float | None, typer.Option(help="The share of the peak that is reached.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Of the whole training, such as 1e12.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of the whole training.")] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Check the shards of fsdp with fake tensors on fake ranks.")
    ] = False,
    papers: Annotated[bool, typer.Option("--papers", help="The table of what papers report.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a training will take before anything is rented: memory, arithmetic, time."""
    from regard.plan import Wishes
    from regard.plan.verb import say_papers, say_plan

    if papers:
        print(say_papers(as_json))
        return
    if preset is None:
        raise UsageError("say what to plan: a preset such as gpt2:xl, or a recipe (see: regard recipes)")
    wishes = Wishes(devices, device, strategy, batch_tokens, length, precision, efficiency, tokens, steps)
    text, warnings = say_plan(preset, wishes, tuple(overrides or ()), simulate=simulate, as_json=as_json)
    print(text)
    for warning in warnings:
        complain(warning, 0)


@app.command()
def demo(
    out: Annotated[str, typer.Option("--out", help="Run folder; an earlier demo there is replaced.")] = "runs/demo",
) -> None:
    """Train the demo translator (English to Spanish), score it, and write the page of what it attends to."""
    from regard.demo import run_demo

    run_demo(Path(out))
