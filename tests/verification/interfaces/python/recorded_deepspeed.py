"""Small trainings with DeepSpeed on one of several ranks over gloo, each with a recorder and without.

recorded_deepspeed.py FOLDER RANK WORLD [KIND...]    writes FOLDER/KIND and FOLDER/KIND.rankRANK.json
"""

import contextlib
import json
import os
import pathlib
import sys

STEPS, MICRO, MAX_NORM = 4, 2, 0.05
LR, DECAY = 1e-2, 0.1
#: stage and format, and what is added to the configuration
KINDS = {1: ["3-bf16"],
         2: ["0-fp32", "0-bf16", "0-fp16", "1-fp32", "1-bf16", "1-bf16-fp32", "1-fp16", "2-bf16-fp32", "2-fp16-offload",
             "3-bf16", "3-bf16-offload", "3-bf16-pieces", "3-fp16"],
         3: ["0-fp16", "1-fp16-offload", "2-bf16", "2-fp32", "2-fp32-robin", "3-fp32", "3-fp16-offload"]}


def options(kind):
    stage, dtype, *more = kind.split("-")
    zero = {"stage": int(stage), "round_robin_gradients": "robin" in more}
    if stage == "3":
        zero |= {"stage3_param_persistence_threshold": 0, "sub_group_size": 300 if "pieces" in more else 10**9}
    if "offload" in more:
        zero["offload_optimizer"] = {"device": "cpu"}
    given = {"train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": MICRO, "gradient_clipping": MAX_NORM,
             "zero_optimization": zero, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
             "steps_per_print": 10**9}
    if dtype != "fp32":
        given[dtype] = {"enabled": True}
    if dtype == "fp16":
        given[dtype] |= {"initial_scale_power": 12, "hysteresis": 1}
    if "fp32" in more:
        given["data_types"] = {"grad_accum_dtype": "fp32"}
    return given


def model():
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(33, 61)
            self.second = torch.nn.Linear(61, 7)
            self.unused = torch.nn.Parameter(torch.ones(5))
            self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

        def forward(self, x):
            return self.second(torch.nn.functional.gelu(self.first(x)))

    torch.manual_seed(0)
    return Network()


def train(kind, folder):
    """Returns the outputs at the end."""
    import deepspeed
    import torch

    import zproof

    network = model()
    trained = [one for one in network.parameters() if one.requires_grad]
    groups = [{"params": [one for one in trained if one.ndim > 1]},
              {"params": [one for one in trained if one.ndim < 2], "weight_decay": 0.0}]
    engine, *_ = deepspeed.initialize(model=network, config=options(kind),
                                      optimizer=torch.optim.AdamW(groups, lr=LR, weight_decay=DECAY))
    torch.manual_seed(1 + engine.global_rank)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[kind.split("-")[1]]
    recording = zproof.torch.record(engine.optimizer, engine, folder) if folder else contextlib.nullcontext()
    with recording:
        for step in range(1, STEPS + 1):
            for _ in range(MICRO):
                loss = engine(torch.randn(16, 33).to(dtype)).float().square().mean()
                if dtype == torch.float16 and step == 2 and engine.global_rank == 0:
                    loss = loss * float("inf")
                engine.backward(loss)
                engine.step()
    output = engine(torch.ones(2, 33, dtype=dtype)).float().flatten().tolist()
    engine.destroy()
    return output


def main(folder, rank, world, *kinds):
    import deepspeed
    import torch

    # DeepSpeed refuses fp16 on processors without instructions for it, on which PyTorch computes it by other ones.
    deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "localhost"}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=int(rank),
                                         world_size=int(world))
    for kind in kinds or KINDS[int(world)]:
        same = train(kind, f"{folder}/{kind}") == train(kind, None)
        pathlib.Path(f"{folder}/{kind}.rank{rank}.json").write_text(json.dumps(same), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
