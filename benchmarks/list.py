"""Say which benchmarks there are: the first line of each file's docstring."""

import ast
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("*.py")):
    if path.name not in ("list.py", "result_files.py"):
        told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        print(f"python benchmarks/{path.name}\n    {told.splitlines()[0]}")
