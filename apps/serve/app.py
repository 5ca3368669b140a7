"""The HTTP service itself: addresses, what they take and answer, and how it is started.

``POST /parse`` answers with the document.  ``POST /jobs`` answers at once; the job is asked for until it is done.  The
web process never looks into a document: that is for the reading processes, which have limits of time and memory.
Nothing is kept after the answer but the results of jobs, and those for minutes only.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from apps.serve import openapi
from apps.serve.answers import FORMATS, SAFE_HEADERS, Refusal, ServiceSettings, wanted_format
from apps.serve.gate import Gate
from apps.serve.jobs import Jobs, Work
from apps.serve.pool import Pool
from apps.serve.reading import ANSWER, Job
from apps.serve.uploads import Upload, folder_for, new_folder, receive
from docvision import __version__
from docvision.table_readers import TABLE_READERS

ALIVE_SECONDS = 0.5
"""How often it is looked whether the caller still waits."""


class Options(BaseModel):
    """What a request may ask for; the names and meanings are those of ``docvision parse``."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "md", "html", "txt", "jsonl"] | None = Field(
        None, description="Of the answer; without it the Accept header decides, and JSON where that takes anything."
    )
    pages: str = Field("", max_length=1000, description="Such as 1-5,8,r1 (r1 is the last); all without it.")
    text: Literal["auto", "layer", "model"] = Field(
        "auto", description="layer: the PDF's own text; model: read the picture; auto: the layer if it holds up."
    )
    layout: Literal["auto", "rules"] = Field("auto", description="rules: never use the model.")
    tables: Literal["auto", "html", "markdown"] = Field("auto", description="Form of tables in Markdown.")
    table_reader: str = Field("maps", max_length=20, description=f"One of {', '.join(TABLE_READERS)}: finds cells.")
    headers: bool = Field(False, description="Write running headers and footers.")
    anchors: bool = Field(False, description="In Markdown: begin each page with an anchor.")
    join_tables: bool = Field(True, description="Write a table over several pages as one.")

    def job(self, upload: Upload, format: str) -> Job:
        options = self.model_dump(exclude={"format"})
        return Job(str(upload.folder), upload.name, format, password=upload.password, **options)


