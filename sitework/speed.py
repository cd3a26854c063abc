"""The tables of speed, made of the files that `python -m benchmarks JOB` writes: all ratios, losses too."""

from collections.abc import Iterator
from typing import Any

from sitework.numbers import BETWEEN, RESULTS, contents, linked

PREFIX = "speed-"
INTRODUCTION = """How many times as fast as its peers regard is: the median of interleaved rounds with equally many
threads; in brackets the least and the most. Above 1 regard is faster. Before anything is timed, both sides must give
the same answer."""
TABLE = "| | ours | theirs | times as fast | goal | |\n|---|---|---|---|---|---|\n"


def jobs() -> list[str]:
    """The result files of speed."""
    return [path.stem for path in sorted(RESULTS.glob(f"{PREFIX}*.json"))]


def ratios(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every ratio of a file with its place."""
    if not isinstance(value, dict):
        return
    for number, ratio in enumerate(value.get("ratios", ())):
        yield (*place, "ratios", str(number)), ratio
    for key, inside in value.items():
        yield from ratios(inside, (*place, key))


def row(file: str, place: tuple[str, ...], ratio: dict[str, Any]) -> str:
    def number(key: str) -> str:
        return linked(f"{ratio[key]:.2f}", file, BETWEEN.join((*place, key)))

    case = " ".join(place[:-2])
    goal = ratio["promised"]
    verdict = "" if goal is None else "holds" if ratio["ratio"] >= goal else "**missed**"
    wanted = "" if goal is None else f"{goal:g}"
    return (
        f"| {case} | {ratio['ours']} | {ratio['theirs']} | {number('ratio')} [{number('least')}, {number('most')}] "
        f"| {wanted} | {verdict} |"
    )


def page_part() -> list[str]:
    """A table for each job; nothing where nothing is measured."""
    told = []
    for file in jobs():
        known = contents(file)
        rows = [row(file, place, ratio) for place, ratio in ratios(known)]
        if rows:
            made = f"[`{known['command']}`](#{file}), {known['date']}, {known['machine']}"
            told += [f"### {file.removeprefix(PREFIX)}", made, TABLE + "\n".join(rows)]
    return ["## Speed", INTRODUCTION, *told] if told else []
