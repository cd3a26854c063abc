"""A sample of benchmarks/fuzz_loaders.py, proof that it finds what it looks for, and the worst files by hand."""

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from tokenizers import Tokenizer as Backend

import regard
from fuzz import examples, faulty, mutations, running
from fuzz.loaders import LOADERS, load_elmo
from regard import families
from regard.data.captions import read_captions
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError, listed, shortened, told
from regard.models import transformer
from regard.recipes import load_recipe
from regard.settings import read_yaml

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
CASES = 150
FEWER = 30  # where a case builds a model or writes to the disk
SLOW = {
    "checkpoint",
    "weights",
    "int8",
    "public-settings",
    "public-vocabulary",
    "public-weights",
    "recipe",
    "elmo-hdf5",
    "image-folder",
}
RGB = Preprocessing(8, mean=(0.5,) * 3, std=(0.5,) * 3, crop=(8, 8))


@pytest.fixture
def interrupted() -> Iterator[None]:
    """A loader that hangs fails its test; the suite goes on. (What a case may take, the command measures.)"""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError("more than a minute of computing")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.filterwarnings("ignore")  # of libraries, at odd files
@pytest.mark.usefixtures("interrupted")
def test_a_spoilt_file_is_loaded_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    bench = running.Bench(LOADERS[name], tmp_path)
    bench.check_examples()
    found = [bench.case(1, number) for number in range(FEWER if name in SLOW else CASES)]
    assert [(number, fault) for number, fault in enumerate(found) if fault] == []
    # Some were refused: the files really were spoilt. (Of a folder, unreadable pictures are left out.)
    assert "" in found or name == "image-folder"


# The fuzzing finds what it looks for.


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("faulty-untyped", "KeyError: 'a'"),
        ("faulty-empty", "a message of 0 lines"),
        ("faulty-panic", "BaseException: like a library that panics"),
    ],
)
def test_an_untyped_or_silent_error_is_found(name: str, fault: str, tmp_path: Path) -> None:
    bench = running.Bench(faulty.LOADERS[name], tmp_path)
    found = {bench.case(0, number) for number in range(20)}
    assert None in found  # some spoilt files still begin as they should
    assert any((known or "").startswith(fault) for known in found)
    assert "" not in found


def test_the_place_of_an_error_is_in_the_package_and_in_no_other_folder_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "regard" / "reader.py"
    path.parent.mkdir()
    path.write_text("def load(folder):\n    raise KeyError('a')\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert running.judged(names["load"], tmp_path) == "KeyError: 'a'"

    def load(folder: Path) -> None:
        read_yaml(3, "here")  # type: ignore[arg-type]

    assert re.match(r"\w+ at settings\.py:\d+: ", running.judged(load, tmp_path) or "")


def test_whole_numbers_of_safetensors_are_spoilt_in_a_file_that_stays_readable(tmp_path: Path) -> None:
    files = examples.int8s()[0]["model.safetensors"]
    before, seen = load(files), set()
    for number in range(60):
        draw = Random(number)
        try:
            after = load(mutations.safetensors_integers(draw, files))
        except SafetensorError:  # another count in a tensor of two dimensions
            continue
        assert after.keys() == before.keys()
        seen.update(name for name in after if not torch.equal(after[name], before[name]))
    assert {name.rpartition(".")[2] for name in seen} == {"columns"}


def test_a_case_is_known_by_its_seed_and_number(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def load(folder: Path) -> None:
        path = folder / "file.txt"
        seen.append(path.read_bytes() if path.is_file() else b"none")

    loader = running.Loader("any", "", lambda: [{"file.txt": b"one two three\nfour\n"}], load)
    for place in ("a", "b"):
        bench = running.Bench(loader, tmp_path / place)
        for number in range(30):
            bench.case(5, number)
    assert seen[:30] == seen[30:]
    assert len(set(seen)) > 15


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are kept on Linux only")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("faulty-crash", "the process crashed (abort)"),
        ("faulty-hang", "the process computed for more than the time allowed"),
        ("faulty-greed", "refused only when memory was short: 'too large'"),
    ],
)
def test_a_crash_a_hang_and_greed_are_found_and_survived(name: str, fault: str) -> None:
    command = [sys.executable, str(BENCHMARKS / "fuzz_loaders.py"), "--loader", name, "--seconds", "0", "--work"]
    counts, _ = running.Part(command, 0, 2).run(lambda failure: None)
    assert counts.loaded + counts.refused + len(counts.faults) == 2
    assert fault in [failure.split("\t")[1] for failure in counts.faults]


