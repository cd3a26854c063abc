"""From wishes to a plan.

rows of a device    ceil(batch tokens / tokens of a row / devices)
arithmetic          FLOPs of these rows, there and back / (peak x efficiency)
exchange            ddp: 2 (n - 1) / n x gradients; fsdp: 3 (n - 1) / n x weights, gathered twice, scattered once;
                    / the slowest wire
step                the longer of the two, which run side by side
tokens a day        batch tokens x 86,400 / step
days                steps x step, of the paper's own phases where the preset is a paper's
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.errors import UsageError
from regard.families import build_model
from regard.plan.cost import Cost
from regard.plan.derived import DERIVED, Bill, Work
from regard.plan.devices import (
    EFFICIENCIES,
    EFFICIENCY_SOURCES,
    MACHINE,
    PRECISIONS,
    Device,
    named_device,
    named_precision,
)
from regard.plan.inputs import row_tokens
from regard.plan.memory import Memory, memory
from regard.plan.papers import REPORTS, Report
from regard.plan.recurrent import RECURRENT
from regard.plan.shards import Numbers, numbers
from regard.plan.subjects import Subject, subject
from regard.plan.traced import traced
from regard.training.settings import STRATEGIES

DAY = 86_400
BATCH_TOKENS = 4096  # of a device, where nobody says how many
PREDICTED = {"bert": 0.15}  # BERT learns from one token of seven


@dataclass(frozen=True)
class Wishes:
    """What somebody wants to do; None leaves it to the preset, the recipe, the paper or the device."""

    devices: int = 1
    device: str | None = None
    strategy: str = "ddp"
    batch_tokens: int | None = None  # of all devices, of the target where there is a source
    length: int | None = None
    precision: str | None = None
    efficiency: float | None = None
    tokens: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise UsageError(f"--devices {self.devices}: there must be at least 1")
        if self.strategy not in STRATEGIES:
            raise UsageError(f"there is no strategy called {self.strategy!r}: choose {' or '.join(STRATEGIES)}")
        for name in ("batch_tokens", "tokens", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name.replace('_', '-')} {value}: there must be at least 1")
        if self.efficiency is not None and not 0 < self.efficiency <= 1:
            raise UsageError(f"--efficiency {self.efficiency}: a share of the peak lies between 0 and 1, such as 0.4")
        if self.tokens is not None and self.steps is not None:
            raise UsageError("both --tokens and --steps are given; leave one of them out")


@dataclass(frozen=True)
class Plan:
    """All that `regard plan` says; bytes, seconds, FLOPs."""

    name: str
    family: str
    parameters: int
    how: str  # the costs were derived or traced
    device: str
    devices: int
    strategy: str
    precision: str
    batch_tokens: int
    rows_per_device: int
    length: int
    memory: Memory
    device_memory: float | None
    forward_flops_per_token: float
    training_flops_per_token: float
    step_flops: float
    efficiency: float
    efficiency_source: str
    arithmetic_seconds: float
    exchange_seconds: float
    step_seconds: float
    tokens_per_day: float
    steps: int | None
    days: float | None
    paper: "PaperPlan | None"
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class PaperPlan:
    """A paper's whole training, as it was and as it would be here."""

    paper: str
    device: str
    devices: int
    days: float | None
    flops: float
    efficiency: float | None  # that the report implies
    days_here: float  # with the plan's devices, precision and efficiency
    assumed: str = ""
    paper_flops: float | None = None  # where the paper counts them itself


def make_plan(name: str, wishes: Wishes, overrides: tuple[str, ...] = ()) -> Plan:
    """The plan of a preset or a recipe."""
    planned = subject(name, overrides)
    report = REPORTS.get(name)
    device = named_device(wishes.device or ("cpu" if planned.is_recipe else "a100"))
    precision = named_precision(device, wishes.precision)
    efficiency = EFFICIENCIES[precision] if wishes.efficiency is None else wishes.efficiency
    length = planned.length(wishes.length if wishes.length is not None else _paper_length(report))
    one = Work(1, length, length, PREDICTED.get(planned.family, 1.0))
    each = row_tokens(planned.family, planned.config, one)
    rows = _rows(planned, wishes, report, each)
    mine = math.ceil(rows / wishes.devices)
    bill = make_bill(planned, dataclasses.replace(one, rows=mine))
    made = numbers_of(planned)
    held = memory(made, bill, precision=precision, strategy=wishes.strategy, devices=wishes.devices)
    arithmetic = bill.cost.training / (device.peaks[precision] * efficiency)
    exchange = _exchange(made, device, precision, wishes)
    step = max(arithmetic, exchange)
    tokens = rows * each
    steps = _steps(planned, wishes, tokens)
    rate = device.peaks[precision] * efficiency * wishes.devices
    return Plan(
        name=name,
        family=planned.family,
        parameters=made.parameters,
        how=bill.how,
        device=device.name,
        devices=wishes.devices,
        strategy=wishes.strategy,
        precision=precision,
        batch_tokens=tokens,
        rows_per_device=mine,
        length=each,
        memory=held,
        device_memory=device.memory,
        forward_flops_per_token=bill.cost.forward / (mine * each),
        training_flops_per_token=bill.cost.training / (mine * each),
        step_flops=bill.cost.training * rows / mine,
        efficiency=efficiency,
        efficiency_source=EFFICIENCY_SOURCES[precision] if wishes.efficiency is None else "as asked for",
        arithmetic_seconds=arithmetic,
        exchange_seconds=exchange,
        step_seconds=step,
        tokens_per_day=tokens * DAY / step,
        steps=steps,
        days=None if steps is None else steps * step / DAY,
        paper=None if report is None else paper_plan(name, rate),
        warnings=_warnings(planned, wishes, device, held, rows, each),
    )


