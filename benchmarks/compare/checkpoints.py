"""What the workloads need, written once for all sides: random checkpoints in Hugging Face layout, texts, recipes.

Every version of regard reads this layout, so no side converts anything.
"""

import io
import json
import random
from pathlib import Path
from typing import Any

import torch

from speed.apart import do_without_vision_kernels

SEED = 0
SIZES = {  # for a round of 0.3 to 1 second on two cores
    "vocabulary": 8000,
    "translator": {"width": 512, "layers": 6, "heads": 8},
    "language_model": {"width": 768, "layers": 12, "heads": 12},
    "encoder": {"width": 768, "layers": 12, "heads": 12},
    "sentences": 40,
    "prompts": 4,
    "vectors": 32,
    "singles": {"sentences": 4, "vectors": 16},
    "new_tokens": {"translate": 24, "generate": 48},
    "train": {"pairs": 2000, "batch_tokens": 3072, "steps": {"transformer:small": 6}},
    "train-rnn": {"pairs": 2000, "batch_tokens": 2048, "steps": {"bahdanau:small": 6, "luong:small": 10}},
    "starts": {"import": 12, "help": 6},
}
QUICK = {
    "vocabulary": 800,
    "translator": {"width": 32, "layers": 1, "heads": 2},
    "language_model": {"width": 32, "layers": 1, "heads": 2},
    "encoder": {"width": 32, "layers": 1, "heads": 2},
    "sentences": 4,
    "prompts": 2,
    "vectors": 4,
    "singles": {"sentences": 2, "vectors": 2},
    "new_tokens": {"translate": 4, "generate": 4},
    "train": {"pairs": 60, "batch_tokens": 128, "steps": {"transformer:tiny": 3}},
    "train-rnn": {"pairs": 60, "batch_tokens": 128, "steps": {"bahdanau:small": 3}},
    "starts": {"import": 1, "help": 1},
}
SPECIAL = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], "gpt2": ["<|endoftext|>"]}
SYLLABLES = [first + vowel for first in "bdfghklmnprstvz" for vowel in "aeiou"]


def write_all(folder: Path, jobs: list[str], sizes: dict[str, Any]) -> None:
    """Write what these jobs need, and their sizes, texts included, as `sizes.json`."""
    do_without_vision_kernels()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    words = random_words(sizes["vocabulary"])
    needed = {"translate": [marian], "generate": [gpt2], "encode": [bert], "single": [marian, bert]}
    for write in dict.fromkeys(write for job in jobs for write in needed.get(job, [])):
        torch.manual_seed(SEED)
        write(folder / write.__name__, words, sizes)
    for job in {"train", "train-rnn"}.intersection(jobs):
        recipes(folder / job, words, sizes[job])
    draw = random.Random(SEED)
    texts = [sentence(draw, words) for _ in range(max(sizes["sentences"], sizes["vectors"]))]
    (folder / "sizes.json").write_text(json.dumps({**sizes, "texts": texts}), "utf-8")


def random_words(count: int) -> list[str]:
    """So many different words of two or three syllables."""
    draw, found = random.Random(SEED), dict[str, None]()
    while len(found) < count:
        found["".join(draw.choices(SYLLABLES, k=draw.choice([2, 3])))] = None
    return list(found)


def sentence(draw: random.Random, words: list[str], shortest: int = 8, longest: int = 20) -> str:
    """Frequent words first, as in a language."""
    return " ".join(words[int(len(words) * draw.random() ** 3)] for _ in range(draw.randint(shortest, longest)))


