"""`regard plan`: what it says, and one clear line for every wrong use."""

import json
import sys
from collections.abc import Callable

import pytest

from regard.cli import main
from regard.plan import Wishes, make_plan

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def regard_plan(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", "plan", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return (int(left.value.code or 0), *capsys.readouterr())

    return regard_plan


def test_a_plan_says_memory_arithmetic_and_time(call: Call) -> None:
    code, out, err = call("transformer:big", "--device", "p100", "--devices", "8")
    assert (code, err) == (0, "")
    for word in ("214,245,376 parameters", "gradients", "optimiser", "activations", "peak", "cache", "tokens a day"):
        assert word in out
    assert "3.5 days on 8 x p100: an efficiency of 38%" in out


def test_json_has_the_same_numbers(call: Call) -> None:
    code, out, _ = call("gpt2:xl", "--device", "h100", "--devices", "1024", "--strategy", "fsdp", "--json")
    record = json.loads(out)
    assert code == 0
    assert record["parameters"] == 1_557_611_200
    assert record["memory"]["peak"] > record["memory"]["parameters"]
    assert record["step_seconds"] == max(record["arithmetic_seconds"], record["exchange_seconds"])


def test_a_recipe_brings_its_vocabulary_batch_and_steps() -> None:
    plan = make_plan("multi30k-transformer", Wishes())
    assert (plan.device, plan.steps, plan.parameters) == ("cpu", 6000, 1_965_568)
    assert 3072 - 25 < plan.batch_tokens <= 3072


def test_tokens_become_steps_and_steps_days() -> None:
    plan = make_plan("gpt2:small", Wishes(devices=8, batch_tokens=524_288, tokens=1e9, efficiency=0.5))
    assert plan.steps == 1908
    assert plan.days == pytest.approx(1908 * plan.step_seconds / 86_400)
    assert plan.tokens_per_day * plan.days == pytest.approx(1908 * 524_288)


def test_twice_the_devices_take_half_the_time_while_the_wires_allow() -> None:
    few, many = (make_plan("gpt2:small", Wishes(devices=count, batch_tokens=2**22)) for count in (4, 8))
    assert many.step_seconds == pytest.approx(few.step_seconds / 2)
    assert many.memory.activations == pytest.approx(few.memory.activations / 2)


def test_slow_wires_make_the_step() -> None:
    plan = make_plan("gpt2:xl", Wishes(devices=1024, batch_tokens=2**20))
    assert plan.exchange_seconds > plan.arithmetic_seconds
    assert plan.step_seconds == plan.exchange_seconds


def test_overrides_change_the_model(call: Call) -> None:
    code, out, _ = call("gpt2:small", "model.vocabulary=50304", "--json")
    assert code == 0
    assert json.loads(out)["parameters"] == 124_439_808 + 47 * 768


def test_a_batch_that_does_not_fit_is_a_warning(call: Call) -> None:
    code, out, err = call("gpt2:large", "--device", "t4", "--batch-tokens", "65536")
    assert code == 0
    assert "peak" in out
    assert err.startswith("regard: it does not fit")
    assert len(err.splitlines()) == 1


def test_more_devices_than_rows_are_a_warning() -> None:
    (warning,) = make_plan("gpt2:small", Wishes(devices=16, batch_tokens=4096)).warnings
    assert warning.startswith("the batch has 4 rows for 16 devices")


def test_the_papers_are_a_table(call: Call) -> None:
    code, out, _ = call("--papers")
    assert code == 0
    assert "| transformer:big | 8 x p100 | 3.5 |" in out


def test_a_simulation_agrees(call: Call) -> None:
    code, out, _ = call("gpt2:tiny", "model.layers=1", "--devices", "64", "--strategy", "fsdp", "--simulate")
    assert code == 0
    assert "on rank 0 of 64, as planned" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to plan"),
        (["gpt2:xxl"], "near to it are gpt2:xl"),
        (["wikitext-gpt2"], "near to it are wikitext2-gpt2"),
        (["nonsense"], "a preset is FAMILY:SIZE"),
        (["gpt2:xl", "--device", "h200"], "did you mean 'h100'?"),
        (["gpt2:xl", "--devices", "0"], "--devices 0: there must be at least 1"),
        (["gpt2:xl", "--strategy", "zero"], "choose ddp or fsdp"),
        (["gpt2:xl", "--precision", "fp8"], "has no products in 'fp8'"),
        (["gpt2:xl", "--device", "p100", "--precision", "bf16"], "choose one of fp32, fp16"),
        (["gpt2:xl", "--length", "2048"], "add model.context=2048"),
        (["gpt2:xl", "--length", "0"], "at least 1 token"),
        (["gpt2:xl", "--batch-tokens", "0"], "--batch-tokens 0"),
        (["gpt2:xl", "--efficiency", "40"], "lies between 0 and 1"),
        (["gpt2:xl", "--tokens", "1e9", "--steps", "5"], "leave one of them out"),
        (["gpt2:xl", "model.sise=5"], "did you mean 'size'?"),
        (["gpt2:xl", "size"], "is not an override"),
    ],
)
def test_wrong_use_is_one_clear_line(call: Call, arguments: list[str], said: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
