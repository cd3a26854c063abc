"""Over HTTP a model answers what it answers in Python."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from explorer.tiny_models import SENTENCES, encoded, file
from regard.data.images import read_image
from regard.explorer.served import names_of

SHORT = dict(max_new_tokens=6)


def post(client: TestClient, verb: str, **body: Any) -> list[dict[str, Any]]:
    response = client.post(f"/v1/{verb}", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["model"] == body["model"]
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def image(seed: int = 0) -> Image.Image:
    return read_image(Image.open(io.BytesIO(file(seed))), 3)


def test_models_are_listed_with_what_they_can_do(client: TestClient) -> None:
    cards = {card["name"]: card for card in client.get("/v1/models").json()["models"]}
    assert cards["translator"]["verbs"] == ["translate", "attention"]
    assert cards["filler"]["verbs"] == ["fill", "embed", "attention"]
    assert cards["vision"]["verbs"] == ["classify", "embed", "attention"]
    assert cards["vision"]["reads"] == "images"
    assert cards["matcher"]["verbs"] == ["match"]
    assert cards["classifier"]["labels"] == ["bad", "good", "so-so"]
    assert cards["language"]["family"] == "gpt2"
    assert cards["language"]["parameters"] > 0


def test_translations_with_their_nbest_and_word_links(client: TestClient, loaded: dict[str, Any]) -> None:
    options = dict(num_return_sequences=2, num_beams=3, **SHORT)
    found = post(client, "translate", model="translator", texts=SENTENCES, alignments=True, **options)
    results = loaded["translator"].translate(SENTENCES, **options)
    for known, result, links in zip(found, results, loaded["translator"].links(results), strict=True):
        assert known["source"] == result.source
        assert [each["text"] for each in known["nbest"]] == [each.text for each in result.nbest]
        assert [each["alignment"] for each in known["nbest"]] == links
        assert known["score"] == pytest.approx(result.score, abs=1e-5)
    (one,) = post(client, "translate", model="translator", texts=SENTENCES[0], **SHORT)
    assert one["alignment"] is None


def test_more_hypotheses_than_beams_widen_the_beam(client: TestClient) -> None:
    (known,) = post(client, "translate", model="translator", texts="a man", num_return_sequences=5, **SHORT)
    assert len(known["nbest"]) == 5


def test_texts_go_on_from_their_prompts_drawn_or_not(client: TestClient, loaded: dict[str, Any]) -> None:
    prompts = ["the animal", "", "a man"]
    for options in (
        dict(SHORT),
        dict(SHORT, do_sample=True, seed=3, num_return_sequences=2),
        dict(SHORT, stop=["\x07"]),
    ):
        found = post(client, "generate", model="language", prompts=prompts, **options)
        expected = loaded["language"].generate(prompts, **options)
        assert [[each["text"] for each in known["nbest"]] for known in found] == [
            [each.text for each in known.nbest] for known in expected
        ]


def test_gaps_are_filled(client: TestClient, loaded: dict[str, Any]) -> None:
    (known,) = post(client, "fill", model="filler", texts="the [MASK] did [MASK] cross", top=2)
    expected = loaded["filler"].fill("the [MASK] did [MASK] cross", top=2)[0]
    assert known["text"] == expected.text
    assert [[guess["word"] for guess in gap] for gap in known["guesses"]] == [
        [guess.word for guess in gap] for gap in expected.guesses
    ]


def test_texts_pairs_and_pictures_get_their_labels(client: TestClient, loaded: dict[str, Any]) -> None:
    found = post(client, "classify", model="classifier", texts=SENTENCES)
    expected = loaded["classifier"].classify(SENTENCES)
    assert [known["label"] for known in found] == [known.label for known in expected]
    (pair,) = post(client, "classify", model="classifier", texts="a man", second_texts="two dogs")
    probabilities = loaded["classifier"].classify([("a man", "two dogs")])[0].probabilities
    assert pair["probabilities"] == pytest.approx(probabilities)
    (seen,) = post(client, "classify", model="vision", images=encoded(1))
    assert seen["probabilities"] == pytest.approx(loaded["vision"].classify([image(1)])[0].probabilities)
    (wordless,) = post(client, "classify", model="classifier", texts="\x01")
    assert wordless == {"label": None, "probabilities": {}}


def test_words_get_their_tags(client: TestClient, loaded: dict[str, Any]) -> None:
    (known,) = post(client, "tag", model="tagger", texts="a man is looking")
    expected = loaded["tagger"].tag("a man is looking")[0]
    assert known["words"] == list(expected.words)
    assert known["tags"] == list(expected.tags)


def test_texts_and_pictures_become_vectors(client: TestClient, loaded: dict[str, Any]) -> None:
    found = post(client, "embed", model="embedder", texts=SENTENCES, pooling="cls", normalize=True)
    expected = loaded["embedder"].embed(SENTENCES, pooling="cls", normalize=True)
    assert np.allclose([known["embedding"] for known in found], expected, atol=1e-5)
    (seen,) = post(client, "embed", model="vision", images=[encoded(1)])
    assert np.allclose(seen["embedding"], loaded["vision"].embed([image(1)])[0], atol=1e-5)


def test_pictures_get_their_captions(client: TestClient, loaded: dict[str, Any]) -> None:
    found = post(client, "caption", model="captioner", images=[encoded(0), f"data:image/png;base64,{encoded(1)}"])
    expected = loaded["captioner"].caption([image(0), image(1)])
    assert [known["text"] for known in found] == [known.text for known in expected]


def test_a_form_brings_pictures_as_files(client: TestClient) -> None:
    files = [("images", ("a.png", file(0))), ("images", ("b.png", file(1)))]
    response = client.post("/v1/caption", files=files, data={"model": "captioner", "num_beams": "1"})
    assert response.status_code == 200, response.text
    assert response.json()["results"] == post(
        client, "caption", model="captioner", images=[encoded(0), encoded(1)], num_beams=1
    )
    one = client.post("/v1/classify", files={"images": file(0)}, data={"model": "vision"})
    assert one.json()["results"] == post(client, "classify", model="vision", images=encoded(0))


def test_pictures_are_matched_with_examples(client: TestClient, loaded: dict[str, Any]) -> None:
    examples = {"b": [encoded(2), encoded(3)], "a": encoded(4)}
    found = post(client, "match", model="matcher", images=[encoded(0), encoded(1)], examples=examples)
    expected = loaded["matcher"].match({"b": [image(2), image(3)], "a": [image(4)]}, [image(0), image(1)])
    for known, result in zip(found, expected, strict=True):
        assert known["label"] == result.label
        assert known["probabilities"] == pytest.approx(result.probabilities)


# Attention


def test_attention_first_tells_shapes_then_the_chosen_weights(client: TestClient, loaded: dict[str, Any]) -> None:
    asked = dict(model="translator", text="a man in a hat", target="two dogs")
    (shapes,) = post(client, "attention", **asked)
    assert shapes["said"] == "two dogs"
    kinds = {known["name"]: known["kind"] for known in shapes["attentions"]}
    assert sorted(kinds.values()) == ["cross", "cross", "decoder", "decoder", "encoder"]
    for known in shapes["attentions"]:
        side = shapes["sides"][known["kind"]]
        assert known["shape"] == [2, len(side["queries"]), len(side["keys"])]
        assert known["weights"] is None
    name = next(name for name, kind in kinds.items() if kind == "cross")
    (found,) = post(client, "attention", **asked, weights=True, layers=name, heads=[-1], queries=[2, 0])
    (known,) = found["attentions"]
    (expected,) = loaded["translator"].look(asked["text"], asked["target"], layers=[name], heads=[1])
    assert (known["name"], known["heads"], known["rows"]) == (name, [1], [2, 0])
    assert np.allclose(known["weights"], expected.weights[:, [2, 0]], atol=1e-6)
    assert found["sides"]["cross"]["queries"] == list(expected.queries)


@pytest.mark.parametrize(
    ("model", "text"), [("language", "a man in"), ("filler", "a [MASK] in"), ("classifier", "a man")]
)
def test_attention_of_models_that_read_one_text(
    client: TestClient, loaded: dict[str, Any], model: str, text: str
) -> None:
    (found,) = post(client, "attention", model=model, text=text, weights=True)
    verbs = loaded[model]
    maps = verbs.look_tokens(text) if model == "classifier" else verbs.look(text)
    assert len(found["attentions"]) == len(maps) == 2
    for known, expected in zip(found["attentions"], maps, strict=True):
        assert np.allclose(known["weights"], expected.weights, atol=1e-6)
        assert found["sides"][known["kind"]]["keys"] == list(expected.keys)


def test_attention_over_sentences_and_over_pictures(client: TestClient, loaded: dict[str, Any]) -> None:
    (read,) = post(client, "attention", model="documents", text="a man. two dogs!")
    assert [sentence["text"] for sentence in read["document"]] == ["a man.", "two dogs!"]
    assert sum(word["weight"] for word in read["document"][0]["words"]) == pytest.approx(1, abs=1e-4)
    (seen,) = post(client, "attention", model="vision", image=encoded(1), weights=True, layers=[-1])
    expected = loaded["vision"].look(image(1))
    assert seen["sides"]["image"]["grid"] == [2, 2]
    assert np.allclose(seen["attentions"][0]["weights"], expected.weights[0].reshape(2, 1, 4), atol=1e-6)
    (said,) = post(client, "attention", model="captioner", image=encoded(1), target="two dogs", weights=True)
    caption = loaded["captioner"].look(image(1), "two dogs")
    assert said["sides"]["image"]["queries"] == ["two", "dogs"]
    assert np.allclose(said["attentions"][0]["weights"], caption.weights.reshape(1, 2, -1), atol=1e-6)


# Around it


def test_the_server_says_how_it_is_and_counts_what_it_did(client: TestClient) -> None:
    post(client, "tag", model="tagger", texts="a man")
    assert client.get("/health").json() == {"status": "ok"}
    told = client.get("/metrics").text
    for part in (
        'regard_requests_total{verb="tag",status="200"}',
        'regard_request_seconds_bucket{verb="tag",le="+Inf"}',
        'regard_batch_requests_count{model="tagger",verb="tag"}',
        'regard_queue_length{model="tagger"} 0',
        "regard_requests_running 0",
    ):
        assert part in told


def test_the_description_is_for_machines_and_for_people_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    openapi = client.get("/openapi.json").json()
    assert {"/v1/models", "/v1/translate", "/v1/attention", "/health"} <= openapi["paths"].keys()
    page = client.get("/docs")
    assert "POST /v1/translate" in page.text
    assert "num_beams" in page.text
    assert "//" not in page.text.replace("<!doctype", "")
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_names_are_those_of_the_folders_and_unique() -> None:
    runs = ["runs/demo", "/elsewhere/demo/", "runs/demo/checkpoints/best", "hf:google/bert@main", "demo"]
    assert names_of(runs) == ["demo", "demo-2", "demo@best", "google/bert@main", "demo-3"]
