"""regard: attention models from Bahdanau to GPT-2, to build, train, run and look inside.

import regard
translator = regard.load("runs/demo")
translator.translate(["the red car is in front of the house ."])[0].text
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard import inspect
    from regard.attention import attend, record
    from regard.loading import load, workers
    from regard.looking import look

# Where each public name lives. They are imported at first use, so that `regard --help` need not wait for torch.
_HOMES = {
    "attend": "regard.attention",
    "load": "regard.loading",
    "look": "regard.looking",
    "record": "regard.attention",
    "workers": "regard.loading",
}

__all__ = ["__version__", "attend", "inspect", "load", "look", "record", "workers"]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "inspect":  # a package, not a name in one
        return importlib.import_module("regard.inspect")
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
