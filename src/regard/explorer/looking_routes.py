"""The questions of the explorer page, as routes of the server: `/` is the page, `/v1/look...` what it asks.

    POST /v1/look         {"model": "demo", "text": "the white house"}  ->  what was said, tokens, attentions, a session
    POST /v1/look/tile    {"session": ..., "attention": ..., "head": 3, "level": 0, "row": 0, "column": 1}  ->  bytes

All of it is done in the thread of the model, like every other request, but for the rows under a reader's pointer: they
are a few products with keys that are there, and come at once.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, Response

from regard.attention import attentions
from regard.explorer import looking_answers as answers
from regard.explorer import looking_asked as asked
from regard.explorer.guard import API
from regard.explorer.inputs import check_made, pictures, reads_pictures, texts, token_ids
from regard.explorer.limits import Limits
from regard.explorer.looking import Session, Sessions, bytes_of
from regard.explorer.looking_export import MEDIA, export
from regard.explorer.looking_kinds import subject_of
from regard.explorer.looking_subjects import Input
from regard.explorer.page import POLICY, page_html, script, style
from regard.explorer.reading import decoded, read
from regard.explorer.refusals import Refusal
from regard.explorer.served import Served, Shelf
from regard.explorer.worker import Work
from regard.tasks.matcher import Matcher

Done = Callable[[Request, Served, Work, float], Awaitable[list[Any]]]


@dataclass(frozen=True)
class Question:
    asked: type[asked.OfSession]
    answer: Callable[[Session, Any], Any]
    at_once: bool = False  # small, and no layer runs for it: it need not wait until the model has time
    count: Callable[[Any, Any, Limits], int] = lambda loaded, given, limits: 1  # its tokens; too many are refused


def count_lines(loaded: Any, given: asked.Importance, limits: Limits) -> int:
    return texts(loaded, given.lines, limits, "lines")[1]


def count_path(loaded: Any, given: asked.Path, limits: Limits) -> int:
    return token_ids(loaded, given.tokens, limits, "tokens")


def count_search(loaded: Any, given: asked.Beam, limits: Limits) -> int:
    check_made(given.max_new_tokens, limits, "max_new_tokens")
    return given.num_beams * (given.max_new_tokens or 1)


QUESTIONS: dict[str, Question] = {
    "weights": Question(asked.Weights, answers.weights),
    "tile": Question(asked.Tile, answers.tile),
    "row": Question(asked.Row, answers.row, at_once=True),
    "overview": Question(asked.OfAttention, answers.overview),
    "margins": Question(asked.Margins, answers.margins),
    "steps": Question(asked.Steps, answers.steps),
    "addressing": Question(asked.Addressing, answers.addressing),
    "next": Question(asked.Next, answers.next_tokens),
    "beam": Question(asked.Beam, answers.beam, count=count_search),
    "alignment": Question(asked.Path, answers.alignment, count=count_path),
    "whatif": Question(asked.WhatIf, answers.what_if),
    "importance": Question(asked.Importance, answers.importance, count=count_lines),
    "through": Question(asked.Through, answers.through_layers),
    "lens": Question(asked.OfSession, answers.lens),
    "positions": Question(asked.OfSession, answers.positions),
    "mix": Question(asked.OfSession, answers.mix),
    "document": Question(asked.OfSession, answers.document),
    "picture": Question(asked.OfSession, answers.picture),
    "export": Question(asked.Export, export),
}


def looking_routes(shelf: Shelf, limits: Limits, done: Done) -> APIRouter:
    """`done` does work in the thread of its model and waits for it."""
    router, sessions = APIRouter(include_in_schema=False), Sessions()

    @router.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(page_html(), headers={"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"})

    @router.get("/explorer.js")
    async def scripts() -> Response:
        return Response(script(), media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    @router.get("/explorer.css")
    async def styles() -> Response:
        return Response(style(), media_type="text/css", headers={"Cache-Control": "no-cache"})

    @router.post(f"{API}look")
    async def run(request: Request) -> Response:
        over = time.monotonic() + limits.seconds
        given = await read(request, asked.Run)
        served = found(shelf, given.model)
        name = sessions.name_of(served.name, given.model_dump_json(exclude={"model"}))
        known = sessions.get(name)
        if known is None:
            work = await run_in_threadpool(beginning, served, given, limits, name)
            sessions.make_room(expected_bytes(served.loaded.model, work.cost))
            (session,) = await done(request, served, work, over - time.monotonic())
            sessions.add(served.name, session)
        else:
            _, session = known
        return JSONResponse({"model": served.name, **session.told})

    for name, question in QUESTIONS.items():
        router.post(f"{API}look/{name}", name=f"look-{name}")(route(question, shelf, sessions, limits, done))
    return router


def route(question: Question, shelf: Shelf, sessions: Sessions, limits: Limits, done: Done) -> Any:
    async def answer(request: Request) -> Response:
        over = time.monotonic() + limits.seconds
        given = await read(request, question.asked)
        model, session = sessions.find(given.session)
        if question.at_once:
            return reply_of(given, await run_in_threadpool(question.answer, session, given))
        served = shelf.models[model]
        cost = await run_in_threadpool(question.count, served.loaded, given, limits)

        def call(items: list[Any]) -> list[Any]:
            try:
                return [question.answer(session, each) for each in items]
            finally:
                sessions.settle(session)

        work = Work(call, [given], cost, verb="look")
        (told,) = await done(request, served, work, over - time.monotonic())
        return reply_of(given, told)

    return answer


def reply_of(given: asked.OfSession, told: Any) -> Response:
    if not isinstance(told, bytes):
        return JSONResponse(told)
    media = MEDIA[given.format] if isinstance(given, asked.Export) else "application/octet-stream"
    return Response(told, media_type=media)


def expected_bytes(model: Any, tokens: int) -> int:
    """About what will be kept of a text with so many tokens."""
    return bytes_of(model, [(tokens, tokens)] * len(attentions(model)))


def found(shelf: Shelf, name: str | None) -> Served:
    served = next(iter(shelf.models.values())) if name is None else shelf.models.get(name)
    if served is None:
        raise Refusal(404, f"there is no model {name!r} here; there are: {', '.join(shelf.models)}")
    return served


def beginning(served: Served, given: asked.Run, limits: Limits, name: str) -> Work:
    """The work of running an example and keeping its pass."""
    loaded = served.loaded
    if given.image is not None and not reads_pictures(loaded):
        raise Refusal(422, "this model reads texts, not pictures")
    if given.examples and not isinstance(loaded, Matcher):
        raise Refusal(422, "examples are for a model that compares pictures, and this one does not")
    typed = [text for text in (given.text, given.second_text, given.target) if text]
    _, cost = texts(loaded, typed, limits, "text")
    cost += token_ids(loaded, given.forced, limits, "forced")
    if "more" in given.model_fields_set:
        check_made(given.more, limits, "more")
    labels = [label for label, own in given.examples.items() for _ in own]
    sent = [encoded for own in given.examples.values() for encoded in own]
    files, _ = pictures([*sent, given.image] if given.image is not None else sent, "images")

    def call(items: list[Any]) -> list[Session]:
        images = [decoded(file, loaded.preprocessing.channels) for file in files]
        shown = images.pop() if given.image is not None else None
        examples: dict[str, list[Any]] = {}
        for label, image in zip(labels, images, strict=True):
            examples.setdefault(label, []).append(image)
        given_input = Input(
            text=given.text or "",
            second=given.second_text or None,
            picture=shown,
            examples=examples or None,
            target=given.target or None,
            hypothesis=given.hypothesis,
            forced=tuple(given.forced),
            more=given.more,
        )
        return [Session(name, subject_of(loaded, given_input))]

    return Work(call, [None], cost, verb="look")
