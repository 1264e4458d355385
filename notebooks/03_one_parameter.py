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
import zp  # first: reports missing packages
import zp_lesson03 as lesson

import numpy as np

grad, moves = lesson.moves_in_two_steps()
rows = {"gradient of step 1": grad, "move in step 1, / lr": moves[0], "move in step 2, / lr": moves[1]}
zp.table((f"{grad.size:,} parameters", "smallest", "median", "largest"),
         *[(name, *[f"{q:.4g}" for q in np.quantile(values, [0, 0.5, 1])]) for name, values in rows.items()])
lesson.draw_moves(moves)
zp.claim("3.1", 0.99 < moves[0].min() and moves[0].max() < 1.01 and np.median(moves[1]) < 0.9,
         "in step 1 each parameter moves by lr within 1 %, whatever its gradient is; in step 2 not")

# %% [markdown]
# In step 1 both moments come from one gradient: `exp_avg` is `g` and `exp_avg_sq` its square, up to
# factors that the bias correction removes ([Adam:bias](../papers/adam.md)), so the quotient is the
# sign. A test of one step from zero moments tests little more than that.
#
# **Your code.** Write the rule. The settings are fp32 numbers in the dictionary `s`: `beta1`,
# `one_minus_beta1`, `beta2`, `one_minus_beta2`, `step_size`, `sqrt_bias_correction2`, `eps`,
# `lr_weight_decay`. A correct function is used below; otherwise the lesson continues with its own.

# %%
@lesson.blank
def adamw(grad, master, exp_avg, exp_avg_sq, s):
    """The new master, exp_avg and exp_avg_sq, as a tuple of fp32 arrays."""
    return ...  # your code, about five lines


# %% [markdown]
# `zeroproof gen` writes one call of `adamw_update` with nonzero moments, and `zeroproof judge`
# compares any result for it with the reference, bit by bit.
#
# **Guess first.** Two variants change one operation each: `eps` is added before the division by
# `sqrt_bias_correction2` instead of after it; or the decay is subtracted first, and then the step.
# In how many of 10,000 masters do they differ?

# %%
arrays, settings, *_ = lesson.call_of_adamw()
variants = {"rule R6": adamw, "eps first": lesson.eps_first, "decay first": lesson.decay_first}
results = {name: variant(*arrays, settings) for name, variant in variants.items()}
verdicts = [lesson.judge(result) for result in results.values()]
zp.table(("variant", "zeroproof judge", "different masters"),
         *[(name, verdict, f"{zp.different(result[0], results['rule R6'][0]):,}")
           for verdict, (name, result) in zip(verdicts, results.items())])
zp.claim("3.2", verdicts == ["pass", "FAIL", "FAIL"],
         "a few lines of numpy are correct in every bit, and both variants fail")

# %% [markdown]
# Decay can also be written as a factor, `master * (1 - lr * weight_decay)`, as in many kernels. In
# fp32, neighbouring numbers just below 1 differ by 2^-24.
#
# **Guess first.** How much decay is applied when the wanted decay is 3e-8? And when it is 2.9e-8?

# %%
wanted = [1e-4, 1e-6, 1e-7, 3e-8, 2.9e-8]
factors = [np.float32(1 - w) for w in wanted]
applied = [(1 - float(factor)) / w for factor, w in zip(factors, wanted)]
zp.table(("wanted decay", "applied / wanted, as a factor"),
         *[(f"{w:.1e}", f"{a:.4f}") for w, a in zip(wanted, applied)])
lesson.draw_decay()
zp.claim("3.3", 1.9 < applied[3] < 2.1 and applied[4] == 0 and 0.99 < applied[0] < 1.01,
         "as a factor, a decay of 3e-8 is applied almost twice, and one of 2.9e-8 not at all")

# %% [markdown]
# That is why R6 adds step and decay before it changes the master
# ([AdamW:additive](../papers/adamw.md) has the table, and the limit of the additive form itself).
#
# Last, the precision of the parameter itself. A parameter starts at 1 and is lowered by 0.001 in
# each of a thousand steps. In bf16 the next number below 1 is 1 - 2^-8:

# %%
lesson.draw_neighbours()

# %% [markdown]
# **Guess first.** What is its value after a thousand steps if it is kept in fp32 (*master*) and
# rounded to bf16 for the model; if it is kept in bf16; and if it is kept in bf16 and rounded up or
# down at random (*stochastic rounding*)?
#
# **Your code.** R8 rounds at random as follows: a random word of 16 bits is added to the 32 bits of
# the fp32 number, and the upper 16 bits of the sum are the bf16 number.

# %%
@lesson.blank
def stochastic(bits, word):
    """The 16 bits of the bf16 number, of the 32 bits of an fp32 number (integers)."""
    return ...  # your code


# %%
word = lesson.random_words()
kept = {"fp32 master": lambda x: x, "bf16 only": zp.to_bf16,
        "bf16, stochastic": lambda x: zp.from_bf16(stochastic(int(zp.bits(x)), word()))[()]}
paths = {name: lesson.lowered(np.float32(0.001), rounded) for name, rounded in kept.items()}
zp.table(("kept in", "after 1,000 steps of 0.001"), *[(name, f"{path[-1]:.4f}") for name, path in paths.items()])
lesson.draw_paths(paths)
zp.claim("3.4", paths["bf16 only"][-1] == 1 and abs(paths["fp32 master"][-1]) < 0.01,
         "without a master the parameter does not move at all; with a master it reaches 0")

# %% [markdown]
# Stochastic rounding is correct on average, and the average can be checked exactly: over all 65,536
# values of the random word, the mean is the number itself
# ([SR:unbiased](../papers/mixed_precision.md)).

# %%
words, exact = np.arange(1 << 16, dtype=np.uint32), []
for value in lesson.some_numbers():
    rounded = zp.from_bf16(stochastic(zp.bits(value), words).astype(np.uint16))
    exact.append(lesson.exact_sum(rounded) == words.size * lesson.exact_sum([value]))
print(f"{len(exact)} numbers, {words.size:,} random words each; mean exact: {sum(exact)}")
zp.claim("3.5", all(exact), "the mean over all random words is exactly the unrounded number")

# %% [markdown]
# ## Find it
#
# One element of one call, with its inputs: the master of this `adamw_update` is wrong by a few
# units in the last place. Which operation is in the wrong order? Reproduce the wrong value with
# `adamw` above.

# %%
verdict = lesson.wrong_master()
zp.table(("element", "bits and value"), *verdict["inputs"].items(), ("got: master", verdict["candidate"]),
         ("want: master", verdict["reference"]))
mine = ""
zp.guess("?3", mine)

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
