"""`regard plan`: what a training will take."""

from typing import Annotated

import typer

from regard.cli.options import AsJson, complain
from regard.errors import UsageError


def plan(
    preset: Annotated[
        str | None, typer.Argument(metavar="PRESET", help="Such as gpt2:xl, or a recipe: see `regard recipes`.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as model.vocabulary=50000.")
    ] = None,
    devices: Annotated[int, typer.Option("--devices", help="How many.")] = 1,
    device: Annotated[
        str | None, typer.Option("--device", help="Of which kind: h100, a100, p100, tpu-v3, cpu, ... (default: a100).")
    ] = None,
    strategy: Annotated[str, typer.Option("--strategy", help="ddp: copies; fsdp: shards.")] = "ddp",
    batch_tokens: Annotated[int | None, typer.Option(help="Of a step, on all devices.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a row.")] = None,
    precision: Annotated[str | None, typer.Option(help="Of products: fp32, tf32, bf16, fp16.")] = None,
    efficiency: Annotated[float | None, typer.Option(help="The share of the peak that is reached.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Of the whole training, such as 1e12.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of the whole training.")] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Check the shards of fsdp with fake tensors on fake ranks.")
    ] = False,
    papers: Annotated[bool, typer.Option("--papers", help="The table of what papers report.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a training will take: memory, arithmetic, time. Before anything is rented."""
    from regard.plan import Wishes
    from regard.plan.verb import say_papers, say_plan

    if papers:
        print(say_papers(as_json))
        return
    if preset is None:
        raise UsageError("say what to plan: a preset such as gpt2:xl, or a recipe (see: regard recipes)")
    wishes = Wishes(devices, device, strategy, batch_tokens, length, precision, efficiency, tokens, steps)
    text, warnings = say_plan(preset, wishes, tuple(overrides or ()), simulate=simulate, as_json=as_json)
    print(text)
    for warning in warnings:
        complain(warning)
