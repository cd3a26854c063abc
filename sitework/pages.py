"""A page in docs/models stands in the menu without being named there: after those whose order matters."""

from pathlib import Path
from typing import Any

FOLDER = "models"


def on_config(config: Any) -> Any:
    (listed,) = (section["Models"] for section in config.nav if "Models" in section)
    known = {page for entry in listed for page in entry.values()}
    found = sorted(f"{FOLDER}/{path.name}" for path in (Path(config.docs_dir) / FOLDER).glob("*.md"))
    listed.extend(page for page in found if page not in known)
    return config
