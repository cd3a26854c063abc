"""The sources of two versions, exported from git into folders of their own."""

import io
import os
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Checkout:
    """One version: its folder has the folder `src` of that version."""

    folder: Path
    commit: str
    is_dirty: bool  # whether the sources have changes that are not in the commit

    def environment(self, **changes: str) -> dict[str, str]:
        """Variables of a process that imports regard from this version."""
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**inherited, "PYTHONPATH": str(self.folder / "src"), "PYTHONHASHSEED": "0", **changes}

    def record(self) -> dict[str, object]:
        return {"commit": self.commit, "dirty": self.is_dirty}


def exported(revision: str | None, folder: Path, repository: Path = REPOSITORY) -> Checkout:
    """Export the sources of a commit, or of the working tree where none is given."""
    return export_commit(revision, folder, repository) if revision else export_working_tree(folder, repository)


def export_commit(revision: str, folder: Path, repository: Path = REPOSITORY) -> Checkout:
    """Export the sources of a commit, given by its hash, branch or tag."""
    try:
        commit = _git(repository, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{revision!r} is not a commit of {repository}; git log lists the commits") from error
    _export(repository, commit, folder)
    return Checkout(folder, commit, is_dirty=False)


def export_working_tree(folder: Path, repository: Path = REPOSITORY) -> Checkout:
    """Export the sources as they are on the disk, with changes and new files that are not committed."""
    commit = _git(repository, "rev-parse", "HEAD")
    with tempfile.TemporaryDirectory() as name:  # an index of its own: the repository's index stays as it is
        index = {"GIT_INDEX_FILE": str(Path(name) / "index")}
        _git(repository, "read-tree", "HEAD", **index)
        _git(repository, "add", "--all", "--", "src", **index)
        tree = _git(repository, "write-tree", **index)
    _export(repository, tree, folder)
    return Checkout(folder, commit, is_dirty=tree != _git(repository, "rev-parse", "HEAD^{tree}"))


def _export(repository: Path, tree: str, folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", "--format=tar", tree, "src"], cwd=repository, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def _git(repository: Path, *arguments: str, **variables: str) -> str:
    command = ["git", *arguments]
    environment = {**os.environ, **variables}
    run = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True, env=environment)
    return run.stdout.strip()
