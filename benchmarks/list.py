"""Say which benchmarks there are: the first line of each file's docstring."""

import ast
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("*.py")):
    if path.name not in ("__main__.py", "list.py", "result_files.py", "trainings.py"):
        told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        print(f"python benchmarks/{path.name}\n    {told.splitlines()[0]}")
print("python -m benchmarks JOB\n    Speed beside peers; without a JOB it says which there are.")
