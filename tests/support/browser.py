"""A real Chromium without a screen, which opens a page as a reader does; whatever it asks anybody for is written down."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
DEADLINE = 120.0
"""Seconds, for a machine that has much else to do."""
FRAME = """<!DOCTYPE html><title>frame</title>
<iframe id="page" src="/page.html" style="width:{width}px;height:900px;border:0"></iframe><pre id="seen"></pre>
<script>
document.getElementById("page").addEventListener("load", event => {{
  const page = event.target.contentDocument, view = event.target.contentWindow;
  const seen = (() => {{ {script} }})();
  document.getElementById("seen").textContent = JSON.stringify(seen);
}});
</script>"""


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Visit:
    """What came of opening a page."""

    def __init__(self, dom: str, log: str, asked: list[str]) -> None:
        found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
        self.seen: Any = json.loads(html.unescape(found[1])) if found and found[1] else None
        self.console = [line for line in log.splitlines() if "CONSOLE" in line]
        self.asked = asked


def visit(chromium: str, page: str, script: str, folder: Path, *, width: int = 360, dark: bool = False) -> Visit:
    """Opens `page` in a frame of that width and runs `script` beside it, which returns what it has seen of `page`.

    The browser has this server as its proxy for every address, so `asked` is all that was asked for.
    """
    files = {"/": FRAME.format(width=width, script=script), "/page.html": page}
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(re.sub(r"^http://127\.0\.0\.1:\d+", "", self.path))
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((content or "").encode())

        def do_CONNECT(self) -> None:
            asked.append(self.path)
            self.send_error(502)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    try:
        done = subprocess.run(
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *(f"--user-data-dir={folder}", f"--proxy-server={address}", "--proxy-bypass-list=<-loopback>"),
                *("--enable-logging=stderr", f"--blink-settings=preferredColorScheme={0 if dark else 1}"),
                *(f"--window-size={width + 100},1000", "--dump-dom", f"http://{address}/"),
            ],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    own = {f"http://{address}/", f"http://{address}/page.html"}
    return Visit(done.stdout, done.stderr, [path for path in asked if path not in own])
