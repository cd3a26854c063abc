"""Transformer-base with random weights: 500 English sentences of Multi30k, beam 5 and greedy, 24 tokens each.

Sentences may not end, so every side writes as many tokens; the first twenty must come out the same everywhere. Peers:
Hugging Face transformers (MarianMTModel) and CTranslate2 (fp32, int8), the latter both with its threads inside one
translation and with as many translations side by side; its better time counts. Each side has a process of its own.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.data.named import data_folder, named
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import generate, padded
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.decoding.workers import Workers
from regard.export import ctranslate2
from regard.models import transformer
from speed.apart import Apart
from speed.peers import eight_bits, nameless, read_back, save_spec
from speed.rounds import ROUNDS, compare

VOCABULARY, NEW = 8000, 24
SIZES = {"base": (512, 6, 8), "small": (256, 3, 4), "tiny": (32, 2, 2)}  # width, layers on each side, heads
START, END = 0, 1  # padding begins a translation in Marian's family
# By beams: ours and ours in 8 bits against transformers; against CTranslate2, whole, and 8 bits against 8 bits.
PROMISED = {5: (1.4, 2.0, 1.0, 1.0), 1: (None, None, 1.0, 1.0)}
CHECKED = 20
Rows = list[list[int]]
Ask = Callable[[Rows, int], Rows]


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks translate", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--beams", default="5,1")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    rows = sentences(arguments.data, arguments.sentences)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters = written(folder, "tiny" if arguments.quick else "base")
        threads = torch.get_num_threads()
        sides = {
            "regard": Apart(ours, folder, False),
            "regard int8": Apart(ours, folder, True),
            "transformers": Apart(theirs, folder),
            "ctranslate2": Apart(engine, folder, "float32", 1, threads),
            "ctranslate2, side by side": Apart(engine, folder, "float32", threads, 1),
            "ctranslate2 int8": Apart(engine, folder, "int8", 1, threads),
            "ctranslate2 int8, side by side": Apart(engine, folder, "int8", threads, 1),
        }
        searches = map(int, arguments.beams.split(","))
        found = {beams: one_search(beams, rows, sides, arguments.rounds) for beams in searches}
    return {"sentences": len(rows), "new": NEW, "parameters": parameters, "beams": found}


def sentences(data: str | None, count: int) -> list[list[int]]:
    """English sentences as numbers of BPE pieces, the end behind each; numbers 0 and 1 stay free."""
    train = [pair.source for pair in islice(named("multi30k", data_folder(data), "train"), 5000)]
    tokenizer = Tokenizer.train("bpe", train, VOCABULARY - 2)
    test = [pair.source for pair in islice(named("multi30k", data_folder(data), "test"), count)]
    return [[*(token + 2 for token in row), END] for row in tokenizer.encode_all(test)]


def marian(name: str) -> Any:
    """A Transformer in Marian's family; with larger weights than at birth, so that words differ."""
    import transformers

    size, layers, heads = SIZES[name]
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=size,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * size,
        decoder_ffn_dim=4 * size,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=START,
        decoder_start_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
    )
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "embed_positions" not in name:
            torch.nn.init.normal_(parameter, std=size**-0.5)
    return model


def written(folder: Path, name: str) -> int:
    """One model in every side's own form; the number of its parameters is returned."""
    marian(name).save_pretrained(folder / "hf")
    same = read_back(folder / "hf", transformer, "transformer")
    subject = nameless(same, "transformer", END)
    subject.tokenizer.start = START
    for kind in ("float32", "int8"):
        save_spec(ctranslate2.translator(subject), f"{folder}/{kind}", kind)
    return sum(each.numel() for each in same.parameters())


def our_model(folder: Path, int8: bool) -> Any:
    model = read_back(folder / "hf", transformer, "transformer")
    return eight_bits(model) if int8 else model


def ours(folder: Path, int8: bool, processes: int = 1) -> Ask:
    model, workers = our_model(folder, int8), Workers(partial(our_model, folder, int8), processes)
    words = Vocabulary(START, END, never=(START, END))

    def ask(rows: Rows, beams: int) -> Rows:
        settings = Decoding(num_beams=beams, max_new_tokens=NEW)
        found = generate(model, rows, words, settings, pad=START, workers=workers)
        return [best[0].tokens for best in found]

    return ask


def theirs(folder: Path) -> Ask:
    import transformers

    model = transformers.MarianMTModel.from_pretrained(folder / "hf").eval()

    def ask(rows: Rows, beams: int) -> Rows:
        """Sorted by length, in batches, as their pipeline's users do."""
        order = sorted(range(len(rows)), key=lambda item: -len(rows[item]))
        found: dict[int, list[int]] = {}
        for first in range(0, len(order), 32):
            items = order[first : first + 32]
            batch = padded([rows[item] for item in items], START)
            written = model.generate(
                batch,
                attention_mask=(batch != START).long(),
                num_beams=beams,
                max_new_tokens=NEW,
                do_sample=False,
                suppress_tokens=[START, END],
            )
            found.update(zip(items, written[:, 1:].tolist(), strict=True))
        return [found[item] for item in range(len(rows))]

    return ask


def engine(folder: Path, kind: str, translations: int, threads: int) -> Ask:
    import ctranslate2

    model = ctranslate2.Translator(
        f"{folder}/{kind}", compute_type=kind, inter_threads=translations, intra_threads=threads
    )

    def ask(rows: Rows, beams: int) -> Rows:
        answers = model.translate_batch(
            [[f"<{token}>" for token in row[:-1]] for row in rows],
            beam_size=beams,
            max_decoding_length=NEW,
            max_batch_size=4096 // beams,
            batch_type="tokens",
            suppress_sequences=[[f"<{START}>"], [f"<{END}>"]],
        )
        return [[int(word[1:-1]) for word in known.hypotheses[0]] for known in answers]

    return ask


def one_search(beams: int, rows: Rows, sides: dict[str, Apart], rounds: int) -> dict[str, Any]:
    few = rows[:CHECKED]
    said = {name: sides[name](few, beams) for name in ("regard", "transformers", "ctranslate2")}
    for name, answer in said.items():
        same = sum(one == two for one, two in zip(answer, said["regard"], strict=True))
        if same < CHECKED - 1:  # one near tie may fall either way
            raise SystemExit(f"{name} gives the same translation for {same} of {CHECKED}: nothing is measured")
    print(f"{beams} beams: all sides agree", flush=True)
    works = {name: (lambda side=side: side(rows, beams)) for name, side in sides.items()}
    hf, hf_small, whole, eighth = PROMISED.get(beams, (None,) * 4)
    pairs = {
        ("regard", "transformers"): hf,
        ("regard int8", "transformers"): hf_small,
        ("regard", "ctranslate2"): whole,
        ("regard", "ctranslate2, side by side"): whole,
        ("regard int8", "ctranslate2 int8"): eighth,
        ("regard int8", "ctranslate2 int8, side by side"): eighth,
    }
    return compare(works, pairs, rounds)
