"""What a training will take, before anything is rented: memory, arithmetic, time.

    regard plan gpt2:xl --device h100 --devices 1024 --strategy fsdp --tokens 1e12

From a preset or a recipe to a `Plan`: the model is built on the meta device (exact parameters, no memory), its costs
are written out (derived.py, recurrent.py) or seen in a pass over a row or two (traced.py), its memory follows from
what is alive at once (memory.py), and its time from a device's data sheet and an efficiency (planning.py).
"""

from regard.plan.planning import Plan, Wishes, make_plan

__all__ = ["Plan", "Wishes", "make_plan"]
