"""BERT-base, GPT-2 124M and ViT-B/16 against transformers: logits, loss, gradients and generated tokens are the same.

    python benchmarks/public_parity.py [--models bert,gpt2,vit]

Each model of theirs gets random weights, is saved, and read back as ours, one after the other (about 3 GB). Writes
results/public-parity.json; a model that is left out keeps the numbers it had there.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.models import bert, gpt2, vit
from regard.public.folder import read_weights
from regard.public.tensors import to_theirs
from regard.tasks.continuation import Continuation
from result_files import FOLDER, write_result
from speed.peers import read_back

LIMIT = 1e-4
END, PAD, SEPARATOR = 50256, -1, 102


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MEASURED))
    chosen = parser.parse_args().models.split(",")
    file = FOLDER / "public-parity.json"
    rows: dict[str, Any] = json.loads(file.read_text())["models"] if file.exists() else {}
    for name in chosen:
        rows[name] = MEASURED[name]()
        print(name, json.dumps(rows[name]), flush=True)
    command = f"python benchmarks/public_parity.py --models {','.join(chosen)}"
    path = write_result("public-parity", command, {"transformers": transformers.__version__, "models": rows})
    print(f"wrote {path}")
    if not all(is_same(row) for row in rows.values()):
        raise SystemExit(f"a difference is larger than {LIMIT}, or other tokens were generated")


def is_same(row: dict[str, Any]) -> bool:
    differences = [value for key, value in row.items() if key.endswith("difference")]
    return max(differences) <= LIMIT and all(row.get("generated", {"": True}).values())


def measure_bert() -> dict[str, Any]:
    config = transformers.BertConfig(sep_token_id=SEPARATOR, attn_implementation="sdpa")
    theirs = drawn(transformers.BertForPreTraining(config))
    ours = read_back(theirs, bert, "bert", lambda known: bert.public_names(known, "bert"))
    tokens = torch.randint(1000, 30000, (4, 64))
    tokens[:, 0], tokens[:, 30], tokens[:, 63] = 101, SEPARATOR, SEPARATOR
    for row, length in enumerate((64, 50, 41, 33)):  # padding in the batch
        tokens[row, length - 1], tokens[row, length:] = SEPARATOR, 0
    real, ends = tokens != 0, (tokens == SEPARATOR).long()
    words = tokens.masked_fill(~real | (torch.rand(tokens.shape) > 0.15), -100)
    follows = torch.tensor([0, 1, 1, 0])
    said = theirs(
        tokens, attention_mask=real.long(), token_type_ids=(ends.cumsum(1) - ends).clamp(max=1), labels=words,
        next_sentence_label=follows,
    )  # fmt: skip
    states, mask = ours.encoder(tokens)
    logits, verdicts = ours.logits(states), ours.next_logits(states, mask)
    loss = F.cross_entropy(logits.flatten(0, 1), words.flatten()) + F.cross_entropy(verdicts, follows)
    differences = {
        "logits_difference": largest(logits[real] - said.prediction_logits[real]),
        "next_sentence_difference": largest(verdicts - said.seq_relationship_logits),
    }
    names = bert.public_names(ours.config, "bert")
    return {**sizes(ours), **differences, **compared(ours, theirs, loss, said.loss, names, bert.PUBLIC_TRANSPOSED)}


def measure_gpt2() -> dict[str, Any]:
    theirs = drawn(transformers.GPT2LMHeadModel(transformers.GPT2Config()))
    ours = read_back(theirs, gpt2, "gpt2", gpt2.public_names)
    tokens = torch.randint(0, END, (4, 64))
    said = theirs(tokens, labels=tokens)
    logits = ours(tokens)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    names = gpt2.public_names(ours.config)
    return {
        **sizes(ours),
        "logits_difference": largest(logits - said.logits),
        "generated": {"greedy": same_tokens(ours, theirs, 1), "4 beams": same_tokens(ours, theirs, 4)},
        **compared(ours, theirs, loss, said.loss, names, gpt2.PUBLIC_TRANSPOSED),
    }


def same_tokens(ours: Any, theirs: Any, beams: int) -> bool:
    """Prompts of different lengths in one batch, twenty tokens each."""
    prompts = [torch.randint(0, END, (length,)).tolist() for length in (17, 3, 9)]
    width = max(map(len, prompts))
    tokens = torch.tensor([[END] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    written = theirs.generate(
        tokens, attention_mask=mask, max_new_tokens=20, num_beams=beams, do_sample=False, pad_token_id=END
    )[:, width:].tolist()
    expected = [row[: row.index(END)] if END in row else row for row in written]
    settings = Decoding(num_beams=beams, max_new_tokens=20)
    with torch.inference_mode():
        found = generate(Continuation(ours, END, PAD), prompts, Vocabulary(END, END), settings, pad=PAD)
    return [best[0].tokens for best in found] == expected


def measure_vit() -> dict[str, Any]:
    theirs = drawn(transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)))
    ours = read_back(theirs, vit, "vit", vit.public_names)
    larger = torch.randn(1, 3, 384, 384)
    with torch.no_grad():
        other = largest(ours(larger) - theirs(larger, interpolate_pos_encoding=True).logits)
    images, labels = torch.randn(2, 3, 224, 224), torch.tensor([3, 998])
    said = theirs(images, labels=labels)
    logits = ours(images)
    loss = F.cross_entropy(logits, labels)
    return {
        **sizes(ours),
        "logits_difference": largest(logits - said.logits),
        "logits_at_384_difference": other,
        **compared(ours, theirs, loss, said.loss, vit.public_names(ours.config), vit.PUBLIC_TRANSPOSED),
    }


def drawn(model: Any) -> Any:
    """Biases, norms and heads too must be told apart."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.02 * torch.randn_like(parameter)
    return model.eval()


def compared(
    ours: Any, theirs: Any, loss: Tensor, their_loss: Tensor, names: Any, transposed: frozenset[str]
) -> dict[str, float]:
    """How far the losses and all gradients are from one another; their weights are lost on the way."""
    loss.backward(), their_loss.backward()
    found = to_theirs({name: each.grad for name, each in ours.named_parameters()}, names, transposed=transposed)
    for parameter in theirs.parameters():  # saved, they have the names that weights have in a file
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    with tempfile.TemporaryDirectory() as place:
        theirs.save_pretrained(place)
        wanted = read_weights(Path(place))
    return {
        "loss": loss.item(),
        "loss_difference": abs(loss.item() - their_loss.item()),
        "gradient_difference": max(largest(gradient - wanted[name]) for name, gradient in found.items()),
        "largest_gradient": max(map(largest, wanted.values())),
    }


def largest(difference: Tensor) -> float:
    return float(difference.detach().abs().max())


def sizes(model: Any) -> dict[str, int]:
    return {"parameters": sum(each.numel() for each in model.parameters())}


MEASURED: dict[str, Callable[[], dict[str, Any]]] = {"bert": measure_bert, "gpt2": measure_gpt2, "vit": measure_vit}

if __name__ == "__main__":
    torch.manual_seed(0)
    main()
