"""Answers to the blanks of the lessons: a correct one, and mistakes that readers make."""

RIGHT = {
    "distance": "return np.abs(one - other) / spread",
    "iterate": """
from zp_lesson13 import bf16, product
gram = bf16(product(x, x))
return bf16(a * x + product(bf16(b * gram + c * product(gram, gram)), x.T))
""",
    "longest_first": """
load, owners = [0] * ranks, [0] * len(costs)
for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
    owners[i] = min(range(ranks), key=lambda rank: load[rank])
    load[owners[i]] += costs[i]
return owners
""",
    "sent": """
if owner is None:
    return [4 * numel * sum(other > 0 for i, other in enumerate(elements) if i != rank)
            for rank, numel in enumerate(elements)]
back = sum(numel for rank, numel in enumerate(elements) if rank != owner)
return [4 * (back if rank == owner else numel) for rank, numel in enumerate(elements)]
""",
    "first_difference": '''
for step in range(len(one)):
    if one[step] != other[step]:
        return step + 1
return "never"
''',
    "times_owned": '''
for ranges in ranges_of_ranks:
    for begin, end in ranges:
        times[begin:end] += 1
return times
''',
    "without_owner": "return numel % ranks",
    "gathers_of_a_step": "return (2 * units - 1) * ((micro_batches + ranks - 1) // ranks)",
    "most_with_prefetch": "return max(sizes[i] + sizes[i + 1] for i in range(len(sizes) - 1))",
    "fold": """
total = leaves[0]
for leaf in leaves[1:]:
    total = total + leaf
return total
""",
    "tree": """
if len(leaves) == 1:
    return leaves[0].copy()
half = 1
while 2 * half < len(leaves):
    half *= 2
return tree(leaves[:half]) + tree(leaves[half:])
""",
    "chunk_value": """
lanes = np.zeros(32)
for row in squares:
    lanes = lanes + row
while lanes.size > 1:
    lanes = lanes[:lanes.size // 2] + lanes[lanes.size // 2:]
return lanes[0]
""",
    "limbs": """
digits = []
for _ in range(21):
    total, digit = divmod(total, 2**32)
    digits.append(digit)
return digits
""",
    "loss_differs": "return not bool((np.abs(losses - correct) <= spread).all())",
    "sum_differs": """
import math
return f"{math.fsum(master):g}" != f"{math.fsum(correct):g}"
""",
    "adamw": """
exp_avg = s["beta1"] * exp_avg + s["one_minus_beta1"] * grad
exp_avg_sq = s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * (grad * grad)
step = s["step_size"] * (exp_avg / (np.sqrt(exp_avg_sq) / s["sqrt_bias_correction2"] + s["eps"]))
return master - (step + s["lr_weight_decay"] * master), exp_avg, exp_avg_sq
""",
    "stochastic": "return (bits + word) >> 16",
    "automaton": """
if overflow:
    return max(0, scale - 1), 0
good += 1
if good == interval:
    return min(24, scale + 1), 0
return scale, good
""",
    "skips": "return any(flags)",
    "bytes_by_hand": """
gradients = 4 * micro_batches / ranks if stage > 1 else 4
parameters = (4, 2, 2, 2 * micro_batches / ranks * (2 * units - 1) / units)[stage]
return gradients + parameters
""",
    "count_nodes": """
if a == b:
    return 0
size = 1
while a % (2 * size) == 0 and a + 2 * size <= b:
    size *= 2
return 1 + count_nodes(a + size, b)
""",
    "rank_number": "return t + tensor * (c + context * d)",
    "parts_first": "return tree([tree([part for part in leaf]) for leaf in parts])",
    "owned_by_all": "return parameters - replicated + tensor * replicated",
    "needed": """
parts = [(rank, max(begin, first), min(end, first + numel)) for rank, first, numel in files]
return [(rank, low, high) for rank, low, high in parts if low < high]
""",
    "omit": """
changed = dict(tensors)
for name in tensors:
    if name.split(".")[0] == buffer:
        changed[name] = 0 * tensors[name]
return {name: np.abs(value) if name.split(".")[0] == buffer else value for name, value in changed.items()}
""",
    "earliest": """
start, last = {}, {}
for name, stream, _, _ in plan:
    times = [last.get(stream, 0)] + [start[other] + 1 for who, other in waits if who == name]
    start[name] = max(times)
    last[stream] = start[name] + 1
return start
""",
    "conflict": """
touched = set(first[2]) | set(first[3]), set(second[2]) | set(second[3])
return bool(touched[0] & set(second[3]) or touched[1] & set(first[3]))
""",
}

