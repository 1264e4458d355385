# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3. One parameter, a thousand steps
#
# **Question.** How does AdamW change a single parameter, and how many bits does the parameter need?
#
# 25 minutes. The rule, with the names of the [contract](../common/CONTRACT.md) (R6); every
# operation is rounded to fp32:
#
#     exp_avg    = beta1 * exp_avg + (1 - beta1) * g            # mean of past gradients
#     exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * (g * g)   # mean of past squares
#     step       = step_size * (exp_avg / (sqrt(exp_avg_sq) / sqrt_bias_correction2 + eps))
#     master     = master - (step + lr_weight_decay * master)
#
# **Guess first.** In the first step, with learning rate 0.01, one parameter has gradient 0.1 and
# another 0.00001. How far does each of them move?

# %%
import pathlib
import random
import tempfile

import zp  # first: reports missing packages

import numpy as np

LR, EPS = 0.01, 1e-8
CONFIG = '[run]\ninitial_state = "zero"\noverflow_step = 0\n[optimizer]\nweight_decay = 0.0\n'
JOB = ("--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:4", "--stage", 1)
recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1)
names = recorded.metadata["order"].splitlines()


def whole(tensors, prefix):
    return np.concatenate([tensors[prefix + name].ravel() for name in names])


runs = [zp.trained(*JOB, "--steps", steps, config=CONFIG) for steps in (1, 2)]
masters = [whole(recorded, "param."), *[whole(run, f"master.{step}.") for step, run in enumerate(runs, 1)]]
g = np.abs(whole(runs[0], "exp_avg.1.")) * 10  # exp_avg was 0 and beta1 is 0.9
some = g > 100 * EPS  # so that eps in the denominator changes a step by at most 1 %
moves = [np.abs(after - before)[some] / LR for before, after in zip(masters, masters[1:])]
zp.table((f"{int(some.sum()):,} parameters", "smallest", "median", "largest"),
         ("gradient of step 1", *[f"{q:.1e}" for q in np.quantile(g[some], [0, 0.5, 1])]),
         ("move in step 1, / lr", *[f"{q:.5f}" for q in np.quantile(moves[0], [0, 0.5, 1])]),
         ("move in step 2, / lr", *[f"{q:.5f}" for q in np.quantile(moves[1], [0, 0.5, 1])]))
first = zp.given("3.1", moves[0], moves[1])
zp.claim("3.1", 0.99 < first.min() and first.max() < 1.01 and np.median(moves[1]) < 0.9,
         "in step 1 each parameter moves by lr within 1 %, whatever its gradient is; in step 2 not")

# %% [markdown]
# In step 1 both moments come from one gradient: `exp_avg` is `g` and `exp_avg_sq` its square, up to
# factors that the bias correction removes ([Adam:bias](../papers/adam.md)), so the quotient is the
# sign. A test of one step from zero moments tests little more than that.
#
# Now the rule itself. `zeroproof gen` writes one call of `adamw_update` with nonzero moments, and
# `zeroproof judge` compares any result for it with the reference, bit by bit.
#
# **Guess first.** Two variants change one operation each: `eps` is added before the division by
# `sqrt_bias_correction2` instead of after it; or the decay is subtracted first, and then the step.
# In how many of 10,000 masters do they differ?


# %%
def adamw(before, s, eps_first=False, decay_first=False):
    grad, master = before["before.grad"], before["before.master"]
    exp_avg = s["beta1"] * before["before.exp_avg"] + s["one_minus_beta1"] * grad
    exp_avg_sq = s["beta2"] * before["before.exp_avg_sq"] + s["one_minus_beta2"] * (grad * grad)
    root = np.sqrt(exp_avg_sq)
    d = (root + s["eps"]) / s["sqrt_bias_correction2"] if eps_first else root / s["sqrt_bias_correction2"] + s["eps"]
    step = s["step_size"] * (exp_avg / d)
    w = s["lr_weight_decay"] * master
    return (master - w) - step if decay_first else master - (step + w), exp_avg, exp_avg_sq


with tempfile.TemporaryDirectory() as folder:
    call, made = pathlib.Path(folder, "call.safetensors"), pathlib.Path(folder, "made.safetensors")
    zp.run("gen", "adamw_update", "--numel", 10000, "-o", call)
    before = zp.tensors(call)
    said = before.metadata
    s = {name.split(".")[-1]: np.float32(float(said[name])) for name in said if name.startswith("setting.scalar.")}
    s |= {name: np.float32(float(said[f"setting.{name}"])) for name in ("beta1", "beta2")}
    results = {"rule R6": adamw(before, s), "eps first": adamw(before, s, eps_first=True),
               "decay first": adamw(before, s, decay_first=True)}
    rows, verdicts = [], {}
    for name, (master, m, v) in results.items():
        zp.write_tensors(made, {"after.master": master, "after.exp_avg": m, "after.exp_avg_sq": v,
                                "after.max_exp_avg_sq": before["before.max_exp_avg_sq"]})
        verdicts[name] = zp.run("judge", call, made, may_end_with=(0, 1)).split()[0]
        rows.append((name, verdicts[name], f"{zp.different(master, results['rule R6'][0]):,}"))
zp.table(("variant", "zeroproof judge", "different masters"), *rows)
ours = verdicts[zp.given("3.2", "rule R6", "eps first")]
zp.claim("3.2", (ours, verdicts["eps first"], verdicts["decay first"]) == ("pass", "FAIL", "FAIL"),
         "seven lines of numpy are correct in every bit, and both variants fail")

