#!/usr/bin/env python3
"""Puzzles: the judge's results equal those of the programs, its budgets those of the plan."""

import os
import pathlib
import sys
import tempfile
import unittest
from types import SimpleNamespace

import numpy as np

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
sys.path[:0] = [str(NOTEBOOKS / "puzzles"), str(NOTEBOOKS)]
import zp  # noqa: E402  (found by the line above)
from judge import arithmetic, matrices  # noqa: E402
from judge.cases.muon import muon_plan  # noqa: E402
from judge.cases.reduce import reduce_plan  # noqa: E402
from judge.cases.shard_map import MODEL  # noqa: E402
from judge.cases.unscale import flag_plan  # noqa: E402


class InFolder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def call(self, *words):
        """The call that zeroproof gen writes for an operation."""
        path = self.folder / "call.safetensors"
        zp.run("gen", *words, "-o", path)
        return zp.tensors(path)

    def judged(self, **after):
        """Checks results for that call with zeroproof judge; exits if a bit differs."""
        made = self.folder / "made.safetensors"
        zp.write_tensors(made, {f"after.{name}": array for name, array in after.items()})
        zp.run("judge", self.folder / "call.safetensors", made)


class Operations(InFolder):
    def test_loss_scaler(self):
        names = "kind log2_initial log2_growth log2_backoff log2_min log2_max growth_interval hysteresis refill".split()
        for seed in (1, 2, 3):
            call = self.call("loss_scaler_update", "--fill", "sweep", "--seed", seed)
            after, refused = [], []
            for words, state, found_inf in zip(call["before.config"].view(np.int32).tolist(),
                                               call["before.before"].view(np.int32).tolist(),
                                               call["before.found_inf"].tolist()):
                config = SimpleNamespace(**dict(zip(names, words)))
                config.kind = "dynamic" if config.kind == 2 else "constant"
                config.refill = ("growth", "good_step")[config.refill]
                bad = (min(config.log2_growth, config.log2_backoff, config.growth_interval, config.hysteresis) < 1
                       or not config.log2_min <= config.log2_initial <= config.log2_max)
                refused.append(int(bad))
                after.append(state if bad else arithmetic.scaler_step(config, tuple(state), found_inf))
            self.judged(after=np.array(after, np.int32).view(np.uint32), refused=np.array(refused, np.uint32))

    def test_unscale(self):
        for fill in ("training", "special", "ties"):
            for variant in ("scale 1/3", "scale 2^126"):
                call = self.call("unscale", "--fill", fill, "--variant", variant)
                g1, found_inf = arithmetic.unscale([call["before.grad_sum"]],
                                                   np.float32(float(call.metadata["setting.inv_scale"])))
                self.judged(unscaled_grad=g1[0], found_inf=np.array([found_inf], np.uint32))

    def test_matrices(self):
        """R27 and R28 with bf16 factors, in the settings that the lessons use."""
        for words in ((), ("--numel", 300), ("--seed", 3), ("--fill", "special"), ("--fill", "ties")):
            call = self.call("matrix_product", *words)
            with np.errstate(all="ignore"):
                product = matrices.product(call["before.left"], call["before.right"])
            self.assertEqual(call.metadata["setting.factors"], "0")
            self.judged(product=product)
            call = self.call("newton_schulz", *words)
            kept = {name: call.metadata[f"setting.{name}"] for name in ("coefficients", "factors", "floor", "form",
                                                                        "rounds_first", "steps")}
            self.assertEqual(kept, {"coefficients": "0", "factors": "0", "floor": "0", "form": "0", "rounds_first": "0",
                                    "steps": "5"})
            if words != ("--fill", "special"):  # the judge's norm is of finite elements
                self.judged(orthogonal=matrices.newton_schulz(call["before.matrix"]))

    def test_muon(self):
        call = self.call("muon_momentum")
        weights = [np.float32(float(call.metadata[f"setting.scalar.{name}"])) for name in ("momentum",
                                                                                          "one_minus_dampening")]
        exp_avg, direction = matrices.momentum(call["before.grad"], call["before.exp_avg"], *weights, nesterov=False)
        self.judged(exp_avg=exp_avg, direction=direction)
        own = matrices.momentum(call["before.grad"], call["before.exp_avg"], float(call.metadata["setting.momentum"]),
                                nesterov=False)[0]
        self.assertEqual(zp.different(own, exp_avg), 0)
        call = self.call("muon_update")
        self.judged(master=matrices.update(call["before.master"], call["before.orthogonal"],
                                           np.float32(float(call.metadata["setting.step_size"])),
                                           np.float32(float(call.metadata["setting.scalar.lr_weight_decay"]))))

    def test_found_inf(self):
        """found_inf of a whole step with a NaN, an infinity, or neither."""
        path = self.folder / "g.safetensors"
        for value in (np.nan, -np.inf, 3e38):
            gradient = np.ones(3000, np.float32)
            gradient[2047] = value
            zp.write_tensors(path, {"grad.1.0.x": gradient}, steps=1, micro_batches=1)
            dump = zp.file_of("verify", "--gradients", path, "--recipe", "adamw", "--dtype", "fp32", "--stage", 1,
                              "--impl", "host", "--world", "threads:3", option="--dump", may_end_with=(0, 4))
            shards = np.split(gradient, [1024, 2048])
            self.assertEqual(int(dump["found_inf.1"].item()), arithmetic.unscale(shards, np.float32(1))[1])

    def test_maximal_nodes(self):
        call = self.call("maximal_nodes", "--fill", "sweep")
        nodes, refused = np.zeros((1000, 64), np.uint64), np.zeros(1000, np.uint32)
        for i, (a, b) in enumerate(call["before.first_last"].view(np.int64).tolist()):
            refused[i] = a < 0 or b < a
            found = [] if refused[i] else arithmetic.nodes_of_block(a, b)
            nodes[i, 0] = len(found)
            nodes[i, 1:1 + 2 * len(found)] = np.array(found, np.uint64).ravel()
        self.judged(nodes=nodes, refused=refused)

    def test_tree_sum(self):
        """With beta1 = 0 and no clipping, exp_avg is 0 + G * inv_scale."""
        path, settings = self.folder / "g.safetensors", self.folder / "s.toml"
        settings.write_text("[optimizer]\nbeta1 = 0.0\nmax_norm = 0.0\n")
        for count in (1, 5, 7, 12):
            recorded = zp.file_of("record", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--steps", 1,
                                  "--micro-batches", count)
            leaves = [recorded[f"grad.1.{j}.token_embedding.weight"].ravel() for j in range(count)]
            zp.write_tensors(path, {f"grad.1.{j}.x": leaf for j, leaf in enumerate(leaves)}, steps=1,
                             micro_batches=count)
            dump = zp.file_of("verify", "--gradients", path, "--recipe", "adamw", "--dtype", "fp32", "--stage", 1,
                              "--impl", "host", "--world", "threads:2", "--config", settings, option="--dump")
            ours = np.float32(0) + arithmetic.tree_sum(leaves) * np.float32(1 / count)
            self.assertEqual(zp.different(dump["exp_avg.1.x"].ravel(), ours), 0)


