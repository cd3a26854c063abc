"""Options that several verbs have, and how a verb complains."""

import sys
from typing import Annotated

import typer

from regard.errors import UsageError

RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint folder, or hf:OWNER/NAME.")]
DataFolder = Annotated[
    str | None, typer.Option("--data", help="Folder of named data sets (default: REGARD_DATA, else the user's cache).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Large matrices in 8 bits: faster on a CPU, a little less exact.")]
Figure = Annotated[str | None, typer.Option("-o", "--output", help="page.html of all, or picture.svg or .png of one.")]

# Of a search.
Beam = Annotated[int | None, typer.Option("--beam", help="Beams of the search; 1 is greedy.")]
LengthPenalty = Annotated[float | None, typer.Option(help="The larger, the longer the texts of a beam search.")]
Temperature = Annotated[float | None, typer.Option(help="Of the sampling.")]
TopK = Annotated[int | None, typer.Option(help="Sample among the k best tokens.")]
TopP = Annotated[float | None, typer.Option(help="Sample among the tokens that hold this much probability.")]
Seed = Annotated[int | None, typer.Option(help="Of the sampling.")]
ReplaceUnknowns = Annotated[
    bool, typer.Option("--replace-unknowns", help="Put the source word looked at most in the place of each <unk>.")
]

# Of a verb in bulk.
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


def check_sampling(sample: bool, beam: int | None) -> None:
    """Refuse samples of a beam search, in the words of the command line and before a model is loaded."""
    if sample and beam is not None and beam > 1:
        raise UsageError(
            f"--sample does not go with --beam {beam}: beam sampling is not implemented; leave one of them out"
        )


def complain(message: str, code: int = 0) -> int:
    print(f"regard: {message}", file=sys.stderr)
    return code
