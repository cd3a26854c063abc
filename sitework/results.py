"""The results page, made of `docs/claims.yaml` (what papers say) and `benchmarks/results` (what came out here)."""

import operator
from dataclasses import dataclass
from typing import Any

import yaml
from mkdocs.structure.files import File, Files

from sitework import speed
from sitework.numbers import BETWEEN, RESULTS, ROOT, contents, linked, look_up, short

CLAIMS = ROOT / "docs" / "claims.yaml"
COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
# Told above every list, or too long to be read.
NOT_LISTED = {"command", "date", "machine", "threads", "versions", "config", "curve", "captions", "sample", "ratios"}
LISTED = 60  # numbers of one file; the file has all
INTRODUCTION = """# Results

What papers say of their models, and what came out here. The models are small and so are the data: what can be compared
is mostly the *shape* of a claim, who wins and by how much, and where a number can be compared it is. A claim that did
not come out stands here as one that was **missed**. Every number was made by the command beside it and is written in
`benchmarks/results`; hover over one to see its place there.
"""


@dataclass(frozen=True)
class Ours:
    """One number of ours: `file > place`, told with some digits, perhaps in percent."""

    name: str
    number: str
    digits: int = 1
    percent: bool = False

    @property
    def where(self) -> tuple[str, str]:
        file, _, place = self.number.partition(BETWEEN)
        return file, place

    @property
    def value(self) -> float:
        return float(look_up(*self.where))

    def markdown(self) -> str:
        shown = f"{100 * self.value:.{self.digits}f} %" if self.percent else f"{self.value:,.{self.digits}f}"
        return f"{self.name} {linked(shown, *self.where)}"


@dataclass(frozen=True)
class Claim:
    says: str
    paper: str
    theirs: str
    ours: tuple[Ours, ...]
    holds: str  # such as "#0 > #1": the first number of ours is above the second; "#0 >= 0.94": it reaches a goal

    @property
    def is_met(self) -> bool:
        first, comparison, second = self.holds.split()
        return COMPARED[comparison](self._value(first), self._value(second))

    def _value(self, told: str) -> float:
        return self.ours[int(told[1:])].value if told.startswith("#") else float(told)

    def markdown(self) -> str:
        files = dict.fromkeys(number.where[0] for number in self.ours)
        made = "<br>".join(
            f"[`{contents(file)['command']}`](#{file}), {contents(file)['date']}, {contents(file)['machine']}"
            for file in files
        )
        here = "<br>".join(number.markdown() for number in self.ours)
        verdict = "holds" if self.is_met else "**missed**"
        return f"| {self.says} ({self.paper}) | {self.theirs} | {here} | {verdict} | {made} |"


def parts() -> dict[str, list[Claim]]:
    """The claims under their headings."""
    known = yaml.safe_load(CLAIMS.read_text("utf-8"))
    return {
        title: [Claim(**{**claim, "ours": tuple(Ours(**number) for number in claim["ours"])}) for claim in claims]
        for title, claims in known.items()
    }


def scalars(value: Any, place: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    """Every number of a result file with its place."""
    if isinstance(value, dict):
        inside = [(key, item) for key, item in value.items() if key not in NOT_LISTED]
    elif isinstance(value, list):
        inside = [(str(index), item) for index, item in enumerate(value)]
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return [(BETWEEN.join(place), value)] if is_number else []
    return [found for key, item in inside for found in scalars(item, (*place, key))]


def file_markdown(file: str) -> str:
    known = contents(file)
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    found = scalars(known)
    rows = [f"| {place} | {linked(short(value), file, place)} |" for place, value in found[:LISTED]]
    more = f"\n\nand {len(found) - LISTED} more in the file." if len(found) > LISTED else ""
    return (
        f"### {file} {{#{file}}}\n\n`{known['command']}`, {known['date']}, {known['machine']}, "
        f"threads: {known['threads']}; {versions}.\n\n"
        f'??? note "What it holds"\n\n    | place | value |\n    |---|---|\n    '
        + "\n    ".join(rows)
        + more.replace("\n\n", "\n\n    ")
        + "\n"
    )


def page() -> str:
    told = [INTRODUCTION]
    for title, claims in parts().items():
        told.append(f"## {title}\n\n| claim | the paper | here | | made by |\n|---|---|---|---|---|")
        told[-1] += "".join(f"\n{claim.markdown()}" for claim in claims)
    told += speed.page_part()
    told.append("## Result files\n\nWith all that was measured, settings and curves, in `benchmarks/results`.")
    told += [file_markdown(path.stem) for path in sorted(RESULTS.glob("*.json"))]
    return "\n\n".join(told) + "\n"


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "results.md", content=page()))
    return files
