"""usage: keep_alive.py THREADS SECONDS URL: ask again and again, a connection a thread."""

from __future__ import annotations

import http.client
import sys
import threading
import time
import urllib.parse


def main(threads: int, seconds: float, url: str) -> None:
    """Print how many answers were whole, and how many were not."""
    parts = urllib.parse.urlsplit(url)
    expected = int(urllib.parse.parse_qs(parts.query)["bytes"][0])
    assert parts.hostname
    address = (parts.hostname, parts.port)
    counts = {"whole answers": 0, "errors": 0}
    lock = threading.Lock()

    def ask() -> None:
        end = time.monotonic() + seconds
        connection = http.client.HTTPConnection(*address, timeout=5)
        while time.monotonic() < end:
            what = "errors"
            try:
                connection.request("GET", f"{parts.path}?{parts.query}")
                answer = connection.getresponse()
                if answer.status == 200 and len(answer.read()) == expected:
                    what = "whole answers"
            except (OSError, http.client.HTTPException):
                connection.close()
            with lock:
                counts[what] += 1

    running = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
