"""The models by name: where each family lives, and `family:size` presets.

Sizes may come from a stranger's file. `refuse_absurd` holds them to what any computer could hold before a layer is
made, and a model that cannot be made of them is an error of one line.
"""

import dataclasses
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard import models, settings
from regard.errors import RegardError, UsageError, shortened, told

MOST_LAYERS = 500  # of one kind; also heads of a memory, filters by width, blocks: whatever is made one by one
LARGEST_SIZE = 2**31 - 1
SPECIAL_TOKENS = ("pad", "separator")  # fields of a Config that hold the number of a token
ONE_BY_ONE = ("layers", "highways", "read_heads", "write_heads")  # endings of names


@cache
def known() -> dict[str, type[nn.Module]]:
    """Every family by its name: what the files of `models/` say in their FAMILIES."""
    names = sorted(entry.name for entry in pkgutil.iter_modules(models.__path__, f"{models.__name__}."))
    return {family: model for name in names for family, model in importlib.import_module(name).FAMILIES.items()}


def named(family: str) -> type[nn.Module]:
    if family not in known():
        raise UsageError(f"there is no model family {shortened(family)}: choose one of {', '.join(known())}")
    return known()[family]


def home(family: str) -> Any:
    """The file of a family: its Config, its PRESETS, its public names."""
    return importlib.import_module(named(family).__module__)


def build_model(family: str, config: Any) -> nn.Module:
    model = named(family)
    refuse_absurd(config)
    with made_of_sizes(f"a model of the family {family}"):
        return model(config)


def seeded(
    section: Mapping[str, Any], task: str, seed: int, offered: Mapping[str, Any] | None = None, /, **known: Any
) -> tuple[Any, str]:
    """The model of a recipe with weights drawn from the seed, and what a checkpoint says about it."""
    family, config = resolve(section, offered, **known)
    torch.manual_seed(seed)
    return build_model(family, config), config_json(family, config, task)


def made_one_by_one(config: Any) -> int:
    """How many layers and the like a model of this config has."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return sum(value for name, value in values.items() if name.endswith(ONE_BY_ONE) and isinstance(value, int))


def sketch(family: str, config: Any) -> nn.Module:
    """The model with shapes and names but without numbers: it costs no memory, whatever its sizes."""
    with torch.device("meta"), _Unfilled():
        return build_model(family, config)


class _Unfilled(TorchFunctionMode):
    """Numbers that are not there need be neither drawn nor scaled: of deep models that took most of the time."""

    FILLS = frozenset({"uniform_", "normal_", "kaiming_uniform_", "constant_", "zero_", "fill_", "div"})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        filled = args[0] if args else kwargs.get("tensor")  # torch.nn.init hands it on by its name
        is_filling = getattr(func, "__name__", "") in self.FILLS and isinstance(filled, Tensor) and filled.is_meta
        return filled if is_filling else func(*args, **kwargs)


def refuse_absurd(config: Any) -> None:
    """Sizes that nothing could hold, and numbers of layers that nobody could wait for."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        inner = value.items() if isinstance(value, dict) else [(field.name, value)]
        for key, known in inner:
            is_row = isinstance(known, list | tuple)
            counts = [len(known)] if is_row else [known] if str(key).endswith(ONE_BY_ONE) else []
            if any(isinstance(count, int) and count > MOST_LAYERS for count in counts):
                told_count = f"{counts[0]} entries" if is_row else shortened(known)
                raise UsageError(f"model.{key} is {told_count} but must be at most {MOST_LAYERS}")
            sizes = [size for size in (known if is_row else [known]) if isinstance(size, int)]
            if any(abs(size) > LARGEST_SIZE for size in sizes):
                raise UsageError(f"model.{key} is {shortened(known)} but must be at most {LARGEST_SIZE}")


@contextmanager
def made_of_sizes(what: str) -> Iterator[None]:
    """Sizes that do not make a model, such as a negative one, are an error of one line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} cannot be made with these sizes ({type(error).__name__}: {told(error)})") from error


def resolve(section: Mapping[str, Any], offered: Mapping[str, Any] | None = None, /, **known: Any) -> tuple[str, Any]:
    """The family and Config of a recipe's `model` section: `preset: transformer:tiny` and any sizes of its own.

    `known` are values that come from elsewhere, such as the size of the vocabulary; those `offered` are for the
    families whose Config has a place for them.
    """
    values = dict(section)
    preset = values.pop("preset", None)
    if not isinstance(preset, str):
        raise UsageError("the model section needs a preset, such as preset: transformer:tiny")
    family, _, size = preset.partition(":")
    module = home(family)
    if size not in module.PRESETS:
        sizes = ", ".join(f"{family}:{name}" for name in module.PRESETS)
        raise UsageError(f"there is no preset {shortened(preset)}: choose one of {sizes}")
    places = {field.name for field in dataclasses.fields(module.Config)}
    wanted = {name: value for name, value in (offered or {}).items() if name in places}
    return family, settings.build(module.Config, {**module.PRESETS[size], **values, **known, **wanted}, "model")


def check(section: Mapping[str, Any], **known: Any) -> None:
    """Refuse a `model` section that cannot be built, without the cost of building it."""
    sketch(*resolve(section, **known))


def config_json(family: str, config: Any, task: str) -> str:
    """What a checkpoint says about its model: the family, its sizes, and the task it was trained for."""
    return json.dumps({"family": family, "task": task, **dataclasses.asdict(config)}, indent=1)


def config_from_json(values: Mapping[str, Any], place: str) -> tuple[str, Any, str]:
    """The family, the Config and the task of a checkpoint."""
    values = dict(values)
    family, task = values.pop("family", None), values.pop("task", "translate")
    if not isinstance(family, str) or family not in known():
        raise RegardError(f"{place}: the family {shortened(family)} is not one of {', '.join(known())}")
    if not isinstance(task, str):
        raise RegardError(f"{place}: the task is {shortened(task)} but must be a text")
    with made_of_sizes(f"{place}: a model of the family {family}"):
        config = settings.build(home(family).Config, values, place)
    refuse_unknown_tokens(config, place)
    return family, config, task


def refuse_unknown_tokens(config: Any, place: str) -> None:
    """Raises RegardError if a special token of a config is not in its vocabulary; -1 is a token it does not have."""
    for name in SPECIAL_TOKENS:
        token = getattr(config, name, None)
        if token is not None and not -1 <= token < config.vocabulary:
            raise RegardError(
                f"{place}: {name} is {shortened(token)} but must be one of the {config.vocabulary} tokens, "
                "or -1 for none"
            )
