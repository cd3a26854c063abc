"""What the explorer page is told: the numbers of the library, of every kind of model, and refusals in a sentence."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from explorer.tiny_models import encoded
from regard import families
from regard.attention import record
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.explorer.app import make_app
from regard.explorer.looking import Sessions
from regard.inspect import heads_off, logit_lens, rollout, stacked
from regard.models import lstmn, luong, ntm
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.translator import Translator

TEXT = "the animal did not cross the street ."
LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog ."]


class Looking:
    """A client that asks about one example."""

    def __init__(self, client: TestClient, **given: Any):
        self.client = client
        reply = client.post("/v1/look", json=given)
        assert reply.status_code == 200, reply.text
        self.told = reply.json()

    def reply(self, what: str, **given: Any) -> Any:
        return self.client.post(f"/v1/look/{what}", json={"session": self.told["session"], **given})

    def ask(self, what: str, **given: Any) -> Any:
        reply = self.reply(what, **given)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def weights(self, name: str) -> np.ndarray:
        known = next(each for each in self.told["attentions"] if each["name"] == name)
        shape = (known["heads"], known["queries"], known["keys"])
        return np.frombuffer(self.reply("weights", attention=name).content, "<f4").reshape(shape)


@pytest.fixture(scope="module")
def older() -> TestClient:
    """A memory, a window and a recurrent decoder."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("bpe", LINES, 28)
    known = dict(vocabulary=len(tokenizer), pad=tokenizer.pad)
    windowed = lstmn.Config(**known, size=8, embedding_size=8, span=4, layers=1)  # type: ignore[arg-type]
    recurrent = luong.Config(**known, size=8, embedding_size=8, layers=1)  # type: ignore[arg-type]
    memory = ntm.Config(4, 3, controller_size=6, cells=6, cell_size=4)
    reader = lstmn.LSTMN(windowed)
    torch.nn.init.normal_(reader.embedding.weight)
    return TestClient(
        make_app(
            {
                "window": LanguageModel(
                    reader, tokenizer, Decoding(num_beams=1), families.config_json("lstmn", windowed, "language-model")
                ),
                "memory": AlgorithmRunner(
                    ntm.NeuralTuringMachine(memory),
                    AlgorithmData(bits=3, longest=4, test_lengths=(2, 5)),
                    families.config_json("ntm", memory, "algorithm"),
                ),
                "recurrent": Translator(
                    luong.Luong(recurrent),
                    tokenizer,
                    Decoding(num_beams=2, max_new_tokens=6),
                    families.config_json("luong", recurrent, "translate"),
                ),
            }
        )
    )


# The maps


@pytest.mark.parametrize("name", ["translator", "filler", "embedder", "tagger"])
def test_weights_rows_and_tiles_are_those_of_look(client: TestClient, loaded: dict[str, Any], name: str) -> None:
    looking = Looking(client, model=name, text=TEXT)
    maps = loaded[name].look(TEXT)
    assert len(looking.told["attentions"]) == len(maps)
    for told, known in zip(looking.told["attentions"], maps, strict=True):
        assert (told["kind"], told["layer"]) == (known.kind, known.layer)
        weights = looking.weights(told["name"])
        np.testing.assert_allclose(weights, known.weights, atol=1e-6)
        row = np.frombuffer(looking.reply("row", attention=told["name"], head=1, query=2).content, "<f4")
        np.testing.assert_allclose(row, weights[1, 2], atol=1e-6)
        tile = looking.reply("tile", attention=told["name"], head=1, level=0, row=0, column=0).content
        exact = np.rint(np.sqrt(weights[1]) * 255).astype(int)
        np.testing.assert_allclose(np.frombuffer(tile, np.uint8).reshape(exact.shape).astype(int), exact, atol=1)
    assert looking.told["sides"][maps[0].kind]["keys"]["tokens"]


def test_what_a_translator_says_is_what_is_looked_at(client: TestClient, loaded: dict[str, Any]) -> None:
    best = loaded["translator"].translate(TEXT, num_return_sequences=3)[0]
    told = Looking(client, model="translator", text=TEXT).told
    assert (told["said"], [each["text"] for each in told["nbest"]]) == (best.text, [each.text for each in best.nbest])
    second = Looking(client, model="translator", text=TEXT, hypothesis=1).told
    assert (second["said"], second["score"]) == (best.nbest[1].text, best.nbest[1].score)
    assert Looking(client, model="translator", text=TEXT, target="a man").told["said"] == "a man"


def test_a_language_model_goes_on_as_it_generates(client: TestClient, loaded: dict[str, Any]) -> None:
    told = Looking(client, model="language", text="the cat", more=5).told
    generated = loaded["language"].generate("the cat", max_new_tokens=5, num_beams=1)[0]
    assert "the cat" + told["said"] == generated.text
    assert told["tokens"]["ids"][told["tokens"]["free"] :] == generated.tokens
    (side,) = told["sides"].values()
    assert side["visible"] == list(range(1, len(side["visible"]) + 1))


