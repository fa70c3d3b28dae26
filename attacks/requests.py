"""Does the HTTP server hold? Odd requests are refused, and it answers as before."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partita.serving.export import export_models
from partita.serving.loaded import load

from .mutation import ODD, damaged, set_somewhere_
from .tally import Tally
from .victim import begin_or_go_on, experiment

PATIENCE, SHORT = 20.0, 0.3
"""Seconds to wait for an answer: to a good request, and to an odd one, which may promise more than it sends."""
WAITS = b"waits"
BODY = {"client": "0", "inputs": [[0.0, 1.0, 2.0, 3.0]]}
HEADERS = (
    *(
        "Content-Length: abc",
        "Content-Length: -1",
        "Content-Length: " + "9" * 30,
        "Content-Length: 5\r\nContent-Length: 9",
    ),
    *("Content-Length: " + "9" * 5000, "Content-Length: 1e3", "Content-Length:", "Transfer-Encoding: chunked"),
    *("Transfer-Encoding: chunked, identity", "Host: evil.example", "Host:", "Host: localhost\r\nHost: other"),
    *("Content-Type: text/plain", "Content-Encoding: gzip", "X: " + "a" * 100_000, "Authorization: Bearer \xff"),
    *("\0: x", "no colon", " folded: x", "Connection: upgrade\r\nUpgrade: websocket", "Expect: 100-continue"),
)
LINES = (
    *("POST /predict HTTP/1.1", "POST /predict HTTP/9.9", "POST /predict", "GET / HTTP/1.1", "\x16\x03\x01\x02", ""),
    *("GET /clients/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1", "GET /page/../../../etc/passwd HTTP/1.1"),
    *(
        "GET /page/%2e%2e/%2e%2e/app.py HTTP/1.1",
        "GET /report?run=../../etc HTTP/1.1",
        "GET /clients?limit=nan HTTP/1.1",
    ),
    *("GET /clients?offset=99999999999999999999 HTTP/1.1", "GET /clients/%00%ff%f0 HTTP/1.1", "DELETE /runs HTTP/1.1"),
    *("GET " + "/a" * 40_000 + " HTTP/1.1", "POST /clients HTTP/1.1", "get / http/1.1", "GET http://evil/ HTTP/1.1"),
)
BODIES = (
    *(
        b"",
        b"{",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b"9" * 10_000,
        b"\xff\xfe",
        b'"\\ud800"',
        b"NaN",
        b"1e999",
    ),
    *(b'{"client":"0","inputs":[[1e999,0,0,0]]}', b'{"client":"0","inputs":[[NaN,0,0,0]]}'),
    *(b'{"client":"\\ud800","inputs":[[0,0,0,0]]}', b'{"client":"0","inputs":[[' + b"9" * 400 + b",0,0,0]]}"),
    *(
        b'{"client":"0","texts":["a"]}',
        b'{"client":"0","inputs":[[true,false,null,"a"]]}',
        b"0\r\n\r\n",
        b"fffffffffffff\r\nx",
    ),
    *(b'{"client":"0","inputs":[' + b"[" * 900 + b"0" + b"]" * 900 + b"]}",),
)


def requests(place: Path, trials: int, seed: int) -> Tally:
    """Raw bytes over a socket: odd lines, headers and bodies, and requests that are cut off."""
    tally, draw = Tally(), random.Random(seed)
    begin_or_go_on(place / "run", "fedper", model=None)
    export_models(load(place / "run", experiment=experiment("fedper")), place / "models")
    with _serving(place / "models", place / "errors") as port:
        good = _request("POST /predict HTTP/1.1", [], json.dumps(BODY).encode())
        before = _asked(port, good)
        for _ in range(trials):
            sent = _odd_request(draw)
            said = _asked(port, sent, SHORT)
            status = int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0
            if status >= 500 and b"detail" not in said:
                tally.broken.append(f"{sent[:300]!r}: {said[:200]!r}")
            else:
                silent = "waits for the rest" if said == WAITS else "closed without a word"
                tally.held[f"answered with {status}" if status else silent] += 1
        if _body(_asked(port, good)) != _body(before) or b" 200 " not in before[:20]:
            tally.broken.append("the server does not answer as before")
    errors = (place / "errors").read_text(encoding="utf-8", errors="replace")
    if "Traceback" in errors:
        tally.broken.append(f"tracebacks: {errors[errors.index('Traceback') :][:3000]}")
    return tally


def _odd_request(draw: random.Random) -> bytes:
    body = draw.choice(BODIES)
    if draw.random() < 0.5:
        given = json.loads(json.dumps(BODY))
        set_somewhere_(given, draw)
        body = json.dumps(given if given else draw.choice(ODD)).encode()
    line = draw.choice(LINES) if draw.random() < 0.4 else LINES[0]
    headers = draw.sample(HEADERS, draw.randrange(3)) if draw.random() < 0.6 else []
    made = _request(line, headers, body)
    if draw.random() < 0.2:
        made = damaged(made, draw)
    return made


def _request(line: str, headers: list[str], body: bytes) -> bytes:
    named = {header.partition(":")[0].lower() for header in headers}
    more = ["Connection: close", *([] if "host" in named else ["Host: localhost"])]
    if "content-length" not in named and "transfer-encoding" not in named:
        more.append(f"Content-Length: {len(body)}")
    if "content-type" not in named:
        more.append("Content-Type: application/json")
    return "\r\n".join([line, *more, *headers, "", ""]).encode("latin-1") + body


def _asked(port: int, sent: bytes, patience: float = PATIENCE) -> bytes:
    """What comes back until the server closes the connection, or waits for more."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(sent)
            while part := connection.recv(1 << 16):
                found += part
        except TimeoutError:
            return found or WAITS
        except OSError:
            # Closed while it was asked.
            return found
    return found


def _body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


@contextmanager
def _serving(models: Path, errors: Path) -> Iterator[int]:
    program = "from partita.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", str(models), "--port", "0"]
    with errors.open("wb") as log, subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL) as process:
        try:
            while not (found := re.search(rb"Serving at http://\S+:(\d+)/", errors.read_bytes())):
                if process.poll() is not None:
                    raise RuntimeError(f"the server ended: {errors.read_text()}")
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
