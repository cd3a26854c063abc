"""Settings from YAML and overrides: what fits is taken, and what does not is told in one line."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from regard.errors import UsageError
from regard.settings import build, override, suggestion


@dataclass(frozen=True)
class Wheel:
    spokes: int
    radius: float = 1.0
    name: str = "wheel"
    hollow: bool = False
    limit: int | None = None
    slack: float | None = None
    files: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1,)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.spokes < 0:
            raise UsageError("spokes must not be negative")


def built(**values: Any) -> Wheel:
    return build(Wheel, {"spokes": 8, **values}, "wheel")


def refusal(**values: Any) -> str:
    with pytest.raises(UsageError) as failure:
        built(**values)
    assert "\n" not in str(failure.value)
    return str(failure.value)


# build


def test_what_is_given_is_taken_and_the_rest_has_its_default() -> None:
    assert built(name="front", limit=3) == Wheel(8, name="front", limit=3)
    assert build(Wheel, {"spokes": 8}, "wheel") == Wheel(8)


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    told = refusal(radios=2.0)
    assert told.startswith("wheel has no key 'radios' (did you mean 'radius'?)")
    assert "spokes, radius, name, hollow, limit" in told


def test_an_unknown_key_like_no_other_is_refused_without_a_guess() -> None:
    told = refusal(zzzzz=1)
    assert "'zzzzz'" in told
    assert "did you mean" not in told


@pytest.mark.parametrize("key", [1, True, None, 2.5])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    """YAML reads the keys 1, on and null as a number, true and nothing."""
    with pytest.raises(UsageError, match="wheel has no key"):
        build(Wheel, {"spokes": 8, key: 1}, "wheel")


def test_a_missing_key_is_told() -> None:
    with pytest.raises(UsageError, match=r"^wheel needs the key 'spokes'$"):
        build(Wheel, {"radius": 2.0}, "wheel")


def test_values_are_checked_by_the_settings_themselves() -> None:
    assert refusal(spokes=-1) == "spokes must not be negative"


@pytest.mark.parametrize("value", [True, 1.5, 8.0, "8", None, [8]])
def test_a_whole_number_must_be_one(value: Any) -> None:
    assert refusal(spokes=value) == f"wheel.spokes is {value!r} but must be a whole number"


@pytest.mark.parametrize(("value", "number"), [(2, 2.0), (2.5, 2.5), ("1e-3", 0.001), ("1.5E2", 150.0), (-3, -3.0)])
def test_a_number_may_be_whole_or_what_yaml_takes_for_text(value: Any, number: float) -> None:
    radius = built(radius=value).radius
    assert radius == number
    assert isinstance(radius, float)


def test_the_number_yaml_takes_for_text_is_a_number_here() -> None:
    assert built(**yaml.safe_load("radius: 1e-3")).radius == 0.001


@pytest.mark.parametrize("value", [True, "fast", None, [1.0], {}])
def test_a_number_must_be_one(value: Any) -> None:
    assert refusal(radius=value) == f"wheel.radius is {value!r} but must be a number"


def test_a_number_that_is_no_size_of_anything_is_told_by_its_length() -> None:
    assert refusal(radius=10**400) == "wheel.radius is a whole number of 1329 bits but must be a number"


@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_true_or_false_must_be_one_of_them(value: Any) -> None:
    assert refusal(hollow=value) == f"wheel.hollow is {value!r} but must be true or false"
    assert built(hollow=True).hollow is True


@pytest.mark.parametrize("value", [1, True, None, ["front"]])
def test_a_text_must_be_one(value: Any) -> None:
    assert refusal(name=value) == f"wheel.name is {value!r} but must be a text"


def test_nothing_is_taken_where_nothing_is_allowed() -> None:
    assert built(limit=None, slack=None) == Wheel(8)
    assert built(limit=4).limit == 4
    assert built(slack="1e-2").slack == 0.01
    assert refusal(limit="4") == "wheel.limit is '4' but must be a whole number or nothing"
    assert refusal(limit=True).endswith("must be a whole number or nothing")
    assert refusal(slack="loose").endswith("must be a number or nothing")


def test_a_list_becomes_a_tuple_and_one_text_a_list_of_one() -> None:
    assert built(files=["a", "b"]).files == ("a", "b")
    assert built(files=("a",)).files == ("a",)
    assert built(files="a").files == ("a",)
    assert built(files=[]).files == ()
    assert built(sizes=[3, 4]).sizes == (3, 4)


@pytest.mark.parametrize("value", [["a", 1], 3, {"a": 1}, None])
def test_a_list_of_something_else_is_refused(value: Any) -> None:
    assert refusal(files=value) == f"wheel.files is {value!r} but must be a list"


def test_a_list_of_numbers_takes_no_text_and_no_truth() -> None:
    for value in ("12", [True], [1.5]):
        assert refusal(sizes=value) == f"wheel.sizes is {value!r} but must be a list"


def test_a_section_of_free_keys_is_taken_as_it_is() -> None:
    assert built(options={"source": "en", "deep": {"er": 1}}).options == {"source": "en", "deep": {"er": 1}}
    assert refusal(options=["en"]) == "wheel.options is ['en'] but must be a section of keys"


def test_a_suggestion_is_made_only_for_a_near_miss() -> None:
    assert suggestion("trainng", ["training", "model"]) == " (did you mean 'training'?)"
    assert suggestion("qqq", ["training", "model"]) == ""


# override


def overridden(values: dict[str, Any], *assignments: str) -> dict[str, Any]:
    for assignment in assignments:
        override(values, assignment)
    return values


def test_a_dotted_key_reaches_into_its_section() -> None:
    values = {"training": {"steps": 10, "seed": 0}, "model": {"size": 8}}
    assert overridden(values, "training.steps=200") == {"training": {"steps": 200, "seed": 0}, "model": {"size": 8}}


def test_sections_are_made_on_the_way() -> None:
    assert overridden({}, "data.options.source=en") == {"data": {"options": {"source": "en"}}}
    assert overridden({}, "name=demo") == {"name": "demo"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("1e-3", "1e-3"),
        ("true", True),
        ("null", None),
        ("", None),
        ("[a, b]", ["a", "b"]),
        ("{a: 1}", {"a": 1}),
        ("'3'", "3"),
        ("a b", "a b"),
        ("x=y", "x=y"),
    ],
)
def test_the_value_is_read_as_yaml(text: str, value: Any) -> None:
    assert overridden({}, f"section.key={text}") == {"section": {"key": value}}


def test_a_later_override_wins() -> None:
    assert overridden({}, "a.b=1", "a.b=2") == {"a": {"b": 2}}


@pytest.mark.parametrize("assignment", ["training.steps", "=3", ".=3", "", "--steps 3"])
def test_what_is_no_assignment_is_refused(assignment: str) -> None:
    with pytest.raises(UsageError, match=r"is not an override: write section\.key=value"):
        override({}, assignment)


def test_a_value_is_not_a_section() -> None:
    values = {"training": {"steps": 10}}
    with pytest.raises(UsageError, match=r"^'training\.steps\.more=1': steps is a value, not a section$"):
        override(values, "training.steps.more=1")
    assert values == {"training": {"steps": 10}}


def test_a_section_left_empty_is_still_a_section() -> None:
    """`decoding:` with nothing below it is nothing in YAML."""
    values = yaml.safe_load("decoding:\nmodel: {size: 8}")
    assert overridden(values, "decoding.num_beams=1") == {"decoding": {"num_beams": 1}, "model": {"size": 8}}


@pytest.mark.parametrize("text", ["[1, 2", "{a: b: c}", "'open", "@x"])
def test_a_value_that_is_no_yaml_is_told_in_one_line(text: str) -> None:
    values = {"a": {"b": 1}}
    with pytest.raises(UsageError, match="the value is not YAML") as failure:
        override(values, f"a.b={text}")
    assert "\n" not in str(failure.value)
    assert values == {"a": {"b": 1}}
