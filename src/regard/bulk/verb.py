"""`regard translate|classify|embed|generate RUN corpus.parquet --out DIR`: the same verb in bulk."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError

ENGINES = ("plain", "ray")
PART_ROWS = 2048  # of a part: what is lost at most with an actor


@dataclass(frozen=True)
class Wishes:
    """The options that are the same for every verb."""

    out: str | None
    engine: str
    actors: int | None
    part_rows: int | None
    int8: bool
    as_json: bool


@dataclass(frozen=True)
class Summary:
    """What a command did, and what is in the folder."""

    out: str
    rows: int
    parts: int
    before: int  # parts that were done before
    again: int  # parts that were begun again because an actor was lost
    without: dict[str, int]  # rows without a result, by reason
    refused: str  # what was said of the first row that the model refused

    def told(self) -> str:
        earlier = f", {self.before:,} of them done before" if self.before else ""
        lost = f", {self.again:,} begun again after an actor was lost" if self.again else ""
        lines = [f"{self.rows:,} rows in {self.parts:,} parts{earlier}{lost}; they are in {self.out}"]
        if self.without:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.without.items()))
            lines.append(f"without a result: {reasons}")
        if self.refused:
            lines.append(f"the first that was refused: {self.refused}")
        return "\n".join(lines)


def in_bulk(
    verb: str,
    run: str,
    source: str | None,
    columns: Sequence[str],
    wishes: Wishes,
    options: dict[str, Any],
    not_with: dict[str, bool],
) -> bool:
    """Whether the verb was asked for in bulk; then it is done. `not_with` says which of the options that have no
    meaning there were given."""
    if wishes.out is None:
        for option, given in asked_for(wishes).items():
            if given:
                raise UsageError(f"{option} serves a table in bulk: say where its parts go with --out DIR")
        if verb in ("translate", "generate") and (source or "").lower().endswith(".parquet"):
            raise UsageError(f"{source} is a table: say where its parts go with --out DIR")
        return False
    if source is None:
        raise UsageError("--out is for tables: name a Parquet file, a folder of them or a glob")
    for option, given in not_with.items():
        if given:
            raise UsageError(f"{option} does not go with --out, which writes one result beside each row")
    done = bulk(
        verb,
        run,
        source,
        wishes.out,
        columns=columns,
        engine=wishes.engine,
        actors=wishes.actors,
        part_rows=wishes.part_rows,
        int8=wishes.int8,
        options=options,
    )
    print(json.dumps(vars(done), ensure_ascii=False) if wishes.as_json else done.told())
    return True


def asked_for(wishes: Wishes) -> dict[str, bool]:
    return {
        f"--engine {wishes.engine}": wishes.engine != "plain",
        "--actors": wishes.actors is not None,
        "--part-rows": wishes.part_rows is not None,
    }


def bulk(
    verb: str,
    run: str | Path,
    source: str,
    out: str,
    *,
    columns: Sequence[str] = ("text",),
    engine: str = "plain",
    actors: int | None = None,
    part_rows: int | None = None,
    int8: bool = False,
    options: dict[str, Any] | None = None,
) -> Summary:
    """Do to every row of a table what the verb does to a text; what is done already is not done again."""
    check_engine(engine, actors)
    from regard.bulk import on_ray, plain
    from regard.bulk.answers import VERBS
    from regard.bulk.files import held
    from regard.bulk.parts import Done, cut, done_parts
    from regard.bulk.work import Job, fingerprint, pinned
    from regard.progress import counting

    if is_inside(absolute(out), absolute(source)):
        raise UsageError(
            f"--out {out} lies in the corpus {source}, of which its parts would become a part; choose another"
        )
    name, folder = pinned(run)
    job = Job(verb, name, fingerprint(folder), absolute(out), tuple(columns), int8, options or {})
    new = VERBS[verb].new_columns(job.options)
    parts = cut(source, columns, new, PART_ROWS if part_rows is None else part_rows)
    with held(job.out):
        known = done_parts(job.out, parts, job.identity())
        before, missing = len(known), [part for part in parts if part.number not in known]
        total = sum(part.count for part in parts)
        with counting(verb, total) as finished_rows:

            def keep(done: Done) -> None:
                known[done.number] = done
                finished_rows(done.rows)

            finished_rows(sum(done.rows for done in known.values()))
            try:
                if not missing:
                    again = 0
                elif engine == "ray":
                    again = on_ray.do_parts(job, missing, keep, actors)
                else:
                    again = plain.do_parts(job, missing, keep)
            except KeyboardInterrupt:
                raise RegardError(
                    f"interrupted: {len(known)} of {len(parts)} parts are in {out}; the same command goes on"
                ) from None
    if len(known) < len(parts):
        raise RegardError(f"{len(parts) - len(known)} parts are missing in {out}; the same command goes on with them")
    without = sum((Counter(done.without) for done in known.values()), Counter[str]())
    refused = next((known[number].refused for number in sorted(known) if known[number].refused), "")
    return Summary(out, total, len(parts), before, again, dict(without), refused)


def check_engine(engine: str, actors: int | None) -> None:
    if engine not in ENGINES:
        raise UsageError(f"there is no engine called {engine!r}: choose one of {', '.join(ENGINES)}")
    if actors is not None and engine == "plain":
        raise UsageError("--actors are Ray's: add --engine ray")
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise RegardError("reading Parquet needs pyarrow; run: pip install 'regard[data]'") from error


def is_inside(place: str, folder: str) -> bool:
    return f"{place}/".startswith(f"{folder.rstrip('/')}/")


def absolute(place: str) -> str:
    """An actor's working folder is another."""
    return place if "://" in place else str(Path(place).expanduser().absolute())
