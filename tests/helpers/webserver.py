"""A web server on this machine that misbehaves on request, for the tests of downloads; no test in here."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What is served under one path.

    cut: break the connection after so many bytes of an answer, for the first `cuts` answers.
    ranges: whether Range is obeyed.  etag, modified: stamps of the content.  hang: s before the answer.
    codes: states of the first answers, before it works.  earlier: bodies of the first answers that work.
    to: a redirect.  code: the state of whole answers.
    """

    data: bytes = b""
    cut: int | None = None
    cuts: int = 10**9
    ranges: bool = True
    etag: str | None = '"one"'
    modified: str | None = None
    hang: float = 0.0
    codes: list[int] = field(default_factory=list)
    earlier: list[bytes] = field(default_factory=list)
    to: str | None = None
    code: int = 200
    kind: str = "application/octet-stream"


class Server:
    """pages: {path: Page}, "*" for all other paths, else 404.  asked: (path, Range header or None) of every request;
    heard: its method, path and headers, their names in lower case."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.heard: list[tuple[str, str, dict[str, str]]] = []
        self.closing = threading.Event()


@contextmanager
def serve():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(server, self)

        do_PUT = do_GET

        def log_message(self, *args):
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64  # with the usual 5, some of many simultaneous clients wait a second

        def handle_error(self, request, client_address):
            """Clients that go away are what the tests are about."""

    with Quiet(("127.0.0.1", 0), Handler) as httpd:
        server = Server(f"http://127.0.0.1:{httpd.server_port}")
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            httpd.shutdown()
            thread.join()


def answer(server: Server, handler: BaseHTTPRequestHandler) -> None:
    wanted = handler.headers["Range"]
    server.asked.append((handler.path, wanted))
    headers = {name.lower(): text for name, text in handler.headers.items()}
    server.heard.append((handler.command, handler.path, headers))
    page = server.pages.get(handler.path) or server.pages.get("*")
    if page is None:
        return handler.send_error(404)
    if page.to:
        handler.send_response(302)
        handler.send_header("Location", page.to)
        return handler.end_headers()
    if page.codes:
        return handler.send_error(page.codes.pop(0))
    server.closing.wait(page.hang)
    start = 0
    if wanted and page.ranges and handler.headers["If-Range"] in (None, page.etag or page.modified):
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    if start and start >= len(page.data):
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(page.data)}")
        return handler.end_headers()
    handler.send_response(206 if start else page.code)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(page.data) - 1}/{len(page.data)}")
    for name, value in (("ETag", page.etag), ("Last-Modified", page.modified), ("Content-Type", page.kind)):
        if value:
            handler.send_header(name, value)
    body = page.earlier.pop(0) if page.earlier else page.data[start:]
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if page.cut is not None and page.cuts > 0:
        page.cuts -= 1
        body = body[: page.cut]
    handler.wfile.write(body)
    return None
