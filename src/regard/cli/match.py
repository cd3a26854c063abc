"""`regard match`: pictures labelled by a few examples."""

import json
from typing import Annotated, Any

import typer

from regard.cli.drawing import Drawn, check_count, check_name, show
from regard.cli.options import AsJson, Figure, RunFolder
from regard.cli.reading import UnreadablePictures
from regard.errors import UsageError


def match(
    run: RunFolder,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder per label, with example pictures in it.")],
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Pictures to label, or folders of them.")],
    why: Annotated[bool, typer.Option("--why", help="Show the examples that weighed most.")] = False,
    output: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Label pictures by a few examples. Label, its probability, the file, and all probabilities, a line each.

    A picture that cannot be read is named on standard error, and its line has no label; the exit code is 1 only if none
    of the pictures to label can be read.
    """
    from regard.data.images import picture_paths
    from regard.loading import load_for
    from regard.progress import counting

    check_name(output)
    paths = picture_paths(queries)
    if not paths:
        raise UsageError("say which pictures to label: regard match RUN FOLDER QUERY..., or folders of them")
    check_count(output, len(paths))
    matcher = load_for("match", run)

    examples = matcher.examples(folder, unreadable=UnreadablePictures())
    unreadable = UnreadablePictures()
    with counting("matching", len(paths)) as finished:
        results = matcher.match(examples, paths, finished=finished, unreadable=unreadable)
    drawn = Drawn(output, "pictures")
    for result in results:
        print(matched(result, why, as_json))
        if why and not as_json:
            show(result)
        drawn.add(result)
    unreadable.report(len(paths))
    drawn.draw()


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
