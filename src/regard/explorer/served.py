"""The models that are served: their names, what each can do, and the thread that runs it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.explorer.meters import Meters
from regard.explorer.refusals import Refusal
from regard.explorer.schemas import ModelCard
from regard.explorer.verbs import VERBS, reads_pictures
from regard.explorer.worker import Worker
from regard.loading import load
from regard.public.hub import PREFIX


@dataclass(frozen=True)
class Served:
    """A loaded run under its name."""

    name: str
    loaded: Any
    worker: Worker

    @property
    def verbs(self) -> list[str]:
        return [name for name, verb in VERBS.items() if verb.fits(self.loaded)]

    def card(self) -> ModelCard:
        labels = getattr(self.loaded, "labels", None) or getattr(self.loaded, "tags", None)
        return ModelCard(
            name=self.name,
            kind=type(self.loaded).__name__,
            family=json.loads(self.loaded.config_json).get("family"),
            parameters=sum(parameter.numel() for parameter in self.loaded.model.parameters()),
            verbs=self.verbs,
            reads="images" if reads_pictures(self.loaded) else "texts",
            labels=list(labels) if labels else None,
        )


class Shelf:
    """All of them."""

    def __init__(self, loaded: dict[str, Any], meters: Meters):
        self.models = {name: Served(name, each, Worker(name, each.model, meters)) for name, each in loaded.items()}

    def find(self, name: str | None, verb: str) -> Served:
        """The model a request is for; one that cannot do it is refused."""
        known = ", ".join(self.models)
        if name is None and len(self.models) > 1:
            raise Refusal(422, f"say which model is meant; there are: {known}")
        served = next(iter(self.models.values())) if name is None else self.models.get(name)
        if served is None:
            raise Refusal(404, f"there is no model {name!r} here; there are: {known}")
        if verb not in served.verbs:
            can = ", ".join(served.verbs) or "nothing that is served"
            kind = type(served.loaded).__name__
            raise Refusal(409, f"{served.name} is a {kind}, which has no {verb!r}; it has: {can}")
        return served

    def close(self) -> None:
        for served in self.models.values():
            served.worker.close()


def load_all(runs: Sequence[str]) -> dict[str, Any]:
    """The runs by their names."""
    return dict(zip(names_of(runs), map(load, runs), strict=True))


def names_of(runs: Sequence[str]) -> list[str]:
    """The folders' names, made unique: demo, demo-2."""
    names: list[str] = []
    for run in runs:
        name = plain = _name(run)
        number = 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return names


def _name(run: str) -> str:
    if run.startswith(PREFIX):
        return run.removeprefix(PREFIX)
    parts = Path(run).absolute().parts
    # runs/demo/checkpoints/best is the demo's, and should say so
    return f"{parts[-3]}@{parts[-1]}" if len(parts) > 3 and parts[-2] == "checkpoints" else parts[-1]
