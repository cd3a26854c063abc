"""What the explorer page is told: the numbers of the library, of every kind of model, and refusals in a sentence."""

import base64
import io
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

from explorer import tiny_models
from explorer.conftest import paused
from explorer.tiny_models import captioner, encoded, file
from regard.attention import record
from regard.data.images import read_image
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.kept import pooled
from regard.explorer.looking import Session, Sessions
from regard.explorer.looking_kinds import subject_of
from regard.explorer.looking_subjects import Input, forgetting
from regard.explorer.sizes import held_bytes
from regard.inspect import (
    flow,
    gradient_weighted,
    head_importance,
    head_means,
    heads_off,
    logit_lens,
    relevance,
    rollout,
    stacked,
)
from regard.layers.scalar_mix import ScalarMix
from regard.tasks.tagger import Tagger

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
def mixing() -> Tagger:
    return tiny_models.mixing()


@pytest.fixture(scope="module")
def older(mixing: Tagger) -> TestClient:
    """A memory, a window, a recurrent decoder, and a tagger with ELMo."""
    return TestClient(make_app({**tiny_models.older(), "tagger": mixing}))


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


def test_rows_come_with_their_neighbours_and_do_not_wait_for_the_model(guard: Guard, client: TestClient) -> None:
    looking = Looking(client, model="language", text="the cat", more=4)
    name = looking.told["attentions"][0]["name"]
    weights = looking.weights(name)[2]
    with paused(guard, "language"):  # somebody else's long generation
        several = looking.reply("row", attention=name, head=2, query=3, count=4).content
        last = looking.reply("row", attention=name, head=2, query=len(weights) - 2, count=16).content
    np.testing.assert_allclose(np.frombuffer(several, "<f4").reshape(4, -1), weights[3:7], atol=1e-6)
    np.testing.assert_allclose(np.frombuffer(last, "<f4").reshape(2, -1), weights[-2:], atol=1e-6)
    assert looking.reply("row", attention=name, head=2, query=0, count=17).status_code == 422


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


def test_a_hard_caption_looks_at_one_region_for_each_word() -> None:
    hard = captioner("hard")
    looking = Looking(TestClient(make_app({"hard": hard})), image=encoded())
    (shown,) = looking.weights("attention")
    assert set(np.unique(shown)) == {0.0, 1.0}
    assert (shown.sum(1) == 1).all()
    (caption,) = hard.caption([read_image(Image.open(io.BytesIO(file())), 3)])
    assert caption.attention is not None
    said = caption.attention.weights.reshape(len(caption.attention.words), -1)
    np.testing.assert_array_equal(shown[: len(said)], said)
    steps = looking.ask("steps", attention="attention", query=1, head=0)
    assert steps["difference"] < 1e-6


def test_every_model_has_an_example_of_its_own(client: TestClient, older: TestClient, loaded: dict[str, Any]) -> None:
    for name in loaded:
        told = Looking(client, model=name, text="the cat" if name in ("language", "classifier") else None).told
        assert told["attentions"] or told["stage"]
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


@pytest.mark.parametrize(("name", "text", "kind"), [("translator", TEXT, "cross"), ("language", "the cat", "decoder")])
def test_a_node_of_the_tree_has_the_row_of_its_step(client: TestClient, name: str, text: str, kind: str) -> None:
    looking = Looking(client, model=name, text=text, more=3)
    attention = [each["name"] for each in looking.told["attentions"] if each["kind"] == kind][-1]
    tokens, weights = looking.told["tokens"], looking.weights(attention)
    said = tokens["ids"][tokens["free"] :]
    for length in (1, 2):
        row = weights[:, tokens["free"] + length - 1]
        told = looking.ask("alignment", tokens=said[:length], attention=attention, head=1)
        np.testing.assert_allclose(told["weights"], row[1, : len(told["weights"])], atol=1e-5)
        assert told["keys"] == looking.told["sides"][kind]["keys"]["tokens"][: len(told["keys"])]
        mean = looking.ask("alignment", tokens=said[:length], attention=attention)["weights"]
        np.testing.assert_allclose(mean, row.mean(0)[: len(mean)], atol=1e-5)


# What weights alone do not say


def test_heads_that_are_off_change_what_is_said(client: TestClient, loaded: dict[str, Any]) -> None:
    off = {"decoder.layers.1.cross_attention": [0, 1], "encoder.layers.0.self_attention": [1]}
    told = Looking(client, model="translator", text="a man").ask("whatif", off=off)
    translator = loaded["translator"]
    with heads_off(translator.model, off):
        assert told["after"]["text"] == translator.translate("a man")[0].text
    assert told["before"]["text"] == translator.translate("a man")[0].text
    assert told["before"]["said"] != told["after"]["said"]
    assert len(told["pieces"]) == len(told["before"]["said"])


