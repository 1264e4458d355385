"""maximal_nodes(a, b): all blocks of 24 leaves, and two large ones."""

from judge import arithmetic as rules
from judge.verdict import Wrong


def judge_maximal_nodes(judge):
    blocks = [(5, 11), *((a, b) for b in range(25) for a in range(b + 1)), (0, 2**40 - 1), (3, 2**33 + 5)]
    for a, b in blocks:
        want = rules.nodes_of_block(a, b)
        got, _ = judge.call(a, b)
        if got is None:
            raise Wrong(f"{judge.name} returned nothing; return a list of nodes")
        try:
            got = [(int(level), int(index)) for level, index in got]
        except (TypeError, ValueError):
            raise Wrong(f"{judge.name} returned {str(got)[:60]}; "
                        f"return a list of (level, index)") from None
        if got != want:
            at = next((i for i, (x, y) in enumerate(zip(got, want)) if x != y), min(len(got), len(want)))
            shown = [str(nodes[at]) if at < len(nodes) else "no node" for nodes in (got, want)]
            raise Wrong(f"  first at  step 1  phase reduce  rank 0  buffer nodes: differs from the reference\n"
                        f"  case      block [{a}, {b})\n"
                        f"  element   [{at}]\n"
                        f"  values    got {shown[0]}  want {shown[1]}\n"
                        f"  extent    {len(got)} nodes, expected {len(want)}\n"
                        f"  equal     {judge.cases:,} cases before this one")
        judge.cases += 1
        judge.elements += len(want)
    return "nodes"
