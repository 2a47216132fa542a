"""A server on loopback that takes Slack messages the way Slack does, so that the demo can show what would arrive."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class SlackStandIn:
    """Keeps every message that was posted to it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # http.server's naming
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append(json.loads(body))
                answer = json.dumps({"ok": True, "ts": f"{len(messages)}.000000", "channel": "C0DEMO"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Quiet: the demo prints what arrived."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api/"

    @contextlib.contextmanager
    def running(self) -> Iterator[SlackStandIn]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
