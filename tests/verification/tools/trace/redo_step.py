"""Every value of a trace, computed again in NumPy from the values before it: redo_step.py ZEROPROOF [--all].

Written from common/CONTRACT.md. Only elementwise + - * / and sqrt are NumPy's; sums are loops in the contract's order.
"""

import itertools
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: there is no numpy (apt-get install python3-numpy)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "notebooks" / "puzzles"))
from judge import matrices  # noqa: E402  (R27 and R28 in numpy, after the check above)

WIDTHS = {"fp32": (np.uint32, np.float32), "fp16": (np.uint16, np.float16)}
F = np.float32
np.seterr(all="ignore")


class Mismatch(Exception):
    pass


def numbers(buffer):
    """A buffer of elements as fp32 (bf16 and fp16 widened), by parameter."""
    bits = [int(word, 16) for word in buffer["bits"]]
    if buffer["dtype"] == "bf16":
        values = (np.array(bits, np.uint32) << np.uint32(16)).view(np.float32)
    else:
        integer, real = WIDTHS[buffer["dtype"]]
        values = np.array(bits, integer).view(real).astype(np.float32)
    return dict(zip(buffer["parameters"], values))


def words(buffer):
    return {name: int(bits, 16) for name, bits in zip(buffer["names"], buffer["bits"])}


def as_float(bits):
    return np.array([bits], np.uint32).view(np.float32)[0]


def bits_of(value, dtype):
    """R8: rounded to nearest even; a NaN is one value (R9)."""
    value = F(value)
    if np.isnan(value):
        return "nan"
    if dtype == "fp32":
        return int(value.view(np.uint32))
    if dtype == "fp16":
        return int(np.float16(value).view(np.uint16))
    b = int(value.view(np.uint32))
    return (b + 0x7FFF + ((b >> 16) & 1)) >> 16


def shown_bits(word, dtype):
    integer = int(word, 16)
    largest = {"fp32": 0x7F800000, "fp16": 0x7C00, "bf16": 0x7F80, "fp64": 0x7FF0000000000000}.get(dtype)
    sign = {"fp32": 31, "fp16": 15, "bf16": 15, "fp64": 63}.get(dtype, 64)
    return "nan" if largest is not None and integer & ((1 << sign) - 1) > largest else integer


def bits64(value):
    return "nan" if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]


def fp32(value):
    return F(np.float64(value))


