"""GPT-2 124M with random weights: a prompt of 32 tokens and 128 new ones, greedily, batches of 1, 8 and 32.

Peers: Hugging Face transformers, CTranslate2 (fp32, int8), and for one prompt llama.cpp through our GGUF export (f32,
q8_0) where `llama_cpp` is installed. All fp32 sides must say the same tokens before anything is measured.
"""

import argparse
import tempfile
from typing import Any

import torch

from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.export import ctranslate2 as export
from regard.models import gpt2
from regard.tasks.continuation import Continuation
from speed.peers import nameless, read_back, save_spec
from speed.rounds import ROUNDS, compare

END, PAD = 50256, -1
PROMPT, NEW = 32, 128
PROMISED = {  # by batch: against transformers, CTranslate2 fp32, and int8 against its int8
    1: (1.2, 0.9, 1.8),
    8: (1.3, 0.9, 1.8),
    32: (1.3, 0.9, 1.8),
}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks generate", description=__doc__)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    import transformers

    torch.manual_seed(0)
    sizes = dict(n_embd=32, n_layer=2, n_head=2) if arguments.quick else {}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    ours = read_back(theirs, gpt2, "gpt2", gpt2.public_names)
    with tempfile.TemporaryDirectory() as folder:
        engines = ctranslate2_engines(ours, folder)
        return {
            "prompt": PROMPT,
            "new": NEW,
            "parameters": sum(each.numel() for each in ours.parameters()),
            "batches": {
                size: one_size(int(size), ours, theirs, engines, arguments.rounds)
                for size in arguments.batches.split(",")
            },
        }


def ctranslate2_engines(ours: Any, folder: str) -> dict[str, Any]:
    import ctranslate2

    engines = {}
    for kind in ("float32", "int8"):
        save_spec(export.language_model(nameless(ours, "gpt2", END)), f"{folder}/{kind}", kind)
        engines[kind] = ctranslate2.Generator(
            f"{folder}/{kind}", compute_type=kind, inter_threads=1, intra_threads=torch.get_num_threads()
        )
    return engines


def one_size(size: int, ours: Any, theirs: Any, engines: dict[str, Any], rounds: int) -> dict[str, Any]:
    prompts = torch.randint(0, END, (size, PROMPT)).tolist()
    words = [[f"<{token}>" for token in row] for row in prompts]
    tokens = torch.tensor(prompts)

    def ask_ours(model: Any) -> list[list[int]]:
        found = generate(
            Continuation(model, END, PAD),
            prompts,
            Vocabulary(END, END, never=(END,)),
            Decoding(num_beams=1, max_new_tokens=NEW, batch_tokens=1 << 20),
            pad=PAD,
        )
        return [best[0].tokens for best in found]

    def ask_theirs() -> list[list[int]]:
        return theirs.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=END,
            suppress_tokens=[END],
        )[:, PROMPT:].tolist()

    def ask_engine(kind: str) -> list[list[int]]:
        found = engines[kind].generate_batch(
            words,
            max_length=NEW,
            sampling_topk=1,
            include_prompt_in_result=False,
            suppress_sequences=[[f"<{END}>"]],
            max_batch_size=0,
        )
        return [known.sequences_ids[0] for known in found]

    sides = {
        "regard": lambda: ask_ours(ours),
        "transformers": ask_theirs,
        "ctranslate2": lambda: ask_engine("float32"),
        "ctranslate2 int8": lambda: ask_engine("int8"),
    }
    said = {name: sides[name]() for name in ("regard", "transformers", "ctranslate2")}
    if said["regard"] != said["transformers"] or said["regard"] != said["ctranslate2"]:
        raise SystemExit(f"the sides do not say the same tokens for batches of {size}: nothing is measured")
    print(f"batch {size}: all say the same {size * NEW} tokens", flush=True)
    hf, whole, _ = PROMISED.get(size, (None, None, None))
    pairs = {("regard", "transformers"): hf, ("regard", "ctranslate2"): whole}
    return compare(sides, pairs, rounds)