# %% [markdown]
# Decay can also be written as a factor, `master * (1 - lr * weight_decay)`, as in many kernels. In
# fp32, neighbouring numbers just below 1 differ by 2^-24.
#
# **Guess first.** How much decay is applied when the wanted decay is 3e-8? And when it is 2.9e-8?

# %%
wanted = [1e-4, 1e-6, 1e-7, 3e-8, 2.9e-8]
applied = []
for w in wanted:
    factor = np.float32(1 - w)
    applied.append((1 - float(zp.given("3.3", factor, np.float64(1 - w)))) / w)
rows = [(f"{w:.1e}", f"{a:.4f}") for w, a in zip(wanted, applied)]
zp.table(("wanted decay", "applied / wanted, as a factor"), *rows)
zp.claim("3.3", 1.9 < applied[3] < 2.1 and applied[4] == 0 and 0.99 < applied[0] < 1.01,
         "as a factor, a decay of 3e-8 is applied almost twice, and one of 2.9e-8 not at all")

# %% [markdown]
# That is why R6 adds step and decay before it changes the master
# ([AdamW:additive](../papers/adamw.md) has the table, and the limit of the additive form itself).
#
# Last, the precision of the parameter itself. A parameter starts at 1 and is lowered by 0.001 in
# each of a thousand steps. In bf16 the next number below 1 is 1 - 2^-8.
#
# **Guess first.** What is its value after a thousand steps if it is kept in fp32 (*master*) and
# rounded to bf16 for the model; if it is kept in bf16; and if it is kept in bf16 and rounded up or
# down at random (*stochastic rounding*, R8)?


# %%
def stochastic(value, word):
    """R8: the upper half of bits + word, the upper 16 bits of the random word."""
    return zp.from_bf16(np.uint16((int(zp.bits(np.float32(value))) + word) >> 16).reshape(1))[0]


chance = random.Random(3)
step = np.float32(zp.given("3.4", 0.001, 0.004))
paths = {"fp32 master": [np.float32(1)], "bf16 only": [np.float32(1)], "bf16, stochastic": [np.float32(1)]}
for _ in range(1000):
    paths["fp32 master"].append(paths["fp32 master"][-1] - step)
    paths["bf16 only"].append(zp.to_bf16(paths["bf16 only"][-1] - step))
    paths["bf16, stochastic"].append(stochastic(paths["bf16, stochastic"][-1] - step, chance.getrandbits(16)))
zp.table(("kept in", "after 1,000 steps of 0.001"), *[(name, f"{path[-1]:.4f}") for name, path in paths.items()])
zp.claim("3.4", paths["bf16 only"][-1] == 1 and abs(paths["fp32 master"][-1]) < 0.01,
         "without a master the parameter does not move at all; with a master it reaches 0")

# %% [markdown]
# Stochastic rounding is correct on average, and the average can be checked exactly: over all 65,536
# values of the random word, the mean is the number itself
# ([SR:unbiased](../papers/mixed_precision.md)).

# %%
words = np.arange(1 << 16, dtype=np.uint32)
values = np.array([chance.uniform(-2, 2) for _ in range(200)] + [1e-40, 3.0, -0.999], np.float32)
exact = []
for value in values:
    rounded = zp.from_bf16(((zp.bits(value) + zp.given("3.5", words, words // 2)) >> 16).astype(np.uint16))
    total = sum(int(x) for x in rounded.astype(np.float64) * 2.0**149)  # integers: no rounding
    exact.append(total == len(words) * int(np.float64(value) * 2.0**149))
print(f"{len(values)} numbers, {len(words):,} random words each; mean exact: {sum(exact)}")
zp.claim("3.5", all(exact), "the mean over all random words is exactly the unrounded number")

# %%
fig, axes = zp.figure(height=3.2)
for name, path in paths.items():
    axes.plot(path, label=name)
axes.set(xlabel="step", ylabel="parameter", title="lowered by 0.001 in every step")
axes.legend()
zp.show(fig, "One parameter over a thousand steps: in fp32 it falls in a straight line from 1 to "
             "0, in bf16 it "
             "stays at 1, and with stochastic rounding it follows the line in jumps.")

# %% [markdown]
# ## Find it
#
# One element of one call, with its inputs: the master of this `adamw_update` is wrong by a few
# units in the last place. Which operation is in the wrong order? Reproduce the wrong value with
# `adamw` above.

# %%
seal = "ZXBzLXVuZGVyLWJpYXMtY29ycmVjdGlvbg=="
case = zp.verify("op/adamw_update/host/x86-64/fill:training", fault=zp.sealed(seal))["cases"][0]
verdict = case["divergence"]
zp.table(("element", "bits and value"), *verdict["inputs"].items(), ("got: master", verdict["candidate"]),
         ("want: master", verdict["reference"]))
mine = ""
print(zp.answer(mine, seal))

# %% [markdown]
# Names to choose from: `decay-after-update`, `eps-under-bias-correction`, `state-zeroed-each-step`,
# `decoupled-for-l2`, `no-master`.
#
# ## Puzzle 4
#
# `python3 notebooks/puzzle start adamw` ([how](puzzles/README.md)): every bit of a thousand steps,
# with and without decay, with infinities.
#
# ## Further reading
#
# - [adam.cpp](../reference/update/adam.cpp), one line for each rounding;
#   [cast.cpp](../reference/formats/cast.cpp).
# - [Adam:alg1](../papers/adam.md), [AdamW:once](../papers/adamw.md),
#   [MP:master](../papers/mixed_precision.md).