class Service:
    """The state behind the addresses: a temporary folder, the reading processes, the jobs.

    Args:
        settings: see :class:`apps.serve.answers.ServiceSettings`.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """While the application lives; afterwards no process and no file is left."""
        self.root = Path(tempfile.mkdtemp(prefix="docvision-serve-"))
        self.pool = Pool(self.settings, self.root)
        self.jobs = Jobs(self.settings, self.pool)
        sweeping = asyncio.create_task(self.jobs.sweep())
        try:
            self.pool.start()
            yield
        finally:
            sweeping.cancel()
            await self.jobs.close()
            await self.pool.close()
            shutil.rmtree(self.root, ignore_errors=True)

    # What the addresses do

    async def parse(self, request: Request, options: Annotated[Options, Query()]) -> Response:
        format = wanted_format(options.format, request.headers.get("accept"))
        with self.pool.place():
            async with folder_for(self.root) as folder:
                upload = await receive(request, folder, self.settings.upload_seconds)
                status = await _while_wanted(request, self.pool.read(options.job(upload, format)))
                body = await asyncio.to_thread((folder / ANSWER).read_bytes)
        return _document(body, format, status)

    async def start_job(self, request: Request, options: Annotated[Options, Query()]) -> Response:
        format = wanted_format(options.format, request.headers.get("accept"))
        self.jobs.check_room()
        with ExitStack() as held:
            held.enter_context(self.pool.place())
            folder = new_folder(self.root)
            failed = held.enter_context(ExitStack())
            failed.callback(shutil.rmtree, folder, ignore_errors=True)
            upload = await receive(request, folder, self.settings.upload_seconds)
            failed.pop_all()
            work = self.jobs.start(options.job(upload, format), _owner(request), held.pop_all().close)
        return JSONResponse(self._state(work), 202, {**SAFE_HEADERS, "Location": f"/jobs/{work.id}"})

    async def job(self, request: Request, id: str) -> Response:
        return JSONResponse(self._state(self.jobs.get(id, _owner(request))), headers=SAFE_HEADERS)

    async def result(self, request: Request, id: str) -> Response:
        work, body = await asyncio.to_thread(self.jobs.result, id, _owner(request))
        return _document(body, work.job.format, work.status)

    async def forget(self, request: Request, id: str) -> Response:
        await self.jobs.forget(id, _owner(request))
        return Response(status_code=204, headers=SAFE_HEADERS)

    async def health(self) -> Response:
        return JSONResponse({"status": "ok", "version": __version__}, headers=SAFE_HEADERS)

    async def ready(self) -> Response:
        if self.pool.problem:
            raise Refusal("not-ready", f"pictures cannot be read: {self.pool.problem}", 60)
        if not self.pool.ready:
            raise Refusal("not-ready", "the reading processes are starting", 2)
        state = {"workers": self.pool.ready, "documents": self.pool.busy, "model": self.settings.model}
        return JSONResponse({"status": "ready", **state}, headers=SAFE_HEADERS)

    def _state(self, work: Work) -> dict[str, Any]:
        expires = self.jobs.expires_in(work)
        return {
            "id": work.id, "state": work.state, "pages_done": work.pages_done, "pages_total": work.pages_total,
            "format": work.job.format, "status": work.status or None,
            "error": work.refusal.body() if work.refusal else None,
            "expires_in": None if expires is None else round(expires, 1),
            "result": f"/jobs/{work.id}/result" if work.state == "done" else None,
        }  # fmt: skip


def build(settings: ServiceSettings) -> FastAPI:
    """The application with all addresses, behind the gate."""
    service = Service(settings)
    app = FastAPI(
        title="docvision", version=__version__, description=openapi.DESCRIPTION, lifespan=service.running,
        docs_url=None, redoc_url=None,  # their pages load scripts from elsewhere
    )  # fmt: skip
    routes: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = [
        ("POST", "/parse", service.parse, openapi.PARSE),
        ("POST", "/jobs", service.start_job, openapi.START),
        ("GET", "/jobs/{id}", service.job, openapi.STATE),
        ("GET", "/jobs/{id}/result", service.result, openapi.RESULT),
        ("DELETE", "/jobs/{id}", service.forget, openapi.FORGET),
        ("GET", "/health", service.health, openapi.HEALTH),
        ("GET", "/ready", service.ready, openapi.READY),
    ]
    for method, path, endpoint, told in routes:
        app.add_api_route(path, endpoint, methods=[method], response_class=Response, **told)
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_bad_option)
    for status in (400, 404, 405):
        app.add_exception_handler(status, _on_http)
    app.add_exception_handler(Exception, _on_bug)
    app.add_middleware(Gate, settings=settings)
    app.state.service = service
    return app


async def _while_wanted(request: Request, reading: Any) -> str:
    """The outcome of ``reading``, which is stopped as soon as the caller has gone."""
    task = asyncio.ensure_future(reading)
    try:
        while not (await asyncio.wait({task}, timeout=ALIVE_SECONDS))[0]:
            if await request.is_disconnected():
                raise Refusal("bad-request", "the caller has gone")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Refusal):
                await task


def _document(body: bytes, format: str, status: str) -> Response:
    headers = {**SAFE_HEADERS, "X-Document-Status": status, "Vary": "Accept"}
    return Response(body, media_type=FORMATS[format], headers=headers)


def _owner(request: Request) -> str:
    return request.scope.get("docvision.owner", "")


def _answer(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.status, refusal.headers())


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _answer(error)


async def _on_bad_option(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = [f"{'.'.join(map(str, each['loc'][1:])) or 'query'}: {each['msg']}" for each in error.errors()]
    return _answer(Refusal("bad-option", "; ".join(told)))


async def _on_http(request: Request, error: Exception) -> Response:
    """What the framework says by itself; its exception is the one that FastAPI's derives from."""
    status, detail = getattr(error, "status_code", 500), getattr(error, "detail", "")
    code = {404: "not-found", 405: "not-allowed"}.get(status, "bad-request")
    path = request.url.path[:80]
    told = {"not-found": f"there is nothing at {path}", "not-allowed": f"{path} has no {request.method[:10]}"}
    return _answer(Refusal(code, told.get(code, str(detail))))


async def _on_bug(request: Request, error: Exception) -> Response:
    return _answer(Refusal("internal", type(error).__name__))


class _Server(uvicorn.Server):
    """Calls back when it is reached by others."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_start()


def run(settings: ServiceSettings, host: str, port: int, on_start: Callable[[str], None]) -> None:
    """Serve until a signal comes.

    Args:
        settings: keys and limits.
        host: address to listen at.
        port: to listen at; 0 takes a free one.
        on_start: called with the address when it is there.

    Raises:
        KeyboardInterrupt: a signal came.
        OSError: the address is taken or not there.
    """
    config = uvicorn.Config(
        build(settings), host, port, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=5, h11_max_incomplete_event_size=65536,
    )  # fmt: skip
    try:
        bound = config.bind_socket()
    except SystemExit:
        raise OSError(f"{host}:{port} cannot be listened at: it is taken, or not of this machine") from None
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{bound.getsockname()[1]}"
    try:
        _Server(config, lambda: on_start(address)).run(sockets=[bound])
        raise KeyboardInterrupt  # only a signal ends it, and uvicorn's own does nothing where SIGINT is ignored
    finally:
        bound.close()