# A message is one line, whatever it repeats.


def test_a_message_is_one_line_of_bearable_length() -> None:
    message = str(RegardError("a.yaml: " + "x\n" * 10_000 + "; write it again"))
    assert len(message) < 600
    assert message.splitlines() == [message]
    assert message.startswith("a.yaml: x x")
    assert message.endswith("; write it again")
    assert str(UsageError("short")) == "short"


def test_a_value_in_a_message_is_short_however_large_it_is() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep] * 50
    for value in (deep, "x" * 10**6, 1 << 10**5, {"a": deep}, "\u2028\n", "\ud800"):
        assert len(shortened(value)) <= 60
        assert len(shortened(value).splitlines()) == 1
    assert shortened(None) == "None"
    assert shortened([1, "a"]) == "[1, 'a']"
    assert told(ValueError("a\n  b")) == "a b"
    assert told(ValueError()) == "ValueError"
    assert listed(["a", "b", "c"], 2) == "'a', 'b' and 1 more"
    assert listed([]) == "none"


# YAML.

LAUGHS = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
MERGES = "m0: &m0 {k: 1}\n" + "".join(f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (LAUGHS, "stands for more than"),
        (MERGES, "stands for more than"),
        ("a: &a [*a]", "inside itself"),
        ("[" * 4000, "not YAML"),
        ("a: !!python/object/apply:os.system ['true']", "not YAML"),
        ("a: 2001-99-99", "not YAML"),
        ("a: " + "9" * 5000, "not YAML"),
        ("a: !!int ''", "not YAML"),
        ("a: !!timestamp x", "not YAML"),
        ("x" * 200_000, "has 200000 characters"),
    ],
)
def test_yaml_that_swells_or_makes_objects_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=f"^here .*{fault}"):
        read_yaml(text, "here")


def test_yaml_may_repeat_itself_a_little() -> None:
    assert read_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]", "here") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": [{"x": 1}, {"x": 1}],
    }
    assert read_yaml("", "here") is None


@pytest.mark.parametrize("value", [".nan", ".inf", "1e999", "true", "[1]"])
def test_a_learning_rate_must_be_a_number(value: str) -> None:
    with pytest.raises(UsageError, match=r"training.learning_rate is .* but must be a number"):
        load_recipe("demo-translate", [f"training.learning_rate={value}"])


def test_a_number_of_steps_must_be_one_a_computer_counts_in() -> None:
    with pytest.raises(UsageError, match=r"training.steps is a whole number of 36000 bits but must be a whole number"):
        load_recipe("demo-translate", [f"training.steps=0x{'f' * 9000}"])


# Sizes.