class Plans(InFolder):
    def test_reduce(self):
        for ranks in (2, 3, 5):
            for count in (ranks, 7, 12, 13, 20):
                plan = zp.json_of("plan", "byte_gpt_tiny", "--grid", f"{ranks}x1x1", "--stage", 1, "--micro-batches",
                                  count)["stages"][0]
                at = arithmetic.boundaries(plan_chunks(), ranks)
                owned = [end - begin for begin, end in zip(at, at[1:])]
                for row in (plan["smallest"], plan["largest"]):
                    ours = reduce_plan(count, owned, row["data_rank"])
                    nodes = [line for line in row["traffic"] if line["of"] == "nodes"]
                    self.assertEqual([(line["sent_bytes"], line["messages"]) for line in nodes],
                                     [(ours["bytes"], ours["messages"])])
                    held = row["peak"]["grad_nodes"] + row["peak"]["comm_buffer"]
                    self.assertEqual(held, ours["bytes held at most"], (ranks, count, row["data_rank"]))

    def test_muon(self):
        """Elements of directions and results, for the matrices and owners of a plan on three ranks."""
        path = self.folder / "model.toml"
        path.write_text("".join(f'[[tensor]]\nname = "m{i}"\nshape = [{rows}, {columns}]\n'
                                for i, (rows, columns) in enumerate(MATRICES)))
        for owners, named in (([0, 2, 2, 1], "balanced"),
                              ([0, 1, 2, 0], "round_robin")):
            plan = zp.json_of("plan", path, "--grid", "3x1x1", "--stage", 1, "--rule", "muon", "--matrix-owners", named)
            at = arithmetic.boundaries(sum(rows * columns for rows, columns in MATRICES) // 1024, 3)
            owns = list(zip(at, at[1:]))
            for row in (plan["stages"][0]["smallest"], plan["stages"][0]["largest"]):
                ours = muon_plan(MATRICES, owners, owns, row["data_rank"])
                lines = [line for line in row["traffic"] if line["of"] in ("directions", "orthogonal")]
                self.assertEqual(len(lines), 2)
                self.assertEqual([sum(line[what] for line in lines) for what in ("sent_bytes", "messages")],
                                 [ours["bytes"], ours["messages"]])

    def test_reduce_on_ranks_that_own_nothing(self):
        path = self.folder / "model.toml"
        path.write_text('[[tensor]]\nname = "x"\nshape = [3072]\n')
        owned = np.diff(arithmetic.boundaries(3, 5)).tolist()
        for count in (3, 5, 12):
            plan = zp.json_of("plan", path, "--grid", "5x1x1", "--stage", 1, "--micro-batches", count)["stages"][0]
            for row in (plan["smallest"], plan["largest"]):
                ours = reduce_plan(count, owned, row["data_rank"])
                nodes = [(line["sent_bytes"], line["messages"]) for line in row["traffic"] if line["of"] == "nodes"]
                self.assertEqual(nodes or [(0, 0)], [(ours["bytes"], ours["messages"])])

    def test_flag(self):
        for ranks in (2, 3, 5):
            plan = zp.json_of("plan", "byte_gpt_tiny", "--grid", f"{ranks}x1x1", "--stage", 1)["stages"][0]
            flags = [line for line in plan["largest"]["traffic"] if line["of"] == "found_inf"]
            ours = flag_plan(ranks)
            self.assertEqual([(line["sent_bytes"], line["messages"]) for line in flags],
                             [(ours["bytes"], ours["messages"])])


class Layout(InFolder):
    def owners(self, model, ranks):
        """(tensor number, begin, end) of every rank, from zeroproof plan."""
        plan = zp.json_of("plan", model, "--owners", "--grid", f"{ranks}x1x1")
        return [[(piece["tensor"], piece["tensor_begin"], piece["tensor_end"])
                 for part in rank["slices"] for piece in part["pieces"]] for rank in plan["ranks"]]

    def test_shard_map(self):
        sizes = [3000, 0, 1, 1024, 1025, 5120]
        path = self.folder / "model.toml"
        path.write_text("".join(f'[[tensor]]\nname = "{i}"\nshape = [{size}]\n' for i, size in enumerate(sizes)))
        names = names_of_tiny()
        for ranks in (1, 2, 3, 7, 11, 43, 64):
            ours = [[(str(tensor), *ends) for tensor, *ends in own] for own in arithmetic.shard_map(sizes, ranks)]
            self.assertEqual(self.owners(path, ranks), ours)
            ours = [[(names[tensor], *ends) for tensor, *ends in own] for own in arithmetic.shard_map(MODEL, ranks)]
            self.assertEqual(self.owners("byte_gpt_tiny", ranks), ours)

    def test_every_element_once(self):
        for ranks in range(1, 1001):
            times = [np.zeros(size, int) for size in MODEL]
            for own in arithmetic.shard_map(MODEL, ranks):
                for tensor, begin, end in own:
                    times[tensor][begin:end] += 1
            self.assertTrue(all((count == 1).all() for count in times), ranks)

    def test_shards_in_order(self):
        padded = 1024 * plan_chunks()
        buckets = [min(4096, padded - begin) for begin in range(0, padded, 4096)]
        for ranks in (1, 3, 5):
            plan = zp.json_of("plan", "byte_gpt_tiny", "--owners", "--grid", f"{ranks}x1x1", "--bucket", 4096)
            ours = arithmetic.shards_of(np.arange(padded), buckets, ranks)
            for rank, own in zip(plan["ranks"], ours):
                theirs = [np.arange(part["buffer_begin"], part["buffer_end"]) for part in rank["slices"]]
                self.assertEqual(np.concatenate([np.arange(0), *theirs]).tolist(), own.tolist())

    def test_shards_of_checkpoints(self):
        saved, resharded = self.folder / "three", self.folder / "five"
        zp.run("train", "--workload", "byte_gpt_tiny", "--dtype", "bf16", "--world", "threads:3", "--stage", 1,
               "--steps", 1, "--bucket", 4096, "--checkpoint", saved)
        zp.run("checkpoint", "reshard", saved, "-o", resharded, "--grid", "5x1x1", "--bucket", 4096)
        begins = dict(zip(names_of_tiny(), np.cumsum([0] + [-(-size // 1024) * 1024 for size in MODEL])))
        padded = 1024 * plan_chunks()
        buckets = [min(4096, padded - begin) for begin in range(0, padded, 4096)]

        def flat(file):
            """The masters of a rank's file at their place in the flat range; NaN elsewhere."""
            array = np.full(padded, np.nan, np.float32)
            for name, values in zp.tensors(file).items():
                if name.startswith("master."):
                    tensor, _, offset = name[len("master."):].partition("@")
                    begin = begins[tensor] + int(offset or 0)
                    array[begin:begin + values.size] = values.ravel()
            return array

        whole, padding = np.full(padded, np.nan, np.float32), np.ones(padded, bool)
        for begin, size in zip(begins.values(), MODEL):
            padding[begin:begin + size] = False
        for folder, ranks in ((saved, 3), (resharded, 5)):
            places = arithmetic.shards_of(np.arange(padded), buckets, ranks)
            for rank, own in enumerate(places):
                file = folder / "step-00000001" / f"rank-{rank:05}.safetensors"
                self.assertEqual(file.exists(), own.size > 0)  # rank 0 of 5 has none
                if own.size == 0:
                    continue
                there = flat(file)
                own = own[~padding[own]]
                self.assertEqual(np.flatnonzero(~np.isnan(there)).tolist(), sorted(own.tolist()))
                if folder is saved:
                    whole[own] = there[own]
                self.assertEqual(zp.different(there[own], whole[own]), 0)
        self.assertFalse(np.isnan(whole[~padding]).any())


class Grid(InFolder):
    def test_groups(self):
        """Checkpoints of a grid: TP rank 0 saves replicated tensors; columns identify t."""
        grid = (2, 2, 2)
        zp.run("train", "--workload", "byte_gpt", "--dtype", "bf16", "--norm", "exact", "--stage", 1, "--steps", 1,
               "--grid", "2x2x2", "--world", "threads:8", "--checkpoint", self.folder / "c")
        files = [zp.tensors(path) for path in sorted(self.folder.glob("c/step-*/rank-*.safetensors"))]
        ranks = range(8)
        norms = [sum(array.size for name, array in file.items() if name.startswith("master.") and "norm." in name)
                 for file in files]
        self.assertEqual(sum(norms), 9 * 2 * 136)  # gains and biases of nine norms, saved once
        for rank in ranks:
            parts, _, counts = arithmetic.groups(rank, grid, 1)
            self.assertEqual([arithmetic.groups(part, grid, 1)[2] for part in parts], [1, 0])
            self.assertTrue(counts or norms[rank] == 0, norms)
            columns = {int(name.split("@")[1]) for name in files[rank] if name.startswith("master.")
                       and name.split("@")[0].endswith(("query.bias", "key.bias", "value.bias"))}
            first = arithmetic.groups(rank, grid, 0)[1][0]  # data ranks of a TP rank begin with t
            self.assertLessEqual(columns, {68 * first}, rank)

    def test_sizes(self):
        for dp, cp, tp in ((2, 2, 2), (3, 1, 2), (1, 2, 4)):
            plan = zp.json_of("plan", "byte_gpt", "--grid", f"{dp}x{cp}x{tp}", "--stage", 1)["stages"][0]["largest"]
            parts, nodes, _ = arithmetic.groups(0, (dp, cp, tp), 1)
            over = {(line["phase"], line["over"]): line["messages"] / line["calls"] for line in plan["traffic"]}
            self.assertEqual(over["reduce", "tp"], len(parts) - 1)
            self.assertEqual(over["reduce", "shards"], len(nodes) - 1)
            self.assertEqual(over["norm", "tp"], len(parts) - 1)


def names_of_tiny():
    return zp.file_of("record", "--workload", "byte_gpt_tiny", "--steps", 1).metadata["order"].splitlines()


MATRICES = [(64, 64), (32, 96), (64, 32), (64, 64)]  # without padding


def plan_chunks():
    return sum(-(-size // 1024) for size in MODEL)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
