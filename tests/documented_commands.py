"""The commands README and docs tell a reader to type."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
STARTS = ("regard ", "python ", "torchrun ", "make ", "pip ", "pytest ", "curl ", "echo ")
# Code that is not typed into a shell.
OTHER_LANGUAGES = ("python", "yaml", "json", "text", "dockerfile", "nginx", "ini")
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A line as a page has it, without its comment."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)


def shell_lines(text: str) -> list[str]:
    """Lines of fenced blocks and of blocks that are indented, continued lines joined."""
    fenced = [block for language, block in FENCED.findall(text) if language not in OTHER_LANGUAGES]
    indented = [line.strip() for line in FENCED.sub("", text).splitlines() if line.startswith("    ")]
    lines = "\n".join([*fenced, *indented]).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s+#\s.*$", "", line).strip().removeprefix("$ ") for line in lines]


def commands() -> list[Command]:
    found = []
    for page in PAGES:
        lines = [line for line in shell_lines(page.read_text("utf-8")) if line.startswith(STARTS)]
        found += [Command(page.relative_to(ROOT).as_posix(), line) for line in dict.fromkeys(lines)]
    return found


def python_blocks(page: Path) -> list[str]:
    return [block for language, block in FENCED.findall(page.read_text("utf-8")) if language == "python"]
