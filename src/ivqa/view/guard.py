"""Who may use the app: hosts, token, origin of requests, their size, and headers of answers."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

MOST_BYTES = 25 << 20  # of a request: a photograph of a telephone has 2 to 12 MB
_LOCAL = {"127.0.0.1", "localhost", "::1"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would hide the origin of forms as well
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


class Guard:
    """ASGI middleware that refuses what the user of the app did not ask for.

    Without a token the app answers to names of this machine alone: a page elsewhere whose own name
    points here (DNS rebinding) is refused. With a token it answers to whoever sends the token, in
    a cookie that scripts and other sites cannot use. A request that changes something must come
    from a page of the app itself.

    Args:
        host: The address that the app listens on.
        port: Its port. Cookies of one machine do not know ports, so their name has it.
        token: The token; "" for none.
    """

    def __init__(self, app: Any, *, host: str, port: int, token: str) -> None:
        self.app, self.token = app, token
        self.hosts = _LOCAL | {host}
        self.cookie = f"ivqa_view_{port}"

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Refuses a request, or passes it on and adds headers to the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self.app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """What the guard answers itself; None passes the request on."""
        if not self.token and _host_name(request.headers) not in self.hosts:
            return _refused(403, "This address is not one of this machine: open the printed link.")
        if self.token and (given := request.query_params.get("token")) is not None:
            return self._signed_in(given)
        if self.token and not self._is_token(request.cookies.get(self.cookie, "")):
            return _refused(401, "Open the link with the token that ivqa view printed.")
        if request.method in ("GET", "HEAD"):
            return None
        host = request.headers.get("host", "")
        if request.headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            return _refused(403, "This request does not come from a page of ivqa view.")
        length = request.headers.get("content-length", "")
        if not length.isdecimal():
            return _refused(411, "This request does not tell its length.")
        if int(length) > MOST_BYTES:
            return _refused(413, f"This file has more than {MOST_BYTES >> 20} MiB; choose another.")
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _signed_in(self, given: str) -> Response:
        """The cookie, and a page that opens the app: a redirect from a mail would not send it."""
        if not self._is_token(given):
            return _refused(401, "The token is wrong: open the link that ivqa view printed.")
        page = (
            '<!doctype html><title>ivqa view</title><meta http-equiv="refresh" content="0; url=/">'
        )
        answer = HTMLResponse(page)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
        return answer


def _host_name(headers: Headers) -> str:
    """The host that a request names, without its port; "" without one."""
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _refused(status: int, reason: str) -> Response:
    return PlainTextResponse(reason + "\n", status)