def test_a_window_is_shown_by_the_token_looked_at(older: TestClient) -> None:
    looking = Looking(older, model="window", text="the cat sat on the mat", more=0)
    weights = looking.weights("stack.layers.0.attention")[0]
    assert not np.triu(weights).any()  # nobody looks at itself or ahead
    np.testing.assert_allclose(weights[1:].sum(1), 1, atol=1e-5)
    steps = looking.ask("steps", attention="stack.layers.0.attention", query=6, head=0)
    assert steps["labels"] == looking.told["sides"]["decoder"]["keys"]["tokens"][2:6]


def test_pictures_are_looked_at_by_patches_and_regions(client: TestClient, loaded: dict[str, Any]) -> None:
    seen = Looking(client, model="vision", image=encoded())
    assert seen.told["sides"]["encoder"]["grid"] == {"rows": 2, "columns": 2, "first": 1}
    assert seen.reply("picture").content[:4] == b"\x89PNG"
    caption = Looking(client, model="captioner", image=encoded())
    assert caption.told["said"] == caption.told["nbest"][0]["text"]
    side = caption.told["sides"]["cross"]
    assert caption.weights("attention").shape[2] == side["grid"]["rows"] * side["grid"]["columns"]


def test_every_model_has_an_example_of_its_own(client: TestClient, older: TestClient, loaded: dict[str, Any]) -> None:
    for name in loaded.keys() - {"matcher"}:
        told = Looking(client, model=name, text="the cat" if name in ("language", "classifier") else None).told
        assert told["attentions"] or told["stories"]
    assert Looking(older, model="memory").told["text"] == "copy:10"


def test_an_overview_has_a_picture_and_numbers_for_every_head(client: TestClient) -> None:
    looking = Looking(client, model="translator", text=TEXT)
    name = looking.told["attentions"][0]["name"]
    overview = looking.ask("overview", attention=name)
    pictures = np.frombuffer(base64.b64decode(overview["pictures"]), np.uint8).reshape(overview["shape"])
    np.testing.assert_allclose(pictures, np.rint(np.sqrt(looking.weights(name)) * 255), atol=1)
    assert len(overview["statistics"]["entropy"]) == 2


# Step by step


def test_steps_tell_the_weights_of_the_map(client: TestClient, older: TestClient) -> None:
    for looking, name in (
        (Looking(client, model="translator", text=TEXT), "decoder.layers.1.cross_attention"),
        (Looking(older, model="recurrent", text="the cat sat"), "attention"),
    ):
        weights = looking.weights(name)
        steps = looking.ask("steps", attention=name, query=2, head=len(weights) - 1)
        told = next(stage["numbers"] for stage in reversed(steps["stages"]) if stage["name"] == "weights")
        np.testing.assert_allclose(told, weights[-1, 2][steps["keys"]], atol=1e-5)
        assert steps["difference"] < 1e-5
        assert len(steps["labels"]) == len(steps["keys"])


