"""An S3 server on this machine, and a server between it and the tests that makes requests fail."""

import http.client
import importlib.util
import itertools
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pyarrow import fs

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_EC2_METADATA_DISABLED": "true"}


def free_port() -> int:
    """A port that stays free until somebody asks for it: above those of Ray's workers, and below those that a system
    hands out, which other processes take by the second."""
    while True:
        port = 20000 + secrets.randbelow(12000)
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The port of an S3 server of this module's own."""
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed: no S3 server here")
    port, log = free_port(), tmp_path_factory.mktemp("moto") / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output
        )
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in KEYS.items():
            patch.setenv(name, value)
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
        yield port
    process.terminate()
    process.wait()


HOPS = ("content-length", "connection", "transfer-encoding", "expect")  # headers of one connection alone


class Faulty(BaseHTTPRequestHandler):
    """Hands requests on to the S3 server, but those that the test wants to fail."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = b"".join(self.chunks())
        fault = self.server.fault(self.command, self.path)
        if fault == "drop":
            self.close_connection = True
            return
        if fault:
            code = b"AccessDenied" if fault == 403 else b"InternalError"  # clients try the latter again, for 6 s
            self.answer(fault, [], b"<Error><Code>" + code + b"</Code><Message>injected</Message></Error>")
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in HOPS}
        connection.request(self.command, self.path, body, kept | {"Content-Length": str(len(body))})
        response = connection.getresponse()
        self.answer(response.status, response.getheaders(), response.read())

    def chunks(self):
        """The body, which a sender of chunks does not say the length of."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def answer(self, status: int, headers: list, content: bytes) -> None:
        self.send_response(status)
        length = dict(headers).get("Content-Length", str(len(content)))
        for name, value in headers:
            if name.lower() not in (*HOPS, "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


NUMBERS = itertools.count()


@pytest.fixture
def proxy(server):
    """A server between the test and S3; `fault` says what goes wrong."""
    between = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    between.behind, between.fault = server, lambda *_: None
    thread = threading.Thread(target=between.serve_forever, daemon=True)
    thread.start()
    yield between
    between.shutdown()
    between.server_close()
    thread.join()


@pytest.fixture
def place(proxy):
    """A URI below a bucket of this test's own."""
    bucket, endpoint = f"bucket-{next(NUMBERS)}", f"http://127.0.0.1:{proxy.server_port}"
    fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir(bucket)
    return f"s3://{bucket}/some/where?endpoint_override={endpoint}&region=us-east-1"
