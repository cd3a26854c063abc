"""A plan in words, and the table of what papers report."""

from collections.abc import Iterable

from regard.plan.devices import DEVICES, GIBI, GIGA, PRECISIONS, TERA
from regard.plan.planning import PaperPlan, Plan

UNITS = (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def told(plan: Plan) -> str:
    """For people."""
    lines = [
        f"{plan.name}: {plan.parameters:,} parameters; costs {plan.how}",
        f"{plan.devices:,} x {plan.device}, {plan.strategy}, {plan.precision}: {plan.batch_tokens:,} tokens a step, "
        f"{plan.rows_per_device:,} rows of {plan.length:,} on a device",
        "",
        "memory of a device",
        *_memory(plan),
        "",
        "arithmetic",
        f"  forward             {scaled(plan.forward_flops_per_token)}FLOPs a token",
        f"  forward and back    {scaled(plan.training_flops_per_token)}FLOPs a token, "
        f"{scaled(plan.step_flops)}FLOPs a step",
        "",
        "time",
        f"  efficiency          {plan.efficiency:.0%} of the peak ({plan.efficiency_source})",
        f"  step                {seconds(plan.step_seconds)}: arithmetic {seconds(plan.arithmetic_seconds)}, "
        f"exchange {seconds(plan.exchange_seconds)} beside it",
        f"  tokens a day        {scaled(plan.tokens_per_day).rstrip()}",
    ]
    if plan.steps is not None and plan.days is not None:
        lines.append(f"  {plan.steps:,} steps: {days(plan.days)}")
    if plan.paper is not None:
        lines += ["", *_paper(plan.paper)]
    return "\n".join(lines)


def _memory(plan: Plan) -> Iterable[str]:
    held = plan.memory
    parts = {
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimiser": held.optimizer,
        "copies of weights": held.copies,
        "activations": held.activations,
        "loss and way back": held.passing,
    }
    for name, size in parts.items():
        yield f"  {name:19} {size_of(size)}"
    of = "" if plan.device_memory is None else f" of {size_of(plan.device_memory).strip()}"
    yield f"  {'peak':19} {size_of(held.peak)}{of} (the parts do not all live at once)"
    if held.cache:
        yield f"  {'cache':19} {size_of(held.cache)} for each row that is generated"


def _paper(paper: PaperPlan) -> Iterable[str]:
    yield f"the paper ({paper.paper})"
    yield f"  arithmetic          {scaled(paper.flops)}FLOPs in all"
    if paper.paper_flops is not None:
        yield f"  as the paper counts {scaled(paper.paper_flops)}FLOPs"
    if paper.days is not None and paper.efficiency is not None:
        there = f"{days(paper.days)} on {paper.devices} x {paper.device}"
        yield f"  there               {there}: an efficiency of {paper.efficiency:.0%}"
    yield f"  here                {days(paper.days_here)}"
    if paper.assumed:
        yield f"  assumed             {paper.assumed}"


def papers_table(papers: dict[str, PaperPlan]) -> str:
    """One row per report, in Markdown."""
    lines = ["| preset | devices | days | FLOPs, planned | FLOPs, of the paper | implied efficiency |"]
    lines.append("|---|---|---|---|---|---|")
    for name, paper in papers.items():
        where = f"{paper.devices} x {paper.device}" if paper.days is not None else ""
        took = f"{paper.days:,.4g}" if paper.days is not None else ""
        counted = f"{paper.paper_flops:.3g}" if paper.paper_flops is not None else ""
        implied = f"{paper.efficiency:.1%}" if paper.efficiency is not None else ""
        lines.append(f"| {name} | {where} | {took} | {paper.flops:.3g} | {counted} | {implied} |")
    return "\n".join(lines)


def devices_table() -> str:
    """What the devices can do, in Markdown."""
    precisions = list(PRECISIONS)
    lines = [f"| device | {' | '.join(precisions)} | memory | its own | a machine's | others' | source |"]
    lines.append("|---" * (len(precisions) + 6) + "|")
    for device in DEVICES.values():
        peaks = [f"{device.peaks[each] / TERA:g}" if each in device.peaks else "" for each in precisions]
        memory = "" if device.memory is None else f"{device.memory / GIBI:g}"
        wires = [f"{wire / GIGA:g}" for wire in (device.bandwidth, device.link, device.network)]
        lines.append(f"| `{device.name}` | {' | '.join([*peaks, memory, *wires])} | {device.source} |")
    return "\n".join(lines)


def size_of(count: float) -> str:
    """Bytes, eleven wide."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:7.2f} {unit}"
    return f"{count:7.0f} B  "


def scaled(count: float) -> str:
    """A number and the beginning of its unit: 3.1 G."""
    for unit, size in UNITS:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} "


def seconds(count: float) -> str:
    if count >= 1:
        return f"{count:.3g} s"
    return f"{1000 * count:.3g} ms"


def days(count: float) -> str:
    if count >= 1:
        return f"{count:,.1f} days"
    return f"{24 * count:.1f} hours" if count >= 1 / 24 else f"{1440 * count:.1f} minutes"
