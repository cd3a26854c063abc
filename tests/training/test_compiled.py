"""Compiled blocks: the same losses, the same names, clear words where it cannot be."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import UsageError
from regard.models import luong, transformer
from regard.training import compiled
from regard.training.compiled import compile_blocks

CPU = torch.device("cpu")
# In a process of its own: the compiler cannot read functions whose shapes the tests check.
SAME = """
import torch
from regard.models import transformer
from regard.training.compiled import compile_blocks

def model():
    torch.manual_seed(0)
    sizes = dict(vocabulary=50, size=16, hidden_size=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
    return transformer.Transformer(transformer.Config(**sizes))

plain, other = model(), model()
compile_blocks(other, torch.device("cpu"))
assert list(other.state_dict()) == list(plain.state_dict())
for length in (5, 7):
    tokens = torch.randint(3, 50, (2, length))
    found, expected = other(tokens, tokens), plain(tokens, tokens)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
for one, two in zip(other.parameters(), plain.parameters(), strict=True):
    torch.testing.assert_close(one.grad, two.grad, atol=1e-4, rtol=1e-4)
assert other.encoder.layers[0]._compiled_call_impl is not None
print("the same")
"""


@pytest.mark.skipif(not any(map(shutil.which, compiled.COMPILERS)), reason="there is no C++ compiler")
def test_a_compiled_model_says_and_learns_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", SAME], capture_output=True, text=True)
    assert done.stdout == "the same\n", done.stderr


def test_what_cannot_be_compiled_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not for a Luong"):
        compile_blocks(luong.Luong(luong.Config(vocabulary=20, size=8, embedding_size=8)), CPU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    sizes = dict(vocabulary=20, size=8, hidden_size=8, heads=1, encoder_layers=1, decoder_layers=1)
    with pytest.raises(UsageError, match="needs a C"):
        compile_blocks(transformer.Transformer(transformer.Config(**sizes)), CPU)  # type: ignore[arg-type]