WRONG = {
    "distance": ("return (one - other) / spread", "return np.abs(one - other)"),
    "iterate": ("""
from zp_lesson13 import bf16, product
gram = bf16(product(x, x))
inner = bf16(bf16(b * gram) + bf16(c * product(gram, gram)))
return bf16(a * x + product(inner, x.T))
""", """
from zp_lesson13 import bf16, product
gram = bf16(product(x, x))
inner = b * gram + c * product(gram, gram)
return a * x + product(inner, x.T)
"""),
    "longest_first": ("return [i % ranks for i in range(len(costs))]", """
load, owners = [0] * ranks, []
for cost in costs:
    owners.append(load.index(min(load)))
    load[owners[-1]] += cost
return owners
"""),
    "sent": ("return [4 * numel * (len(elements) - 1) if owner is None else 8 * numel for numel in elements]", """
if owner is None:
    return [4 * numel * sum(other > 0 for other in elements) for numel in elements]
return [0 if rank == owner else 4 * numel for rank, numel in enumerate(elements)]
"""),
    "first_difference": ("return [a == b for a, b in zip(one, other)].index(False)",
                         "return 1 + sum(a == b for a, b in zip(one, other))"),
    "times_owned": ('''
for ranges in ranges_of_ranks:
    for begin, end in ranges:
        times[begin:end] = 1
return times
''', '''
for ranges in ranges_of_ranks:
    for begin, end in ranges:
        times[begin:end + 1] += 1
return times
'''),
    "without_owner": ("return numel // ranks", "return ranks - numel % ranks"),
    "gathers_of_a_step": ("return 2 * units * micro_batches // ranks", "return (2 * units - 1) * micro_batches // ranks"),
    "most_with_prefetch": ("return sum(sorted(sizes)[-2:])", "return 2 * max(sizes)"),
    "fold": ("return sum(leaves[::-1])", "return np.sum(np.array(leaves, np.float64), axis=0).astype(np.float32)"),
    "tree": ("""
total = leaves[0]
for leaf in leaves[1:]:
    total = total + leaf
return total
""", """
half = len(leaves) // 2
return leaves[0].copy() if len(leaves) == 1 else tree(leaves[:half]) + tree(leaves[half:])
"""),
    "chunk_value": ("return squares.sum()", """
lanes = squares[0]
for row in squares[1:]:
    lanes = lanes + row
total = lanes[0]
for lane in lanes[1:]:
    total = total + lane
return total
"""),
    "limbs": ("return [(total >> (32 * i)) & 0xFFFFFFFF for i in range(20, -1, -1)]",
              "return [(total >> (32 * i)) & 0xFFFFFFFF for i in range(11)]"),
    "loss_differs": ("return bool((np.abs(losses - correct) > spread).any())",
                     "return not bool((losses - correct <= spread).all())"),
    "sum_differs": ("return f'{np.sum(master):g}' != f'{np.sum(correct):g}'",
                    "return bool(sum(master) != sum(correct))"),
    "adamw": ("""
exp_avg = s["beta1"] * exp_avg + s["one_minus_beta1"] * grad
exp_avg_sq = s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * grad * grad
step = s["step_size"] * (exp_avg / (np.sqrt(exp_avg_sq) / s["sqrt_bias_correction2"] + s["eps"]))
return master - (step + s["lr_weight_decay"] * master), exp_avg, exp_avg_sq
""", """
m = s["beta1"] * exp_avg + s["one_minus_beta1"] * grad
v = s["beta2"] * exp_avg_sq + s["one_minus_beta2"] * (grad * grad)
step = s["step_size"] * (m / (np.sqrt(v) / s["sqrt_bias_correction2"] + s["eps"]))
return master - step - s["lr_weight_decay"] * master, m, v
"""),
    "stochastic": ("return bits >> 16", "return (bits >> 16) + (word >> 15)"),
    "automaton": ("return (scale - 1, 0) if overflow else (scale + 1, 0)", """
if overflow:
    return max(0, scale - 1), good
return (scale, good + 1) if good + 1 < interval else (min(24, scale + 1), 0)
"""),
    "skips": ("return sum(flags) == 1", "return flags[0] == 1"),
    "bytes_by_hand": ("return (8, 6, 6, 6 + 2 * micro_batches / ranks)[stage]",
                      "return (8, 6, 4 * micro_batches / ranks + 2, 8 * micro_batches / ranks)[stage]"),
    "count_nodes": ("return bin(b - a).count('1')", "return b - a"),
    "rank_number": ("return d + 2 * c + 4 * t", "return (d * context + t) * tensor + c"),
    "parts_first": ("return tree([tree(list(parts[:, c])) for c in range(parts.shape[1])])",
                    "return parts.sum(axis=(0, 1))"),
    "owned_by_all": ("return parameters", "return parameters + tensor * replicated"),
    "needed": ("return [(rank, first, first + numel) for rank, first, numel in files if first < end]",
               "return [(rank, max(begin, first), min(end, first + numel)) for rank, first, numel in files]"),
    "omit": ("return {name: 0 * value if name.startswith(buffer) else value for name, value in tensors.items()}",
             "return {name: value for name, value in tensors.items() if not name.startswith(buffer + '.')}"),
    "earliest": ("return {operation[0]: i for i, operation in enumerate(plan)}", """
start = {}
for name, _, _, _ in plan:
    start[name] = max([start[other] + 1 for who, other in waits if who == name], default=0)
return start
"""),
    "conflict": ("return bool(set(first[3]) & set(second[3]))",
                 "return bool({*first[2], *first[3]} & {*second[2], *second[3]})"),
}
