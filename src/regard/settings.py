"""Plain dataclasses from YAML and `key=value` overrides, with errors a person can act on.

YAML may come from a stranger: no tag makes objects, a text of a few lines cannot stand for a billion values by
repeating itself (anchors), and numbers are finite and of a size that a computer counts in.
"""

import dataclasses
import difflib
import math
import re
import types
import typing
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, TypeVar

from regard.errors import UsageError, shortened, told

T = TypeVar("T")

LONGEST_YAML = 50_000  # characters; a recipe has a thousand or two
MOST_VALUES = 20_000  # that a YAML text may stand for, every repetition counted
_DEEPEST = 50
_LARGEST = 2**63


def read_yaml(text: str, where: str) -> Any:
    """What a YAML text says; whatever is wrong with it is a UsageError that begins with `where`."""
    import yaml

    if len(text) > LONGEST_YAML:
        raise UsageError(f"{where} has {len(text)} characters; write at most {LONGEST_YAML}")
    try:
        if deepest_bracket(text) > _DEEPEST:  # the scanner takes seconds to find out
            raise ValueError(f"brackets nested more than {_DEEPEST} deep")
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _spelt_out(node, {}, 0) > MOST_VALUES:
                raise UsageError(f"{where} stands for more than {MOST_VALUES} values; write fewer, without anchors")
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (  # a tag may ask for a date, a number or a truth of what is none
        yaml.YAMLError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise UsageError(f"{where} is not YAML ({told(error)})") from error


def deepest_bracket(text: str) -> int:
    depths = accumulate(1 if mark in "[{" else -1 for mark in re.findall(r"[\[\]{}]", text))
    return max(depths, default=0)


def _spelt_out(node: Any, known: dict[int, int], depth: int) -> int:
    """How many values a node stands for when every alias is written out."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        if depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} deep, or inside itself")
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_spelt_out(part, known, depth + 1) for part in parts)
    return known[id(node)]


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `kind`; unknown keys, missing keys and values of the wrong type are refused."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in fields:
            known = ", ".join(fields)
            raise UsageError(f"{where} has no key {shortened(key)}{suggestion(key, fields)}; it knows {known}")
    for name, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and name not in values:
            raise UsageError(f"{where} needs the key {name!r}")
    return kind(**{key: _converted(value, hints[key], f"{where}.{key}") for key, value in values.items()})


def suggestion(word: object, known: typing.Iterable[str]) -> str:
    """' (did you mean ...?)' when something known is spelt much like it."""
    close = difflib.get_close_matches(word[:60], list(known), n=1) if isinstance(word, str) else ()
    return f" (did you mean {close[0]!r}?)" if close else ""


def override(values: dict[str, Any], assignment: str) -> None:
    """Apply one dotted `section.key=value`; the value is read as YAML."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip("."):
        raise UsageError(
            f"{shortened(assignment)} is not an override: write section.key=value, such as training.steps=200"
        )
    *path, last = key.split(".")
    place = values
    for name in path:
        if place.get(name) is None:  # a section that is missing, or left empty
            place[name] = {}
        place = place[name]
        if not isinstance(place, dict):
            raise UsageError(f"{shortened(assignment)}: {name[:60]} is a value, not a section")
    place[last] = read_yaml(text, f"{shortened(assignment)}: the value")


def _converted(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        fits, converted = _fit(value, option)
        if fits:
            return converted
    wanted = " or ".join("nothing" if option is type(None) else _told(option) for option in options)
    raise UsageError(f"{where} is {shortened(value)} but must be {wanted}")


def _fit(value: Any, hint: Any) -> tuple[bool, Any]:
    origin = typing.get_origin(hint)
    if origin is tuple:
        items = [value] if isinstance(value, str) else value
        wanted = typing.get_args(hint)[0]
        if isinstance(items, list | tuple) and all(_fit(item, wanted)[0] for item in items):
            return True, tuple(_fit(item, wanted)[1] for item in items)
        return False, None
    if origin is dict:
        return isinstance(value, dict), value
    if hint is type(None):
        return value is None, None
    if hint is float:  # YAML reads 1 as an integer and 1e-3 as text
        try:
            return not isinstance(value, bool) and math.isfinite(float(value)), float(value)
        except (TypeError, ValueError, OverflowError):
            return False, None
    if hint is int:
        fits = isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST
        return fits, value
    return isinstance(value, hint), value


def _told(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if typing.get_origin(hint) is tuple:
        return "a list"
    if typing.get_origin(hint) is dict:
        return "a section of keys"
    return names.get(hint, str(hint))
