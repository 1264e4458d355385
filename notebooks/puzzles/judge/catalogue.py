"""The puzzles: one line about each, and the function that judges it."""

from judge.cases.adamw import judge_adamw
from judge.cases.add_tree import judge_add_tree
from judge.cases.clip import judge_clip
from judge.cases.groups import judge_groups
from judge.cases.loss_scaler import judge_loss_scaler
from judge.cases.maximal_nodes import judge_maximal_nodes
from judge.cases.muon import judge_muon
from judge.cases.reduce import judge_reduce
from judge.cases.repair import judge_repair
from judge.cases.reshard import judge_reshard
from judge.cases.schedule import judge_schedule
from judge.cases.shard_map import judge_shard_map
from judge.cases.unscale import judge_unscale

PUZZLES = {
    "add_tree": ("add_tree(leaves): the sum of gradients in the order of R11, in every bit",
                 judge_add_tree),
    "maximal_nodes": ("maximal_nodes(a, b): the nodes that a rank with leaves [a, b) sends",
                      judge_maximal_nodes),
    "adamw": ("adamw(grad, master, exp_avg, exp_avg_sq, s): every bit of a thousand steps",
              judge_adamw),
    "loss_scaler": (
        "loss_scaler(config, state, found_inf): the loss scale after every pattern of overflows",
        judge_loss_scaler),
    "unscale": (
        "unscale(rank, grad_sum, inv_scale, comm, memory): gradient and overflow flag",
        judge_unscale),
    "clip": ("clip(rank, grad, max_norm, comm, memory): one norm for all ranks, in bits and bytes",
             judge_clip),
    "shard_map": ("shard_map(sizes, ranks): which elements of which tensors each rank owns",
                  judge_shard_map),
    "reduce": (
        "reduce(rank, leaves, count, owns, comm, memory): a rank's shard of the sum",
        judge_reduce),
    "groups": (
        "groups(rank, dp, cp, tp, replicated): the ranks that reduce a tensor and count it",
        judge_groups),
    "reshard": ("reshard(shards, buckets, ranks): the same state on another number of ranks",
                judge_reshard),
    "schedule": ("schedule(sizes, budget): gathers, visits and releases of units", judge_schedule),
    "repair": ("repair(operations, waits): the waits that two streams need, and no others",
               judge_repair),
    "muon": ("muon(rank, shapes, owners, owns, grad, exp_avg, master, s, newton_schulz, comm): a sharded step of Muon",
             judge_muon),
}
