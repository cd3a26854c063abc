"""Every verb takes a folder in Hugging Face layout where it takes a RUN."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_checkpoints import bert_folder, gpt2_folder, vit_folder, write_json
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import UsageError


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_texts_are_embedded_as_the_checkpoint_does_unless_told_otherwise(tmp_path: Path) -> None:
    bert_folder(tmp_path / "model", "bert-embedder")
    kinds = ("Transformer", "Pooling", "Normalize")
    write_json(tmp_path / "model" / "modules.json", [{"type": f"a.{kind}", "path": f"1_{kind}"} for kind in kinds])
    write_json(tmp_path / "model" / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    (tmp_path / "texts.txt").write_text("the cat\na dog\n")
    lengths = []
    for option in ("--normalize", "--no-normalize"), ("--normalize",), ():
        arguments = ("embed", str(tmp_path / "model"), str(tmp_path / "texts.txt"), "--json", *option)
        rows = [json.loads(line)["embedding"] for line in invoke(*arguments).splitlines()]
        lengths.append(np.linalg.norm(rows, axis=1))
    assert not np.allclose(lengths[0], 1.0)  # the last word counts
    np.testing.assert_allclose(lengths[1:], 1.0, atol=1e-5)


def test_the_other_verbs_read_public_folders_too(tmp_path: Path) -> None:
    places = {family: str(tmp_path / family) for family in ("bert", "bert-classifier", "bert-tagger", "gpt2", "vit")}
    for family in ("bert", "bert-classifier", "bert-tagger"):
        bert_folder(Path(places[family]), family)
    gpt2_folder(Path(places["gpt2"]))
    vit_folder(Path(places["vit"]))
    (tmp_path / "lines.txt").write_text("the cat\na dog\tthe mat\n")
    Image.new("RGB", (9, 9), "red").save(tmp_path / "red.png")
    assert invoke("fill", places["bert"], "the [MASK] sat", "--top", "2").count("\n") == 2
    labels = invoke("classify", places["bert-classifier"], str(tmp_path / "lines.txt")).splitlines()
    assert all(line.startswith("LABEL_") for line in labels)
    assert len(labels) == 2
    tagged = invoke("tag", places["bert-tagger"], str(tmp_path / "lines.txt")).splitlines()
    assert tagged[0].startswith("the/LABEL_")
    assert invoke("generate", places["gpt2"], "the cat", "--max-new-tokens", "2").startswith("the cat")
    assert invoke("classify", places["vit"], str(tmp_path / "red.png")).startswith("LABEL_")
    (tmp_path / "pictures.txt").write_text(f"{tmp_path / 'red.png'}\n")
    assert len(invoke("embed", places["vit"], str(tmp_path / "pictures.txt")).split()) == 8
    for family, what in (("bert", "the cat"), ("gpt2", "the cat"), ("vit", str(tmp_path / "red.png"))):
        assert "wrote" in invoke("look", places[family], what, "-o", str(tmp_path / f"{family}.svg"))
    with pytest.raises(UsageError, match=r"holds a languagemodel, which has no 'fill'"):
        invoke("fill", places["gpt2"], "[MASK]")
