#!/usr/bin/env python3
"""page_in_browser.py ZEROPROOF ZEROPROOF-FAULTS: pages in a browser, if this machine has one. On the page of a trace
arrow keys alone reach every event from the first to the last and back, every event shows a lane for each rank, an arrow
for each message and the cells that a rank writes, it opens at the first difference of a fault, no requests are made, and
the page's policy refuses a request. The pages of a passing and of a failing report show every value that is in them.

Exit status 77: there is no Chromium.
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
  const refused = [], places = [], titles = [], lanes = [], arrows = [], written = [], bytes = [], wrong = [];
  const all = (query, of) => [...document.querySelectorAll(query)].map(of);
  document.addEventListener("securitypolicyviolation", violation => refused.push(violation.violatedDirective));
  let width = 0;
  document.getElementById("more").open = true;
  const look = () => {
    width = Math.max(width, document.documentElement.scrollWidth - innerWidth);
    places.push(document.getElementById("place").textContent);
    titles.push(document.querySelector("#event h2").textContent);
    lanes.push(all("#lanes section", lane => lane.querySelectorAll("svg").length));
    arrows.push(document.querySelectorAll("#arrows circle").length);
    written.push(all("#lanes section", lane => lane.querySelectorAll(".now, .gone").length));
    wrong.push(document.querySelectorAll("#lanes .wrong").length);
    bytes.push(all(".bytes", node => Number(node.textContent.replace(/\\D/g, ""))));
  };
  const press = key => {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    look();
  };
  const count = Number(document.getElementById("slider").max) + 1;
  look();
  for (let i = 0; i < count; ++i) press("ArrowRight");
  for (let i = 0; i < count; ++i) press("ArrowLeft");
  const tried = document.createElement("img");
  if (PLANTED) { tried.src = PLANTED; document.body.append(tried); }
  setTimeout(() => {
    const asked = performance.getEntriesByType("resource").map(entry => entry.name);
    const said = document.createElement("pre");
    said.id = "said";
    said.textContent = JSON.stringify({ all: count, places, titles, lanes, arrows, written, bytes, asked, refused,
      legend: all("#legend span", entry => entry.textContent), wrong,
      width, window: innerWidth });
    document.body.append(said);
  }, PLANTED ? 1000 : 50);
});</script>"""

REPORT = """<script>addEventListener("load", () => {
  const all = (query, of) => [...document.querySelectorAll(query)].map(of || (node => node.textContent));
  const said = document.createElement("pre");
  said.id = "said";
  said.textContent = JSON.stringify({
    values: JSON.parse(document.getElementById("report").textContent), heads: all("h2"),
    groups: all("#details > h3"),
    failures: all("article h3"), labels: all("article th"), bars: all("figure rect").length,
    captions: all("figcaption"),
    cells: all(".grid td").filter(text => text !== "-"), machine: all(".machine tr"),
    reasons: all("li"), ulps: all(".ulps .n"), width: document.documentElement.scrollWidth - innerWidth });
  document.body.append(said);
});</script>"""


class Listener:
    """A server on this machine that counts its requests."""

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


def said_in(browser, folder, page, planted="", driver=DRIVER):
    """The driver's results for the page; `planted` is a picture that it requests."""
    path = folder / "driven.html"
    driver = driver.replace("PLANTED", json.dumps(planted))
    path.write_text(page.replace("</body>", driver + "</body>"), encoding="utf-8")
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                           "--virtual-time-budget=5000", "--window-size=390,844", "--dump-dom", path.as_uri()], capture_output=True, text=True,
                          timeout=200)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the browser ended with {done.returncode} and without an answer: {done.stderr[-500:]}"
    return json.loads(html.unescape(found[1]))