SIZES = dict(vocabulary=9, size=8, hidden_size=8, heads=2, encoder_layers=1, decoder_layers=1)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"size": 10**12}, "model.size is 1000000000000 but must be at most"),
        ({"encoder_layers": 10**9}, "describes a model of 1,000,000,001 layers"),
        ({"max_length": 10**9, "size": 2**30, "heads": 1}, "cannot be made with these sizes"),
        ({"max_length": 10**9, "size": 2**20, "heads": 1}, "describes a model of"),
        ({"hidden_size": 10**6}, "describes a model of 34,001,032 numbers"),
        ({"encoder_layers": 300}, "describes a model of 301 layers"),
        ({"hidden_size": -5}, "cannot be made with these sizes"),
        ({"dropout": "much"}, "is 'much' but must be a number"),
        ({"heads": 3}, "a size of 8 cannot be split over 3 heads"),
    ],
)
def test_a_checkpoint_that_promises_absurd_sizes_costs_nothing(
    changes: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    model = transformer.Transformer(transformer.Config(**SIZES))  # type: ignore[arg-type]
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    values = json.loads(families.config_json("transformer", model.config, "translate"))
    (tmp_path / "config.json").write_text(json.dumps(values | changes))
    with pytest.raises(RegardError, match=fault) as raised:
        regard.load(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_recipe_cannot_ask_for_more_layers_than_one_could_wait_for() -> None:
    with pytest.raises(UsageError, match=r"model.encoder_layers is 1000000000 but must be at most 500"):
        families.check({"preset": "transformer:tiny", "encoder_layers": 10**9}, vocabulary=5)


@pytest.mark.parametrize("name", ["hf-hub:someone/model", "local-dir:/etc", "../x"])
def test_a_config_names_no_place_to_fetch_a_backbone_from(name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a network of timm"):
        families.check({"preset": "attend-tell:small", "backbone": f"timm:{name}"}, vocabulary=5)


def test_a_tokenizer_whose_numbers_have_holes_is_refused(tmp_path: Path) -> None:
    values = json.loads(examples.word_tokenizer())
    values["model"]["vocab"]["cat"] = 4_000_000_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(RegardError, match="does not number its 16 tokens from 0 on"):
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert len(Tokenizer(Backend.from_str(examples.word_tokenizer()))) == 16


# Pictures.


def test_a_picture_that_swells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(examples.bomb(30_000, 30_000))
    with pytest.raises(RegardError, match=r"has more than \d+ pixels"):
        RGB.pixels(path)


def test_a_picture_too_narrow_to_be_resized_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "narrow.png"
    path.write_bytes(examples.bomb(1_500_000, 1))
    with pytest.raises(RegardError, match="1500000 x 1 pixels are too narrow"):
        Preprocessing(224, mean=(0.5,), std=(0.5,), crop=(224, 224)).pixels(path)


def test_a_picture_that_other_programs_would_have_to_draw_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(RegardError, match="of no known kind"):
        RGB.pixels(path)


def test_the_suffix_of_a_picture_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(examples.picture("JPEG", "RGB"))
    assert RGB.pixels(path).shape == (3, 8, 8)


# Names from files never become paths outside the folder. (Shards and poolings: see test_public_faults.py.)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "a/../../secret.png", "..", "C:\\x", "\\x", "a\nb"])
def test_a_table_of_captions_names_no_file_outside_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(examples.picture("PNG", "RGB"))
    (folder / "captions.jsonl").write_text(json.dumps({"file": name, "caption": "a secret"}))
    with pytest.raises(UsageError, match="is not the name of a file in the folder of the pictures"):
        list(read_captions(folder / "captions.jsonl"))


def test_pictures_in_folders_below_the_table_are_read(tmp_path: Path) -> None:
    (tmp_path / "a b" / "c").mkdir(parents=True)
    (tmp_path / "a b" / "c" / "it's..fine.png").write_bytes(examples.picture("PNG", "RGB"))
    (tmp_path / "captions.tsv").write_text("file\tcaption\na b/c/it's..fine.png\ta cat\n")
    (known,) = read_captions(tmp_path / "captions.tsv")
    assert known.pixels(RGB).shape == (3, 8, 8)


@pytest.mark.parametrize("form", ["external link", "soft link", "external data", "nothing but a size", "no numbers"])
def test_hdf5_weights_lead_to_no_other_file(form: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for name, content in examples.elmos()[0].items():
        (tmp_path / name).write_bytes(content)
    load_elmo(tmp_path)
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["char_embed"] = np.zeros((261, 2), np.float32)
    (tmp_path / "raw").write_bytes(bytes(261 * 2 * 4))
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["char_embed"]
        if form == "external link":
            file["char_embed"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "char_embed")
        elif form == "soft link":
            file["char_embed"] = h5py.SoftLink("/CNN_proj/W_proj")
        elif form == "external data":
            raw = [(str(tmp_path / "raw"), 0, 261 * 2 * 4)]
            file.create_dataset("char_embed", (261, 2), np.float32, external=raw)
        elif form == "nothing but a size":
            file.create_dataset("char_embed", (10**6, 10**6), np.float32, chunks=(100, 100))
        else:
            file["char_embed"] = np.array([b"text"])
    with pytest.raises(
        RegardError, match=r"char_embed cannot be read \((char_embed is not in|it is not an array|\d+ bytes)"
    ):
        load_elmo(tmp_path)


def test_no_archive_is_unpacked_under_the_names_it_says() -> None:
    for path in sorted(Path(regard.__file__).parent.rglob("*.py")):
        assert not re.search(r"\b(extract|extractall|unpack_archive)\(", path.read_text("utf-8")), path
