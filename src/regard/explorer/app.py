"""The REST API: a route per verb, the models, health, metrics, and a description of it all.

    POST /v1/translate {"texts": ["the red car"]}  ->  {"model": "demo", "results": [{"text": "el coche rojo", ...}]}

A request is read and measured here, done in the thread of its model (`worker.py`), and answered with JSON.
"""

import asyncio
import time
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, create_model
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from regard import __version__
from regard.errors import RegardError
from regard.explorer.describing import described, description_page
from regard.explorer.guard import API, HEALTH, METRICS, Guard
from regard.explorer.limits import Limits
from regard.explorer.looking_routes import looking_routes
from regard.explorer.meters import Meters
from regard.explorer.reading import read
from regard.explorer.refusals import Faulty, Refusal, explained
from regard.explorer.schemas import Generate, Models
from regard.explorer.served import Served, Shelf
from regard.explorer.streaming import Stream, streamed
from regard.explorer.verbs import VERBS, Verb
from regard.explorer.worker import Work

FAULTS = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 504)
LONGEST_PATH = 100  # characters that are repeated to a client


def make_app(
    loaded: dict[str, Any],
    limits: Limits | None = None,
    key: str | None = None,
    hosts: frozenset[str] | None = None,
) -> Guard:
    """The application around loaded runs by name; `hosts`, if given, are the only names it answers to."""
    limits, meters = limits or Limits(), Meters()
    shelf = Shelf(loaded, meters)
    # A redirect would have to trust the name that the client calls us by.
    app = FastAPI(title="regard", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    guard = Guard(app, limits, meters, VERBS, key, hosts)
    app.state.shelf = shelf

    @app.exception_handler(Refusal)
    @app.exception_handler(RegardError)
    @app.exception_handler(Exception)  # the server's log tells it in full
    async def refuse(request: Request, error: Exception) -> Response:
        return explained(error).response()

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"][:LONGEST_PATH]
        told = {404: f"there is no {path} here; /docs says what there is", 405: "this needs another method"}
        headers = dict(error.headers or {})
        return Refusal(error.status_code, told.get(error.status_code, str(error.detail)), headers).response()

    @app.get(
        f"{API}models", response_model=Models, summary="The models that are served.", responses=faults(401, 403, 503)
    )
    async def models() -> Response:
        return as_json(Models(models=[served.card() for served in shelf.models.values()]))

    @app.get(HEALTH, summary="Whether the server works.", responses=faults(403, 503))
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(METRICS, response_class=PlainTextResponse, summary="Counts, in the text format of Prometheus.")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(meters.text(), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
        return HTMLResponse(description_page(app.openapi()), headers=policy)

    app.include_router(looking_routes(shelf, limits, done))
    for name, verb in VERBS.items():
        add_verb(app, name, verb, shelf, limits)
    return guard


def add_verb(app: FastAPI, name: str, verb: Verb, shelf: Shelf, limits: Limits) -> None:
    fields: Any = {"model": (str, ...), "results": (list[verb.result], ...)}
    reply: Any = create_model(f"{name.title()}Reply", **fields)

    async def answer(request: Request) -> Response:
        over = time.monotonic() + limits.seconds
        asked = await read(request, verb.asked)
        served = shelf.find(asked.model, name)
        if isinstance(asked, Generate) and asked.stream:
            stream = Stream()
            work = await run_in_threadpool(streamed, served.loaded, asked, limits, stream.tell)
            work.verb = name
            return await stream.response(served.worker, work, over - time.monotonic())
        work = await run_in_threadpool(verb.work, served.loaded, asked, limits)
        work.verb = name
        results = await done(request, served, work, over - time.monotonic())
        return as_json(reply(model=served.name, results=results))

    app.post(
        f"{API}{name}",
        name=name,
        summary=verb.about,
        response_model=reply,
        responses=faults(*FAULTS),
        openapi_extra=described(verb.asked),
    )(answer)


async def done(request: Request, served: Served, work: Work, seconds: float) -> list[Any]:
    """The results of work, unless it takes too long or nobody waits for it any more."""
    result: asyncio.Future[Any] = asyncio.wrap_future(served.worker.submit(work))
    result.add_done_callback(lambda known: known.cancelled() or known.exception())  # who has left need not hear it
    leaving: asyncio.Future[Any] = asyncio.ensure_future(left(request))
    try:
        await asyncio.wait({result, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if result.done():
            return result.result()
        if leaving.done():
            raise Refusal(499, "the client has left")
        raise Refusal(504, "this took too long; send less at once, or ask for fewer tokens")
    finally:
        work.abandoned = True
        leaving.cancel()


async def left(request: Request) -> None:
    """Until the client goes away; the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def as_json(reply: BaseModel) -> Response:
    # FastAPI would check again what is right by construction: too slow for a million weights.
    return Response(reply.model_dump_json(), media_type="application/json")


def faults(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Faulty} for status in statuses}
