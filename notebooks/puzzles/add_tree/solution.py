"""add_tree: level by level; a node without a neighbour is kept unchanged."""


def add_tree(leaves):
    level = list(leaves)
    while len(level) > 1:
        above = [left + right for left, right in zip(level[0::2], level[1::2])]
        if len(level) % 2 == 1:
            above.append(level[-1])
        level = above
    return level[0].copy()
