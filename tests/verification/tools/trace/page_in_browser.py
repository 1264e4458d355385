#!/usr/bin/env python3
"""page_in_browser.py ZEROPROOF: the page of a trace in a browser, if this machine has one: arrow keys alone reach every
event from the first to the last and back, nothing is asked for, and the page's policy refuses what would be.

Exit status 77: there is no Chromium here; nothing needs one.
"""

import html
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = """<script>addEventListener("load", () => {
  const refused = [], places = [], titles = [];
  document.addEventListener("securitypolicyviolation", violation => refused.push(violation.violatedDirective));
  const look = () => {
    places.push(document.getElementById("place").textContent);
    titles.push(document.querySelector("#event h2").textContent);
  };
  const press = key => {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    look();
  };
  const all = JSON.parse(document.getElementById("events").textContent).length;
  look();
  for (let i = 0; i < all; ++i) press("ArrowRight");
  for (let i = 0; i < all; ++i) press("ArrowLeft");
  const tried = document.createElement("img");
  if (PLANTED) { tried.src = PLANTED; document.body.append(tried); }
  setTimeout(() => {
    const asked = performance.getEntriesByType("resource").map(entry => entry.name);
    const said = document.createElement("pre");
    said.id = "said";
    said.textContent = JSON.stringify({ all, places, titles, asked, refused });
    document.body.append(said);
  }, PLANTED ? 1000 : 50);
});</script>"""


class Listener:
    """A server on this machine that counts who comes."""

    def __init__(self):
        self.came, self.socket = 0, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/planted.png"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.came += 1
            connection.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n")
            connection.close()


def said_in(browser, folder, page, planted=""):
    """What the driver found on the page; `planted` is a picture that it asks for."""
    path = folder / "driven.html"
    driver = DRIVER.replace("PLANTED", json.dumps(planted))
    path.write_text(page.replace("</body>", driver + "</body>"), encoding="utf-8")
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                           "--virtual-time-budget=5000", "--dump-dom", path.as_uri()], capture_output=True, text=True,
                          timeout=200)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the browser ended with {done.returncode} and without an answer: {done.stderr[-500:]}"
    return json.loads(html.unescape(found[1]))


def main(program):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("skipped: there is no " + ", ".join(BROWSERS) + " here (a page is opened in a browser)")
        return 77
    with tempfile.TemporaryDirectory() as kept:
        folder = pathlib.Path(kept)
        subprocess.run([program, "trace", "--stage", "3", "--world", "3", "--html", folder / "page.html"], check=True,
                       stdout=subprocess.DEVNULL)
        page = (folder / "page.html").read_text(encoding="utf-8")
        found = said_in(browser, folder, page)
        count = found["all"]
        order = [*range(1, count + 1), count, *range(count - 1, 0, -1), 1]
        wanted = [f"event {number} of {count}" for number in order]
        assert found["places"] == wanted, "events are not reached one after another: " + str(found["places"])[:500]
        assert all(found["titles"]) and len(set(found["titles"])) > count // 2, found["titles"]
        assert found["titles"][:count] == found["titles"][count:2 * count][::-1], "the way back shows something else"
        assert found["asked"] == [] and found["refused"] == [], found
        listener = Listener()
        planted = said_in(browser, folder, page, listener.url)
        assert planted["refused"] == ["img-src"] and listener.came == 0, (planted["refused"], listener.came)
        free = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        said_in(browser, folder, free, listener.url)
        assert free != page and listener.came > 0, "a request that nothing forbids was not seen either"
    print(f"{count} events reached by arrow keys and left again, 0 requests; a planted one was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