def paper_plan(name: str, rate: float | None = None) -> PaperPlan:
    """What a paper reports; `rate` are the FLOPs a second of the devices here, which are the paper's unless said."""
    report = REPORTS[name]
    planned = subject(name, report.values)
    flops = 0.0
    for phase in report.phases:
        work = Work(phase.rows, phase.length, phase.source, report.predicted)
        flops += phase.steps * arithmetic_of(planned, work).training
    device = named_device(report.device)
    if rate is None:
        rate = report.devices * device.peaks[report.precision] * EFFICIENCIES[report.precision]
    return PaperPlan(
        report.paper,
        report.device,
        report.devices,
        report.days,
        flops,
        report.efficiency(flops),
        flops / rate / DAY,
        report.assumed,
        report.flops,
    )


def make_bill(planned: Subject, work: Work) -> Bill:
    derive = DERIVED.get(planned.family)
    return traced(planned.family, planned.config, work) if derive is None else derive(planned.config, work)


def arithmetic_of(planned: Subject, work: Work) -> Cost:
    """The products alone, which the recurrent models have written out too."""
    if planned.family in RECURRENT:
        cost, head = RECURRENT[planned.family](planned.config, work)
        return cost if head is None else cost + head.cost
    return make_bill(planned, work).cost


def numbers_of(planned: Subject) -> Numbers:
    """Exact: the model is built on the meta device, which has shapes and no memory."""
    with torch.device("meta"):
        model = build_model(planned.family, planned.config)
    return numbers(model, planned.recipe.training_settings().optimizer)


def _paper_length(report: Report | None) -> int | None:
    """Of the sentences that a paper translates; other rows are as long as the model allows."""
    return report.phases[0].length if report is not None and report.phases[0].source else None


def _rows(planned: Subject, wishes: Wishes, report: Report | None, each: int) -> int:
    """Rows of a step on all devices: as wished, as in the paper, as in the recipe, or a usual batch for each device."""
    if wishes.batch_tokens is not None:
        return max(1, wishes.batch_tokens // each)
    if report is not None and wishes.length is None:
        return report.phases[0].rows
    training = planned.recipe.training_settings()
    tokens = training.batch_tokens if planned.is_recipe else BATCH_TOKENS * wishes.devices
    return max(1, tokens // each)


def _steps(planned: Subject, wishes: Wishes, tokens: int) -> int | None:
    if wishes.tokens is not None:
        return math.ceil(wishes.tokens / tokens)
    if wishes.steps is None and planned.is_recipe:
        return planned.recipe.training_settings().steps
    return wishes.steps


def _exchange(made: Numbers, device: Device, precision: str, wishes: Wishes) -> float:
    """Seconds that a step's gradients, or weights, are on the wires."""
    wire = device.link if wishes.devices <= MACHINE else device.network
    others = (wishes.devices - 1) / wishes.devices
    if wishes.strategy == "ddp":
        return 2 * others * 4 * made.learnt / wire
    return 3 * others * PRECISIONS[precision] * made.parameters / wire


def _warnings(planned: Subject, wishes: Wishes, device: Device, held: Memory, rows: int, each: int) -> list[str]:
    said = []
    if rows < wishes.devices:
        said.append(
            f"the batch has {rows:,} rows for {wishes.devices:,} devices: those without one have nothing to do; "
            f"--batch-tokens {wishes.devices * each} is a row for each"
        )
    if device.memory is not None and held.peak > device.memory:
        weights = held.parameters + held.optimizer + held.copies + held.gradients
        remedy = (
            "its weights alone do: use --strategy fsdp on more devices"
            if weights > device.memory
            else "use a smaller --batch-tokens, and accumulate gradients"
        )
        said.append(
            f"it does not fit: the peak of {held.peak / 2**30:.1f} GiB is more than the "
            f"{device.memory / 2**30:.0f} GiB of one {device.name}; {remedy}"
        )
    return said
