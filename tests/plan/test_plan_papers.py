"""The plan beside what others report: sizes, FLOPs, days."""

import importlib.util
from pathlib import Path

import pytest

from regard.plan.papers import REPORTS
from regard.plan.planning import numbers_of, paper_plan
from regard.plan.subjects import presets, subject
from regard.plan.told import devices_table, papers_table

# As the published checkpoints have them, the heads of pre-training included.
PUBLISHED = {
    "gpt2:small": 124_439_808,
    "gpt2:medium": 354_823_168,
    "gpt2:large": 774_030_080,
    "gpt2:xl": 1_557_611_200,
    "bert:base": 110_106_428,
    "bert:large": 336_226_108,
    "vit:b16": 86_567_656,
    "vit:l16": 304_326_632,
    "vit:h14": 632_045_800,
}
# What Transformers and recurrent networks could reach on the devices of their time.
PLAUSIBLE = {
    "transformer:base": (0.2, 0.35),
    "transformer:big": (0.3, 0.45),
    "bert:base": (0.05, 0.15),
    "bert:large": (0.05, 0.15),
    "vit:l16": (0.15, 0.3),
    "vit:h14": (0.25, 0.4),
    "bahdanau:paper": (0.03, 0.15),
    "luong:paper": (0.1, 0.25),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_counted_exactly(name: str) -> None:
    assert numbers_of(subject(name)).parameters == PUBLISHED[name]


def test_every_preset_can_be_counted() -> None:
    counted = [name for name in presets() if "timm" not in name or importlib.util.find_spec("timm")]
    assert len(counted) > 60
    for name in counted:
        found = numbers_of(subject(name))
        assert found.parameters >= found.learnt > 0, name
        assert found.root + found.largest <= found.parameters, name


@pytest.mark.parametrize("name", [name for name, report in REPORTS.items() if report.flops])
def test_flops_are_those_the_paper_counts_itself(name: str) -> None:
    found = paper_plan(name)
    assert found.flops == pytest.approx(found.paper_flops, rel=0.01)


@pytest.mark.parametrize("name", PLAUSIBLE)
def test_days_reported_imply_a_plausible_efficiency(name: str) -> None:
    least, most = PLAUSIBLE[name]
    efficiency = paper_plan(name).efficiency
    assert efficiency is not None
    assert least < efficiency < most


def test_the_page_has_the_tables_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "use" / "plan.md").read_text("utf-8")
    assert papers_table({name: paper_plan(name) for name in REPORTS}) in page
    assert devices_table() in page


def test_every_report_with_days_is_compared() -> None:
    assert {name for name, report in REPORTS.items() if report.days} == set(PLAUSIBLE)
