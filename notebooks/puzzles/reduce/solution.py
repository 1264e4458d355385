"""reduce: own leaves become nodes, nodes are sent to the owners, which continue the additions."""

import numpy as np


def reduce(rank, leaves, count, owns, comm, memory):
    cuts = [count * r // comm.size for r in range(comm.size + 1)]
    own = []
    for j, leaf in enumerate(leaves, cuts[rank]):
        push(own, 0, j, leaf)
    held = [memory.hold("nodes", node) for level, _, node in own if level > 0]

    blocks = []
    for begin, end in owns:
        parts = [node[begin:end] for _, _, node in own]
        blocks.append(parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.float32), *parts]))
    arrived = comm.all_to_all(blocks)

    stack = []
    for sender, block in enumerate(arrived):
        names = maximal_nodes(cuts[sender], cuts[sender + 1])
        for name, part in zip(names, np.split(block, max(len(names), 1))):
            push(stack, *name, part)
    total = stack.pop()[2]
    while stack:
        total = stack.pop()[2] + total
    for array in held + arrived:
        memory.release(array)
    return np.array(total)


def push(stack, level, index, values):
    while stack and index % 2 == 1 and stack[-1][:2] == (level, index - 1):
        values = stack.pop()[2] + values
        level, index = level + 1, index // 2
    stack.append((level, index, values))


def maximal_nodes(a, b):
    stack = []
    for j in range(a, b):
        push(stack, 0, j, 0)
    return [(level, index) for level, index, _ in stack]
