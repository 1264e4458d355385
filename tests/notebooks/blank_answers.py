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
}
