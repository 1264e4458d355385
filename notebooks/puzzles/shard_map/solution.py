"""shard_map: slices of the flat range, intersected with each tensor."""


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
            low, high = max(first, begin), min(last, begin + size)
            if low < high:
                pieces.append((tensor, low - begin, high - begin))
        owned.append(pieces)
    return owned