def test_of_many_keys_the_most_attended_are_told(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.explorer.looking_answers.KEYS_TOLD", 3)
    looking = Looking(client, model="filler", text=TEXT)
    name = looking.told["attentions"][-1]["name"]
    row = looking.weights(name)[0, 1]
    steps = looking.ask("steps", attention=name, query=1, head=0)
    assert steps["keys"] == sorted(np.argsort(-row)[:3].tolist())
    assert steps["keyCount"] == len(row)
    keys = next(stage for stage in steps["stages"] if stage["name"] == "keys")
    assert (len(keys["numbers"]), keys["shape"][0]) == (3, len(row))


def test_documents_and_memories_have_stories(client: TestClient, older: TestClient, loaded: dict[str, Any]) -> None:
    text = "a man in a hat. two dogs cross the street."
    document = Looking(client, model="documents", text=text)
    known = loaded["documents"].look(text)
    told = document.ask("document")
    assert [each["weight"] for each in told["sentences"]] == pytest.approx(known.sentence_weights.tolist())
    words = next(each for each in document.told["stories"] if each["title"] == "words")
    steps = document.ask("steps", attention=words["name"], query=0, head=0, row=1)
    assert steps["labels"][:3] == ["two", "dogs", "cross"]
    assert steps["difference"] < 1e-5
    memory = Looking(older, model="memory", text="copy:3")
    (story,) = memory.told["stories"]
    assert (story["queries"], story["heads"]) == (7, ["reads 1", "writes 1"])
    stages = memory.ask("steps", attention=story["name"], query=5, head=1)["stages"]
    assert {"cosine", "gate", "shifts", "erase", "add"} <= {stage["name"] for stage in stages}


# What could have been said


def test_next_tokens_have_the_logits_of_the_model(client: TestClient, loaded: dict[str, Any]) -> None:
    looking = Looking(client, model="language", text="the cat", more=2)
    tokens = looking.told["tokens"]
    place = tokens["free"]
    read = loaded["language"].begin("the cat").tokens
    with torch.inference_mode():
        chances = loaded["language"].model(torch.tensor([read]))[0, -1].double().log_softmax(0)
    told = looking.ask("next", place=place)
    assert told["ids"][0] == int(chances.argmax())
    for token, logit in zip(told["ids"], told["logits"], strict=True):
        assert logit - told["logsumexp"] == pytest.approx(float(chances[token]), abs=1e-5)
    assert told["said"]["id"] == tokens["ids"][place]


def test_a_forced_token_is_said_and_gone_on_from(client: TestClient) -> None:
    for name, text in (("language", "the cat"), ("translator", TEXT)):
        first = Looking(client, model=name, text=text)
        tokens, place = first.told["tokens"], first.told["tokens"]["free"] + 1
        other = first.ask("next", place=place)["ids"][3]
        forced = [*tokens["ids"][tokens["free"] : place], other]
        again = Looking(client, model=name, text=text, forced=forced).told["tokens"]
        assert again["ids"][again["free"] :][:2] == forced


def test_the_tree_of_a_search_ends_in_its_answer(client: TestClient, loaded: dict[str, Any]) -> None:
    tree = Looking(client, model="translator", text=TEXT).ask("beam", num_beams=3)
    best = loaded["translator"].translate(TEXT, num_beams=3, num_return_sequences=3)[0]
    assert [each["text"] for each in tree["hypotheses"]] == [each.text for each in best.nbest]
    (end,) = [node for node in tree["nodes"] if node["rank"] == 0]
    assert end["score"] == pytest.approx(best.score, abs=1e-6)


# What weights alone do not say


def test_heads_that_are_off_change_what_is_said(client: TestClient, loaded: dict[str, Any]) -> None:
    off = {"decoder.layers.1.cross_attention": [0, 1], "encoder.layers.0.self_attention": [1]}
    told = Looking(client, model="translator", text=TEXT).ask("whatif", off=off)
    translator = loaded["translator"]
    with heads_off(translator.model, off):
        assert told["after"]["text"] == translator.translate(TEXT)[0].text
    assert told["before"]["text"] == translator.translate(TEXT)[0].text
    assert told["before"]["said"] != told["after"]["said"]
    assert len(told["pieces"]) == len(told["before"]["said"])


def test_labels_and_gaps_are_compared_too(client: TestClient, loaded: dict[str, Any]) -> None:
    off = {"encoder.layers.1.self_attention": [0]}
    classified = Looking(client, model="classifier", text=TEXT).ask("whatif", off=off)
    assert classified["before"]["labels"] == loaded["classifier"].classify(TEXT)[0].probabilities
    assert classified["before"]["labels"] != classified["after"]["labels"]
    filled = Looking(client, model="filler", text="a man in a [MASK]").ask("whatif", off=off)
    assert 1 < len(filled["before"]["labels"]) <= 5  # two pieces may look alike
    assert "whatif" not in Looking(client, model="filler", text="a man").told["views"]


def test_worth_rollout_and_lens_are_those_of_inspect(client: TestClient, loaded: dict[str, Any]) -> None:
    looking = Looking(client, model="filler", text=TEXT)
    filler = loaded["filler"]
    worth = looking.ask("importance")
    assert worth["exact"]
    assert [len(heads) for heads in worth["changes"].values()] == [2, 2]
    rolled = looking.ask("rollout", kind="encoder")
    tokens = torch.from_numpy(filler._row(TEXT))[None]
    with record(filler.model) as tape, torch.no_grad():
        filler.model.encoder(tokens)
    expected = rollout(stacked(tape))
    matrix = np.frombuffer(base64.b64decode(rolled["weights"]), "<f4").reshape(expected.shape)
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    seen = looking.ask("lens")
    found = logit_lens(filler.model, tokens, top=3)
    np.testing.assert_allclose(seen["probabilities"], found.probabilities, rtol=1e-4, atol=1e-6)


def test_positions_are_compared_by_their_cosine(client: TestClient, loaded: dict[str, Any]) -> None:
    told = Looking(client, model="filler", text=TEXT).ask("positions")
    table = loaded["filler"].model.encoder.positions.table.detach().numpy()
    assert told["count"] == len(table) == len(told["rows"])
    np.testing.assert_allclose(told["vectors"], table, rtol=1e-4)
    one, two = table[3], table[5]
    assert told["alike"][3][5] == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two), abs=1e-4)


# To take away


