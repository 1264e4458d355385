#pragma once
// What the page of a trace is made of besides its values: plain script and style, nothing from elsewhere.

namespace zeroproof::verification {

/// Colours are those of plan --svg, by class of memory; text keeps the page's own colours.
inline constexpr const char* player_style = R"(
:root{color-scheme:light dark;--line:#8886;--none:#8888}
*{box-sizing:border-box}
body{font:16px/1.45 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:.8rem}
h1{font-size:1.3rem;margin:.2rem 0}h2{font-size:1.1rem;margin:.8rem 0 .3rem}h3{font-size:1rem;margin:.8rem 0 .2rem}
p{margin:.3rem 0;overflow-wrap:anywhere}pre,code,.bits{font-family:ui-monospace,monospace}
pre{overflow-x:auto;font-size:.8rem}code{display:block;font-size:.85rem;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.4rem;align-items:center;padding:.4rem 0;position:sticky;top:0;background:Canvas}
nav button{font:inherit;padding:.35rem .6rem}nav input{flex:1 1 12rem;min-width:8rem}
button:focus-visible,input:focus-visible{outline:3px solid Highlight;outline-offset:1px}
.cells{display:grid;grid-template-columns:repeat(8,minmax(0,1fr));gap:.25rem}
.cells button{font:inherit;font-size:.75rem;line-height:1.3;text-align:left;padding:.2rem .25rem;min-width:0;
overflow:hidden;color:CanvasText;background:Canvas;border:1px dashed var(--none);border-top:.45rem solid transparent}
.cells .has{border-style:solid}.cells .own b{text-decoration:underline}
.cells span{display:block;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}.bits{font-size:.65rem}
.cells [aria-pressed=true]{outline:3px solid Highlight}
.cells .name{white-space:normal;overflow-wrap:anywhere}
table{border-collapse:collapse;font-size:.85rem}
th,td{padding:.1rem .6rem .1rem 0;text-align:left;overflow-wrap:anywhere}
.wide{overflow-x:auto}.legend{font-size:.8rem}.legend span{margin-right:.8rem;white-space:nowrap}
.legend i{display:inline-block;width:.9rem;height:.7rem;margin-right:.3rem}
@media(max-width:40rem){.cells{grid-template-columns:repeat(4,minmax(0,1fr))}}
@media print{nav{display:none}.cells button,.legend i{print-color-adjust:exact;-webkit-print-color-adjust:exact}
section{break-inside:avoid}pre{white-space:pre-wrap;font-size:7.5pt}}
)";

/// Moves through the events of #events and shows what #trace holds of each. Values and names go in as text only.
inline constexpr const char* player_script = R"js(
"use strict";
(() => {
  const by = id => document.getElementById(id), data = id => JSON.parse(by(id).textContent);
  const trace = data("trace"), events = data("events"), classes = data("classes");
  const parameters = trace.layout.parameters, world = trace.settings.world_size;
  let at = 0, chosen = { rank: 0, element: 0 };
  const make = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const put = (id, ...nodes) => by(id).replaceChildren(...nodes);
  const phaseOf = e => trace.steps[e.step].phases[e.phase];
  const rankOf = (phase, rank) => phase.ranks.find(r => r.rank === rank);
  const cell = (values, element) => {
    const i = values && values.parameters ? values.parameters.indexOf(element) : -1;
    return i < 0 ? null : { bits: values.bits[i], value: values.values[i], dtype: values.dtype };
  };
  const nodeName = n => "node (" + n.level + "," + n.index + ")";
  // What a rank's lane shows: the elements it holds in this event.
  const valuesOf = (e, rank) => {
    const phase = phaseOf(e);
    if (e.kind === "leaf") {
      const leaf = trace.steps[e.step].leaves[e.of];
      return leaf.rank === rank ? leaf : null;
    }
    if (e.kind === "node") return rank === 0 ? phase.nodes[e.of] : null;
    const mine = e.kind === "buffer" && rankOf(phase, rank);
    return mine && mine.after[e.of] || null;
  };
  const earlier = (e, rank) => {
    const mine = e.kind === "buffer" && rankOf(phaseOf(e), rank);
    return mine && mine.before[e.of] || null;
  };
  const what = e => {
    const phase = phaseOf(e);
    if (e.kind === "leaf") return "gradient of micro-batch " + e.of;
    if (e.kind === "node") return nodeName(phase.nodes[e.of]);
    if (e.kind === "message") return phase.messages.find(m => m.call === e.of).collective + ", messages";
    if (e.kind === "visit") return "the ranks' units, visit " + (e.of + 1);
    if (e.kind === "chunks") return "sums of squares, chunk by chunk";
    if (e.kind === "memory") return "what ranks allocate and give back";
    if (e.kind === "difference") return "what differs from the reference";
    if (e.kind === "skipped") return "not entered: a gradient was not finite";
    return e.kind === "nothing" ? "nothing is sent or written" : e.of;
  };
  const title = e => "Step " + trace.steps[e.step].step + ", " + phaseOf(e).phase + ": " + what(e);
  const classOf = e => e.kind === "leaf" ? "grad" : e.kind === "node" ? "grad_nodes" : classes.buffers[e.of];
  const table = (head, rows) => {
    const all = make("table"), line = (cells, tag) => {
      const row = make("tr");
      row.append(...cells.map(c => make(tag, String(c))));
      return row;
    };
    all.append(line(head, "th"), ...rows.map(r => line(r, "td")));
    const wide = make("div", undefined, "wide");
    wide.append(all);
    return wide;
  };
  const short = v => typeof v !== "number" ? String(v)
    : v !== 0 && Math.abs(v) * 1000 < 1 ? v.toExponential(3) : String(Number(v.toPrecision(5)));
  const nth = (list, k) => {
    const seen = {};
    return list.filter(v => (seen[v.rank] = (seen[v.rank] || 0) + 1) === k + 1);
  };
  const tableOf = e => {
    const phase = phaseOf(e);
    if (e.kind === "visit")
      return table(["rank", "does", "unit", "micro-batch"], nth(phase.visits, e.of).map(v => [v.rank, v.event,
          trace.layout.units[v.unit].name, v.micro_batch === null ? "-" : v.micro_batch]));
    if (e.kind === "chunks")
      return table(["rank", "chunk", "tensor", "sum of squares", "bits"], phase.chunks.map(c => [c.rank, c.chunk,
          trace.layout.tensors[c.tensor].name, short(c.value), c.bits]));
    if (e.kind === "memory")
      return table(["rank", "when", "class", "change", "bytes then"], phase.memory.map(m => [m.rank, m.at, m.class,
          (m.change > 0 ? "+" : "") + m.change, m.bytes]));
    if (e.kind === "difference")
      return table(["rank", "buffer", "first at", "got", "want"], trace.differences.filter(d =>
          d.step === e.step + 1 && d.phase === phase.phase).map(d => [d.rank, d.buffer,
          d.word === undefined ? parameters[d.parameter].name : d.word, d.got, d.want]));
    return null;
  };
  const showCell = e => {
    const c = cell(valuesOf(e, chosen.rank), chosen.element), old = cell(earlier(e, chosen.rank), chosen.element);
    const p = parameters[chosen.element], rows = [["owner", "rank " + p.owner]];
    if (c) rows.unshift(["bits", c.bits + " (" + c.dtype + ")"], ["value", c.value]);
    if (old) rows.push(["bits before", old.bits], ["value before", old.value],
                       ["changed", old.bits === c.bits ? "no" : "yes"]);
    put("cell", make("h2", p.name + " on rank " + chosen.rank),
        make("p", c ? what(e) : "This lane holds nothing of it in this event."), table(["", ""], rows));
  };
  const lane = (e, rank) => {
    const section = make("section"), values = valuesOf(e, rank);
    const batches = trace.owners[rank].micro_batches;
    section.append(make("h3", "rank " + rank + (batches.length ? ", micro-batches " + batches.join(" ") : "")));
    if (values && values.names) {
      section.append(table(["word", "bits", "value"],
                           values.names.map((n, i) => [n, values.bits[i], values.values[i]])));
      return section;
    }
    const cells = make("div", undefined, "cells");
    parameters.forEach((p, element) => {
      const c = cell(values, element), button = make("button");
      const on = rank === chosen.rank && element === chosen.element;
      button.type = "button";
      button.className = (c ? "has " : "") + (p.owner === rank ? "own" : "");
      if (c) button.style.borderTopColor = classes.fills[classOf(e)] || "GrayText";
      button.tabIndex = on ? 0 : -1;
      button.setAttribute("aria-pressed", on);
      button.setAttribute("aria-label", p.name + ", rank " + rank + ", " + (c ? c.value + ", " + c.bits : "nothing"));
      const name = make("span", undefined, "name");
      name.append(make("b", p.name));
      button.append(name, make("span", c ? short(c.value) : "-"), make("span", c ? c.bits : "", "bits"));
      button.onclick = () => choose(rank, element);
      cells.append(button);
    });
    section.append(cells);
    return section;
  };
  const show = focus => {
    const e = events[at], phase = phaseOf(e);
    by("slider").value = at;
    by("slider").setAttribute("aria-valuetext", title(e));
    put("place", document.createTextNode("event " + (at + 1) + " of " + events.length));
    put("event", make("h2", title(e)), make("p", "Rules: " + phase.rules.join(", ") + ". t = " +
            trace.steps[e.step].t + ", loss scale 2^" + trace.steps[e.step].log2_loss_scale + "."),
        ...phase.formulas.map(f => make("code", f)));
    if (e.kind === "node") {
      const n = phase.nodes[e.of];
      by("event").append(make("p", "Micro-batches " + n.begin + " to " + (n.end - 1) + ": (" + n.left + ") + (" +
                                   n.right + "). Shown in lane 0, whichever ranks add it."));
    }
    if (e.kind === "message")
      by("event").append(table(["from", "", "to", "bytes", "what"],
          phase.messages.filter(m => m.call === e.of).map(m => ["rank " + m.from, "\u2192", "rank " + m.to, m.bytes,
              m.what + (m.unit === undefined ? "" : " of " + trace.layout.units[m.unit].name)])));
    const rows = tableOf(e);
    if (rows) by("event").append(rows);
    by("lanes").hidden = !["leaf", "node", "buffer"].includes(e.kind);
    by("cell").hidden = by("lanes").hidden || Boolean((valuesOf(e, 0) || {}).names);
    put("lanes", ...Array.from({ length: world }, (_, rank) => lane(e, rank)));
    showCell(e);
    const current = by("lanes").querySelector("[tabindex='0']");
    if (focus && current) current.focus();
  };
  const go = to => {
    at = Math.max(0, Math.min(events.length - 1, to));
    show(by("lanes").contains(document.activeElement));
  };
  const choose = (rank, element) => { chosen = { rank, element }; show(true); };
  const phaseBy = by1 => {
    const same = i => events[i].step === events[at].step && events[i].phase === events[at].phase;
    let i = at;
    while (i + by1 >= 0 && i + by1 < events.length && same(i)) i += by1;
    const first = i => events.findIndex(e => e.step === events[i].step && e.phase === events[i].phase);
    go(by1 < 0 ? first(i) : i);
  };
  by("back").onclick = () => go(at - 1);
  by("on").onclick = () => go(at + 1);
  by("phase-back").onclick = () => phaseBy(-1);
  by("phase-on").onclick = () => phaseBy(1);
  by("slider").max = events.length - 1;
  by("slider").oninput = () => go(Number(by("slider").value));
  document.addEventListener("keydown", key => {
    const inCell = by("lanes").contains(key.target);
    if (key.ctrlKey || key.altKey || key.metaKey) return;
    if (key.target === by("slider") || key.target.tagName === "PRE") return;
    const move = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1) }[key.key];
    const step = inCell ? { ArrowUp: -1, ArrowDown: 1 }[key.key] : 0;
    if (!move && !step) return;
    key.preventDefault();
    if (step) {
      const n = parameters.length, i = (chosen.rank * n + chosen.element + step + world * n) % (world * n);
      return choose(Math.floor(i / n), i % n);
    }
    move();
  });
  put("legend", ...Object.keys(classes.fills).map(name => {
    const entry = make("span"), colour = make("i");
    colour.style.background = classes.fills[name];
    entry.append(colour, document.createTextNode(name));
    return entry;
  }));
  const text = by("text");
  let opened = false;
  addEventListener("beforeprint", () => { opened = text.open; text.open = true; });
  addEventListener("afterprint", () => { text.open = opened; });
  by("player").hidden = false;
  by("text").open = false;
  show(false);
})();
)js";

}  // namespace zeroproof::verification
