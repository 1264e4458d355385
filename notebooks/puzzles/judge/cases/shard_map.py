"""shard_map(sizes, ranks): 1 to 1,000 ranks, with empty, odd and large tensors."""

from judge import arithmetic as rules
from judge.verdict import Wrong

SMALL = [3000, 0, 1, 1024, 1025, 5 * 1024]
MODEL = [3840, 195, *([15, 15, 225, 15, 225, 15, 225, 15, 225, 15, 15, 15, 555, 37, 555, 15] * 2), 15, 15, 3840]


def require_pieces(name, got, ranks):
    """Checks for a list of (tensor, begin, end) for every rank."""
    if got is None:
        raise Wrong(f"{name} returned nothing; return a list for every rank")
    try:
        got = [[(int(tensor), int(begin), int(end)) for tensor, begin, end in rank] for rank in got]
    except (TypeError, ValueError):
        raise Wrong(
            f"{name} returned {str(got)[:60]}; return a list of (tensor, begin, end) for every "
            f"rank") from None
    if len(got) != ranks:
        raise Wrong(
            f"{name} returned lists for {len(got)} ranks, expected {ranks}; return an empty list "
            f"for a rank that owns nothing")
    return got


def judge_shard_map(judge):
    def one(sizes, ranks):
        want = rules.shard_map(sizes, ranks)
        got = require_pieces(judge.name, judge.call(list(sizes), ranks)[0], ranks)
        judge.elements += sum(map(len, want))
        judge.cases += 1
        if got == want:
            return
        rank = next(r for r in range(ranks) if got[r] != want[r])
        mine, right = got[rank], want[rank]
        at = next((i for i, (x, y) in enumerate(zip(mine, right)) if x != y), min(len(mine), len(right)))
        shown = [str(pieces[at]) if at < len(pieces) else "nothing more" for pieces in (mine, right)]
        owned = sum(end - begin for pieces in got for _, begin, end in pieces)
        raise Wrong(f"  first at  step 1  phase prepare  rank {rank}  buffer owners: differs from the reference\n"
                    f"  case      {ranks} ranks, tensors of {str(sizes)[:60]}\n"
                    f"  element   [{at}]\n"
                    f"  values    got {shown[0]}  want {shown[1]}\n"
                    f"  extent    {owned:,} elements are owned, of {sum(sizes):,}\n"
                    f"  equal     {judge.cases - 1:,} cases before this one")

    for sizes in ([5], [1024], [1025], [0], [], [0, 7, 0], [2000, 3000]):
        for ranks in (1, 2, 3, 7):
            one(sizes, ranks)
    for ranks in range(1, 1001):
        one(SMALL, ranks)
    for ranks in (*range(1, 9), 43, 44, 64):
        one(MODEL, ranks)
    one([2**40 + 1, 3], 16)
    return "numbers of ranks"
