"""GPT-2 124M with random weights: a prompt of 32 tokens and 128 new ones, greedily, batches of 1, 8 and 32.

Peers: Hugging Face transformers, CTranslate2 (fp32, int8), and for one prompt llama.cpp through our GGUF export (f32,
q8_0). All fp32 sides must say the same tokens before anything is measured.
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
from speed.peers import eight_bits, llama_cpp_server, nameless, read_back, save_spec
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
        subject = nameless(ours, "gpt2", END)
        servers = {kind: llama_cpp_server(subject, f"{folder}/{kind}", kind) for kind in ("f32", "q8_0")}
        return {
            "prompt": PROMPT,
            "new": NEW,
            "parameters": sum(each.numel() for each in ours.parameters()),
            "batches": {
                size: one_size(int(size), ours, theirs, engines, servers, arguments.rounds)
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


def one_size(
    size: int, ours: Any, theirs: Any, engines: dict[str, Any], servers: dict[str, Any], rounds: int
) -> dict[str, Any]:
    small = eight_bits(ours)
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

    def ask_llama(kind: str, new: int = NEW, **more: Any) -> Any:
        request = {"prompt": prompts[0], "max_tokens": new, "temperature": 0, "logit_bias": [[END, False]]}
        return servers[kind].handle_completions({**request, "cache_prompt": False, **more})["choices"][0]

    sides = {
        "regard": lambda: ask_ours(ours),
        "regard int8": lambda: ask_ours(small),
        "transformers": ask_theirs,
        "ctranslate2": lambda: ask_engine("float32"),
        "ctranslate2 int8": lambda: ask_engine("int8"),
    }
    said = {name: sides[name]() for name in ("regard", "transformers", "ctranslate2")}
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
        answer = ask_llama("f32", NEAR, n_probs=1)["logprobs"]["content"]
        if [step["id"] for step in answer] != said["regard"][0][:NEAR]:
            raise SystemExit("llama.cpp does not say the same tokens: nothing is measured")
        sides |= {"llama.cpp": lambda: ask_llama("f32"), "llama.cpp q8_0": lambda: ask_llama("q8_0")}
        pairs |= {("regard", "llama.cpp"): LLAMA_CPP, ("regard int8", "llama.cpp q8_0"): LLAMA_CPP}
    return compare(sides, pairs, rounds)
