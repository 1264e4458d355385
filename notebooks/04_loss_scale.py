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
# # 4. The loss scale
#
# **Question.** fp16 gradients are multiplied by a power of two that changes during training. How is
# it chosen, and which ranks must agree on it?
#
# 25 minutes. fp16 has no number between 0 and 2^-24 and none above 65504. A value of at most 2^-25
# becomes 0, a value of 65520 or more becomes infinite ([MP:scale](../papers/mixed_precision.md)).
# Both limits move if the loss is multiplied by a *loss scale* S = 2^k before gradients are
# computed.
#
# **Guess first.** How many gradients of a small model are lost without a scale? How many with 2^12,
# with 2^20?

# %%
import zp  # first: reports missing packages
import zp_lesson04 as lesson

sizes = lesson.gradient_sizes()
zeros, infinities = {}, {}
for k in (0, 4, 8, 12, 16, 20):
    scaled = sizes * 2.0**k
    zeros[k], infinities[k] = int((scaled <= 2.0**-25).sum()), int((scaled >= 65520).sum())
zp.table((f"of {sizes.size:,} elements", "become 0", "become infinite"),
         *[(f"with the scale 2^{k}", zeros[k], infinities[k]) for k in zeros])
zp.claim("4.1", zeros[0] > zeros[12] > zeros[20] and infinities[12] == 0 < infinities[20],
         "a larger scale loses fewer small gradients, until large ones become infinite")

# %%
lesson.draw_sizes(sizes)

# %% [markdown]
# No scale loses nothing: some of these gradients are rounding errors of zero. So the scale is
# adapted during training. It grows after some steps without an infinity and shrinks after a step
# with one: a finite automaton on integers (R14). Its settings here are those of `byte_gpt_tiny`;
# the run starts with a scale that is far too large.
#
# **Your code.** After an overflow the exponent of the scale falls by 1, but not below 0, and the
# count of good steps starts again at 0. After `interval` good steps in a row it rises by 1, but not
# above 24, and the count starts again. A correct function is used below; otherwise the lesson
# continues with its own.

# %%
@lesson.blank
def automaton(scale, good, overflow, interval):
    """The next exponent and the next count of good steps, as a tuple of two integers."""
    return ...  # your code, a few lines


# %%
run = lesson.train(steps=60)
state, predicted = (24, 0), []
for step in run:
    predicted.append(state[0])
    state = automaton(*state, step["skipped"], interval=2)
print("program:", " ".join(f"{step['loss_scale_log2']}{'x' if step['skipped'] else ''}" for step in run[:20]), "...")
print("here:   ", " ".join(str(scale) for scale in predicted[:20]), "...")
print(f"x: skipped, {sum(step['skipped'] for step in run)} of {len(run)} steps")
lesson.draw_scale(run)
zp.claim("4.2", predicted == [step["loss_scale_log2"] for step in run],
         "a few lines on integers give zeroproof's scale in each of 60 steps, from the overflows alone")

# %% [markdown]
# Near the limit, the scale tries the next power of two again and again, and each attempt costs a
# skipped step. The main job of the project waits for 5 good steps instead of 2; libraries wait for
# one or two thousand. (R14 has one more number, the *hysteresis*: how many overflows it takes until
# the scale shrinks; here it is 1.)
#
# **Guess first.** A step is skipped. Which of these change: the moments, the number of applied
# steps, the learning rate of a schedule, the scale?

# %%
changed = lesson.changed_by(step=3)
zp.table(("changed by step 3", "elements"), *changed.items())
now = {step: lesson.counters(step) for step in (2, 3, 4)}
zp.table(("", *[f"step {step}" for step in now]), *[(name, *[of[name] for of in now.values()]) for name in now[3]])
zp.claim("4.3", not any(changed.values()) and now[3]["applied_steps"] == now[2]["applied_steps"]
         and now[4]["log2_loss_scale"] < now[3]["log2_loss_scale"],
         "a skipped step changes no bit of parameters, moments and counters; only the scale "
         "changes after it")

# %% [markdown]
# The infinite element is one of 12,269, and in stage 2 one of four ranks owns it. Every rank checks
# its own shard, and an OR of the flags decides for all of them:

# %%
rows = lesson.owned_elements()
zp.table(("rank", "owns elements", "of them infinite"), *[(rank, *row) for rank, row in enumerate(rows)])
lesson.draw_flags(rows)

# %% [markdown]
# **Guess first.** What happens if every rank decides on its own shard alone?

# %%
case = lesson.with_fault("found-inf-not-global")
print(zp.place(case))
first, flags = case["divergence"], [int(infinite > 0) for _, infinite in rows]
zp.claim("4.4", sum(flags) == 1 and flags[first["rank"]] == 0 and first["buffer"] == "found_inf",
         "one rank has the overflow; if ranks decide alone, the first difference is on a rank "
         "without it")

# %% [markdown]
# The rank with the infinity skips the step, and with it the gather of parameters; the other ranks
# enter the gather and wait. So the flags must be combined, with OR or a maximum. Another
# implementation might add them and compare the sum with 1.
#
# **Your code.** Combine the flags. What happens with yours, and with that implementation, if two
# ranks have an infinity?

# %%
@lesson.blank
def skips(flags):
    """Whether all ranks skip the step, from the list of their flags, 0 or 1."""
    return ...  # your code


# %%
two = [1, 0, 0, 1]
by_sum, by_program = sum(two) == 1, lesson.skipped_by_the_program(infinite=[0, -1])
zp.table(("two of four ranks", "skips the step"), ("by OR", skips(two)), ("by the sum being 1", by_sum),
         ("zeroproof", by_program))
zp.claim("4.5", skips(two) and not by_sum and by_program,
         "a flag is not a count: if two ranks overflow, the sum is 2, and a step with infinities "
         "is applied")

# %% [markdown]
# ## Find it
#
# Another fault. The buffer has three words: exponent of the scale, growth tracker (the count of
# good steps), and the number of overflows until the scale shrinks. Which rule of R14 is broken, and
# how many steps after the overflow is the first difference?

# %%
print(zp.place(lesson.with_fault("?4")))
mine = ""
zp.guess("?4", mine)

# %% [markdown]
# Names to choose from: `counter-advances-on-skip`, `hysteresis-not-refilled`, `skip-ignored`,
# `double-unscale`, `schedule-advances-on-skip`.
#
# ## Puzzle 5
#
# Write it yourself, with every setting of the contract, for all patterns of 14 steps: `python3
# notebooks/puzzle start loss_scaler` ([how](puzzles/README.md)). And one to try here: with
# `interval=2`, a run that overflows at 2^18 and never below skips every third step. Which interval
# keeps the share of skipped steps below one in a thousand, and for how long is the scale then too
# small after a single infinity that the scale did not cause? Call `automaton` and try.
#
# ## Further reading
#
# - [loss_scaler.cpp](../reference/update/loss_scaler.cpp),
#   [grad_scale.cpp](../reference/gradients/grad_scale.cpp); the contract of the automaton:
#   [loss_scaler.hpp](../common/contracts/loss_scaler.hpp).
# - [MP:dynamic](../papers/mixed_precision.md), and [MP:inverse](../papers/mixed_precision.md) on
#   removing the scale.