def varied(model: Any, width: int) -> Any:
    """The model with larger weights than at its initialisation: its outputs differ from token to token."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "embed_positions" not in name:
            torch.nn.init.normal_(parameter, std=width**-0.5)
    return model.eval()


def marian(folder: Path, words: list[str], sizes: dict[str, Any]) -> None:
    """A translator: its SentencePiece models are learnt from the words, and the words fill up the vocabulary."""
    import sentencepiece
    import transformers

    folder.mkdir(parents=True)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words),
        model_writer=written,
        vocab_size=min(1000, len(words) // 4),
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(written.getvalue())
    learnt = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    pieces = [learnt.id_to_piece(number) for number in range(3, len(learnt))]
    names = list(dict.fromkeys(["</s>", "<unk>", *pieces, *(f"▁{word}" for word in words), "<pad>"]))
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}), "utf-8")
    size, pad = sizes["translator"], len(names) - 1
    each = {"layers": size["layers"], "attention_heads": size["heads"], "ffn_dim": 4 * size["width"]}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in each.items()}
    config = transformers.MarianConfig(
        vocab_size=len(names),
        d_model=size["width"],
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
        **sides,
    )
    model = varied(transformers.MarianMTModel(config), size["width"])
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[pad]], eos_token_id=0, pad_token_id=pad, decoder_start_token_id=pad
    )
    model.save_pretrained(folder)


def gpt2(folder: Path, words: list[str], sizes: dict[str, Any]) -> None:
    """A language model: every byte is a token, and so is every word with a blank before it."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True)
    names = [*SPECIAL["gpt2"], *sorted(pre_tokenizers.ByteLevel.alphabet()), *(f"Ġ{word}" for word in words)]
    backend = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(SPECIAL["gpt2"])
    backend.save(str(folder / "tokenizer.json"))
    size = sizes["language_model"]
    config = transformers.GPT2Config(
        vocab_size=len(names),
        n_embd=size["width"],
        n_layer=size["layers"],
        n_head=size["heads"],
        n_positions=512,
        bos_token_id=0,
        eos_token_id=0,
    )
    varied(transformers.GPT2LMHeadModel(config), size["width"]).save_pretrained(folder)


def bert(folder: Path, words: list[str], sizes: dict[str, Any]) -> None:
    """An encoder: every word is a token."""
    import transformers

    folder.mkdir(parents=True)
    names = [*SPECIAL["bert"], *words]
    (folder / "vocab.txt").write_text("\n".join(names) + "\n", "utf-8")
    size = sizes["encoder"]
    config = transformers.BertConfig(
        vocab_size=len(names),
        hidden_size=size["width"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        intermediate_size=4 * size["width"],
    )
    transformers.BertModel(config).eval().save_pretrained(folder)


def recipes(folder: Path, words: list[str], sizes: dict[str, Any]) -> None:
    """A recipe for each preset, `0.yaml` and so on, and the parallel texts they train on."""
    import yaml

    folder.mkdir(parents=True)
    draw, numbers = random.Random(SEED), {word: number for number, word in enumerate(words)}
    sources = [sentence(draw, words) for _ in range(sizes["pairs"])]
    targets = [" ".join(words[-1 - numbers[word]] for word in source.split()) for source in sources]
    files = {}
    for split, part in {"train": slice(20, None), "valid": slice(0, 20)}.items():
        files[split] = [str(folder / f"{split}.{side}") for side in ("source", "target")]
        for path, texts in zip(files[split], (sources, targets), strict=True):
            Path(path).write_text("\n".join(texts[part]) + "\n", "utf-8")
    for number, (preset, steps) in enumerate(sizes["steps"].items()):
        recipe = {
            "about": "a few steps on random words, to be measured",
            "task": "translate",
            "data": {**files, "tokenizer": "word", "vocabulary": 5000, "bleu_tokenize": "none"},
            "model": {"preset": preset, "dropout": 0.1},
            "training": {
                "steps": steps + 1,  # the first is not measured
                "batch_tokens": sizes["batch_tokens"],
                "learning_rate": 0.0001,
                "warmup": 1,
                "validate_every": steps + 1,
                "log_every": 1,
                "device": "cpu",
                "seed": SEED,
            },
        }
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