def test_a_head_may_read_its_mean_instead(client: TestClient, loaded: dict[str, Any]) -> None:
    language = loaded["language"]
    looking = Looking(client, model="language", text="the cat", more=4)
    off = {looking.told["attentions"][-1]["name"]: [2]}
    told = looking.ask("whatif", off=off, instead="mean")
    tokens = torch.tensor([[*language.begin("the cat").tokens[:1], *looking.told["tokens"]["ids"]]])
    means = head_means(language.model, [lambda: language.model(tokens)])
    with heads_off(language.model, off, means), torch.inference_mode():
        chances = language.model(tokens)[0, :-1].log_softmax(-1)
    said = [float(row[token]) for row, token in zip(chances, looking.told["tokens"]["ids"], strict=True)]
    np.testing.assert_allclose(told["after"]["said"], said, atol=1e-4)
    assert told["after"]["said"] != looking.ask("whatif", off=off)["after"]["said"]


def test_labels_and_gaps_are_compared_too(client: TestClient, loaded: dict[str, Any]) -> None:
    off = {"encoder.layers.1.self_attention": [0]}
    classified = Looking(client, model="classifier", text=TEXT).ask("whatif", off=off)
    assert classified["before"]["labels"] == loaded["classifier"].classify(TEXT)[0].probabilities
    assert classified["before"]["labels"] != classified["after"]["labels"]
    filled = Looking(client, model="filler", text="a man in a [MASK]").ask("whatif", off=off)
    assert 1 < len(filled["before"]["labels"]) <= 5  # two pieces may look alike
    assert "whatif" not in Looking(client, model="filler", text="a man").told["views"]


def test_what_heads_are_worth_to_lines_is_told_one_attention_at_a_time(
    client: TestClient, loaded: dict[str, Any]
) -> None:
    lines = ["a man in a hat\tEin Mann", "two dogs"]
    looking = Looking(client, model="translator", text=TEXT)
    name = "decoder.layers.0.cross_attention"
    translator = loaded["translator"]
    pairs = [("a man in a hat", "Ein Mann"), ("two dogs", translator.translate("two dogs")[0].text)]
    known = head_importance(translator, pairs, layers=name)
    worth = looking.ask("importance", attention=name, lines=lines)
    assert list(worth["changes"]) == [name]
    np.testing.assert_allclose(worth["changes"][name], known.changes[name], atol=1e-6)
    assert (worth["examples"], worth["count"]) == (2, known.count)
    own = looking.ask("importance", attention=name)  # the example itself
    assert own["examples"] == 1
    assert own["changes"] != worth["changes"]
    labels = Looking(client, model="classifier", text=TEXT).ask("importance", lines=["a man\tgood", "a dog"])
    assert labels["count"] == 2


def map_of(looking: Looking, kind: str, how: str) -> np.ndarray:
    numbers = np.frombuffer(looking.reply("through", kind=kind, how=how).content, "<f4")
    return numbers.reshape(-1, len(looking.told["sides"][kind]["keys"]["tokens"]))


def test_maps_through_all_layers_are_those_of_inspect(client: TestClient, loaded: dict[str, Any]) -> None:
    text = "a man in a hat"
    looking = Looking(client, model="classifier", text=text)
    classifier = loaded["classifier"]
    inputs = classifier._inputs([classifier.row(text)])
    with record(classifier.model) as tape, torch.no_grad():
        chances = classifier.model(inputs)[0].log_softmax(0)
    np.testing.assert_allclose(map_of(looking, "encoder", "rollout"), rollout(stacked(tape)), atol=1e-5)
    np.testing.assert_allclose(map_of(looking, "encoder", "all"), stacked(tape).mean((0, 1)), atol=1e-5)
    label = int(chances.argmax())
    found = gradient_weighted(classifier.model, lambda: classifier.model(inputs)[0].log_softmax(0)[label])
    expected = relevance(stacked(found.positive))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(map_of(looking, "encoder", "gradient"), expected, atol=1e-5)
    pytest.importorskip("scipy", reason="scipy, which finds maximum flows, is not installed")
    np.testing.assert_allclose(map_of(looking, "encoder", "flow"), flow(stacked(tape)), atol=1e-5)


