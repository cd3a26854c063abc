"""Plain dataclasses from YAML and `key=value` overrides, with errors a person can act on."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from regard.errors import UsageError

T = TypeVar("T")


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """An instance of the dataclass `kind`; unknown keys, missing keys and values of the wrong type are refused."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in fields:
            raise UsageError(f"{where} has no key {key!r}{suggestion(str(key), fields)}; it knows {', '.join(fields)}")
    for name, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and name not in values:
            raise UsageError(f"{where} needs the key {name!r}")
    return kind(**{key: _converted(value, hints[key], f"{where}.{key}") for key, value in values.items()})


def suggestion(word: str, known: typing.Iterable[str]) -> str:
    """' (did you mean ...?)' when something known is spelt much like it."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def override(values: dict[str, Any], assignment: str) -> None:
    """Apply one dotted `section.key=value`; the value is read as YAML."""
    import yaml

    key, equals, text = assignment.partition("=")
    if not equals or not key.strip("."):
        raise UsageError(f"{assignment!r} is not an override: write section.key=value, such as training.steps=200")
    *path, last = key.split(".")
    place = values
    for name in path:
        if place.get(name) is None:  # a section that is missing, or left empty
            place[name] = {}
        place = place[name]
        if not isinstance(place, dict):
            raise UsageError(f"{assignment!r}: {name} is a value, not a section")
    try:
        place[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{assignment!r}: the value is not YAML ({' '.join(str(error).split())})") from error


def _converted(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        fits, converted = _fit(value, option)
        if fits:
            return converted
    told = " or ".join("nothing" if option is type(None) else _told(option) for option in options)
    raise UsageError(f"{where} is {value!r} but must be {told}")


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
            return not isinstance(value, bool), float(value)
        except (TypeError, ValueError, OverflowError):
            return False, None
    if hint is int and isinstance(value, bool):
        return False, None
    return isinstance(value, hint), value


def _told(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if typing.get_origin(hint) is tuple:
        return "a list"
    if typing.get_origin(hint) is dict:
        return "a section of keys"
    return names.get(hint, str(hint))
