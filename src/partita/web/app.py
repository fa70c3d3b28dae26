"""What does the server answer? The application: paths, their requests and their answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as PlainHTTPException

from ..errors import PartitaError, unknown
from ..serving.questions import Questions
from .bodies import Answer, Ask, ClientFacts, Clients, Health, Join, Joined, Name, Problem, Runs, Signature
from .catalogue import Answered, Catalogue, Question
from .entries import Entry, matching
from .files import add_page
from .limits import Application, Gate, Limits
from .metrics import CONTENT_TYPE, Counted, Metrics
from .predictions import predictions
from .queue import ClosedError, FullError, Queue

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": why}
    for status, why in {
        401: "The token is missing or wrong",
        404: "There is no such run or client",
        422: "The request is not of the right form",
        429: "Too many requests",
        503: "The server is too busy, or the model cannot be read",
    }.items()
}
BODY_REFUSALS = REFUSALS | {
    400: {"model": Problem, "description": "The body cannot be read"},
    408: {"model": Problem, "description": "The body did not arrive in time"},
    413: {"model": Problem, "description": "The body is too large"},
}
Made = TypeVar("Made")
MOST_NAMED = 50
"""Clients that an error names."""
FORBIDDEN: dict[int | str, dict[str, Any]] = {403: {"model": Problem, "description": "The server has no token"}}
RunName = Annotated[Name | None, Query(description="The name of a run; needed if several are served.")]


class Reply(JSONResponse):
    """JSON in plain ASCII: a name may hold what UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def application(
    catalogue: Catalogue,
    limits: Limits,
    token: str | None = None,
    *,
    local: bool = True,
    on_start: Callable[[], None] = lambda: None,
) -> Application:
    """All that the server answers, with its limits before it; `local` answers under names of this machine alone."""
    metrics = Metrics()
    queue: Queue[Question, Answered] = Queue(
        catalogue.answer, rows=limits.batch, waiting=limits.waiting, on_batch=metrics.batch
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await queue.start()
        on_start()
        yield
        await queue.close()

    app = FastAPI(
        title="Partita",
        version=version("partita"),
        description="Answers of personal models: one shared body, and a personal part for every client.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Reply,
    )
    add_page(app)
    _add_refusals(app)

    @app.get("/health", response_model=Health, responses=_only(429))
    async def health() -> Reply:
        """Whether the server runs."""
        return Reply({"status": "ok", "runs": len(catalogue.entries), "personal_parts": len(catalogue.parts)})

    @app.get("/metrics", responses=_only(401, 429), response_class=Response)
    async def prometheus() -> Response:
        """Counts and times, for Prometheus."""
        metrics.waiting.set(len(queue))
        metrics.parts.set(len(catalogue.parts))
        metrics.bytes.set(catalogue.parts.bytes)
        metrics.loads.set(catalogue.parts.loaded)
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/runs", response_model=Runs, responses=_only(401, 429))
    async def runs() -> Reply:
        """The runs and exported folders that are served."""
        return Reply({"runs": await queue.run(lambda: [_listed(each) for each in catalogue.entries.values()])})

    @app.get("/signature", response_model=Signature, responses=REFUSALS)
    async def signature(run: RunName = None) -> Reply:
        """What the models of a run take, and whether there is a global one."""
        entry = _entry(catalogue, run)
        served = await _within(limits, queue.run(lambda: catalogue.served(entry.name)))
        return Reply(
            {
                "run": entry.name,
                **served.signature(),
                "has_global": served.common is not None,
                "no_global": served.no_global,
            }
        )

    @app.get("/clients", response_model=Clients, responses=REFUSALS)
    async def clients(
        run: RunName = None,
        find: Annotated[str, Query(max_length=1000, description="Letters of the client's name.")] = "",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Reply:
        """The clients of a run."""
        entry = _entry(catalogue, run)

        def found() -> dict[str, Any]:
            names = matching(entry, find)
            shown = names[offset : offset + limit]
            rows = [{"client": each, "samples": entry.samples(each), "score": entry.score(each)} for each in shown]
            return {"run": entry.name, "total": len(names), "clients": rows}

        return Reply(await _within(limits, queue.run(found)))

    @app.get("/clients/{client:path}", response_model=ClientFacts, responses=REFUSALS)
    async def client_facts(client: str, run: RunName = None) -> Reply:
        """What is known of a client: its label counts, and its score beside the floor and the baselines."""
        entry = _entry(catalogue, run)

        def found() -> dict[str, Any]:
            _need_client(entry, client)
            return {"run": entry.name, "client": client, **entry.client_facts(client)}

        return Reply(await _within(limits, queue.run(found)))

    @app.post("/predict", response_model=Answer, responses=BODY_REFUSALS)
    async def predict(asked: Ask) -> Reply:
        """Answers of a client's model, or of the global one."""
        entry = _entry(catalogue, asked.run)
        given = _given(asked, limits)

        async def answered() -> tuple[Any, Any, Answered]:
            known = catalogue.ready(entry.name)
            served = await queue.run(lambda: catalogue.served(entry.name)) if known is None else known
            _need_client(entry, asked.client)
            if asked.model == "global" and served.common is None:
                raise HTTPException(404, served.no_global)
            try:
                inputs = served.inputs(given)
            except PartitaError as problem:
                raise HTTPException(422, str(problem)) from problem
            if inputs.is_floating_point() and not inputs.isfinite().all():
                raise HTTPException(422, "The inputs hold a number that is too large.")
            who = asked.client if asked.model == "personal" else None
            return served, inputs, await queue.ask(Question(entry.name, who, inputs), len(inputs))

        served, inputs, answer = await _within(limits, answered())
        if not answer.outputs.isfinite().all():
            raise HTTPException(422, "The model's answer to these inputs is not a finite number.")
        return Reply(
            {
                "run": entry.name,
                "client": asked.client,
                "model": asked.model,
                "about": answer.held.about,
                "guarded": answer.held.guarded,
                "predictions": predictions(inputs, answer, served.inputs.kind, asked.most),
            }
        )

    @app.post("/clients", response_model=Joined, status_code=201, responses=BODY_REFUSALS | FORBIDDEN)
    async def onboard(asked: Join) -> Reply:
        """Make a model for a new client: train its personal part on these samples, with all else frozen."""
        if token is None:
            raise HTTPException(403, "Clients are onboarded only with a token: start the server with --token-file.")
        entry = _entry(catalogue, asked.run)
        given = _given(asked, limits)
        labels = None if asked.labels is None else [str(each) for each in asked.labels]
        if labels is not None and len(labels) != len(given):
            raise HTTPException(422, f"{len(given)} inputs, but {len(labels)} labels. They must be of the same length.")
        samples = Questions(given, [str(row) for row in range(len(given))], labels)
        try:
            newcomer = await queue.run(lambda: catalogue.onboard(entry.name, asked.client, samples))
        except PartitaError as problem:
            raise HTTPException(422, str(problem)) from problem
        except ClosedError:
            _busy("The server stops.")
        made = await _said(queue.run(lambda: catalogue.add(entry.name, newcomer)))
        told = {"run": entry.name, "client": asked.client, "samples": len(given)}
        return Reply({**told, "about": made.about, "guarded": made.guarded, "kept": entry.keeps(asked.client)}, 201)

    @app.get("/report", response_class=HTMLResponse, responses=REFUSALS)
    async def report(run: RunName = None) -> HTMLResponse:
        """The report of a run."""
        text = await asyncio.to_thread(_entry(catalogue, run).report)
        if text is None:
            raise HTTPException(404, "Exported models have no report: it is made from their run.")
        return HTMLResponse(text)

    return Counted(Gate(app, limits, token, local=local), metrics)


def _given(asked: Ask | Join, limits: Limits) -> list[Any]:
    """Inputs or texts, not too many."""
    given = asked.inputs if asked.texts is None else asked.texts
    if given is None or (asked.inputs is not None and asked.texts is not None):
        raise HTTPException(422, "Give either inputs or texts.")
    if len(given) > limits.rows:
        raise HTTPException(
            422, f"The request has {len(given)} inputs, and at most {limits.rows} are allowed. Send several requests."
        )
    if asked.texts is None and all(isinstance(each, str) for each in given):
        raise HTTPException(422, "The inputs are texts: give them as texts.")
    return given


def _entry(catalogue: Catalogue, name: str | None) -> Entry:
    try:
        return catalogue.entry(name)
    except PartitaError as problem:
        raise HTTPException(404 if name else 422, str(problem)) from problem


def _need_client(entry: Entry, client: str) -> None:
    if client not in entry.clients:
        raise HTTPException(404, unknown("client", client, list(entry.clients)[:MOST_NAMED]))


def _listed(entry: Entry) -> dict[str, Any]:
    try:
        return {"name": entry.name, "problem": None, **entry.facts()}
    except PartitaError as problem:
        return {"name": entry.name, "problem": str(problem)}


async def _within(limits: Limits, work: Awaitable[Made]) -> Made:
    """The models' answer, within the time limit; a failure is answered with its reason."""
    try:
        return await asyncio.wait_for(_said(work), limits.seconds)
    except asyncio.TimeoutError:
        _busy(f"There was no answer within {limits.seconds:g} seconds. Ask again later.")
    except FullError:
        _busy(f"{limits.waiting} questions are waiting already. Ask again later.")


async def _said(work: Awaitable[Made]) -> Made:
    """The models' answer; if they stop, or cannot be read or written, the reason."""
    try:
        return await work
    except ClosedError:
        _busy("The server stops.")
    except PartitaError as problem:
        _busy(str(problem))


def _busy(reason: str) -> NoReturn:
    raise HTTPException(503, reason, {"Retry-After": "1"})


def _only(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: REFUSALS[status] for status in statuses}


def _add_refusals(app: FastAPI) -> None:
    """Every refusal is one line; what was sent is not sent back."""

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, problem: RequestValidationError) -> Reply:
        told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors()[:3])
        return Reply({"detail": f"The request is not of the right form. {'; '.join(told)}."}, 422)

    @app.exception_handler(PlainHTTPException)
    async def refused(_: Request, problem: PlainHTTPException) -> Reply:
        return Reply({"detail": str(problem.detail)}, problem.status_code, problem.headers)