def test_the_lens_is_that_of_inspect(client: TestClient, loaded: dict[str, Any]) -> None:
    filler = loaded["filler"]
    seen = Looking(client, model="filler", text=TEXT).ask("lens")
    found = logit_lens(filler.model, torch.from_numpy(filler.rows([TEXT])[0])[None], top=3)
    np.testing.assert_allclose(seen["probabilities"], found.probabilities, rtol=1e-4, atol=1e-6)


def test_margins_are_sums_and_the_first_key_can_stand_apart(client: TestClient) -> None:
    looking = Looking(client, model="language", text="the cat", more=4)
    name = looking.told["attentions"][0]["name"]
    weights = looking.weights(name)[2]
    numbers = np.frombuffer(looking.reply("margins", attention=name, head=2).content, "<f4")
    sums = [weights[:, 0], weights.sum(1), weights.sum(0)]
    np.testing.assert_allclose(numbers, np.concatenate(sums), atol=1e-5)
    tile = looking.reply("tile", attention=name, head=2, level=1, row=0, column=0, apart=True).content
    rest = weights.copy()
    rest[:, 0] = 0
    expected = pooled(rest[None], 2, 2)[0]
    shown = np.frombuffer(tile, np.uint8).reshape(expected.shape)
    np.testing.assert_allclose(shown, np.rint(np.sqrt(expected) * 255), atol=1)


def test_the_wishes_of_a_memory_lead_to_its_weights(older: TestClient) -> None:
    memory = Looking(older, model="memory", text="copy:3")
    (story,) = memory.told["stories"]
    told = memory.ask("addressing", attention=story["name"], query=4, head=1)
    content = np.exp(told["strength"] * np.array(told["cosine"]))
    gated = told["gate"] * content / content.sum() + (1 - told["gate"]) * np.array(told["before"])
    moved = [
        sum(share * gated[(cell - step) % len(gated)] for step, share in enumerate(told["shifts"], -1))
        for cell in range(len(gated))
    ]
    sharp = np.array(moved) ** told["sharpness"]
    np.testing.assert_allclose(told["weights"], sharp / sharp.sum(), atol=1e-9)
    recurrent = Looking(older, model="recurrent", text="the cat sat")
    assert recurrent.reply("addressing", attention="attention", query=0, head=0).status_code == 422


def test_a_query_among_a_few_examples_says_which_it_attended_to(client: TestClient) -> None:
    looking = Looking(client, model="matcher")
    assert (looking.told["stage"], looking.told["attentions"], looking.told["views"]) == ("match", [], [])
    assert looking.told["said"].startswith("letter ")
    weights = np.array(json.loads(looking.reply("export", format="json").content)["weights"]["examples"])
    assert weights.shape == (1, 3 + 1)  # three labels with an example each, and itself
    np.testing.assert_allclose(weights.sum(), 1, atol=1e-5)
    assert "<svg" in looking.reply("export", format="svg").text
    other = Looking(client, model="matcher", image=encoded(7, (20, 20)))
    assert other.told["session"] != looking.told["session"]


def test_examples_of_ones_own_take_the_place_of_the_letters(client: TestClient, loaded: dict[str, Any]) -> None:
    given = {"cat": [encoded(1), encoded(2)], "dog": [encoded(3)]}
    looking = Looking(client, model="matcher", image=encoded(4), examples=given)
    assert looking.told["labels"] == {"names": ["cat", "dog"], "most": 3, "own": True}
    shown = {label: [opened(each) for each in own] for label, own in given.items()}
    (known,) = loaded["matcher"].match(shown, opened(encoded(4)))
    assert looking.told["said"] == known.label
    weights = json.loads(looking.reply("export", format="json").content)["weights"]["examples"]
    np.testing.assert_allclose(weights, known.attention.weights, atol=1e-6)
    letters = Looking(client, model="matcher").told["labels"]
    assert letters == {"names": ["letter 1", "letter 2", "letter 3"], "most": 3, "own": False}