@pytest.mark.parametrize("name", ["translator", "documents", "captioner", "vision"])
def test_everything_can_be_taken_away(client: TestClient, name: str) -> None:
    given = {"image": encoded()} if name in ("captioner", "vision") else {"text": TEXT}
    looking = Looking(client, model=name, **given)
    page = looking.reply("export", format="html").text
    assert "<html" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    name_of = looking.told["attentions"][-1]["name"] if looking.told["attentions"] else None
    assert "<svg" in looking.reply("export", format="svg", attention=name_of).text[:1000]
    assert looking.reply("export", format="png", attention=name_of).content[:4] == b"\x89PNG"
    numbers = json.loads(looking.reply("export", format="json").content)["weights"]
    with np.load(io.BytesIO(looking.reply("export", format="npz").content)) as arrays:
        assert list(arrays) == list(numbers)
        for key, array in arrays.items():
            np.testing.assert_allclose(array, np.array(numbers[key]), atol=1e-6)


def test_one_head_or_a_text_read_word_by_word_is_a_picture_too(client: TestClient, older: TestClient) -> None:
    looking = Looking(client, model="language", text="the cat", more=2)
    name = looking.told["attentions"][0]["name"]
    triangle = looking.reply("export", format="svg", attention=name, head=1, triangle=True).text
    assert "self-attention, layer 1, head 2" in triangle
    assert "<svg" in Looking(older, model="memory").reply("export", format="svg").text


# Sessions, and what is refused


def test_the_same_example_is_the_same_session(client: TestClient) -> None:
    first, again = (Looking(client, model="filler", text=TEXT).told for _ in range(2))
    other = Looking(client, model="filler", text=TEXT + " it").told
    assert first["session"] == again["session"] != other["session"]


def test_sessions_that_do_not_fit_are_let_go() -> None:
    class Kept:
        def __init__(self, name: str, count: int):
            self.name, self.bytes = name, count

    sessions = Sessions(budget=10, most=3)
    for name, count in (("a", 4), ("b", 4), ("c", 4), ("d", 40)):
        sessions.add("model", Kept(name, count))  # type: ignore[arg-type]
        if name == "b":
            assert sessions.get("a")  # so that b is the one that was not used for longest
        if name == "c":
            assert [each for each in "abc" if sessions.get(each)] == ["a", "c"]
    assert [each for each in "abcd" if sessions.get(each)] == ["d"]  # the last stays, however large


@pytest.mark.parametrize(
    ("what", "given", "status"),
    [
        ("steps", {"attention": "nowhere", "query": 0, "head": 0}, 422),
        ("steps", {"attention": "encoder.layers.0.self_attention", "query": 999, "head": 0}, 422),
        ("weights", {"attention": "encoder.layers.0.self_attention", "head": 9}, 422),
        ("tile", {"attention": "encoder.layers.0.self_attention", "head": 0, "level": 0, "row": 9, "column": 0}, 422),
        ("row", {"attention": "encoder.layers.0.self_attention", "head": 0, "query": 999}, 422),
        ("next", {"place": 0}, 422),
        ("beam", {"num_beams": 4}, 422),
        ("whatif", {"off": {"encoder.layers.0.self_attention": [7]}}, 422),
        ("rollout", {"kind": "cross"}, 422),
        ("mix", {}, 422),
        ("document", {}, 422),
        ("picture", {}, 422),
        ("export", {"format": "exe"}, 422),
        ("export", {"format": "svg"}, 422),
        ("nothing", {}, 404),
    ],
)
def test_what_is_not_there_is_refused(client: TestClient, what: str, given: dict[str, Any], status: int) -> None:
    reply = Looking(client, model="filler", text="a [MASK]").reply(what, **given)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"model": "nobody"}, 404),
        ({"model": "filler", "image": encoded()}, 422),
        ({"model": "vision", "text": "a"}, 422),
        ({"model": "vision", "image": "not a picture"}, 422),
        ({"model": "matcher"}, 422),
        ({"model": "translator", "text": TEXT, "hypothesis": 9}, 422),
        ({"model": "translator", "text": TEXT, "forced": [100000]}, 422),
        ({"model": "language", "text": "a" * 60}, 422),
        ({"model": "language", "text": "a " * 100000}, 413),
        ({"model": "filler", "words": "a"}, 422),
    ],
)
def test_what_cannot_be_run_is_refused(client: TestClient, given: dict[str, Any], status: int) -> None:
    reply = client.post("/v1/look", json=given)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]["message"]


def test_a_session_that_is_gone_is_not_found(client: TestClient) -> None:
    reply = client.post("/v1/look/weights", json={"session": "gone", "attention": "any"})
    assert (reply.status_code, reply.json()["error"]["message"]) == (
        404,
        "this example is not kept any more: run it again",
    )
