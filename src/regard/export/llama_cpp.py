"""llama.cpp itself (through the package `xllamacpp`) beside our model: what it says after the same tokens.

It keeps tables of half-precision numbers, for gelu among others, so its log-probabilities are ours up to a few
thousandths even when all weights are whole. Where two tokens are nearly as probable it may say the other one; what
follows is then another text. So log-probabilities are compared up to there, and of the texts only told how many agree.
"""

import importlib.util
from pathlib import Path
from typing import Any

import torch

from regard.export.report import Finding, Report, same
from regard.export.subject import Subject

PACKAGE = "xllamacpp"
HALVES = 0.02  # allowed beside whole weights
EIGHT_BITS = 0.5  # allowed beside weights of 8 bits
BROKEN = "\N{REPLACEMENT CHARACTER}"  # what is shown for a piece of a character

Step = tuple[int, float]  # a token, and its log-probability


def installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def findings(subject: Subject, file: Path, prompts: list[list[int]], new: int, quantised: bool) -> Report:
    """Nothing, with the reason, if there is no llama.cpp to ask."""
    if not installed():
        return Report((), f"llama.cpp was not asked; with `pip install {PACKAGE}` it is")
    banned = unsaid(subject)
    ours = [said(subject, prompt, new, banned) for prompt in prompts]
    theirs = asked(file, prompts, new, banned, subject.config.context)
    differences = [
        abs(mine[1] - other[1]) for pair in zip(ours, theirs, strict=True) for mine, other in up_to_another_token(*pair)
    ]
    allowed, largest = EIGHT_BITS if quantised else HALVES, max(differences)
    told = f"largest difference {largest:.1e} of {len(differences)} log-probabilities (allowed {allowed})"
    mine, others = ([[token for token, _ in steps] for steps in found] for found in (ours, theirs))
    agreeing = same("llama.cpp, greedy", mine, others, quantised=True)
    return Report((Finding("llama.cpp", told, largest <= allowed), agreeing))


def unsaid(subject: Subject) -> list[int]:
    """Tokens that neither side may say: the end, and pieces of characters, which llama.cpp holds back."""
    pieces = (token for token in range(subject.config.vocabulary) if BROKEN in subject.tokenizer.decode([token]))
    return sorted({*subject.never(), subject.tokenizer.end, *pieces})


def said(subject: Subject, prompt: list[int], new: int, banned: list[int]) -> list[Step]:
    """Our most probable tokens one after the other."""
    steps: list[Step] = []
    with torch.inference_mode():
        for _ in range(new):
            tokens = torch.tensor([[*prompt, *(token for token, _ in steps)]])
            probabilities = subject.model(tokens)[0, -1].log_softmax(-1)
            probabilities[banned] = float("-inf")
            steps.append((int(probabilities.argmax()), float(probabilities.max())))
    return steps


def asked(file: Path, prompts: list[list[int]], new: int, banned: list[int], context: int) -> list[list[Step]]:
    """llama.cpp's."""
    server = serving(file, context)
    bias = [[token, False] for token in banned]
    request = {"max_tokens": new, "temperature": 0, "n_probs": 1, "cache_prompt": False, "logit_bias": bias}
    answers = (server.handle_completions(request | {"prompt": prompt})["choices"][0] for prompt in prompts)
    return [[(step["id"], step["logprob"]) for step in answer["logprobs"]["content"]] for answer in answers]


def serving(file: Path, context: int) -> Any:
    """llama.cpp with this file, on as many threads as torch has, its cache in 32 bits."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel = str(file), context, 1
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = torch.get_num_threads()
    settings.warmup, settings.verbosity = False, -1
    return xllamacpp.Server(settings)


def up_to_another_token(ours: list[Step], theirs: list[Step]) -> list[tuple[Step, Step]]:
    """The steps of both, the first at which they say different tokens included."""
    pairs = list(zip(ours, theirs, strict=True))
    apart = next((number for number, (mine, other) in enumerate(pairs) if mine[0] != other[0]), len(pairs))
    return pairs[: apart + 1]