def check_report(browser, folder, command, code):
    """Checks that the script of the page of `command`, which ends with `code`, draws every value."""
    path = folder / "report.html"
    done = subprocess.run([*command, "--report", f"html:{path}"], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == code, (command, done.returncode, done.stdout[-500:], done.stderr[-500:])
    page = path.read_text(encoding="utf-8")
    static = page.split("<div id=\"details\">")[0]
    assert f"exit code {code}</div>" in static, "no verdict without scripts"
    found = said_in(browser, folder, page, driver=REPORT)
    values = found["values"]
    failures = [f"{one['status']} {one['id']}" for one in values["failures"]]
    assert found["failures"] == failures, found["failures"]
    assert len(found["cells"]) == len(values["cells"]), (found["cells"], values["cells"])
    fails = [f"{cell[4]} of {sum(cell[3:])} fail" for cell in values["cells"] if cell[4]]
    assert sorted(text for text in found["cells"] if "fail" in text) == sorted(fails), found["cells"]
    groups = list(dict.fromkeys(cell[0] for cell in values["cells"]))
    assert found["groups"] == groups, found["groups"]
    losses = [loss for one in values["trainings"] for loss, _ in one["steps"] if loss is not None]
    assert found["bars"] == len(losses), found
    assert all(one["hash"] in text and one["title"] in text
               for one, text in zip(values["trainings"], found["captions"], strict=True)), found["captions"]
    machine = [name + ("yes" if there else "no") + detail for name, there, detail in values["machine"]]
    assert found["machine"] == machine, found["machine"]
    assert len(found["reasons"]) == len(values["not_judged"]) + len(values["remarks"]), found["reasons"]
    counts = [f"{count:,}" for one in values["failures"] for count in one["ulps"] or []]
    assert found["ulps"] == counts, (found["ulps"], counts)
    assert ("First differences" in found["heads"]) == (code == 1), found["heads"]
    assert ("replay" in found["labels"]) == (code == 1), found["labels"]
    assert found["width"] <= 0, f"the page is {found['width']} px wider than its window"
    return values


def check_pictures(found, trace):
    """Checks what every event shows of the values of `trace`; an event's bytes are those of the ledger after it."""
    world = trace["settings"]["world_size"]
    held = [{} for _ in range(world)]
    at = 0
    for step in trace["steps"]:
        for phase in step["phases"]:
            for index, event in enumerate(phase["events"]):
                title = found["titles"][at]
                for change in phase["memory"]:
                    if change["event"] == index:
                        held[change["rank"]][change["class"]] = change["bytes"]
                messages = [one for one in phase["messages"] if event["kind"] == "message" and one["call"] in event["of"]]
                assert len(found["lanes"][at]) == world and min(found["lanes"][at]) >= 2, (title, found["lanes"][at])
                assert found["arrows"][at] == len(messages), (title, found["arrows"][at], len(messages))
                assert found["bytes"][at] == [sum(one.values()) for one in held], (title, found["bytes"][at], held)
                working = {"leaf": lambda of: {step["leaves"][of]["rank"]},
                           "node": lambda of: {one["rank"] for one in phase["nodes"][of]["added"]}}.get(
                    event["kind"], lambda of: {phase["visits"][of]["rank"]})
                if event["kind"] in ("leaf", "node", "gather", "forward", "backward", "release"):
                    ranks = set().union(*map(working, event["of"]))
                    seen = {rank for rank, cells in enumerate(found["written"][at]) if cells}
                    assert seen == ranks, (title, seen, ranks)
                at += 1
    assert at == found["all"], (at, found["all"])


def main(program, faults):
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
        check_pictures(found, json.loads(page.split('id="trace">')[1].split("</")[0]))
        assert len(found["legend"]) == 8 + 4 and not any(found["wrong"]), (found["legend"], found["wrong"])
        assert found["window"] <= 500 and found["width"] <= 0, (found["window"], found["width"])
        assert all(found["titles"]) and len(set(found["titles"])) > count // 2, found["titles"]
        assert found["titles"][:count] == found["titles"][count:2 * count][::-1], "the way back shows something else"
        assert found["asked"] == [] and found["refused"] == [], found
        listener = Listener()
        planted = said_in(browser, folder, page, listener.url)
        assert planted["refused"] == ["img-src"] and listener.came == 0, (planted["refused"], listener.came)
        free = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        said_in(browser, folder, free, listener.url)
        assert free != page and listener.came > 0, "a request that nothing forbids was not seen either"
        subprocess.run([faults, "trace", "--fault", "double-unscale", "--html", folder / "fault.html"], check=True,
                       stdout=subprocess.DEVNULL)
        opened = said_in(browser, folder, (folder / "fault.html").read_text(encoding="utf-8"))
        assert opened["titles"][0].startswith("Step 1, unscale: write") and opened["wrong"][0] == 2, \
            (opened["titles"][0], opened["wrong"])
        suite = ["verify", "byte_gpt_tiny", "--recipe", "adamw", "--dtype", "bf16",
                 "--world", "self,threads:3"]
        check_report(browser, folder, [program, *suite], 0)
        assert check_report(browser, folder, [faults, *suite, "--fault", "double-unscale"], 1)["failures"]
        operation = ["verify", "op/adamw_update/host/*"]
        failed = check_report(browser, folder, [faults, *operation, "--fault", "eps-after-rsqrt"], 1)
        assert any(one["ulps"] for one in failed["failures"]), "no fault of an operation has ulps"
    print(f"{count} events reached by arrow keys and left again, 0 requests; a planted one was refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
