"""Tiny models of transformers with random weights: each twice, on the fused kernel and `eager`, with what it reads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers", reason="transformers is not installed (the test extra has it)")

VOCABULARY = 50
TOKENS = dict(vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2)
STACK = dict(num_hidden_layers=2, num_attention_heads=4, hidden_size=24, intermediate_size=32)  # heads of size 6
PAIR = dict(d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4)
FEED = dict(encoder_ffn_dim=32, decoder_ffn_dim=32)

# Architecture: the class of its model, and its config.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", {**STACK, **TOKENS}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(n_embd=24, n_layer=2, n_head=4, n_positions=64, **TOKENS)),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**STACK, **TOKENS, "num_key_value_heads": 2}),
    "mistral": (
        "MistralForCausalLM",
        "MistralConfig",
        {**STACK, **TOKENS, "num_key_value_heads": 2, "sliding_window": 3, "head_dim": 6},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(d_model=24, d_kv=6, num_layers=2, num_heads=4, d_ff=32, decoder_start_token_id=0, **TOKENS),
    ),
    "marian": (
        "MarianMTModel",
        "MarianConfig",
        dict(**PAIR, **FEED, max_position_embeddings=64, decoder_start_token_id=0, **TOKENS),
    ),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        dict(
            **PAIR,
            **FEED,
            num_mel_bins=8,
            max_source_positions=20,
            max_target_positions=20,
            decoder_start_token_id=1,
            **TOKENS,
        ),
    ),
    "vit": ("ViTModel", "ViTConfig", dict(**STACK, image_size=16, patch_size=4)),
    # Not through transformers' table of kernels: it calls torch's own, and all heads share one key.
    "falcon": ("FalconForCausalLM", "FalconConfig", {**STACK, **TOKENS}),
}


def twins(name: str) -> tuple[nn.Module, nn.Module]:
    """One model on the fused kernel, and the same with `eager`."""
    kind, config_kind, sizes = MODELS[name]
    torch.manual_seed(0)
    make: Callable[..., nn.Module] = getattr(transformers, kind)._from_config
    fused, eager = (
        make(getattr(transformers, config_kind)(**sizes), attn_implementation=how).eval() for how in ("sdpa", "eager")
    )
    with torch.no_grad():
        for weight in fused.parameters():  # wider than most begin with: attention that prefers some tokens
            weight.mul_(1.0 if name == "t5" else 4.0)
    eager.load_state_dict(fused.state_dict())
    return fused, eager


def inputs(name: str) -> dict[str, Tensor]:
    """A batch of two, the second shorter."""
    tokens = torch.randint(3, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(1))
    noise = torch.randn(2, 3 * 16 * 16, generator=torch.Generator().manual_seed(2))
    if name == "vit":
        return {"pixel_values": noise.view(2, 3, 16, 16)}
    if name == "whisper":
        return {"input_features": noise[:, :320].view(2, 8, 40), "decoder_input_ids": tokens}
    mask = torch.ones_like(tokens)
    mask[1, 6:] = 0
    read = {"input_ids": tokens.masked_fill(mask == 0, 0), "attention_mask": mask}
    return {**read, "decoder_input_ids": tokens[:, :7]} if name in ("t5", "marian") else read


def eager_weights(model: Any, given: dict[str, Tensor]) -> list[Tensor]:
    """What the model itself says its weights are: in the order of its modules."""
    said = model(**given, output_attentions=True)
    if "encoder_attentions" not in said:
        return list(said.attentions)
    layers = zip(said.decoder_attentions, said.cross_attentions, strict=True)
    return [*said.encoder_attentions, *(weights for pair in layers for weights in pair)]
