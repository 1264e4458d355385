"""Answers to the blanks of the lessons: a correct one, and mistakes that readers make."""

RIGHT = {
    "distance": "return np.abs(one - other) / spread",
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
}

WRONG = {
    "distance": ("return (one - other) / spread", "return np.abs(one - other)"),
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
}
