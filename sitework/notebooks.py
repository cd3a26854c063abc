"""Notebooks become pages: their text as it is, their code as code, what they showed below it."""

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FENCE = "```"
TO_NOTEBOOK = re.compile(r"\]\((\w+)\.ipynb\)")
TO_OUTSIDE = re.compile(r"\[([^\[\]]+)\]\(\.\./\.\./[^()]+\)")  # of the site


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def shown(output: dict[str, Any]) -> str:
    """One output as markdown: a picture or a table before the words that stand for it."""
    if output["output_type"] == "stream":
        return f"{FENCE}text\n{text_of(output['text']).rstrip()}\n{FENCE}"
    data = output.get("data", {})
    if "image/svg+xml" in data:
        code = base64.b64encode(text_of(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="what the cell draws" src="data:image/svg+xml;base64,{code}">'
    if "image/png" in data:
        return f'<img alt="what the cell draws" src="data:image/png;base64,{text_of(data["image/png"]).strip()}">'
    if "text/html" in data:
        return f"<div>{text_of(data['text/html'])}</div>"
    return f"{FENCE}text\n{text_of(data.get('text/plain', '')).rstrip()}\n{FENCE}"


def as_markdown(path: Path) -> str:
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = text_of(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(TO_OUTSIDE.sub(r"\1", TO_NOTEBOOK.sub(r"](\1.md)", source)))
        elif source:
            parts.append(f"{FENCE}python\n{source}\n{FENCE}")
            parts += [shown(output) for output in cell["outputs"]]
    parts.append(f"---\n\nThis page is the notebook `docs/tutorials/{path.name}`: run it, change it.")
    return "\n\n".join(parts) + "\n"


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(Path(config["docs_dir"]).glob("tutorials/*.ipynb")):
        files.remove(files.get_file_from_path(f"tutorials/{path.name}"))
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=as_markdown(path)))
    return files
