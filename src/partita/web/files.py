"""Which files make a page? Those in its folder, sent as they are, with a policy that lets nothing else in."""

from collections.abc import Mapping
from importlib.resources import files

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import HTMLResponse

from ..report.page import script_hash

# The page opens reports from memory, and what it opens so is held to its policy: their one script is allowed too.
POLICY = (
    f"default-src 'none'; script-src 'self' '{script_hash()}'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
PAGE = {
    "page.css": "text/css",
    **dict.fromkeys(("page.js", "api.js", "charts.js", "inputs.js", "picture.js"), "text/javascript"),
}


def add_page(app: FastAPI, folder: str = "page", names: Mapping[str, str] = PAGE) -> None:
    """Answer with the page in a folder; `names` are its files with their types, beside index.html."""
    place = files(__package__).joinpath(folder)

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(place.joinpath("index.html").read_text(encoding="utf-8"), headers=SAFE)

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in names:
            raise HTTPException(404, "There is no such file.")
        return Response(place.joinpath(name).read_bytes(), media_type=names[name], headers=SAFE)