def opened(picture: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")


def test_the_mix_of_elmo_is_a_softmax_of_its_layers(older: TestClient, mixing: Tagger) -> None:
    looking = Looking(older, model="tagger", text="the cat sat")
    told = looking.ask("mix")
    mix = next(module for module in mixing.model.modules() if isinstance(module, ScalarMix))
    raised = np.exp(mix.weights.detach().double().numpy())
    np.testing.assert_allclose(told["weights"], raised / raised.sum(), atol=1e-6)
    assert told["gamma"] == pytest.approx(float(mix.gamma.detach()))
    assert "mix" in looking.told["views"]
    taken = looking.reply("export", format="html")
    assert (taken.status_code, "no attention" in taken.json()["error"]["message"]) == (422, True)


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


def test_a_caption_without_a_word_can_be_taken_away_too(loaded: dict[str, Any]) -> None:
    silent = captioner()
    nothing = SimpleNamespace(text="", tokens=[], score=-1.0)
    silent.caption = lambda *given, **options: [SimpleNamespace(nbest=[nothing])]  # type: ignore[method-assign]
    looking = Looking(TestClient(make_app({"silent": silent})), image=encoded())
    for format in ("svg", "html", "json"):
        assert looking.reply("export", format=format).status_code == 200


def test_what_is_seen_is_what_is_taken_away(client: TestClient) -> None:
    looking = Looking(client, model="filler", text=TEXT)
    picture = looking.reply("export", format="svg", kind="encoder", how="rollout").text
    assert "self-attention, rollout through all layers" in picture
    numbers = json.loads(looking.reply("export", format="json", kind="encoder", how="all").content)["weights"]
    (known,) = numbers.values()
    np.testing.assert_allclose(known, map_of(looking, "encoder", "all"), atol=1e-6)
    last = looking.told["attentions"][-1]["layer"]
    assert f"layer {last}, mean of 2 heads" in looking.reply("export", format="svg").text


def test_long_texts_are_drawn_by_their_largest_weights(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.explorer.looking_export.MOST_DRAWN", 6)
    monkeypatch.setattr("regard.explorer.looking_export.MOST_TOLD", 40)
    looking = Looking(client, model="language", text="the cat", more=4)
    name = looking.told["attentions"][0]["name"]
    assert "each cell the largest of" in looking.reply("export", format="svg", attention=name, head=1).text
    assert looking.reply("export", format="npz", attention=name, head=1).status_code == 200
    told = looking.reply("export", format="json", attention=name, head=1).json()["error"]["message"]
    assert told.endswith("take them as NPZ")


def test_pictures_may_be_drawn_at_the_same_time(client: TestClient, older: TestClient) -> None:
    looked = [Looking(client, model="filler", text=TEXT), Looking(older, model="recurrent", text="the cat sat")]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(each.reply, "export", format="png") for each in looked * 2]
        assert {each.result().status_code for each in asked} == {200}


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


def test_room_is_made_before_a_long_text_is_run() -> None:
    class Kept:
        def __init__(self, name: str, count: int):
            self.name, self.bytes = name, count

    sessions = Sessions(budget=10)
    for name in "abc":
        sessions.add("model", Kept(name, 3))  # type: ignore[arg-type]
    sessions.make_room(6)
    assert [each for each in "abc" if sessions.get(each)] == ["c"]
    sessions.make_room(60)
    assert not any(sessions.get(each) for each in "abc")


def test_what_a_session_keeps_is_counted(loaded: dict[str, Any]) -> None:
    language = loaded["language"]
    session = Session("any", subject_of(language, Input(text="the cat", more=4)))
    tokens, size = session.attentions["layers.0.self_attention"].queries, language.model.config.size
    kept = 2 * 2 * tokens * size * 4  # two layers: queries and keys in four bytes each
    words = len(json.dumps(session.told))
    before = session.bytes
    assert kept + words < before < kept + 20 * words
    session.attention("layers.0.self_attention").survey(0)
    assert session.bytes > before + tokens**2


def test_what_was_made_of_a_session_since_is_counted_and_let_go_first(loaded: dict[str, Any]) -> None:
    session = Session("any", subject_of(loaded["language"], Input(text="the cat", more=4)))
    before, name = session.bytes, "layers.0.self_attention"
    session.seen(name)
    with_seen = session.bytes
    tokens, size = session.attentions[name].queries, loaded["language"].model.config.size
    assert with_seen > before + 3 * tokens * size * 4  # what it was called with, and what it gave
    session.seen("layers.1.self_attention")
    assert session.bytes == pytest.approx(with_seen, rel=0.1)  # in its stead
    lines = [f"the {number} cats sat" for number in range(100)]
    session.examples(lines)
    assert session.bytes > with_seen + sum(map(len, lines))
    session.attention(name).survey(0)
    session.let_go()
    assert session.bytes == before
    assert session.seen(name).calls


def test_pictures_of_a_session_are_counted(loaded: dict[str, Any]) -> None:
    small, large = (
        Session(
            "any", subject_of(loaded["vision"], Input(picture=read_image(Image.open(io.BytesIO(content)), 3)))
        ).bytes
        for content in (file(size=(12, 16)), file(size=(1200, 1600)))
    )
    assert large - small == pytest.approx(3 * 1200 * 1600, rel=0.01)


def test_the_weights_of_a_model_are_not_those_of_a_session(loaded: dict[str, Any]) -> None:
    model = loaded["filler"].model
    session = Session("any", subject_of(loaded["filler"], Input(text=TEXT)))
    assert held_bytes([session.subject, *model.parameters()], (model, loaded["filler"])) < 2 * session.bytes
    assert held_bytes(list(model.parameters())) > sum(each.nbytes for each in model.parameters())


def test_a_question_that_makes_a_session_larger_lets_others_go(
    loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = TestClient(make_app({"language": loaded["language"]}))
    first, second = Looking(client, text="the cat", more=4), Looking(client, text="the dog", more=4)
    name = first.told["attentions"][0]["name"]
    step = dict(attention=name, query=1, head=0)
    monkeypatch.setattr(Session, "bytes", property(lambda self: 400 << 20 if self._seen else 200 << 20))
    assert first.reply("row", attention=name, head=0, query=1).status_code == 200
    assert first.reply("steps", **step).status_code == 200
    assert second.reply("steps", **step).status_code == 404
    assert first.reply("steps", **step).status_code == 200


def test_a_session_that_is_alone_and_too_large_keeps_its_pass_only(loaded: dict[str, Any]) -> None:
    sessions, session = (
        Sessions(budget=1000),
        Session("any", subject_of(loaded["language"], Input(text="the cat", more=4))),
    )
    before = session.bytes
    sessions.add("language", session)
    session.seen("layers.0.self_attention")
    session.attention("layers.0.self_attention").survey(0)
    sessions.settle(session)
    assert sessions.get("any") == ("language", session)
    assert session.bytes == before


def test_a_pass_that_nobody_goes_on_from_remembers_nothing(loaded: dict[str, Any]) -> None:
    model, tokens = loaded["language"].model, torch.arange(5, 15)[None]
    with torch.inference_mode():
        states, past = model.read(tokens)
        with forgetting(model):
            same, empty = model.read(tokens)
        again, _ = model.read(tokens[:, -1:], model.read(tokens[:, :-1])[1])  # afterwards all is as ever
    assert torch.equal(states, same)
    assert [len(memory) for memory in past.memories] == [10, 10]
    assert [len(memory) for memory in empty.memories] == [0, 0]
    torch.testing.assert_close(again[:, -1], states[:, -1])


def test_of_a_long_text_logits_are_computed_some_at_a_time(
    client: TestClient, loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.explorer.looking_subjects.LOGITS_AT_ONCE", 3)
    monkeypatch.setattr("regard.explorer.looking_subjects.LONGEST_SEARCHED", 5)
    monkeypatch.setattr("regard.explorer.looking_answers.LONGEST_SEARCHED", 5)
    looking = Looking(client, model="language", text="the dog", more=3)
    tokens = torch.tensor([[*loaded["language"].begin("the dog").tokens[:1], *looking.told["tokens"]["ids"]]])
    with torch.inference_mode():
        chances = loaded["language"].model(tokens)[0, :-1].log_softmax(-1)
    said = [float(row[token]) for row, token in zip(chances, looking.told["tokens"]["ids"], strict=True)]
    told = looking.ask("whatif", off={looking.told["attentions"][0]["name"]: [0]})
    np.testing.assert_allclose(told["before"]["said"], said, atol=1e-4)
    assert not {"beam", "lens"} & set(looking.told["views"])
    for what in ("beam", "lens"):
        assert "at most 5 tokens" in looking.reply(what).json()["error"]["message"]


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
        ("through", {"kind": "cross", "how": "rollout"}, 422),
        ("alignment", {"attention": "encoder.layers.0.self_attention", "tokens": [1]}, 422),
        ("margins", {"attention": "encoder.layers.0.self_attention", "head": 9}, 422),
        ("mix", {}, 422),
        ("document", {}, 422),
        ("picture", {}, 422),
        ("export", {"format": "exe"}, 422),
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
        ({"model": "vision", "examples": {"cat": [encoded(1)], "dog": [encoded(2)]}}, 422),
        ({"model": "matcher", "examples": {"cat": [encoded(1)]}}, 422),
        ({"model": "matcher", "examples": {str(label): [encoded(1)] for label in range(4)}}, 422),
        ({"model": "matcher", "examples": {"cat": ["no picture"], "dog": [encoded(2)]}}, 422),
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
