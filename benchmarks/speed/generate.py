"""GPT-2 124M with random weights: a prompt of 32 tokens and 128 new ones, greedily, batches of 1, 8 and 32.

Peers: Hugging Face transformers, CTranslate2 (fp32, int8), and for one prompt llama.cpp through our GGUF export (f32,
q8_0), each in a process of its own. All fp32 sides must say the same tokens before anything is measured.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.export import ctranslate2, gguf, llama_cpp
from regard.models import gpt2
from regard.tasks.continuation import Continuation
from speed.apart import Apart
from speed.peers import eight_bits, nameless, read_back, save_spec
from speed.rounds import ROUNDS, compare

END, PAD = 50256, -1
PROMPT, NEW = 32, 128
PROMISED = {  # by batch: against transformers, CTranslate2 fp32, and int8 against its int8
    1: (1.2, 0.9, 1.8),
    8: (1.3, 0.9, 1.8),
    32: (1.3, 0.9, 1.8),
}
LLAMA_CPP = 0.6  # promised against it, whole and in 8 bits, for one prompt
NEAR = 8  # tokens that llama.cpp must say too: its tables are of half precision, and random weights have near ties
Prompts = list[list[int]]
Ask = Callable[[Prompts], list[list[int]]]


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks generate", description=__doc__)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters = written(folder, arguments.quick)
        sides = {
            "regard": Apart(ours, folder, False),
            "regard int8": Apart(ours, folder, True),
            "transformers": Apart(theirs, folder),
            "ctranslate2": Apart(engine, folder, "float32"),
            "ctranslate2 int8": Apart(engine, folder, "int8"),
            "llama.cpp": Apart(llama, folder, "f32"),
            "llama.cpp q8_0": Apart(llama, folder, "q8_0"),
        }
        sizes = map(int, arguments.batches.split(","))
        found = {size: one_size(size, sides, arguments.rounds) for size in sizes}
    return {"prompt": PROMPT, "new": NEW, "parameters": parameters, "batches": found}


def written(folder: Path, quick: bool) -> int:
    """One model in every side's own form; the number of its parameters is returned."""
    import transformers

    torch.manual_seed(0)
    sizes = dict(n_embd=32, n_layer=2, n_head=2) if quick else {}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    model.save_pretrained(folder / "hf")
    same = read_back(folder / "hf", gpt2, "gpt2")
    subject = nameless(same, "gpt2", END)
    for kind in ("float32", "int8"):
        save_spec(ctranslate2.language_model(subject), f"{folder}/{kind}", kind)
    for kind in ("f32", "q8_0"):
        (folder / kind).mkdir()
        gguf.write(subject, folder / kind, kind)
    return sum(each.numel() for each in same.parameters())


def ours(folder: Path, int8: bool) -> Ask:
    model = read_back(folder / "hf", gpt2, "gpt2")
    model = eight_bits(model) if int8 else model
    settings = Decoding(num_beams=1, max_new_tokens=NEW, batch_tokens=1 << 20)
    words = Vocabulary(END, END, never=(END,))

    def ask(prompts: Prompts) -> list[list[int]]:
        found = generate(Continuation(model, END, PAD), prompts, words, settings, pad=PAD)
        return [best[0].tokens for best in found]

    return ask


def theirs(folder: Path) -> Ask:
    import transformers

    model = transformers.GPT2LMHeadModel.from_pretrained(folder / "hf").eval()

    def ask(prompts: Prompts) -> list[list[int]]:
        tokens = torch.tensor(prompts)
        return model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=END,
            suppress_tokens=[END],
        )[:, PROMPT:].tolist()

    return ask


def engine(folder: Path, kind: str) -> Ask:
    import ctranslate2

    threads = torch.get_num_threads()
    model = ctranslate2.Generator(f"{folder}/{kind}", compute_type=kind, inter_threads=1, intra_threads=threads)

    def ask(prompts: Prompts) -> list[list[int]]:
        found = model.generate_batch(
            [[f"<{token}>" for token in row] for row in prompts],
            max_length=NEW,
            sampling_topk=1,
            include_prompt_in_result=False,
            suppress_sequences=[[f"<{END}>"]],
            max_batch_size=0,
        )
        return [known.sequences_ids[0] for known in found]

    return ask


def llama(folder: Path, kind: str) -> Callable[..., list[int]]:
    """Its own tokens, when they are asked for: their probabilities cost time."""
    server = llama_cpp.serving(folder / kind / gguf.FILE, gpt2.Config().context)

    def ask(prompts: Prompts, new: int = NEW, tokens: bool = False) -> list[int]:
        request = {"prompt": prompts[0], "max_tokens": new, "temperature": 0, "logit_bias": [[END, False]]}
        answer = server.handle_completions({**request, "cache_prompt": False, "n_probs": int(tokens)})["choices"][0]
        return [step["id"] for step in answer["logprobs"]["content"]] if tokens else []

    return ask


def one_size(size: int, sides: dict[str, Apart], rounds: int) -> dict[str, Any]:
    prompts = torch.randint(0, END, (size, PROMPT)).tolist()
    said = {name: sides[name](prompts) for name in ("regard", "transformers", "ctranslate2")}
    if said["regard"] != said["transformers"] or said["regard"] != said["ctranslate2"]:
        raise SystemExit(f"the sides do not say the same tokens for batches of {size}: nothing is measured")
    print(f"batch {size}: all say the same {size * NEW} tokens", flush=True)
    hf, whole, eighth = PROMISED.get(size, (None, None, None))
    pairs = {
        ("regard", "transformers"): hf,
        ("regard", "ctranslate2"): whole,
        ("regard int8", "ctranslate2 int8"): eighth,
    }
    if size == 1:
        if sides["llama.cpp"](prompts, NEAR, True) != said["regard"][0][:NEAR]:
            raise SystemExit("llama.cpp does not say the same tokens: nothing is measured")
        pairs |= {("regard", "llama.cpp"): LLAMA_CPP, ("regard int8", "llama.cpp q8_0"): LLAMA_CPP}
    asked = {name for pair in pairs for name in pair}
    works = {name: (lambda side=side: side(prompts)) for name, side in sides.items() if name in asked}
    return compare(works, pairs, rounds)
