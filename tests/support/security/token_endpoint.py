"""An authorization server as small as can be: gives tokens to clients that know their secret (RFC 6749, 4.4)."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote


@contextmanager
def token_endpoint(secrets: dict[str, str], token_for: Callable[[str], str]) -> Iterator[str]:
    """Serve tokens on this machine; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
            client, _, secret = base64.b64decode(encoded).decode().partition(":")
            client, secret = unquote(client), unquote(secret)
            is_right = kind == "Basic" and asked["grant_type"] == ["client_credentials"] and secrets.get(client) == secret
            if is_right:
                self._answer(200, {"access_token": token_for(client), "token_type": "Bearer", "expires_in": 600})
            else:
                self._answer(401, {"error": "invalid_client"})

        def _answer(self, status: int, content: dict[str, object]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
