"""Whole examples of the files that loaders read: tiny, and the same bytes in every process (nothing is learnt)."""

import gzip
import io
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard import families
from regard.data.images import Preprocessing
from regard.data.tokenizer import SPECIALS, Tokenizer
from regard.decoding.settings import Decoding
from regard.public.tensors import to_theirs
from regard.tasks.classify import Reading

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "mat", "red", "old", ".", "!"]
Files = dict[str, bytes]


def spelt(values: Any) -> bytes:
    return json.dumps(values, indent=1, ensure_ascii=False).encode()


# Tokenizers.


def _finished(backend: Backend, specials: Sequence[str]) -> str:
    backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " ")])
    backend.add_special_tokens(list(specials))
    return backend.to_str(pretty=False)


def _numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


@cache
def word_tokenizer() -> str:
    backend = Backend(models.WordLevel(_numbered([*SPECIALS, *WORDS]), unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _finished(backend, SPECIALS)


@cache
def bpe_tokenizer() -> str:
    letters = sorted({letter for word in WORDS for letter in word} | {"▁"})
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("c", "a"), ("ca", "t")]
    names = [*SPECIALS, *letters, *("".join(pair) for pair in merges)]
    backend = Backend(models.BPE(_numbered(names), merges, unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return _finished(backend, SPECIALS)


@cache
def unigram_tokenizer() -> str:
    pieces = [(name, 0.0) for name in SPECIALS] + [("▁" + word, -2.0 - place) for place, word in enumerate(WORDS)]
    backend = Backend(models.Unigram([*pieces, ("▁", -20.0)], unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return _finished(backend, SPECIALS)


BERT_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##t", "c"]


@cache
def bert_tokenizer() -> str:
    backend = Backend(models.WordPiece(_numbered(BERT_WORDS), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return _finished(backend, BERT_WORDS[:5])


def byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the")]
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges), "<|endoftext|>"]
    return _numbered(names), merges


@cache
def byte_tokenizer() -> str:
    backend = Backend(models.BPE(*byte_pairs()))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return _finished(backend, ["<|endoftext|>"])


@cache
def sentence_pieces() -> bytes:
    """Learnt, but on one thread from one text, so always the same."""
    import sentencepiece

    found = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS)] * 20),
        model_writer=found,
        vocab_size=30,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return found.getvalue()


def marian_vocabulary() -> dict[str, int]:
    import sentencepiece

    known = sentencepiece.SentencePieceProcessor(model_proto=sentence_pieces())
    pieces = [known.id_to_piece(number) for number in range(3, len(known))]
    return _numbered(["</s>", "<unk>", ">>deu<<", *pieces, "<pad>"])


# Checkpoints of ours.


def checkpoint(family: str, task: str, files: dict[str, Any], **sizes: Any) -> Files:
    config = families.home(family).Config(**sizes)
    torch.manual_seed(0)
    model = families.build_model(family, config)
    weights = save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
    written = {name: found.encode() if isinstance(found, str) else spelt(found) for name, found in files.items()}
    return {"config.json": families.config_json(family, config, task).encode(), "model.safetensors": weights, **written}


def checkpoints() -> list[Files]:
    """One for every task."""
    word, vocabulary = {"tokenizer.json": word_tokenizer()}, len(Tokenizer(Backend.from_str(word_tokenizer())))
    bert = {"tokenizer.json": bert_tokenizer()}
    decoding = {"generation_config.json": asdict(Decoding(num_beams=2, max_new_tokens=8))}
    labels, reading = {"labels.json": {"labels": ["no", "yes"]}}, {"reading.json": asdict(Reading())}
    pictures = {"preprocessor_config.json": preprocessor(3)}
    encoder = dict(vocabulary=len(BERT_WORDS), size=8, hidden_size=8, heads=2, layers=1, max_length=16)
    elmo = dict(size=4, cell_size=6, layers=1, char_size=4, filters=[2, 3], max_chars=10, highways=1)
    return [
        checkpoint(
            "transformer",
            "translate",
            word | decoding,
            vocabulary=vocabulary,
            size=8,
            hidden_size=8,
            heads=2,
            encoder_layers=1,
            decoder_layers=1,
        ),
        checkpoint("luong", "translate", word | decoding, vocabulary=vocabulary, embedding_size=4, size=4, layers=1),
        checkpoint(
            "han",
            "classify",
            word | labels | reading,
            vocabulary=vocabulary,
            labels=2,
            embedding_size=4,
            size=3,
            context_size=4,
        ),
        checkpoint("bert-classifier", "classify", bert | labels | reading, **encoder),
        checkpoint("bert", "mask-fill", bert, **encoder),
        checkpoint(
            "gpt2",
            "language-model",
            word | decoding,
            vocabulary=vocabulary,
            size=8,
            hidden_size=8,
            heads=2,
            layers=1,
            context=8,
        ),
        checkpoint(
            "tagger",
            "tag",
            word | {"tags.json": {"tags": ["NOUN", "VERB"]}},
            vocabulary=vocabulary,
            tags=2,
            embedding_size=4,
            char_size=4,
            filters=(2, 3),
            spelling_size=4,
            size=4,
            cell_size=4,
            elmo=elmo,
        ),
        checkpoint("elmo", "bidirectional-lm", word, vocabulary=vocabulary, **{**elmo, "filters": (2, 3)}),
        checkpoint(
            "vit",
            "classify-images",
            labels | pictures,
            labels=2,
            image_size=8,
            patch_size=4,
            size=8,
            hidden_size=8,
            heads=2,
            layers=1,
        ),
        checkpoint(
            "caption-transformer",
            "caption",
            word | decoding | pictures,
            vocabulary=vocabulary,
            backbone="tiny_cnn",
            image_size=32,
            size=8,
            hidden_size=8,
            heads=2,
            layers=1,
        ),
        checkpoint(
            "snail",
            "few-shot",
            {"preprocessor_config.json": preprocessor(1), "few_shot.json": {"drawings": False}},
            ways=2,
            shots=1,
            image_size=8,
            filters=4,
            layers=2,
            embedding_size=4,
            blocks=("att 4 4", "tc 3"),
        ),
        checkpoint(
            "ntm",
            "algorithm",
            {"algorithm.json": {"name": "copy", "bits": 3, "shortest": 1, "longest": 4, "test_lengths": [2]}},
            input_size=4,
            output_size=3,
            controller_size=4,
            cells=6,
            cell_size=4,
        ),
    ]


INT8_FAMILIES = ("transformer", "bert-classifier", "bert", "gpt2", "vit")


def int8s() -> list[Files]:
    """Checkpoints in int8, each with a layer that has two columns which are not quantised."""
    from regard.int8 import to_int8
    from regard.layers.int8 import Int8Linear

    found = []
    for files in checkpoints():
        family, config, _ = families.config_from_json(json.loads(files["config.json"]), "config.json")
        if family not in INT8_FAMILIES:
            continue
        torch.manual_seed(0)
        model = families.build_model(family, config)
        to_int8(model)
        layer = next(module for module in model.modules() if isinstance(module, Int8Linear))
        layer.columns, layer.whole = torch.tensor([1, 5]), torch.full((len(layer.scale), 2), 0.5)
        weights = save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
        found.append(files | {"model.safetensors": weights})
    return found


def optimizer_of(name: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A small model and its optimiser, which has gradients for the next step."""
    from regard.training.optimizers import make_optimizer
    from regard.training.settings import Training

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 4))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model, make_optimizer(model, Training(learning_rate=0.1, optimizer=name))


def optimizers() -> list[Files]:
    """The state of every optimiser after a step, and of a random generator."""
    from regard.training.optimizers import OPTIMIZERS, state_tensors

    found = []
    for name in OPTIMIZERS:
        _, optimizer = optimizer_of(name)
        optimizer.step()
        state = state_tensors(optimizer) | {"random.cpu": torch.Generator().manual_seed(0).get_state()}
        found.append({f"{name}.safetensors": save(state)})
    return found


def preprocessor(channels: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Preprocessing((8, 8), mean=(0.5,) * channels, std=(0.5,) * channels).to_json())
    return found


# Checkpoints of others.


def public(family: str, module: Any, config: Any, transposed: frozenset[str] = frozenset(), **more: Any) -> Files:
    torch.manual_seed(0)
    model = families.build_model(family, config)
    names = module.public_names(config, family) if family.startswith("bert") else module.public_names(config)
    tensors = to_theirs(model.state_dict(), names, transposed=transposed)
    weights = save({name: tensor.detach().clone() for name, tensor in tensors.items()})
    return {"config.json": spelt(module.to_public_config(config) | more), "model.safetensors": weights}


def publics() -> list[Files]:
    from regard.models import bert, gpt2, transformer, vit

    small: dict[str, Any] = dict(size=8, hidden_size=8, heads=2)
    encoder = bert.Config(vocabulary=len(BERT_WORDS), layers=1, max_length=16, separator=3, labels=2, **small)
    classifier = public("bert-classifier", bert, encoder, architectures=["BertForSequenceClassification"])
    embedder = public("bert-embedder", bert, encoder, architectures=["BertModel"])
    pooling = {
        "modules.json": spelt(
            [{"type": "sentence_transformers.models.Transformer", "path": ""}]
            + [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
        ),
        "1_Pooling/config.json": spelt({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}),
        "sentence_bert_config.json": spelt({"max_seq_length": 12}),
    }
    vocabulary, merges = byte_pairs()
    speaker = public(
        "gpt2",
        gpt2,
        gpt2.Config(vocabulary=len(vocabulary) + 3, context=8, layers=1, **small),
        gpt2.PUBLIC_TRANSPOSED,
    )
    pairs = "#version: 0.2\n" + "\n".join(map(" ".join, merges)) + "\n"
    generation = {"generation_config.json": spelt({"do_sample": True, "top_k": 5, "max_new_tokens": 4})}
    seeing = vit.Config(labels=2, image_size=8, patch_size=4, layers=1, **small)
    pieces = marian_vocabulary()
    translating = transformer.Config(
        vocabulary=len(pieces),
        encoder_layers=1,
        decoder_layers=1,
        positions="sinusoidal_halves",
        max_length=16,
        pad=pieces["<pad>"],
        activation="silu",
        output_bias=True,
        starts_with_pad=True,
        **small,
    )
    words = "\n".join(BERT_WORDS).encode() + b"\n"
    return [
        classifier | {"tokenizer.json": bert_tokenizer().encode()},
        classifier | {"vocab.txt": words, "tokenizer_config.json": spelt({"do_lower_case": True})},
        embedder | {"vocab.txt": words} | pooling,
        speaker | {"tokenizer.json": byte_tokenizer().encode()} | generation,
        speaker | {"vocab.json": spelt(vocabulary), "merges.txt": pairs.encode()},
        public("vit", vit, seeing) | {"preprocessor_config.json": spelt(preprocessor(3))},
        public("transformer", transformer, translating, transformer.PUBLIC_TRANSPOSED, eos_token_id=0)
        | marian_files()
        | {"generation_config.json": spelt({"num_beams": 2, "max_length": 8})},
    ]


def marian_files() -> Files:
    return {
        "source.spm": sentence_pieces(),
        "target.spm": sentence_pieces(),
        "vocab.json": spelt(marian_vocabulary()),
        "tokenizer_config.json": spelt({"source_lang": "en", "target_lang": "de"}),
    }


def sharded() -> list[Files]:
    """Weights in two files and an index, and in the old format."""
    from safetensors.torch import load

    files = publics()[0]
    tensors = load(files["model.safetensors"])
    names = sorted(tensors)
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    places = {name: shard for shard, half in zip(shards, halves, strict=True) for name in half}
    rest = {name: content for name, content in files.items() if name != "model.safetensors"}
    parts = {shard: save({name: tensors[name] for name in half}) for shard, half in zip(shards, halves, strict=True)}
    old = io.BytesIO()
    torch.save(tensors, old)
    return [
        files,
        rest | parts | {"model.safetensors.index.json": spelt({"metadata": {}, "weight_map": places})},
        rest | {"pytorch_model.bin": old.getvalue()},
    ]


def elmos() -> list[Files]:
    """The published form of an ELMo with sizes one can count."""
    import h5py

    size, cell, chars, filters = 3, 4, 2, [[1, 2], [2, 3]]
    options = {
        "lstm": {
            "projection_dim": size,
            "dim": cell,
            "n_layers": 2,
            "use_skip_connections": True,
            "cell_clip": 3,
            "proj_clip": 3,
        },
        "char_cnn": {
            "embedding": {"dim": chars},
            "filters": filters,
            "n_characters": 262,
            "max_characters_per_token": 10,
            "n_highway": 1,
            "activation": "relu",
        },
    }
    wide = sum(count for _, count in filters)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, chars)}
    for number, (width, count) in enumerate(filters):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, chars, count), f"CNN/b_cnn_{number}": (count,)}
    for part in ("transform", "carry"):
        shapes |= {f"CNN_high_0/W_{part}": (wide, wide), f"CNN_high_0/b_{part}": (wide,)}
    shapes |= {"CNN_proj/W_proj": (wide, size), "CNN_proj/b_proj": (size,)}
    for way in (0, 1):
        for layer in (0, 1):
            place = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{place}/W_0": (2 * size, 4 * cell), f"{place}/B": (4 * cell,), f"{place}/W_P_0": (cell, size)}
    found = []
    for packed in (None, "gzip"):
        held = io.BytesIO()
        with h5py.File(held, "w") as file:
            for name, shape in shapes.items():
                values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 100
                file.create_dataset(name, data=values, compression=packed)
        found.append({"options.json": spelt(options), "weights.hdf5": held.getvalue()})
    return found


# Tables and texts.

SENTENCES = [
    ("the cat sat on the mat .", "die katze saß auf der matte ."),
    ("a dog ran !", "ein hund lief !"),
    ('an old, red "mat" — isn\'t it?', "eine alte, rote »matte«, nicht?"),
    ("日本語 text 😀", "texto en español"),
]


def parquet(columns: dict[str, Any]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    found = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), found, compression="snappy")
    return found.getvalue()


def zipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def tables(names: tuple[str, str]) -> Iterator[tuple[str, bytes]]:
    """The same two columns in every form."""
    rows = [dict(zip(names, pair, strict=True)) for pair in SENTENCES]
    yield "table.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    yield "table.tsv", "".join("\t".join(row) + "\n" for row in [names, *SENTENCES]).encode()
    columns = {name: [row[name] for row in rows] for name in names}
    yield "table.parquet", parquet(columns)


CONLLU = """# sent_id = 1
# text = the cat's mats
1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2-3\tcat's\t_\t_\t_\t_\t_\t_\t_\t_
2\tcat\tcat\tNOUN\tNN\tNumber=Sing\t4\tnmod\t_\t_
3\t's\t's\tPART\tPOS\t_\t2\tcase\t_\t_
4\tmats\tmat\tNOUN\tNNS\tNumber=Plur\t0\troot\t_\tSpaceAfter=No
4.1\tare\tbe\tVERB\tVBP\t_\t_\t_\t0:root\t_

# sent_id = 2
1\tRun\trun\tVERB\tVB\t_\t0\troot\t_\t_
2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_

"""
TEXT = ' = Title = \n\nThe cat sat. It ran! Dr. Old said "no"?\n\n<unk> words, more words\n = Another = \n\nA. B. C.\n'


# Pictures.


def picture(kind: str, mode: str, size: tuple[int, int] = (9, 7), **options: Any) -> bytes:
    flat = np.arange(size[0] * size[1] * 4, dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(flat[: size[0] * size[1] * 2].view(np.uint16).reshape(size[1], size[0]))
    else:
        image = Image.fromarray(flat.reshape(size[1], size[0], 4))
        image = image if mode == "RGBA" else image.convert("RGB").convert(mode)
    found = io.BytesIO()
    image.save(found, kind, **options)
    return found.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of one-bit zeros: a few bytes that stand for many."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    row = b"\0" * (1 + -(-width // 8))
    data = zlib.compress(row * min(height, 2000), 9)
    spelt_out = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(spelt_out)


def exif(orientation: int, padding: int = 0) -> bytes:
    found = Image.Exif()
    found[0x0112] = orientation
    found[0x010E] = "x" * padding
    return found.tobytes()


def pictures() -> list[Files]:
    turned, wordy = exif(6), exif(3, 60_000)
    return [
        {"picture.png": picture("PNG", "RGB")},
        {"picture.png": picture("PNG", "P")},
        {"picture.png": picture("PNG", "I;16")},
        {"picture.png": picture("PNG", "RGBA")},
        {"picture.jpg": picture("JPEG", "RGB", exif=turned)},
        {"picture.jpg": picture("JPEG", "L", exif=wordy)},
        {"picture.jpg": picture("JPEG", "CMYK")},
        {"picture.gif": picture("GIF", "P")},
        {"picture.bmp": picture("BMP", "RGB")},
        {"picture.tif": picture("TIFF", "RGB", compression="tiff_lzw")},
        {"picture.tif": picture("TIFF", "1")},
        {"picture.webp": picture("WEBP", "RGB")},
        {"picture.ppm": picture("PPM", "RGB")},
    ]


# What a run keeps of its data.


def caches() -> list[Files]:
    from regard.data.documents import WordEncoder
    from regard.data.images import LabelledImage, store_images
    from regard.data.labelled import Labelled
    from regard.data.pairs import Pair
    from regard.data.sentences import documents, write_sentences
    from regard.data.streams import write_stream
    from regard.data.token_documents import tokenise_documents
    from regard.data.token_pairs import tokenise

    tokenizer = Tokenizer(Backend.from_str(word_tokenizer()))
    labelled = [Labelled("The cat sat. A dog ran!", "yes"), Labelled("no", "no")]
    drawings = [LabelledImage(np.full((4, 4), 9 * number, np.uint8), "yes", "") for number in range(3)]
    grey = Preprocessing((4, 4), mean=(0.5,), std=(0.5,))
    with TemporaryDirectory() as place:
        folder = Path(place)
        tokenise([Pair(*pair) for pair in SENTENCES], tokenizer, folder / "pairs", max_length=50)
        tokenise_documents(labelled, WordEncoder(tokenizer), {"no": 0, "yes": 1}, folder / "documents", max_words=10)
        write_stream(iter(TEXT.split("\n")), tokenizer, folder / "stream")
        write_sentences(documents(iter(TEXT.split("\n"))), tokenizer, folder / "sentences")
        store_images(drawings, ["no", "yes"], grey, folder / "images")
        found = []
        for kind in ("pairs", "documents", "stream", "sentences", "images"):
            files = sorted(path for path in (folder / kind).rglob("*") if path.is_file())
            found.append({f"{kind}/{path.name}": path.read_bytes() for path in files})
        return found


def idx(*sizes: int) -> bytes:
    count = int(np.prod(sizes))
    head = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
    return zipped(head + bytes(number % 10 for number in range(count)))