class Run:
    def __init__(self, trace):
        self.trace = trace
        self.settings = trace["settings"]
        self.compared = 0
        self.trust_norms = {}  # master and u of every parameter, by tensor
        self.directions = {}  # of every parameter of a matrix (R28), by tensor
        self.of_parameter = {i: p["tensor"] for i, p in enumerate(trace["layout"]["parameters"])}

    def expect(self, where, got, want):
        self.compared += 1
        if got != want:
            raise Mismatch("%s: NumPy has %s, the trace %s" % (where, got, want))

    def elements(self, where, buffer, values):
        for parameter, word in zip(buffer["parameters"], buffer["bits"]):
            self.expect("%s, parameter %d" % (where, parameter), bits_of(values[parameter], buffer["dtype"]),
                        shown_bits(word, buffer["dtype"]))

    def words(self, where, buffer, values):
        got = words(buffer)
        for name, value in values.items():
            self.expect("%s, %s" % (where, name), value, got[name])

    def step(self, step):
        leaves = [numbers(leaf) for leaf in step["leaves"]]
        nodes = self.tree(step, leaves)
        for phase in step["phases"]:
            if not phase["entered"]:
                self.expect("a phase that is left out in a step that is not", step["skipped"], True)
                continue
            for rank in phase["ranks"]:
                where = "step %d %s rank %d" % (step["step"], phase["phase"], rank["rank"])
                getattr(self, phase["phase"])(where, rank["before"], rank["after"], nodes)
            if phase["phase"] == "norm":
                self.norm_over_ranks("step %d norm" % step["step"], phase)
            if phase["phase"] == "unscale":
                flags = [any(not np.isfinite(x) for x in numbers(r["after"]["unscaled_grad"]).values())
                         for r in phase["ranks"]]
                for rank in phase["ranks"]:
                    self.words("found_inf", rank["after"]["found_inf"], {"found_inf": int(any(flags))})
            if phase["phase"] == "update":
                self.update_over_ranks("step %d update" % step["step"], phase)
            if phase["phase"] == "gather":
                self.gather_over_ranks("step %d gather" % step["step"], phase)

    def tree(self, step, leaves):
        """R11, level by level; returns G."""
        nodes = {(0, j): leaf for j, leaf in enumerate(leaves)}
        level, width = 0, len(leaves)
        while width > 1:
            for k in range((width + 1) // 2):
                left, right = nodes[level, 2 * k], nodes.get((level, 2 * k + 1))
                nodes[level + 1, k] = left if right is None else {i: left[i] + right[i] for i in left}
            level, width = level + 1, (width + 1) // 2
        for phase in step["phases"]:
            for node in phase.get("nodes", []):
                at = (node["level"], node["index"])
                self.elements("node %s" % (at,), node, nodes[at])
        return nodes[level, 0]

    def prepare(self, where, before, after, _):
        s = self.settings
        t = words(before["applied_steps"])["applied_steps"] + 1
        scale = 2.0 ** words(before["loss_scaler"])["log2_scale"]

        def power(b):
            r, n = 1.0, t
            while True:
                if n % 2:
                    r = r * b
                n //= 2
                if n == 0:
                    return r
                b = b * b
        b1, b2 = s["beta1"], s["beta2"]
        adam = s["rule"] in ("adam", "adamw", "lamb", "muon")
        decay = s["lr"] * s["weight_decay"] if s["rule"] in ("adamw", "lion", "lamb", "muon") else s["weight_decay"]
        scalars = {"inv_scale": 1 / (scale * s["micro_batches"]), "beta1": b1, "one_minus_beta1": 1 - b1,
                   "beta2": b2, "one_minus_beta2": 1 - b2, "eps": s["eps"],
                   "lr_weight_decay": s["lr"] * s["weight_decay"], "weight_decay": s["weight_decay"], "lr": s["lr"],
                   "momentum": s["momentum"], "one_minus_dampening": 1 - (s["momentum"] if s["rule"] == "muon" else s["dampening"])}
        if adam:
            scalars["sqrt_bias_correction2"] = math.sqrt(1 - power(b2))
            scalars["step_size"] = s["lr"] / (1 - power(b1))
        expected = {name: bits_of(fp32(value), "fp32") for name, value in scalars.items()}
        expected.update(has_decay=int(decay != 0), is_first=int(t == 1))
        self.words(where, after["step_scalars"], expected)

    def reduce(self, where, _, after, total):
        self.elements(where, after["grad_sum"], total)

    def unscale(self, where, before, after, _):
        inv = as_float(words(before["step_scalars"])["inv_scale"])
        self.elements(where, after["unscaled_grad"], {i: x * inv for i, x in numbers(before["grad_sum"]).items()})
        found = words(after["found_inf"])["found_inf"]
        old, s = words(before["loss_scaler"]), self.settings["scaler"]
        log2, tracker, left = old["log2_scale"], old["growth_tracker"], old["hysteresis_left"]
        if found:
            tracker, left = 0, max(left - 1, 0)
            log2 = max(log2 - s["log2_backoff"], s["log2_min"]) if left == 0 else log2
        else:
            tracker += 1
            if tracker == s["growth_interval"]:
                tracker, left = 0, s["hysteresis"]
                log2 = log2 + s["log2_growth"] if log2 + s["log2_growth"] <= s["log2_max"] else log2
        self.words(where, after["loss_scaler"],
                   {"log2_scale": log2, "growth_tracker": tracker, "hysteresis_left": left})

    def chunk(self, values):
        """R12: 32 lanes of one chunk; missing elements count +0."""
        lanes = [0.0] * 32
        for at, x in enumerate(values):
            lanes[at % 32] = lanes[at % 32] + float(x) * float(x)
        width = 16
        while width:
            for lane in range(width):
                lanes[lane] = lanes[lane] + lanes[lane + width]
            width //= 2
        return lanes[0]

    def norm(self, where, before, after, _):
        pass  # over all ranks at once

    def norm_over_ranks(self, where, phase):
        squares = 0  # as an integer, in units of 2^-1200: exact
        unit = 1200
        seen = {}
        for rank in phase["ranks"]:
            of_tensor = {}
            for parameter, x in numbers(rank["before"]["unscaled_grad"]).items():
                of_tensor.setdefault(self.of_parameter[parameter], []).append(x)
            for tensor, values in of_tensor.items():
                value = self.chunk(values)
                shown = [c for c in phase["chunks"] if c["rank"] == rank["rank"] and c["tensor"] == tensor]
                self.expect(where + ", chunks of tensor %d" % tensor, len(shown), 1)
                self.expect(where + ", chunk of tensor %d" % tensor, bits64(value), int(shown[0]["bits"], 16))
                seen[tensor] = value  # replicated ones are counted once
        for value in seen.values():
            numerator, denominator = value.as_integer_ratio()
            squares += numerator * (1 << unit) // denominator
        total = squares / (1 << unit)  # an integer quotient, rounded once to nearest even
        limbs = {"limb%d" % i: (squares >> (unit - 352 + 32 * i)) & 0xFFFFFFFF for i in range(20)}
        limbs.update(nan_count=0, inf_count=0)
        for rank in phase["ranks"]:
            self.words(where, rank["after"]["norm_limbs"], limbs)
            self.words(where, rank["after"]["grad_norm"], {"grad_norm": bits64(math.sqrt(total))})

    def clip(self, where, before, after, _):
        norm = struct.unpack("<d", struct.pack("<Q", words(before["grad_norm"])["grad_norm"]))[0]
        q = self.settings["max_norm"] / (norm + 1e-6)
        coef = fp32(q if q < 1 else 1)
        self.words(where, after["clip_coef"], {"clip_coef": bits_of(coef, "fp32")})
        self.elements(where, after["grad"], {i: x * coef for i, x in numbers(before["unscaled_grad"]).items()})

    def update(self, where, before, after, _):
        raw = words(before["step_scalars"])
        s = {name: as_float(bits) for name, bits in raw.items()}
        rule, decays = self.settings["rule"], raw["has_decay"] == 1
        state = {name: numbers(buffer) for name, buffer in before.items() if "parameters" in buffer}
        new = {name: {} for name in (*state, "orthogonal")}
        for i, g in state["grad"].items():
            p = state["master"][i]
            shape = self.trace["layout"]["tensors"][self.of_parameter[i]]["shape"]
            if rule == "muon" and len(shape) == 2:
                y = s["one_minus_dampening"] * g
                new["exp_avg"][i] = s["momentum"] * state["exp_avg"][i] + y
                new["exp_avg_sq"][i] = state["exp_avg_sq"][i]
                self.directions.setdefault(self.of_parameter[i], {})[i] = y + s["momentum"] * new["exp_avg"][i]
                new["orthogonal"][i] = numbers(after["orthogonal"])[i]  # compared over ranks
                a = fp32(float(s["lr"]) * math.sqrt(max(1, shape[0] / shape[1]))) * new["orthogonal"][i]
                new["master"][i] = p - (a + s["lr_weight_decay"] * p if decays else a)
                continue
            new["orthogonal"][i] = F(0)
            if decays and rule in ("adam", "sgd", "sgd_ema"):
                g = g + s["weight_decay"] * p
            if rule in ("adam", "adamw", "lamb", "muon"):
                m = s["beta1"] * state["exp_avg"][i] + s["one_minus_beta1"] * g
                v = s["beta2"] * state["exp_avg_sq"][i] + s["one_minus_beta2"] * (g * g)
                d = np.sqrt(v) / s["sqrt_bias_correction2"] + s["eps"]
                u = s["step_size"] * (m / d)
                u = u + s["lr_weight_decay"] * p if rule != "adam" and decays else u
                if rule == "lamb":
                    tensor = self.of_parameter[i]
                    self.trust_norms.setdefault(tensor, {})[i] = (p, u)
                    u = as_float(words(after["trust_ratio"])["trust_ratio[%d]" % tensor]) * u
                new["exp_avg"][i], new["exp_avg_sq"][i] = m, v
            elif rule == "lion":
                c = s["beta1"] * state["exp_avg"][i] + s["one_minus_beta1"] * g
                u = s["lr"] * (F(1) if c > 0 else F(-1) if c < 0 else c)
                u = u + s["lr_weight_decay"] * p if decays else u
                new["exp_avg"][i] = s["beta2"] * state["exp_avg"][i] + s["one_minus_beta2"] * g
            elif rule == "sgd_ema":
                new["exp_avg"][i] = s["beta1"] * state["exp_avg"][i] + s["one_minus_beta1"] * g
                u = s["lr"] * new["exp_avg"][i]
            else:
                b = g
                if raw["is_first"] == 0:
                    b = s["momentum"] * state["momentum_buffer"][i] + s["one_minus_dampening"] * g
                new["momentum_buffer"][i] = b
                u = s["lr"] * b
            new["master"][i] = p - u
        self.words(where, after["applied_steps"],
                   {"applied_steps": words(before["applied_steps"])["applied_steps"] + 1})
        for name, buffer in after.items():
            if "parameters" in buffer:
                self.elements("%s %s" % (where, name), buffer, new[name])

    def update_over_ranks(self, where, phase):
        """Whole tensors: trust ratios and matrices, of elements counted once, whatever the number of ranks that have
        them."""
        for tensor, elements in self.directions.items():
            direction = np.array([elements[i] for i in sorted(elements)], F)
            shape = self.trace["layout"]["tensors"][tensor]["shape"]
            orthogonal = dict(zip(sorted(elements), matrices.newton_schulz(direction.reshape(shape)).ravel()))
            for rank in phase["ranks"]:
                for i, o in numbers(rank["after"]["orthogonal"]).items():
                    if i in orthogonal:
                        self.expect("%s, orthogonal of parameter %d" % (where, i), bits_of(o, "fp32"),
                                    bits_of(orthogonal[i], "fp32"))
            way = next(m for m in phase["matrices"] if m["tensor"] == tensor)
            for name, values in (("direction", elements), ("orthogonal", orthogonal)):
                for i, word in zip(way["parameters"], way[name]):
                    self.expect("%s, %s of matrix %d" % (where, name, tensor), shown_bits(word, "fp32"),
                                bits_of(values[i], "fp32"))
        self.directions = {}
        unit = 1200

        def norm(values):
            squares = sum(int(numerator * numerator * (1 << unit) // (denominator * denominator))
                          for numerator, denominator in (float(x).as_integer_ratio() for x in values))
            return math.sqrt(squares / (1 << unit))
        for tensor, elements in self.trust_norms.items():
            weight, update = norm(p for p, _ in elements.values()), norm(u for _, u in elements.values())
            for rank in phase["ranks"]:
                lr = float(as_float(words(rank["before"]["step_scalars"])["lr"]))
                ratio = fp32(1 if 0 in (weight, update) else lr * weight / update)
                found = words(rank["after"]["trust_ratio"])["trust_ratio[%d]" % tensor]
                self.expect("%s, trust ratio of tensor %d" % (where, tensor), found, bits_of(ratio, "fp32"))
        self.trust_norms = {}

    def cast(self, where, before, after, _):
        self.elements(where, after["param_shard"], numbers(before["master"]))

    def gather(self, where, before, after, _):
        pass  # over all ranks at once

    def gather_over_ranks(self, where, phase):
        whole = {}
        for rank in phase["ranks"]:
            whole.update(numbers(rank["before"]["param_shard"]))
        for rank in phase["ranks"]:
            if "param_full" in rank["after"]:
                self.elements(where, rank["after"]["param_full"], whole)


def redo(program, flags):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "trace", "--json", file.name] + flags, check=True, stdout=subprocess.DEVNULL)
        with open(file.name, encoding="utf-8") as text:
            trace = json.load(text)
    run = Run(trace)
    for step in trace["steps"]:
        run.step(step)
    return run.compared


def main():
    program = sys.argv[1]
    compared = traces = differing = 0
    rules, dtypes = ("adamw", "adam", "sgd", "sgd_ema", "lion", "lamb", "muon"), ("bf16", "fp16", "fp32")
    for stage, world, rule, dtype in itertools.product(range(4), range(1, 5), rules, dtypes):
        micro_batches = 1 + (3 * stage + 5 * world + len(rule)) % 7
        flags = ["--stage", str(stage), "--world", str(world), "--rule", rule, "--dtype", dtype, "--steps", "3",
                 "--overflow-step", str((stage + world) % 4), "--micro-batches", str(micro_batches)]
        if rule == "muon":
            flags += ["--matrix-owners", ("every", "round_robin", "balanced")[(stage + world) % 3]]
        traces += 1
        try:
            compared += redo(program, flags)
        except Mismatch as mismatch:
            differing += 1
            print("differs: zeroproof trace %s: %s" % (" ".join(flags), mismatch))
    print("%d traces, %d values compared, %d traces differ" % (traces, compared, differing))
    sys.exit(1 if differing else 0)


main()
