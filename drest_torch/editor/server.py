"""The server of the page, for this machine only.

A request has to name this machine as its host, and one that sends a level has to come from the page itself. No path in
a request is opened: levels arrive as text, and are saved to the file of the command line only.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from drest_torch.editor.desk import Desk
from drest_torch.errors import ConfigError

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")
"""The names of this machine in a request."""
MOST_BYTES = 1 << 18
"""The largest size of a request; the largest map takes a tenth of it."""
SECONDS = 30
"""The time that a client has for its request."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer. The page itself forbids all scripts but its own."""


class Refusal(NamedTuple):
    """A request that is not answered, with the reason."""

    status: HTTPStatus
    sentence: str


def start(html: str, desk: Desk, port: int) -> ThreadingHTTPServer:
    """Return a server of the page on a port of this machine; 0 takes a free one."""

    class Handler(_Handler):
        """A handler of the requests to one page."""

    Handler.html = html
    Handler.actions = {"/evaluate": desk.evaluate, "/save": desk.store}
    try:
        server = ThreadingHTTPServer((ADDRESS, port), Handler)
    except OSError as error:
        raise ConfigError(
            f"port={port}: cannot be used ({error.strerror}); choose another, or leave it out for a free one"
        ) from None
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    """A handler of requests."""

    timeout = SECONDS
    html: str
    """The page."""
    actions: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]
    """A function of the JSON object of a request, by the path."""

    def do_GET(self) -> None:
        """Answer with the page."""
        if not self._is_local():
            self._send_refusal(_NOT_LOCAL)
        elif urlsplit(self.path).path != "/":
            self._send_refusal(_NO_SUCH)
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.html.encode())

    def do_POST(self) -> None:
        """Answer with the result of an action."""
        refusal = self._refusal()
        if refusal is not None:
            self.close_connection = True  # the content is not read
            return self._send_refusal(refusal)
        content = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            request = json.loads(content)
            if not isinstance(request, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            return self._send_refusal(_NO_JSON)
        try:
            answer = self.actions[self.path](request)
        except Exception as error:
            # A fault of the program: its traceback is for the terminal, and the page goes on.
            traceback.print_exc(file=sys.stderr)
            sentence = f"the level cannot be evaluated ({type(error).__name__}); the terminal has the details"
            return self._send_refusal(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, sentence))
        self._send_json(HTTPStatus.OK, answer)

    def _refusal(self) -> Refusal | None:
        """Return why the request is not answered, before its content is read."""
        if not self._is_local():
            return _NOT_LOCAL
        if self.headers.get("Origin") != f"http://{self.headers['Host']}":
            return Refusal(HTTPStatus.FORBIDDEN, "the request does not come from the page")
        if self.path not in self.actions:
            return _NO_SUCH
        if self.headers.get_content_type() != "application/json":
            return _NO_JSON
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return Refusal(HTTPStatus.LENGTH_REQUIRED, "the request does not have its size")
        if int(length) > MOST_BYTES:
            return Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the level has {length} bytes; expected at most {MOST_BYTES:,}"
            )
        return None

    def _is_local(self) -> bool:
        """Return whether the request names this machine, which a page of another site cannot arrange."""
        name, _, port = self.headers.get("Host", "").partition(":")
        return name in HOSTS and (port == "" or port.isdigit())

    def _send_refusal(self, refusal: Refusal) -> None:
        self._send_json(refusal.status, {"error": refusal.sentence})

    def _send_json(self, status: HTTPStatus, value: Mapping[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value, allow_nan=False).encode())

    def _send(self, status: HTTPStatus, content_type: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": content_type, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing about requests."""


_NOT_LOCAL = Refusal(HTTPStatus.FORBIDDEN, "the page is for this machine only; open the address that was printed")
_NO_SUCH = Refusal(HTTPStatus.NOT_FOUND, "there is nothing at this address; the page is at /")
_NO_JSON = Refusal(HTTPStatus.BAD_REQUEST, "the request is no JSON object")
