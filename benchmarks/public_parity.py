"""BERT-base, GPT-2 124M, ViT-B/16 and a Marian of OPUS-MT's size against transformers: logits, loss, gradients and
generated tokens are the same.

    python benchmarks/public_parity.py [--models bert,gpt2,vit,marian]

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

from regard.decoding.generate import generate, padded
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.models import bert, gpt2, transformer, vit
from regard.public.folder import read_weights
from regard.public.tensors import to_theirs
from regard.tasks.continuation import Continuation
from result_files import FOLDER, write_result
from speed.peers import read_back

LIMIT = 1e-4
END, PAD, SEPARATOR = 50256, -1, 102
MARIAN_END, MARIAN_PAD = 0, 58100


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


def measure_marian() -> dict[str, Any]:
    """The sizes of OPUS-MT's translators (English to German)."""
    config = transformers.MarianConfig(
        vocab_size=MARIAN_PAD + 1, d_model=512, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, encoder_attention_heads=8, decoder_attention_heads=8, activation_function="swish",
        scale_embedding=True, max_position_embeddings=512, pad_token_id=MARIAN_PAD, eos_token_id=MARIAN_END,
        decoder_start_token_id=MARIAN_PAD, forced_eos_token_id=MARIAN_END, dropout=0.0,
    )  # fmt: skip
    theirs = drawn(transformers.MarianMTModel(config))
    theirs.final_logits_bias.normal_()
    ours = read_back(theirs, transformer, "transformer", transformer.public_names)
    rows = [torch.randint(1, MARIAN_PAD, (length,)).tolist() for length in (20, 9, 3)]
    source = padded([[*row, MARIAN_END] for row in rows], MARIAN_PAD)
    told = padded([[MARIAN_PAD, *row] for row in rows], MARIAN_PAD)
    real = source != MARIAN_PAD
    said = theirs(input_ids=source, attention_mask=real, labels=source.masked_fill(~real, -100))
    logits = ours(source, told)
    loss = F.cross_entropy(logits[real], source[real])
    names = transformer.public_names(ours.config)
    ours.output_bias.requires_grad_(False)  # theirs does not learn
    learnt = {name: several for name, several in names.items() if name != "output_bias"}
    return {
        **sizes(ours),
        "logits_difference": largest(logits[real] - said.logits[real]),
        "generated": {f"{beams} beams": same_sentences(ours, theirs, source, rows, beams) for beams in (1, 5)},
        **compared(ours, theirs, loss, said.loss, learnt, transformer.PUBLIC_TRANSPOSED),
    }


def same_sentences(ours: Any, theirs: Any, source: Tensor, rows: list[list[int]], beams: int) -> bool:
    """Sources of different lengths in one batch, up to twenty tokens each."""
    theirs.generation_config.forced_eos_token_id = None
    with torch.inference_mode():
        said = theirs.generate(
            input_ids=source, attention_mask=source != MARIAN_PAD, bad_words_ids=[[MARIAN_PAD]], do_sample=False,
            num_beams=beams, max_new_tokens=20,
        )  # fmt: skip
        vocabulary = Vocabulary(MARIAN_PAD, MARIAN_END, never=(MARIAN_PAD,))
        settings = Decoding(num_beams=beams, max_new_tokens=20)
        found = generate(ours, [[*row, MARIAN_END] for row in rows], vocabulary, settings, pad=MARIAN_PAD)
    special = (MARIAN_PAD, MARIAN_END)
    expected = [[token for token in row[1:].tolist() if token not in special] for row in said]
    return [best[0].tokens for best in found] == expected


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


MEASURED: dict[str, Callable[[], dict[str, Any]]] = {
    "bert": measure_bert,
    "gpt2": measure_gpt2,
    "vit": measure_vit,
    "marian": measure_marian,
}

if __name__ == "__main__":
    torch.manual_seed(0)
    main()
