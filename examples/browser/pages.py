"""Serves the page, and the texts of the contributors, from an origin of its own."""

from __future__ import annotations

import re
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from credentials import Credential

PAGE = Path(__file__).resolve().parent / "page"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
_TEXT = re.compile(r"/texts/([A-Za-z0-9-]+\.txt)")


class PageServer:
    """Serves from this machine to this machine, until `close`.

    port: 0 takes any; texts: the folder that has the text of each contributor, NAME.txt.
    """

    def __init__(self, port: int, texts: Path) -> None:
        class Handler(_Handler):
            """The handler of this server's folder."""

            texts_folder = texts

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.origin = f"http://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def address(self, server: str, pool: str, credential: Credential | None = None) -> str:
        """Returns the address of the page, for a worker of a pool of the server whose HTTP edge is at `server`.

        credential: what the server demands of a tab. The token is in the fragment, which browsers send to nobody.
        """
        address = f"{self.origin}/?server={server}&pool={pool}"
        if credential is None:
            return address
        return f"{address}&principal={credential.principal}#token={credential.token}"

    def close(self) -> None:
        """Takes no more requests."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    texts_folder: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers with a file of the page or a text; nothing else can be named."""
        name = self.path.partition("?")[0]
        pages = {f"/{file.name}": file for file in PAGE.iterdir()}
        pages["/"] = PAGE / "index.html"
        if text := _TEXT.fullmatch(name):
            pages[name] = self.texts_folder / text.group(1)
        try:
            self._send(pages[name])
        except (KeyError, FileNotFoundError):
            self.send_error(HTTPStatus.NOT_FOUND, f"there is no {name}")
        except ConnectionError:
            pass  # the tab was closed

    def _send(self, file: Path) -> None:
        content = file.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{_TYPES[file.suffix]}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-cache")
        # Nothing from elsewhere is loaded. A tab calls the server that its address names, so any may be called.
        policy = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; img-src data:; connect-src *"
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: the terminal shows the training."""
