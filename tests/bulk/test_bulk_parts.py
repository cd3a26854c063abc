"""Bulk inference in this process: every row once, restartable, nothing half-written; one line for every wrong use."""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jaxtyping import config as shape_checks

from export.tiny_runs import PLAIN, TEXTS, encoder, language_model, translator
from regard.bulk import work
from regard.bulk.attempts import Attempts
from regard.bulk.files import Reader, find, held
from regard.bulk.on_ray import MOST_ATTEMPTS, ModelActor, shares, start, threads
from regard.bulk.parts import cut
from regard.bulk.verb import Summary, bulk
from regard.cli import main
from regard.errors import RegardError, UsageError
from regard.files import whole_file

WORDS = " ".join(TEXTS[:4]).split()
QUICK = {"num_beams": 2, "max_new_tokens": 6}


@pytest.fixture(scope="module", autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Any]]:
    """A tiny model for every verb, and where it is saved; nobody may change them."""
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "translate": translator(folder / "translate"),
        "classify": encoder("bert-classifier", folder / "classify"),
        "embed": encoder("bert-embedder", folder / "embed"),
        "generate": language_model(folder / "generate"),
    }
    return {verb: (str(folder / verb), model) for verb, model in made.items()}


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(1, 7))) for _ in range(count)]


