"""Random numbers and lines of code that are the same in every test, and a local web server."""

import contextlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from bathyscope.core import caller

_CHECKS = str(Path(__file__).resolve().parents[1] / "conftest.py")

_SEED = 987_654_321  # none that a test sets itself, so that what it draws is not drawn twice


def _seed():
    random.seed(_SEED)
    np.random.seed(_SEED)
    torch.manual_seed(_SEED)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seeds before the fixtures: no test depends on those that its worker ran before."""
    _seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """Seeds again, for a fixture of a module draws only at the first of its tests."""
    _seed()


@pytest.fixture(autouse=True)
def lines_of_tests(monkeypatch):
    """Lines of the tests themselves: what checks signatures under test is no code of the user's."""
    monkeypatch.setattr(caller, "_LIBRARIES", (*caller._LIBRARIES, _CHECKS))
    monkeypatch.setattr(caller, "_is_own", {})


class Server:
    """Serves `pages`; a page may be cut short, or hang half way until `released`."""

    def __init__(self):
        self.pages: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.hang: set[str] = set()
        self.hung, self.released = threading.Event(), threading.Event()
        self.num_requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.num_requests += 1
                name = self.path.lstrip("/")
                if name not in outer.pages:
                    self.send_error(404)
                    return
                page = outer.pages[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                half = len(page) // 2
                self.wfile.write(page[:half])
                if name in outer.hang:
                    self.wfile.flush()
                    outer.hung.set()
                    outer.released.wait(900)
                if name not in outer.cut:
                    with contextlib.suppress(ConnectionError):
                        self.wfile.write(page[half:])

            def log_message(self, *_):
                pass

        self.web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.web.server_port}/"
        threading.Thread(target=self.web.serve_forever, daemon=True).start()

    def close(self):
        self.released.set()
        self.web.shutdown()
        self.web.server_close()


@pytest.fixture
def server():
    """An empty server on this machine; give it `pages`."""
    server = Server()
    yield server
    server.close()
