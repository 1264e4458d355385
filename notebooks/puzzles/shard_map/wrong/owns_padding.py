# caught: first at  step 1  phase prepare  rank 0  buffer owners | element   [0] | got (0, 0, 1024)  want (0, 0, 5)
def shard_map(sizes, ranks):
    begins, chunks = [], 0
    for size in sizes:
        begins.append(1024 * chunks)
        chunks += (size + 1023) // 1024
    owned = []
    for rank in range(ranks):
        first, last = 1024 * (chunks * rank // ranks), 1024 * (chunks * (rank + 1) // ranks)
        pieces = []
        for tensor, (begin, size) in enumerate(zip(begins, sizes)):
            low, high = max(first, begin), min(last, begin + (size + 1023) // 1024 * 1024)
            if low < high:
                pieces.append((tensor, low - begin, high - begin))
        owned.append(pieces)
    return owned
