"""What `regard plan` prints."""

import dataclasses
import json

from regard.errors import RegardError
from regard.plan.papers import REPORTS
from regard.plan.planning import Wishes, make_plan, numbers_of, paper_plan
from regard.plan.shards import sharded
from regard.plan.simulation import parameter_bytes
from regard.plan.subjects import subject
from regard.plan.told import papers_table, size_of, told


def say_plan(
    name: str, wishes: Wishes, overrides: tuple[str, ...] = (), *, simulate: bool = False, as_json: bool = False
) -> tuple[str, list[str]]:
    """The plan for people or machines, and what is to be warned of."""
    plan = make_plan(name, wishes, overrides)
    record, text = plan.as_dict(), told(plan)
    if simulate:
        found = simulated(name, overrides, wishes.devices)
        record["simulated_parameter_bytes"] = found
        text += f"\n\nsimulated: {size_of(found).strip()} of parameters on rank 0 of {wishes.devices:,}, as planned"
    return json.dumps(record, indent=1) if as_json else text, plan.warnings


def simulated(name: str, overrides: tuple[str, ...], ranks: int) -> int:
    """Bytes of parameters on the first rank under fsdp; other than the plan's is an error of the plan."""
    planned = subject(name, overrides)
    found = parameter_bytes(planned.family, planned.config, ranks)
    with_plan = 4 * sharded(numbers_of(planned).shapes, ranks)
    if found != with_plan:
        raise RegardError(f"{name} on {ranks} ranks: torch leaves {found:,} bytes on rank 0, the plan {with_plan:,}")
    return found


def say_papers(as_json: bool = False) -> str:
    """What papers report, and what the plan says of it."""
    known = {name: paper_plan(name) for name in REPORTS}
    if as_json:
        return json.dumps({name: dataclasses.asdict(paper) for name, paper in known.items()}, indent=1)
    return papers_table(known)
