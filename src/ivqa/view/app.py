"""The pages of the app: their addresses, and what each of them shows."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Form, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from ivqa.errors import UserError
from ivqa.report.pages.annotation_page import HIGHEST_SCORE
from ivqa.view.annotation import (
    QUESTIONS,
    SCORE,
    Answers,
    Questionnaire,
    agreement,
    checked_name,
    exported,
    file_name,
    questionnaire_of,
)
from ivqa.view.guard import Guard
from ivqa.view.models import Kind, Models, numbers, sources
from ivqa.view.runs import (
    ANNOTATE,
    StoredRun,
    can_be_paired,
    columns_of,
    compared_figures,
    differing_settings,
    figures_of,
    find_runs,
    listed,
    served_file,
)
from ivqa.view.settings import Settings

Order = Literal["up", "down"]
_STATIC = {"htmx.min.js": "text/javascript", "view.js": "text/javascript"}
_MOST_COMPARED = 6
# Pages of runs hold scripts and may come from elsewhere: they get an origin of their own, which
# can neither read nor use the app.
_SANDBOX = {
    "Content-Security-Policy": (
        "sandbox allow-scripts allow-downloads allow-popups; frame-ancestors 'none'"
    )
}
_KEYS = {"relevant": ("a", "s"), "same_fact": ("d", "f"), "correct": ("g", "h")}


def create_app(settings: Settings, *, token: str, port: int) -> FastAPI:
    """Builds the app of a folder; see `Guard` for the token and the port."""
    app = FastAPI(title="ivqa view", openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, host=settings.host, port=port, token=token)
    folder = Path(settings.folder)
    _add_errors(app)
    _add_runs(app, folder)
    _add_models(app, folder, Models(settings.artifacts))
    _add_annotation(app, folder, Answers(folder))
    return app


@cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader("ivqa.view"), PackageLoader("ivqa.report")])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.globals["numbers"] = numbers
    return environment


def _page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_environment().get_template(template).render(**values), status)


def _add_errors(app: FastAPI) -> None:
    """An error is one sentence: in the line of messages of the page, or on a page of its own."""

    def answer(request: Request, status: int, message: str) -> Response:
        if "hx-request" in request.headers:
            return _page("said.html.j2", status=status, message=message)
        return _page("message.html.j2", status=status, message=message)

    @app.exception_handler(UserError)
    def user_error(request: Request, error: UserError) -> Response:
        return answer(request, 400, str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        names = ", ".join(str(one["loc"][-1]) for one in error.errors())
        return answer(request, 422, f"This address or form lacks a valid value of: {names}.")

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        missing = "There is nothing at this address."
        return answer(
            request, error.status_code, missing if error.status_code == 404 else str(error.detail)
        )

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404)
        content = (files("ivqa.view") / "static" / name).read_bytes()
        return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=600"})


def _add_runs(app: FastAPI, folder: Path) -> None:
    """The list of runs, the page of one, comparisons, and the files of runs."""

    @app.get("/")
    def runs(
        find: str = "",
        sort: str = "started",
        order: Order = "down",
        figure: Annotated[Sequence[str], Query()] = (),
    ) -> Response:
        found = list(find_runs(folder).values())
        known = figures_of(found)
        columns = [name for name in dict.fromkeys(figure) if name in known] or columns_of(found)
        heads = [("name", "run"), ("model", "model"), ("started", "started")]
        heads += [(name, name) for name in columns]
        return _page(
            "runs.html.j2",
            folder=folder.resolve(),
            total=len(found),
            runs=listed(found, find=find, sort=sort, order=order),
            columns=columns,
            figures=known,
            heads=[(name, text, _sorting(name, sort, order, find, figure)) for name, text in heads],
            find=find,
            sort=sort,
            order=order,
        )

    @app.get("/run")
    def run(name: str) -> Response:
        one = run_of(folder, name)
        rows = [(figure, one.figure(figure)) for figure in figures_of([one])]
        return _page("run.html.j2", run=one, rows=rows, settings=_settings(one))

    @app.get("/compare")
    def compare(run: Annotated[Sequence[str], Query()] = ()) -> Response:
        names = list(dict.fromkeys(run))
        if not 2 <= len(names) <= _MOST_COMPARED:
            raise UserError(
                f"Choose two to {_MOST_COMPARED} runs in the list of runs, not {len(names)}."
            )
        chosen = [run_of(folder, name) for name in names]
        return _page(
            "compare.html.j2",
            runs=chosen,
            settings=differing_settings(chosen),
            figures=compared_figures(chosen),
            paired=can_be_paired(chosen),
        )

    @app.get("/files/{path:path}")
    def file(path: str) -> Response:
        place = served_file(folder, path)
        if place is None:
            raise HTTPException(404)
        if place.name == ANNOTATE:  # its answers are kept here, not in the browser
            name = place.parent.relative_to(folder.resolve()).as_posix()
            return RedirectResponse(f"/annotate?{urlencode({'run': name})}", 303)
        return FileResponse(place, headers=_SANDBOX)


def run_of(folder: Path, name: str) -> StoredRun:
    """The run of a name; raises UserError where there is none."""
    runs = find_runs(folder)
    if name not in runs:
        raise UserError(f"There is no run {name[:200]} in this folder.")
    return runs[name]


def _sorting(
    name: str, sort: str, order: Order, find: str, figures: Sequence[str]
) -> tuple[str, str]:
    """The address that sorts by a column, and the present order of the column for aria-sort."""
    first: Order = "up" if name in ("name", "model") else "down"
    other: Order = "down" if order == "up" else "up"
    query = {"find": find, "sort": name, "order": other if name == sort else first}
    address = "/?" + urlencode([*query.items(), *(("figure", one) for one in figures)])
    now = {"up": "ascending", "down": "descending"}[order] if name == sort else ""
    return address, now


def _settings(run: StoredRun) -> Mapping[str, Any]:
    try:
        return run.config()
    except UserError as error:
        return {"config.yaml": str(error)}


def _add_models(app: FastAPI, folder: Path, models: Models) -> None:
    """Models that are asked about a picture."""

    def choices(kind: Kind) -> Mapping[str, Any]:
        return {"kind": kind, "slot": models.slots.get(kind)}

    def asked(picture: str) -> Response:
        return _page("asked.html.j2", key=picture, picture=models.picture(picture))

    @app.get("/ask")
    def ask(picture: str = "") -> Response:
        kept = models.pictures.get(picture)
        runs = find_runs(folder)
        kinds: tuple[Kind, ...] = ("answers", "questions")
        return _page(
            "ask.html.j2",
            key=picture if kept else "",
            picture=kept,
            slots=[(choices(kind), sources(kind, runs)) for kind in kinds],
        )

    @app.post("/ask/load")
    def load(kind: Annotated[Kind, Form()], source: Annotated[str, Form()]) -> Response:
        models.load(kind, source, find_runs(folder))
        return _page("model.html.j2", **choices(kind))

    @app.get("/ask/model")
    def model(kind: Kind) -> Response:
        return _page("model.html.j2", **choices(kind))

    @app.post("/ask/picture")
    def add(request: Request, picture: UploadFile) -> Response:
        key = models.add((picture.filename or "the file")[:200], picture.file)
        address = f"/ask?picture={key}"
        if "hx-request" in request.headers:
            return Response(headers={"HX-Redirect": address})
        return RedirectResponse(address, 303)

    @app.get("/ask/asked")
    def shown(picture: str) -> Response:
        return asked(picture)

    @app.post("/ask/question")
    def question(
        picture: Annotated[str, Form()], question: Annotated[str, Form()] = ""
    ) -> Response:
        models.ask(picture, question)
        return asked(picture)

    @app.post("/ask/answer")
    def answer(picture: Annotated[str, Form()], answer: Annotated[str, Form()] = "") -> Response:
        models.questions(picture, answer)
        return asked(picture)


def _add_annotation(app: FastAPI, folder: Path, answers: Answers) -> None:
    """The human study and the annotation of beliefs."""

    def values(run: str, page: Questionnaire, person: str, at: int | None) -> dict[str, Any]:
        own = answers.of(page).get(person, {}) if person else {}
        done = [one.is_complete(own.get(n, {})) for n, one in enumerate(page.items)]
        if at is None:
            at = done.index(False) if False in done else len(done) - 1
        at = min(max(at, 0), len(done) - 1)
        # The next item without an answer, then from the start.
        later = [n % len(done) for n in range(at + 1, at + len(done)) if not done[n % len(done)]]
        return {
            "run": run, "page": page, "person": person, "at": at, "given": own.get(at, {}),
            "item": page.items[at], "image": page.images[page.items[at].image],
            "done": sum(done), "open": later[0] if later else None, "keys": _KEYS,
            "questions": QUESTIONS, "asked": SCORE, "scores": range(HIGHEST_SCORE + 1),
        }  # fmt: skip

    @app.get("/annotate")
    def annotate(run: str = "", person: str = "", at: int | None = None) -> Response:
        if not run:
            runs = [one for one in find_runs(folder).values() if ANNOTATE in one.pages]
            return _page("annotations.html.j2", runs=runs)
        page = questionnaire_of(run_of(folder, run))
        if not page.items:
            raise UserError(f"{run}/{ANNOTATE} has no questions to annotate.")
        name = _same_person(answers, page, checked_name(person)) if person.strip() else ""
        return _page("annotate.html.j2", **values(run, page, name, at))

    @app.post("/annotate")
    def give(
        run: Annotated[str, Form()],
        person: Annotated[str, Form()],
        at: Annotated[int, Form()],
        field: Annotated[str, Form()],
        value: Annotated[str, Form()] = "",
    ) -> Response:
        page = questionnaire_of(run_of(folder, run))
        name = _same_person(answers, page, checked_name(person))
        if not 0 <= at < len(page.items):
            raise UserError(f"This page has {len(page.items)} questions, and no number {at + 1}.")
        given = answers.give(page, at, name, field, value)
        # A wrong answer is corrected before the next question.
        wrong = given.get("correct") == 0 and field != "right_answer"
        further = page.items[at].is_complete(given) and not wrong
        return _page("item.html.j2", **values(run, page, name, at + 1 if further else at))

    @app.get("/annotate/agreement")
    def agree(run: str) -> Response:
        page = questionnaire_of(run_of(folder, run))
        given = answers.of(page)
        done = {
            name: sum(page.items[at].is_complete(one) for at, one in own.items())
            for name, own in given.items()
        }
        found = agreement(page, given)
        return _page("agreement.html.j2", run=run, page=page, done=done, agreement=found)

    @app.get("/annotate/export")
    def export(run: str, person: str = "") -> Response:
        page = questionnaire_of(run_of(folder, run))
        given = answers.of(page)
        if person:
            given = {name: own for name, own in given.items() if name == person}
        name = quote(file_name(page, person or next(iter(given), "")))
        header = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        return Response(exported(page, given), media_type="application/json", headers=header)


def _same_person(answers: Answers, page: Questionnaire, name: str) -> str:
    """The name as this person wrote it first: case does not tell people apart."""
    known = {one.casefold(): one for one in answers.of(page)}
    return known.get(name.casefold(), name)
