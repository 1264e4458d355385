"""Output for the user: messages, errors, ratios and tables."""

import statistics
import sys


class Problem(Exception):
    """One sentence for the user, and the exit code."""

    def __init__(self, code, problem, why, remedy):
        super().__init__(f"{problem} ({why}); {remedy}")
        self.code = code


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def numbers(text):
    """Of a command line: 1,69."""
    values = [int(word) for word in text.split(",")]
    if any(value < 1 for value in values):
        raise ValueError
    return values


def ratios(rows, name, base):
    """Time of a row / time of another, medians of each round."""
    return [statistics.median(a) / statistics.median(b) for a, b in zip(rows[name], rows[base])]


def table(group):
    """At most 100 columns wide."""
    rows, lines = group["rows"], [group["title"], ""]
    bases = [name for name in rows if name.startswith("ours") and "pages" not in name]
    for base in bases:
        lines.append(f"{'':<42} {'ms':>17} {'time / ' + base:>25}")
        lines.append(f"{'':<42} {'best':>8} {'median':>8} {'least':>8} {'median':>8} {'most':>8}")
        for name, samples in rows.items():
            if name in bases and name != base:
                continue
            all_ms = [1e3 * value for one in samples for value in one]
            found = ratios(rows, name, base)
            shown = (min(all_ms), statistics.median(all_ms), min(found), statistics.median(found), max(found))
            lines.append(f"{name:<42} " + " ".join(f"{value:>8.2f}" for value in shown))
        lines.append("")
    for name, shares in group.get("of_fp32_peak", {}).items():
        lines.append(f"{name}: {statistics.median(shares):.2f} of the fp32 peak")
    for name, check in group["checks"].items():
        if "ok" in check:
            verdict = "same " if check["ok"] else "WRONG"
            near = f"within {check['difference']:.1e} of our masters, bound {check['bound']:.1e}"
            params = "" if check.get("params_ok", True) else "; bf16 parameters are no neighbours of ours"
            lines.append(f"{verdict} {name}: {near}{params}")
        else:
            lines.append(f"none  {name}: {check['unavailable']}"[:100])
        if "noise" in check:
            lines.append(f"      {name}: moves of matrices within {check['noise']:.1e}, bound {check['noise_bound']:.1e}")
        if "distance" in check:
            distances = " ".join(f"{value:.2e}" for value in check["distance"])
            lines.append(f"      {name}: distances from exact arithmetic")
            lines.append(f"      {distances}")
    return "\n".join(lines) + "\n"
