"""Whatever can be said in the language of the description is answered; what is asked is never a fault of ours."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from explorer.tiny_models import encoded
from regard.explorer.schemas import Decoded
from regard.explorer.verbs import VERBS

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402

MODELS = {
    "translate": ["translator"],
    "generate": ["language"],
    "fill": ["filler"],
    "classify": ["classifier", "documents", "vision"],
    "tag": ["tagger"],
    "embed": ["embedder", "filler", "vision"],
    "caption": ["captioner"],
    "match": ["matcher"],
    "attention": ["translator", "language", "filler", "classifier", "documents", "vision", "captioner"],
}
OPTIONS: dict[str, Any] = dict(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def schema(guard: Any) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", guard)


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=12, **OPTIONS)
@given(data=st.data())
def test_bodies_of_the_described_shape_and_others_are_never_a_5xx(
    schema: Any, client: TestClient, verb: str, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
    case = data.draw(schema["/v1/" + verb]["POST"].as_strategy(generation_mode=mode))
    body = case.body
    if isinstance(body, dict) and case.media_type == "application/json":
        body = {**body, "model": data.draw(st.sampled_from(MODELS[verb]))}
        if issubclass(VERBS[verb].asked, Decoded):
            body |= {"max_new_tokens": 2}  # so that a test has an end
        case.body = body
    response = case.call()
    assert response.status_code < 500, (body, response.content)
    # A schema cannot say that a text needs a [MASK], or that a picture must be one.
    case.validate_response(response, excluded_checks=[positive_data_acceptance, negative_data_rejection])


PAGES = ("/v1/models", "/health", "/metrics")


def test_every_described_operation_is_tried_here(schema: Any) -> None:
    described = {(operation.ok().method.upper(), operation.ok().path) for operation in schema.get_all_operations()}
    assert described == {("POST", f"/v1/{verb}") for verb in VERBS} | {("GET", page) for page in PAGES}


@pytest.mark.parametrize("page", PAGES)
@settings(max_examples=30, **OPTIONS)
@given(data=st.data())
def test_pages_conform_to_their_description(schema: Any, page: str, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)))
    case = data.draw(schema[page]["GET"].as_strategy(generation_mode=mode))
    case.call_and_validate(excluded_checks=[positive_data_acceptance, negative_data_rejection])


PLAIN: dict[str, dict[str, Any]] = {
    "translate": dict(texts=["a man", "two dogs"], num_beams=2, max_new_tokens=2),
    "generate": dict(prompts="a man", max_new_tokens=2, do_sample=True, seed=1, top_p=0.9),
    "fill": dict(texts="a [MASK]", top=3),
    "classify": dict(texts="a man", images=encoded()),
    "tag": dict(texts="a man"),
    "embed": dict(texts="a man", images=encoded(), pooling="cls"),
    "caption": dict(images=encoded(), max_new_tokens=2),
    "match": dict(images=encoded(), examples={"a": encoded(1), "b": encoded(2)}),
    "attention": dict(text="a man", image=encoded(), weights=True, layers=0, heads=[0], queries=[0]),
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=3),
)


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=25, **OPTIONS)
@given(data=st.data())
def test_a_good_body_with_something_odd_in_it_is_never_a_5xx(
    client: TestClient, verb: str, data: st.DataObject
) -> None:
    body = {**PLAIN[verb], "model": data.draw(st.sampled_from(MODELS[verb]))}
    if data.draw(st.booleans()):
        body.pop(data.draw(st.sampled_from(["images", "image", "texts", "text"])), None)
    body[data.draw(st.sampled_from(sorted(VERBS[verb].asked.model_fields)))] = data.draw(ODD)
    if issubclass(VERBS[verb].asked, Decoded):
        body["max_new_tokens"] = 2  # so that a test has an end
    content = json.dumps(body).encode()
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(content)))
        content = content[:place] + data.draw(st.binary(max_size=3)) + content[place + 1 :]
    response = client.post(f"/v1/{verb}", content=content, headers={"content-type": "application/json"})
    assert response.status_code < 500, (content, response.text)
    assert response.status_code == 200 or response.json()["error"]["message"]
