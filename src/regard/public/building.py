"""From a public checkpoint's settings and tensors to a model of ours with the weights in it."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import families, settings
from regard.errors import RegardError, UsageError, listed, shortened, told
from regard.public.folder import read_weights
from regard.public.tensors import Names, as_in_table, check_names, to_ours


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A folder in Hugging Face layout, what its config.json says, and where to run its model."""

    folder: Path
    values: Mapping[str, Any]
    device: torch.device

    @property
    def place(self) -> str:
        return str(self.folder / "config.json")

    def weights(self) -> dict[str, Tensor]:
        return read_weights(self.folder)

    def architecture(self, known: Sequence[str]) -> str | None:
        """The class it was saved from, one of those `known`; None if its config does not say."""
        with understood(self.place):
            named = [str(name) for name in self.values.get("architectures") or ()]
        found = next((name for name in named if name in known), None)
        if named and found is None:
            raise UsageError(
                f"{self.place}: the architecture {shortened(named[0])} is not known here; known are {', '.join(known)}"
            )
        return found

    def config(self, read: Callable[[Mapping[str, Any]], Any]) -> Any:
        """The Config that a model's `public_config` makes of the settings, checked to the last type."""
        with understood(self.place):
            config = read(self.values)
            built = settings.build(type(config), dataclasses.asdict(config), self.place)
        families.refuse_absurd(built)
        return built

    def labels(self, count: int) -> list[str]:
        """Their names by their numbers; of two with the same name, each gets its number (ImageNet has two cranes)."""
        with understood(self.place):
            named = {int(number): str(label) for number, label in (self.values.get("id2label") or {}).items()}
        labels = [named.get(number, f"LABEL_{number}") for number in range(count)]
        bearers = Counter(labels)
        return [f"{label} ({number})" if bearers[label] > 1 else label for number, label in enumerate(labels)]

    def model(self, family: str, config: Any, names: Names, table: Any, theirs: Mapping[str, Tensor]) -> nn.Module:
        """Filled from their tensors by the `table`, the module that says what theirs are called."""
        place = str(self.folder)
        found = as_in_table(theirs, names, table.PUBLIC_PREFIX, table.PUBLIC_TIED, place)
        check_names(found, names, table.PUBLIC_UNREAD, place)  # layers that are not there need not be sketched
        model = families.sketch(family, config)  # nothing is drawn at random only to be overwritten
        shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        ours = to_ours(
            found, names, shapes, transposed=table.PUBLIC_TRANSPOSED, ignored=table.PUBLIC_UNREAD, place=place
        )
        model.load_state_dict(ours, assign=True)
        if any(buffer.is_meta for buffer in model.buffers()):  # a table that is computed, not saved
            model = families.build_model(family, config)
            model.load_state_dict(ours)
        return model.to(self.device)


@contextmanager
def understood(place: str) -> Iterator[None]:
    """A settings file that says nonsense is an error of one line that names it."""
    try:
        yield
    except KeyError as error:
        raise RegardError(f"{place}: lacks the setting {listed(error.args[:1])}") from error
    except (ArithmeticError, AttributeError, IndexError, RecursionError, TypeError, ValueError) as error:
        raise RegardError(f"{place}: cannot be understood ({type(error).__name__}: {told(error)})") from error
