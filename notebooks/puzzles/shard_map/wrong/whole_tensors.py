# caught: first at  step 1  phase prepare  rank 0  buffer owners | element   [0] | got (0, 0, 5)  want nothing more
def shard_map(sizes, ranks):
    owned = [[] for _ in range(ranks)]
    for tensor, size in enumerate(sizes):
        if size > 0:
            owned[tensor * ranks // len(sizes)].append((tensor, 0, size))
    return owned
