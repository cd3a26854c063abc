"""Everything in regard that reads a file somebody else may have written, each with examples of such files.

Loading is more than opening: what is read lazily is read to the end, and a tokenizer must also encode. The examples are
in `fuzz.examples`, which is imported only when a loader is used.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.running import Files, Loader

ROWS = 3000  # of a table that are read


def exhaust(rows: Iterable[object]) -> None:
    deque(islice(rows, ROWS), maxlen=0)


def the_file(folder: Path) -> Path:
    """The only one of an example; spoilt, it may have become a folder."""
    return next(path for path in sorted(folder.iterdir()) if not path.name.startswith("."))


# Recipes.

TASKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "translate": ("transformer:tiny", {"train": ["a.en", "a.de"], "valid": "v.tsv", "tokenizer": "bpe"}, "size: 32"),
    "classify": ("han:small", {"train": "train.jsonl", "valid": "valid.csv", "text_column": "text"}, "dropout: 0.2"),
    "language-model": ("gpt2:tiny", {"train": "train.txt", "valid": "valid.txt", "chunk": 16}, "layers: 2"),
    "tag": ("tagger:tiny", {"train": "train.conllu", "valid": "valid.conllu", "column": "xpos"}, "filters: [4, 4]"),
    "classify-images": ("vit:grey28", {"train": "train", "valid": "valid", "crop": True}, "layers: 2"),
    "caption": ("attend-tell:small", {"train": "train.tsv", "valid": "valid.tsv", "mean": [0.5]}, "align: soft"),
    "algorithm": ("ntm:small", {"name": "copy", "bits": 4, "longest": 5}, "cells: 16"),
    "bandit": ("snail-policy:bandit", {"pulls": 10}, "blocks: [tc 8, att 8 8]"),
}
TRAINING = "{steps: 20, batch_tokens: 256, learning_rate: 1e-3, betas: [0.9, 0.98], patience: 3, minutes: 1.5}"
OVERRIDES = ["training.steps=200", "decoding.num_beams=3"]


def recipes() -> Sequence[Files]:
    found = []
    for task, (preset, data, size) in TASKS.items():
        text = f"about: a run\ntask: {task}\ndata: {json.dumps(data)}\nmodel:\n  preset: {preset}\n  {size}\n"
        text += f"training: {TRAINING}\ndecoding:\n  num_beams: 2\n  length_penalty: 0.8\n"
        found.append({"recipe.yaml": text.encode(), "overrides.txt": "\n".join(OVERRIDES).encode()})
    return found


def load_recipe(folder: Path) -> None:
    """With the check that a training begins with; the files that the data section names are not there."""
    from regard import recipes
    from regard.errors import UsageError
    from regard.recipes.jobs import named_job

    path = folder / "overrides.txt"
    overrides = path.read_text("utf-8", "replace").split("\n") if path.is_file() else []
    recipe = recipes.load_recipe(str(folder / "recipe.yaml"), overrides)
    recipe.resolved()
    try:
        named_job(recipe.task).check(recipe, folder)
    except UsageError as error:
        if "no such f" not in str(error):
            raise


def run_configs() -> Sequence[Files]:
    return [{"config.yaml": files["recipe.yaml"]} for files in recipes()]


def load_run_config(folder: Path) -> None:
    from regard.recipes.runner import recipe_of
    from regard.training.run import Run

    recipe_of(Run.open(folder)).resolved()


# Checkpoints.


def ours() -> Sequence[Files]:
    from fuzz import examples

    return examples.checkpoints()


def load_folder(folder: Path) -> None:
    import regard

    regard.load(folder, device="cpu")


def int8s() -> Sequence[Files]:
    from fuzz import examples

    return examples.int8s()


def run_folder(folder: Path) -> None:
    """Load a checkpoint and run its model once: the kernels use some tensors as indices."""
    import torch

    import regard

    loaded = regard.load(folder, device="cpu")
    config = loaded.model.config
    if hasattr(config, "image_size"):
        given = [torch.ones(2, config.channels, config.image_size, config.image_size)]
    else:
        tokens = torch.tensor([loaded.tokenizer.encode("the cat sat")] * 2)
        given = [tokens] * (2 if config.__class__.__module__.endswith("transformer") else 1)
    with torch.inference_mode():
        loaded.model(*given)


def optimizers() -> Sequence[Files]:
    from fuzz import examples

    return examples.optimizers()


def load_optimizer(folder: Path) -> None:
    """As a run is resumed, and the next step: the kernels of torch write into the state."""
    import torch

    from fuzz import examples
    from regard.errors import RegardError
    from regard.training.checkpoints import load_tensors
    from regard.training.optimizers import check_random_state, load_state_tensors

    path = the_file(folder) if any(folder.iterdir()) else folder / "adam.safetensors"
    state = load_tensors(path)
    _, optimizer = examples.optimizer_of(path.name.removesuffix(".safetensors"))
    if "random.cpu" not in state:
        raise RegardError("it lacks random.cpu")
    check_random_state(state["random.cpu"])
    generator = torch.Generator()
    generator.set_state(state.pop("random.cpu"))
    torch.rand(2000, generator=generator)
    load_state_tensors(optimizer, state)
    optimizer.step()


def publics() -> Sequence[Files]:
    from fuzz import examples

    return examples.publics()


def sharded() -> Sequence[Files]:
    from fuzz import examples

    return examples.sharded()


def elmos() -> Sequence[Files]:
    from fuzz import examples

    return examples.elmos()


def load_elmo(folder: Path) -> None:
    from regard.models.elmo import read_original

    read_original(folder / "options.json", folder / "weights.hdf5")


# Tokenizers.


def tokenizers() -> Sequence[Files]:
    from fuzz import examples
    from regard.data.marian_tokenizer import MarianTokenizer

    kinds = (
        examples.word_tokenizer,
        examples.bpe_tokenizer,
        examples.unigram_tokenizer,
        examples.bert_tokenizer,
        examples.byte_tokenizer,
    )
    pieces = examples.sentence_pieces()
    marian = MarianTokenizer(pieces, pieces, examples.marian_vocabulary()).to_json()
    return [{"tokenizer.json": text.encode()} for text in (*(kind() for kind in kinds), marian)]


def load_tokenizer(folder: Path) -> None:
    from regard.data.marian_tokenizer import load_tokenizer

    use(load_tokenizer(folder / "tokenizer.json"))


def use(tokenizer: Any) -> None:
    """The tokens of a text must be rows of an embedding that has one for each token."""
    tokens = tokenizer.encode("the cat sat")
    if not all(0 <= token < len(tokenizer) for token in tokens):
        raise AssertionError(f"{tokens} are not tokens of a vocabulary of {len(tokenizer)}")
    tokenizer.words(tokens)
    tokenizer.decode(tokens)


def public_tokenizers() -> Sequence[Files]:
    """As they lie in a folder in Hugging Face layout, without the model."""
    from fuzz import examples

    endings = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "vocab.json", "merges.txt")
    found = [{name: content for name, content in files.items() if name in endings} for files in examples.publics()]
    return [files for files in found if "tokenizer.json" in files or "vocab.txt" in files or "merges.txt" in files]


def load_public_tokenizer(folder: Path) -> None:
    from regard.public.tokenizing import read_tokenizer

    use(read_tokenizer(folder, 262))


def marians() -> Sequence[Files]:
    from fuzz import examples

    return [examples.marian_files()]


def load_marian(folder: Path) -> None:
    from regard.data.marian_tokenizer import MarianTokenizer

    use(MarianTokenizer.open(folder))


# Tables and texts.


def pairs() -> Sequence[Files]:
    from fuzz import examples

    files = dict(examples.tables(("source", "target")))
    files["table.tsv.gz"] = examples.zipped(files["table.tsv"])
    sides = ["".join(pair[side] + "\n" for pair in examples.SENTENCES).encode() for side in (0, 1)]
    return [{name: content} for name, content in files.items()] + [{"a.txt": sides[0], "b.txt": sides[1]}]


def load_pairs(folder: Path) -> None:
    from regard.data.parallel import read_pairs

    if (folder / "b.txt").exists() or (folder / "a.txt").exists():
        return exhaust(read_pairs(folder / "a.txt", target_path=folder / "b.txt"))
    exhaust(read_pairs(folder / read_name(folder, "table")))


def read_name(folder: Path, stem: str) -> str:
    """What the file is called, also when it is missing."""
    return next((path.name for path in folder.iterdir() if path.name.startswith(stem)), f"{stem}.tsv")


def labelled() -> Sequence[Files]:
    from fuzz import examples

    files = dict(examples.tables(("text", "label")))
    files["table.csv"] = b'text,label\n"a ""red"" mat,\nand more",yes\nthe cat,no\n'
    files["table.jsonl.gz"] = examples.zipped(files["table.jsonl"])
    return [{name: content} for name, content in files.items()]


def load_labelled(folder: Path) -> None:
    """The texts are read as documents, too: sentences and words."""
    from regard.data.documents import read_document
    from regard.data.labelled import read_labelled

    path = folder / read_name(folder, "table")
    exhaust(read_document(known.text[:50_000]) for known in islice(read_labelled(path), 50))
    exhaust(read_labelled(path))


def captions() -> Sequence[Files]:
    from fuzz import examples

    picture = {"cat.png": examples.picture("PNG", "RGB")}
    rows = [("cat.png", "A red cat ."), ("cat.png", "the cat's mat"), ("none.png", "not there")]
    lines = "".join(json.dumps({"file": name, "caption": said}) + "\n" for name, said in rows)
    tabs = "file\tcaption\n" + "".join(f"{name}\t{said}\n" for name, said in rows)
    return [{"table.jsonl": lines.encode(), **picture}, {"table.tsv": tabs.encode(), **picture}]


def load_captions(folder: Path) -> None:
    """Pictures that cannot be read are left out and said; one outside the folder must not be opened at all."""
    from regard.data.captions import read_captions, readable_pictures
    from regard.data.images import Preprocessing

    found = list(islice(read_captions(folder / read_name(folder, "table")), 50))
    for picture in found:
        if not (folder / picture.name).resolve().is_relative_to(folder.resolve()):
            raise AssertionError(f"{picture.name!r} is outside")
    exhaust(readable_pictures(found, Preprocessing((8, 8), mean=(0.5,) * 3, std=(0.5,) * 3)))


def conllus() -> Sequence[Files]:
    from fuzz import examples

    text = examples.CONLLU.encode()
    return [{"bank.conllu": text}, {"bank.conllu.gz": examples.zipped(text)}]


def load_conllu(folder: Path) -> None:
    from regard.data.conllu import read_conllu

    for column in ("upos", None):
        exhaust(read_conllu(folder / read_name(folder, "bank"), column))


def texts() -> Sequence[Files]:
    from fuzz import examples

    return [{"text.txt": examples.TEXT.encode()}, {"text.txt.gz": examples.zipped(examples.TEXT.encode())}]


def load_text(folder: Path) -> None:
    from regard.data.plain_sentences import plain_sentences
    from regard.data.running_text import existing, text_lines
    from regard.data.sentences import documents
    from regard.data.streams import running_pieces

    path = existing(folder / read_name(folder, "text"))
    exhaust(documents(islice(text_lines([path]), 300), r" = [^=].* = $"))
    exhaust(plain_sentences(text_lines([path]), 40))
    exhaust(running_pieces(text_lines([path])))


def links() -> Sequence[Files]:
    return [{"links.txt": b"1-1 2-2 3p4\n\n6-5 5-6\n"}]


def load_links(folder: Path) -> None:
    from regard.data.links import read_links

    read_links(folder / "links.txt")
    read_links(folder / "links.txt", one_based=True)


# Pictures.


def pictures() -> Sequence[Files]:
    from fuzz import examples

    return examples.pictures()


def load_picture(folder: Path) -> None:
    from regard.data.images import Preprocessing

    path = folder / read_name(folder, "picture")
    Preprocessing((8, 8), mean=(0.5,), std=(0.5,)).pixels(path)
    Preprocessing(8, mean=(0.5,) * 3, std=(0.5,) * 3, crop=(8, 8)).pixels(path)


def load_picture_bytes(folder: Path) -> None:
    """As a server gets them: bytes, a file object, and an image that is already opened must end in the same way."""
    import io
    import warnings

    from PIL import Image

    from regard.data.images import OPENED_FORMATS, read_image
    from regard.errors import RegardError

    path = folder / read_name(folder, "picture")
    content = path.read_bytes() if path.is_file() else b""
    try:
        with Image.open(io.BytesIO(content)) as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Image.Image | None = read_image(opened, 3)
            if opened.format not in OPENED_FORMATS:
                raise AssertionError(f"{opened.format} was decoded")
    except (RegardError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        found = None
    for given in (content, io.BytesIO(content)):
        image = read_image(given, 3)
        if found is not None and image.tobytes() != found.tobytes():
            raise AssertionError("the same bytes became two images")


def folders() -> Sequence[Files]:
    from fuzz import examples

    kinds = [next(iter(files.items())) for files in examples.pictures()]
    return [
        {f"{'yes' if number % 2 else 'no'}/{number}-{name}": content for number, (name, content) in enumerate(part)}
        for part in (kinds[:4], kinds[4:8], kinds[8:])
    ]


def load_image_folder(folder: Path) -> None:
    """As a training stores it: unreadable pictures are left out."""
    from regard.data.images import Preprocessing, labelled_images, store_images

    with TemporaryDirectory() as place:
        grey = Preprocessing((4, 4), mean=(0.5,), std=(0.5,))
        store_images(labelled_images(folder), ["no", "yes"], grey, Path(place) / "train")


def preprocessors() -> Sequence[Files]:
    from fuzz import examples

    cropped = examples.preprocessor(3) | {"size": {"shortest_edge": 9}, "do_center_crop": True, "crop_size": 8}
    return [{"preprocessor_config.json": examples.spelt(values)} for values in (examples.preprocessor(3), cropped)]


def load_preprocessor(folder: Path) -> None:
    import numpy as np

    from regard.data.images import Preprocessing
    from regard.training.checkpoints import load_json

    place = folder / "preprocessor_config.json"
    Preprocessing.from_values(load_json(place), 3, str(place)).pixels(np.zeros((9, 7, 3), np.uint8))


# What a run keeps, and the files of named data sets.


def caches() -> Sequence[Files]:
    from fuzz import examples

    return examples.caches()


def load_cache(folder: Path) -> None:
    from regard.data.images import ImageSet
    from regard.data.sentences import TokenSentences
    from regard.data.streams import TokenStream
    from regard.data.token_documents import TokenDocuments
    from regard.data.token_pairs import TokenPairs

    vocabulary = 16  # of the tokenizer that wrote them

    def check(tokens: Any) -> None:
        if len(tokens) and not 0 <= min(tokens) <= max(tokens) < vocabulary:
            raise AssertionError("a token that the vocabulary does not have")

    (kind,) = (path.name for path in folder.iterdir())
    if kind == "pairs":
        pairs = TokenPairs(folder / kind, vocabulary)
        exhaust(check(side) for number in range(len(pairs)) for side in pairs[number])
        pairs.lengths()
    elif kind == "documents":
        documents = TokenDocuments(folder / kind, vocabulary, labels=2)
        exhaust(check(documents[number].tokens) for number in range(len(documents)))
        documents.shapes(), documents.token_counts()
    elif kind == "stream":
        stream = TokenStream(folder / kind, vocabulary)
        check(stream[0 : len(stream) + 1]), stream.words
    elif kind == "sentences":
        check(TokenSentences(folder / kind, vocabulary).tokens)
    else:
        images = ImageSet(folder / kind, labels=2)
        images.batch(slice(0, 2))


def idxs() -> Sequence[Files]:
    from fuzz import examples

    names = [f"fashion_mnist/t10k-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1")]
    return [{names[0]: examples.idx(5, 4, 4), names[1]: examples.idx(5)}]


def load_idx(folder: Path) -> None:
    from regard.data.fashion_mnist import _pictures

    place = folder / "fashion_mnist"
    exhaust(_pictures(place / "t10k-images-idx3-ubyte.gz", place / "t10k-labels-idx1-ubyte.gz", "test"))


def npzs() -> Sequence[Files]:
    import io

    import numpy as np

    found = []
    for store in (np.savez, np.savez_compressed):
        held = io.BytesIO()
        store(held, images=np.ones((3, 2, 5, 5), dtype=bool))
        found.append({"drawings.npz": held.getvalue()})
    return found


def load_npz(folder: Path) -> None:
    from regard.data.omniglot import _read

    _read(folder / "drawings.npz", 3)


def zips() -> Sequence[Files]:
    import io
    import zipfile

    from fuzz import examples

    found = []
    for packed in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", packed) as archive:
            for name in ("a.png", "b.png"):
                archive.writestr(zipfile.ZipInfo(name), examples.picture("PNG", "RGB"), packed)
        table = examples.zipped(b"a.png\t0\ta red cat\nb.png\t0\ta dog\nb.png\t1\t../../etc/passwd\n")
        found.append({"flickr8k/images_test.zip": held.getvalue(), "flickr8k/captions_test.tsv.gz": table})
    return found


def load_zip(folder: Path) -> None:
    from regard.data.captions import readable_pictures
    from regard.data.flickr8k import flickr8k
    from regard.data.images import Preprocessing

    found = list(islice(flickr8k(folder, "test"), 50))
    exhaust(readable_pictures(found, Preprocessing((8, 8), mean=(0.5,) * 3, std=(0.5,) * 3)))


INT8_FILES = (".safetensors", "config.json")  # that are spoilt

LOADERS = {
    loader.name: loader
    for loader in (
        Loader("recipe", "recipe YAML, and dotted overrides", recipes, load_recipe),
        Loader("run-config", "the config.yaml of a run folder", run_configs, load_run_config),
        Loader("checkpoint", "the small files of a checkpoint of ours", ours, load_folder, (".json",)),
        Loader("weights", "model.safetensors of a checkpoint of ours", ours, load_folder, (".safetensors",)),
        Loader("int8", "model.safetensors and config.json in int8, and one run", int8s, run_folder, INT8_FILES),
        Loader("optimizer", "optimizer.safetensors of a run, and a step", optimizers, load_optimizer),
        Loader("tokenizer", "tokenizer.json of every kind", tokenizers, load_tokenizer),
        Loader("public-tokenizer", "tokenizers in Hugging Face layout", public_tokenizers, load_public_tokenizer),
        Loader("marian-tokenizer", "SentencePiece models and vocab.json", marians, load_marian),
        Loader(
            "public-settings",
            "config.json and its like in Hugging Face layout",
            publics,
            load_folder,
            ("config.json", "modules.json"),
        ),
        Loader(
            "public-vocabulary",
            "tokenizer.json, vocab.txt, vocab.json, merges.txt, .spm in Hugging Face layout",
            publics,
            load_folder,
            ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", ".spm"),
        ),
        Loader(
            "public-weights",
            "safetensors whole and in shards with their index, and the old PyTorch format",
            sharded,
            load_folder,
            (".safetensors", ".index.json", ".bin"),
        ),
        Loader("elmo-options", "options.json of a published ELMo", elmos, load_elmo, (".json",)),
        Loader("elmo-hdf5", "HDF5 weights of a published ELMo", elmos, load_elmo, (".hdf5",)),
        Loader("pairs", "parallel text: TSV, JSONL, Parquet, two files, gzip", pairs, load_pairs),
        Loader("labelled", "labelled texts: JSONL, TSV, CSV, Parquet, gzip; their sentences", labelled, load_labelled),
        Loader("captions", "tables of captions, and the pictures they name", captions, load_captions),
        Loader("conllu", "CoNLL-U, plain and gzip", conllus, load_conllu),
        Loader("text", "running text, its documents and sentences", texts, load_text),
        Loader("links", "word links in Pharaoh form", links, load_links),
        Loader("picture", "PNG, JPEG, GIF, BMP, TIFF, WebP, PPM", pictures, load_picture),
        Loader("picture-bytes", "the same as bytes, file objects and opened images", pictures, load_picture_bytes),
        Loader("image-folder", "a folder of pictures per label, stored for training", folders, load_image_folder),
        Loader("preprocessor", "preprocessor_config.json", preprocessors, load_preprocessor),
        Loader("cache", "what a run keeps of its data", caches, load_cache),
        Loader("idx", "gzipped IDX files (Fashion-MNIST)", idxs, load_idx),
        Loader("npz", "packed arrays (Omniglot)", npzs, load_npz),
        Loader("zip", "an archive of pictures and its captions (Flickr8k)", zips, load_zip),
    )
}