def table(path: Path, texts: list[str | None], **columns: list[Any]) -> Path:
    """A Parquet file whose row groups are smaller than any part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": list(range(len(texts))), "text": pa.array(texts, pa.string()), **columns})
    pq.write_table(rows, path, row_group_size=3)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Reading and cutting


def test_rows_are_read_across_row_groups_and_files(tmp_path: Path) -> None:
    first = table(tmp_path / "a.parquet", sentences(11))
    second = table(tmp_path / "b.parquet", sentences(5, seed=1))
    reader = Reader()
    for begin in range(11):
        for count in range(12 - begin):
            assert reader.rows(str(first), begin, count).equals(pq.read_table(first).slice(begin, count))
        assert reader.rows(str(second), 2, 3).equals(pq.read_table(second).slice(2, 3))
    with pytest.raises(RegardError, match=r"a\.parquet: changed while it was read"):
        reader.rows(str(first), 9, 3)
    reader.close()


def test_the_cuts_follow_from_the_files_and_the_rows_alone(tmp_path: Path) -> None:
    for name, count in (("b/1.parquet", 5), ("a.parquet", 7), ("c.parquet", 0)):
        table(tmp_path / name, sentences(count))
    for ignored in ("_hidden.parquet", ".x/y.parquet"):
        table(tmp_path / ignored, ["no"])
    (tmp_path / "README.txt").write_text("no table")
    parts = cut(str(tmp_path), ["text"], [], 5)
    seen = [(part.number, part.file["name"], part.first, part.count, part.start) for part in parts]
    assert seen == [
        (0, "a.parquet", 0, 5, 0),
        (1, "a.parquet", 5, 2, 5),
        (2, "b/1.parquet", 0, 5, 7),
        (3, "c.parquet", 0, 0, 12),
    ]
    assert [part.name for part in parts][:2] == ["part-000000.parquet", "part-000001.parquet"]


def test_a_glob_names_files_below_what_it_leaves_open(tmp_path: Path) -> None:
    for name in ("x/2.parquet", "x/1.parquet", "y/1.parquet", "y/z.txt"):
        table(tmp_path / name, ["one"])
    assert [name for _, name in find(f"{tmp_path}/*/1.parquet")] == ["x/1.parquet", "y/1.parquet"]
    assert [name for _, name in find(f"{tmp_path}/x/*.parquet")] == ["1.parquet", "2.parquet"]
    odd = table(tmp_path / "odd[1].parquet", ["one"])  # a name that looks like a glob
    assert [name for _, name in find(str(odd))] == ["odd[1].parquet"]


# What comes out


@pytest.mark.parametrize("rows", [4, 100])
def test_every_row_comes_out_once_in_order_with_its_translation(
    runs: dict[str, tuple[str, Any]], tmp_path: Path, rows: int
) -> None:
    run, model = runs["translate"]
    texts = sentences(11)
    table(tmp_path / "in/a.parquet", texts[:6], kept=[[i, i] for i in range(6)])
    table(tmp_path / "in/b.parquet", texts[6:], kept=[[i] for i in range(5)])
    done = bulk("translate", run, str(tmp_path / "in"), str(tmp_path / "out"), part_rows=rows, options=QUICK)
    assert done == Summary(str(tmp_path / "out"), 11, {4: 4, 100: 2}[rows], 0, 0, {}, "")
    found = pq.read_table(tmp_path / "out")
    assert found.column_names == ["id", "text", "kept", "translation", "score"]
    assert found["id"].to_pylist() == [*range(6), *range(5)]
    assert found["text"].to_pylist() == texts
    assert found["kept"].to_pylist() == [[i, i] for i in range(6)] + [[i] for i in range(5)]
    said = model.translate(texts, **QUICK)
    assert found["translation"].to_pylist() == [result.text for result in said]
    assert found["score"].to_pylist() == pytest.approx([result.score for result in said], abs=1e-5)
    assert len({round(result.score, 3) for result in said}) > 5  # scores tell the rows apart


def test_alignments_are_a_column(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    run, model = runs["translate"]
    source = table(tmp_path / "in.parquet", PLAIN[:2])
    bulk("translate", run, str(source), str(tmp_path / "out"), options={**QUICK, "alignments": True})
    said = model.translate(PLAIN[:2], **QUICK)
    assert pq.read_table(tmp_path / "out")["alignment"].to_pylist() == [links[0] for links in model.links(said)]


def test_labels_and_probabilities_and_none_for_a_text_without_a_word(
    runs: dict[str, tuple[str, Any]], tmp_path: Path
) -> None:
    run, model = runs["classify"]
    texts = [*sentences(5), ""]
    source = table(tmp_path / "in.parquet", texts)
    done = bulk("classify", run, str(source), str(tmp_path / "out"), part_rows=4)
    found = pq.read_table(tmp_path / "out")
    judged = model.classify(texts)
    assert found["label"].to_pylist() == [result.label or None for result in judged]
    assert found["probability"].to_pylist()[:5] == pytest.approx([result.probability for result in judged[:5]])
    assert found["probability"].to_pylist()[5] is None
    assert done.without == {"without a word": 1}


def test_pairs_of_texts_are_judged_together(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    run, model = runs["classify"]
    firsts, seconds = sentences(5), sentences(5, seed=1)
    source = table(tmp_path / "in.parquet", firsts, other=seconds)
    bulk("classify", run, str(source), str(tmp_path / "out"), columns=("text", "other"))
    judged = model.classify(list(zip(firsts, seconds, strict=True)))
    found = pq.read_table(tmp_path / "out")["probability"].to_pylist()
    assert found == pytest.approx([result.probability for result in judged])
    assert found != pytest.approx([result.probability for result in model.classify(firsts)])


def test_embeddings_are_lists_of_one_size(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    run, model = runs["embed"]
    texts = sentences(5)
    source = table(tmp_path / "in.parquet", [texts[0], None, *texts[1:]])
    bulk("embed", run, str(source), str(tmp_path / "out"), part_rows=4, options={"pooling": "cls", "normalize": True})
    column = pq.read_table(tmp_path / "out")["embedding"]
    assert column.type == pa.list_(pa.float32(), 16)
    assert column.to_pylist()[1] is None
    found = np.array([vector for vector in column.to_pylist() if vector is not None])
    np.testing.assert_allclose(found, model.embed(texts, pooling="cls", normalize=True), atol=1e-5)


@pytest.mark.parametrize("rows", [2, 5])
def test_samples_depend_on_the_place_in_the_corpus_not_on_the_part(
    runs: dict[str, tuple[str, Any]], tmp_path: Path, rows: int
) -> None:
    run, model = runs["generate"]
    options = {"do_sample": True, "seed": 3, "max_new_tokens": 6}
    table(tmp_path / "in/a.parquet", ["the", None, "the"])
    table(tmp_path / "in/b.parquet", ["the", "the"])
    bulk("generate", run, str(tmp_path / "in"), str(tmp_path / "out"), part_rows=rows, options=options)
    expected = [result.text for result in model.generate(["the", "", "the", "the", "the"], **options)]
    found = pq.read_table(tmp_path / "out")["generated"].to_pylist()
    assert found == [expected[0], None, *expected[2:]]
    assert len(set(found)) > 2


def test_rows_without_a_readable_text_are_kept_and_counted(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    texts = pa.chunked_array([pa.array(["she reads", None, "a" * 100_001, ""], pa.string()), broken])
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    done = bulk("translate", runs["translate"][0], str(tmp_path / "in.parquet"), str(tmp_path / "out"), options=QUICK)
    found = pq.read_table(tmp_path / "out", columns=["translation", "score"])
    assert [value is None for value in found["translation"].to_pylist()] == [False, True, True, False, True]
    assert found["score"].to_pylist()[1:] == [None, None, 0.0, None]
    assert found["translation"].to_pylist()[3] == ""
    assert done.without == {"null": 1, "too long": 1, "not UTF-8": 1}
    assert done.told().splitlines()[1] == "without a result: 1 not UTF-8, 1 null, 1 too long"


def test_a_text_the_model_refuses_costs_its_own_row_only(tmp_path: Path) -> None:
    model = translator(tmp_path / "run", positions="learned", max_length=60)
    texts = sentences(9)
    spoilt = [*texts[:4], "the cat " * 60, *texts[4:]]
    source = table(tmp_path / "in.parquet", spoilt)
    with pytest.raises(RegardError, match="learnt positions"):
        model.translate(spoilt, **QUICK)
    done = bulk("translate", tmp_path / "run", str(source), str(tmp_path / "out"), options=QUICK)
    found = pq.read_table(tmp_path / "out")["score"].to_pylist()
    assert found.pop(4) is None
    assert found == pytest.approx([one.score for one in model.translate(texts, **QUICK)], abs=1e-5)
    assert done.without == {"refused": 1}
    assert "learnt positions" in done.told().splitlines()[2]


def test_a_corpus_without_a_row_has_all_columns(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    source = table(tmp_path / "in.parquet", [])
    assert bulk("embed", runs["embed"][0], str(source), str(tmp_path / "out")).rows == 0
    found = pq.read_table(tmp_path / "out")
    assert (len(found), found.column_names) == (0, ["id", "text", "embedding"])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_may_be_stored_in_any_way(runs: dict[str, tuple[str, Any]], tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array(["she reads", None, "a man"], pa.string())
    stored = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
    pq.write_table(pa.table({"text": stored}), tmp_path / "in.parquet")
    run, model = runs["classify"]
    bulk("classify", run, str(tmp_path / "in.parquet"), str(tmp_path / "out"))
    expected = [result.label for result in model.classify(["she reads", "a man"])]
    assert pq.read_table(tmp_path / "out")["label"].to_pylist() == [expected[0], None, expected[1]]


def test_a_corpus_may_lie_elsewhere_and_its_parts_too(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    import fsspec

    here = table(tmp_path / "in.parquet", sentences(5))
    elsewhere = fsspec.filesystem("memory")
    elsewhere.pipe_file("/bulk/in/1.parquet", here.read_bytes())
    try:
        for before in (0, 3):  # then everything is there
            done = bulk("embed", runs["embed"][0], "memory://bulk/in", "memory://bulk/out", part_rows=2)
            assert (done.rows, done.parts, done.before) == (5, 3, before)
        bulk("embed", runs["embed"][0], str(here), str(tmp_path / "out"), part_rows=2)
        for name in contents(tmp_path / "out"):
            with elsewhere.open(f"/bulk/out/{name}") as file:
                assert pq.read_table(file).equals(pq.read_table(tmp_path / "out" / name))
        elsewhere.pipe_file("/bulk/out/part-000001.parquet", b"PAR1 cut short")
        assert bulk("embed", runs["embed"][0], "memory://bulk/in", "memory://bulk/out", part_rows=2).before == 2
    finally:
        elsewhere.rm("/bulk", recursive=True)


# Restarts


@pytest.fixture
def begun(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> Callable[..., Summary]:
    """A classification of 11 rows in four parts; called again it goes on."""
    source = table(tmp_path / "in.parquet", sentences(11))

    def go_on(**changes: Any) -> Summary:
        given = {"run": runs["classify"][0], "source": str(source), "out": str(tmp_path / "out"), "part_rows": 3}
        return bulk("classify", **given | changes)

    return go_on


def test_what_is_done_is_not_done_again(
    begun: Callable[..., Summary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun()
    whole = contents(tmp_path / "out")
    (tmp_path / "out" / "part-000001.parquet").unlink()
    (tmp_path / "out" / "part-000003.parquet").write_bytes(whole["part-000003.parquet"][:-20])
    written = []
    true_write = work.write
    monkeypatch.setattr(work, "write", lambda *given: (written.append(given[2]), true_write(*given)))
    assert begun().before == 2
    assert written == ["part-000001.parquet", "part-000003.parquet"]
    assert contents(tmp_path / "out") == whole
    monkeypatch.setattr(work.Worker, "model", property(lambda worker: pytest.fail("there was nothing to do")))
    assert begun().before == 4


def test_a_folder_may_grow_at_its_end(runs: dict[str, tuple[str, Any]], tmp_path: Path) -> None:
    table(tmp_path / "in/1.parquet", sentences(4))
    go_on: dict[str, Any] = dict(source=str(tmp_path / "in"), out=str(tmp_path / "out"), part_rows=2)
    bulk("embed", runs["embed"][0], **go_on)
    table(tmp_path / "in/2.parquet", sentences(3))
    assert bulk("embed", runs["embed"][0], **go_on).before == 2
    table(tmp_path / "in/0.parquet", sentences(3))
    with pytest.raises(UsageError, match=r"part-000000\.parquet there was made otherwise \(not the same input\)"):
        bulk("embed", runs["embed"][0], **go_on)


def test_parts_of_another_job_are_refused_and_left_alone(
    begun: Callable[..., Summary], runs: dict[str, tuple[str, Any]], tmp_path: Path
) -> None:
    begun()
    before = contents(tmp_path / "out")
    table(tmp_path / "shorter.parquet", sentences(4))
    encoder("bert-classifier", tmp_path / "other", hidden_size=20)
    for changes, message in (
        ({"part_rows": 2}, r"not the same input\)"),
        ({"run": str(tmp_path / "other")}, r"not the same checkpoint\)"),
        ({"columns": ("text", "text")}, r"not the same column\)"),
        ({"int8": True}, r"not the same options\)"),
        ({"source": str(tmp_path / "shorter.parquet")}, r"holds 4 parts up to number 3, but this corpus has 2"),
    ):
        with pytest.raises(UsageError, match=message):
            begun(**changes)
    table(tmp_path / "in.parquet", list(reversed(sentences(11))))  # the same name, other texts
    with pytest.raises(UsageError, match=r"not the same input\)"):
        begun()
    (tmp_path / "out" / "part-000000.parquet").write_bytes((tmp_path / "in.parquet").read_bytes())
    with pytest.raises(UsageError, match="was made otherwise"):  # a table, but nothing of ours
        begun()
    assert {**contents(tmp_path / "out"), "part-000000.parquet": before["part-000000.parquet"]} == before


def test_interrupted_in_the_middle_of_a_file_only_whole_parts_stay(
    begun: Callable[..., Summary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(out=str(tmp_path / "straight"))
    true_write = work.write

    def interrupted(rows: Any, out: str, name: str) -> None:
        if name == "part-000002.parquet":
            with whole_file(Path(out) / name) as file:
                file.write(b"PAR1")
                raise KeyboardInterrupt
        true_write(rows, out, name)

    with monkeypatch.context() as patched:
        patched.setattr(work, "write", interrupted)
        with pytest.raises(RegardError, match=r"interrupted: 2 of 4 parts are in .*; the same command goes on"):
            begun()
    assert list(contents(tmp_path / "out")) == ["part-000000.parquet", "part-000001.parquet"]
    assert begun().before == 2
    assert contents(tmp_path / "out") == contents(tmp_path / "straight")


def test_what_a_killed_process_left_half_written_goes_away(begun: Callable[..., Summary], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".part-000001.parquet.4711.0a1b2c3d.part").write_bytes(b"PAR1")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    begun()
    assert list(contents(tmp_path / "out")) == ["notes.txt", *(f"part-00000{number}.parquet" for number in range(4))]


def test_two_processes_do_not_write_into_one_folder(begun: Callable[..., Summary], tmp_path: Path) -> None:
    with held(str(tmp_path / "out")), pytest.raises(RegardError, match="another process is writing its parts"):
        begun()
    assert not (tmp_path / "out").exists()  # nothing was written, nothing is left
    assert begun().before == 0


# The command line


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`regard ARGUMENTS` inside this process: exit code, output, errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("verb", "options", "columns"),
    [
        ("translate", ["--beam", 2, "--max-new-tokens", 5], ["translation", "score"]),
        ("classify", [], ["label", "probability"]),
        ("embed", ["--pooling", "mean"], ["embedding"]),
        ("generate", ["--max-new-tokens", 4], ["generated", "score"]),
    ],
)
def test_the_verbs_of_the_command_line(
    cli: Callable[..., tuple[int, str, str]],
    runs: dict[str, tuple[str, Any]],
    tmp_path: Path,
    verb: str,
    options: list[object],
    columns: list[str],
) -> None:
    source = table(tmp_path / "in.parquet", ["she reads", None, "a man"])
    command = [verb, runs[verb][0], source, "--out", tmp_path / "out", "--part-rows", 2, *options]
    code, said, complaints = cli(*command)
    assert (code, complaints) == (0, "")
    assert said.splitlines()[0] == f"3 rows in 2 parts; they are in {tmp_path / 'out'}"
    assert said.splitlines()[1] == "without a result: 1 null"
    assert pq.read_table(tmp_path / "out").column_names == ["id", "text", *columns]
    code, said, _ = cli(*command, "--json")
    known = json.loads(said)
    assert (code, known["rows"], known["parts"], known["before"]) == (0, 3, 2, 2)
    assert known["without"] == {"null": 1}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            ["translate", "{translate}", "{in}", "--out", "{out}", "--column", "txt"],
            ["no column 'txt'", "'id'", "'text'"],
        ),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--column", "id"], ["'id' holds int64, not texts"]),
        (["translate", "{translate}", "{no}", "--out", "{out}"], ["no such file or folder"]),
        (["translate", "{translate}", "{folder}/*.pq", "--out", "{out}"], ["no .parquet file there"]),
        (["translate", "{translate}", "--out", "{out}"], ["name a Parquet file"]),
        (["translate", "{translate}", "{in}"], ["is a table", "--out DIR"]),
        (["translate", "{translate}", "{in}", "--engine", "ray"], ["--engine ray serves a table in bulk", "--out DIR"]),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--engine", "spark"], ["'spark'", "plain, ray"]),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--actors", "2"], ["--engine ray"]),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--nbest", "2"], ["--nbest does not go with --out"]),
        (
            ["translate", "{translate}", "{in}", "--out", "{out}", "--workers", "2"],
            ["--workers does not go with --out"],
        ),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--part-rows", "0"], ["parts of 0 rows"]),
        (["translate", "{translate}", "{in}", "--out", "{out}", "--beam", "0"], ["num_beams is 0"]),
        (["translate", "{classify}", "{in}", "--out", "{out}"], ["holds a classifier, which has no 'translate'"]),
        (["translate", "{translate}", "nowhere://x", "--out", "{out}"], ["nowhere://x: cannot be opened"]),
        (["translate", "{translate}", "{folder}", "--out", "{out}"], ["lies in the corpus"]),
        (["classify", "{classify}", "{taken}", "--out", "{out}"], ["has a column 'label' already"]),
        (["classify", "{classify}", "{in}", "{in}", "--out", "{out}"], ["a glob in quotes"]),
        (["embed", "{embed}", "{in}", "--out", "{out}", "--pooling", "max"], ["no pooling called 'max'"]),
        (["generate", "{generate}", "{in}", "--out", "{out}", "--samples", "2"], ["--samples does not go with --out"]),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(
    cli: Callable[..., tuple[int, str, str]],
    runs: dict[str, tuple[str, Any]],
    tmp_path: Path,
    arguments: list[str],
    parts: list[str],
) -> None:
    known = {verb: run for verb, (run, _) in runs.items()} | {
        "in": str(table(tmp_path / "in.parquet", ["one", "two"])),
        "taken": str(table(tmp_path / "taken.parquet", ["one"], label=["two"])),
        "no": str(tmp_path / "no.parquet"),
        "folder": str(tmp_path),
        "out": str(tmp_path / "out"),
    }
    code, said, complaint = cli(*(argument.format(**known) for argument in arguments))
    assert (code, said) == (2, "")
    assert complaint.startswith("regard: ")
    assert complaint.count("\n") == 1, complaint
    for part in parts:
        assert part in complaint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all " * 100], ids=["empty", "short", "other"])
def test_a_file_that_is_no_parquet_is_named(
    cli: Callable[..., tuple[int, str, str]], runs: dict[str, tuple[str, Any]], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "in.parquet").write_bytes(content)
    code, said, complaint = cli("embed", runs["embed"][0], tmp_path / "in.parquet", "--out", tmp_path / "out")
    assert (code, said, complaint.count("\n")) == (1, "", 1)
    assert f"{tmp_path / 'in.parquet'}: cannot be read as Parquet" in complaint


def test_a_place_that_cannot_be_written_is_one_line(
    cli: Callable[..., tuple[int, str, str]], runs: dict[str, tuple[str, Any]], tmp_path: Path
) -> None:
    source = table(tmp_path / "in.parquet", ["one"])
    (tmp_path / "out").write_text("not a folder")
    code, _, complaint = cli("embed", runs["embed"][0], source, "--out", tmp_path / "out")
    assert (code, complaint.count("\n")) == (1, 1)
    assert "cannot be written" in complaint


# What Ray is asked for


@pytest.mark.parametrize(
    ("nodes", "actors", "expected"),
    [
        ([{"CPU": 2.0}], None, (2, 1, 0)),
        ([{"CPU": 2.0}], 2, (2, 1, 0)),
        ([{"CPU": 2.0}], 1, (1, 2, 0)),
        ([{"CPU": 1.0}], None, (1, 1, 0)),
        ([{"CPU": 16.0}, {"CPU": 16.0}], None, (8, 4, 0)),
        ([{"CPU": 3.0}, {"CPU": 3.0}], 3, (3, 1, 0)),  # six by three is two, but then only two would find room
        ([{"CPU": 4.0}, {"CPU": 8.0}], 3, (3, 4, 0)),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0}], None, (2, 4, 1)),
        ([{"CPU": 8.0, "GPU": 1.0}], 1, (1, 8, 1)),
    ],
)
def test_actors_get_cores_of_their_own(
    nodes: list[dict[str, float]], actors: int | None, expected: tuple[int, int, int]
) -> None:
    assert shares(nodes, actors) == expected


@pytest.mark.parametrize(
    ("nodes", "actors"), [([{"CPU": 2.0}], 3), ([{"CPU": 2.0}], 0), ([{"CPU": 8.0, "GPU": 2.0}], 3), ([], None)]
)
def test_more_actors_than_there_is_room_for_are_refused(nodes: list[dict[str, float]], actors: int | None) -> None:
    with pytest.raises(UsageError, match="actors do not fit"):
        shares(nodes, actors)


@pytest.mark.parametrize(("said", "expected"), [(None, 4), ("1", 1), ("8", 8), ("0", 4), ("2,1", 4)])
def test_an_actor_has_a_thread_for_each_core_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, said: str | None, expected: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads(4) == expected


def test_a_part_that_takes_every_actor_with_it_is_given_up(
    runs: dict[str, tuple[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would go on for ever. Here it is played by an object that answers at once."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda value: value))
    counts = Attempts()
    attempts = SimpleNamespace(begin=SimpleNamespace(remote=counts.begin))
    (part,) = cut(str(table(tmp_path / "in.parquet", ["one"])), ["text"], [], 5)
    run = Path(runs["embed"][0])
    job = work.Job("embed", str(run), work.fingerprint(run), str(tmp_path / "out"))
    actor = ModelActor(job, 1, attempts)
    for attempt in range(MOST_ATTEMPTS + 1):
        answer = json.loads(actor({"part": json.dumps(asdict(part))})["answer"])
        assert ("done" in answer) == (attempt < MOST_ATTEMPTS)
    assert answer["error"] == {
        "message": "rows 0 to 1 took 5 actors with them, perhaps for want of memory; "
        "ask for fewer --actors, or for smaller parts with --part-rows",
        "use": False,
    }


def test_a_cluster_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there any more
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with pytest.raises(RegardError, match=rf"RAY_ADDRESS=127\.0\.0\.1:{port} cannot be reached .*refused"):
        start(SimpleNamespace(init=pytest.fail))


def test_beginnings_are_counted() -> None:
    attempts = Attempts()
    assert [attempts.begin(part) for part in (0, 1, 1, 2, 1)] == [1, 1, 2, 1, 3]
    assert attempts.again() == 2
