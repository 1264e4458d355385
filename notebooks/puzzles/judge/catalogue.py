"""The puzzles: what each asks for in a line, and where its function is called and compared."""

from judge.cases.adamw import judge_adamw
from judge.cases.add_tree import judge_add_tree
from judge.cases.clip import judge_clip
from judge.cases.maximal_nodes import judge_maximal_nodes

PUZZLES = {
    "add_tree": ("add_tree(leaves): the sum of gradients as R11 has it, in every bit", judge_add_tree),
    "maximal_nodes": ("maximal_nodes(a, b): what a rank with the leaves [a, b) sends", judge_maximal_nodes),
    "adamw": ("adamw(grad, master, exp_avg, exp_avg_sq, s): every bit of a thousand steps", judge_adamw),
    "clip": ("clip(rank, grad, max_norm, comm, memory): one norm for all ranks, in bits and bytes", judge_clip),
}
