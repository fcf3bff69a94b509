"""Access control as an ASGI wrapper: loopback hosts, a token, a cookie, and no cross-site requests."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost", "[::1]")
#: Content security policy: only the page's own resources and forms; a response may set another one.
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; style-src {style}; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: Policy for a run's HTML and SVG, which a stranger may have written: no scripts, forms or external loads.
#: The origin is kept, because links between the files would otherwise lose the cookie.
UNTRUSTED_PAGE = (
    "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_SAFE = ("GET", "HEAD")
_MOST_COOKIES, _MOST_FIELDS = 8192, 100
_NEED_TOKEN = "Open the address that `accel-lab dashboard` printed: it holds the token that lets you in."


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, kw_only=True)
class Access:
    """The secrets of one dashboard: ``token`` is in its URL, ``session`` in a cookie, ``form`` in forms.

    Browsers send a cookie to every port, so another user's server on this machine could receive it. Therefore
    all pages are below ``root``, which is unguessable, and the cookie is limited to that path.
    """

    port: int
    token: str = field(default_factory=_secret)
    session: str = field(default_factory=_secret)
    form: str = field(default_factory=_secret)
    root: str = field(default_factory=lambda: f"/{_secret()}")

    @property
    def cookie(self) -> str:
        """Name of the cookie; it includes the port, because one machine may run two dashboards."""
        return f"accel_lab_dashboard_{self.port}"

    def url(self, host: str) -> str:
        """Returns the address to open, with the token."""
        return f"http://{host}:{self.port}/?token={self.token}"

    def is_form(self, said: str) -> bool:
        """Whether a form came from one of our pages."""
        return _same(said, self.form)


class Gate:
    """Passes permitted requests to ``app``, and sets the security headers of every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", POLICY.format(style="'none'"))
            await send(message)

        answer = self._refusal(scope) or self._login(scope) or self._unauthorized(scope)
        await (answer or self._app)({**scope, "root_path": self._access.root}, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Returns the refusal of an invalid request, or None; it does not check the cookie."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts():
            # Otherwise a host name that resolves to this machine would share the origin (DNS rebinding).
            wanted = f"{HOSTS[0]}:{self._access.port}"
            return _no(f"The dashboard answers to {wanted} only: forward that very port.", 421)
        if scope["method"] not in (*_SAFE, "POST"):
            return _no("Only GET and POST are known here.", 405)
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if scope["method"] == "POST":
            # A browser that sends no referrer gives a form's origin as `null`.
            said = origin if origin not in (None, "null") else None
            ours = said == f"http://{hosts[0].lower()}" if said is not None else site == "same-origin"
            if not ours or site not in (None, "same-origin"):
                return _no("This request was begun by another site.", 403)
        elif site not in (None, "same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
            return _no("This request was begun by another site.", 403)
        return None

    def _login(self, scope: Scope) -> Response | None:
        """Answers a request with the token: sets the cookie and returns a page that leads on.

        It is not a redirect, because the browser would not send the cookie after a navigation from another
        program's page.
        """
        if scope["path"] != "/" or scope["method"] not in _SAFE:
            return None
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=_MOST_FIELDS)
        except ValueError:  # too many fields
            return None
        if "token" not in query:
            return None
        if not _same(query["token"][0], self._access.token):
            return _no(f"That is not the token of this dashboard. {_NEED_TOKEN}", 403)
        home = f"{self._access.root}/"
        page = HTMLResponse(
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>accel-lab dashboard</title>'
            f'<meta http-equiv="refresh" content="0; url={home}"><a href="{home}">To the dashboard</a></html>'
        )
        page.set_cookie(
            self._access.cookie, self._access.session, path=home, httponly=True, samesite="strict"
        )
        return page

    def _unauthorized(self, scope: Scope) -> Response | None:
        """Returns the refusal of a request without the cookie or outside the root, or None."""
        root = f"{self._access.root}/"
        if not _same(scope["path"][: len(root)], root):
            # Browsers request this by themselves, and an error would clutter their console.
            return Response(status_code=204) if scope["path"] == "/favicon.ico" else _no(_NEED_TOKEN, 403)
        said = "; ".join(Headers(scope=scope).getlist("cookie"))
        try:
            found = SimpleCookie(said if len(said) <= _MOST_COOKIES else "").get(self._access.cookie)
        except CookieError:
            found = None
        if found is not None and _same(found.value, self._access.session):
            return None
        return _no(_NEED_TOKEN, 403)

    def _hosts(self) -> tuple[str, ...]:
        return tuple(f"{name}:{self._access.port}" for name in HOSTS)


def _same(said: str, wanted: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(said.encode("utf-8", "surrogatepass"), wanted.encode())


def _no(text: str, status: int) -> Response:
    return PlainTextResponse(text + "\n", status_code=status)
