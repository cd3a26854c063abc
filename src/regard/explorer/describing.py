"""The description of the API: OpenAPI for machines, and a plain page for people that asks nobody for anything."""

import html
import json
from collections.abc import Mapping
from typing import Any

from regard.explorer.limits import PICTURES
from regard.explorer.reading import FORM, JSON
from regard.explorer.schemas import Asked

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.4 ui-monospace, monospace; }
pre { padding: .75rem; overflow-x: auto; border: 1px solid #8886; border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; }
"""


def described(kind: type[Asked]) -> dict[str, Any]:
    """A request's body for OpenAPI: JSON, or a form with files; a form may have the other fields too."""
    schema = kind.model_json_schema()
    content = {JSON: {"schema": schema}}
    if "images" in schema["properties"] and "examples" not in schema["properties"]:
        files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1, "maxItems": PICTURES}
        fields = {"model": {"type": "string"}, "images": files}
        content[FORM] = {"schema": {"type": "object", "properties": fields, "required": ["images"]}}
    return {"requestBody": {"required": True, "content": content}}


def description_page(openapi: Mapping[str, Any]) -> str:
    parts = [
        part
        for path, methods in openapi["paths"].items()
        for method, known in methods.items()
        for part in _operation(method.upper(), path, known)
    ]
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>"
        '<p>For machines: <a href="/openapi.json">openapi.json</a>.</p>' + "".join(parts) + "</html>"
    )


def _operation(method: str, path: str, known: Mapping[str, Any]) -> list[str]:
    parts = [f"<h2><code>{method} {html.escape(path)}</code></h2><p>{html.escape(known.get('summary', ''))}</p>"]
    content = known.get("requestBody", {}).get("content", {})
    if JSON in content:
        schema = content[JSON]["schema"]
        rows = [_row(name, field, name in schema.get("required", ())) for name, field in schema["properties"].items()]
        parts.append(f"<table><tr><th>field<th>kind<th>meaning{''.join(rows)}</table>")
    return parts


def _row(name: str, field: Mapping[str, Any], needed: bool) -> str:
    about = field.get("description", "") + ("" if needed or field.get("default") is None else _default(field))
    told = f"<strong>{name}</strong>" if needed else name
    return f"<tr><td><code>{told}</code><td>{html.escape(_kind(field))}<td>{html.escape(about.strip())}"


def _default(field: Mapping[str, Any]) -> str:
    return f" Default: {json.dumps(field['default'])}."


def _kind(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(each) for each in field["anyOf"] if each.get("type") != "null")
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "anything"))
