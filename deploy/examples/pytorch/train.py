#!/usr/bin/env python3
"""An ordinary data parallel training script: PyTorch, torch.distributed, DistributedDataParallel.

Runs as it is under torchrun and under Keepstep: gloo on CPUs, NCCL where there are GPUs. It saves on
its own account, into folders that are written under another name first, and begins again from the
newest one. The lines that say `keepstep` are all that is for Keepstep: without them it is recovered
too, from whatever it saved last, and its steps are read from what it prints (hang.log_pattern in
job.yaml); with them phases and checkpoints are known as well, hangs are noticed soon, and a restart
begins at the checkpoint that Keepstep chose (--resume-step).

    torchrun --nproc-per-node 2 train.py --checkpoint-dir /tmp/ddp
    keepstep submit job.yaml

What it learns is to agree with a random linear classifier: enough to see a loss fall. The data of a
step is a function of seed, step and rank, so a run that was interrupted ends with the same weights,
bit for bit, on the same number of ranks.
"""

import argparse
import os
import pathlib
import re
import shutil
import time

import keepstep
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES = 32
CLASSES = 8


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint-dir", type=pathlib.Path, required=True)
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps")
    parser.add_argument("--resume-step", type=int, default=0, help="0: the newest one there is")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="samples of one rank in a step")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0.0, help="least seconds of a step")
    parser.add_argument("--weights", type=pathlib.Path, help="where rank 0 leaves the final ones")
    return parser.parse_args()


def batch_of(options, step, rank, device):
    """The data of one rank in one step: points, and which of the teacher's directions is nearest."""
    teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(options.seed))
    source = torch.Generator().manual_seed((options.seed * 1_000_003 + step) * 1_000_003 + rank)
    points = torch.randn(options.batch, FEATURES, generator=source)
    return points.to(device), (points @ teacher).argmax(1).to(device)


def model_of(options, device):
    torch.manual_seed(options.seed)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, options.width), torch.nn.GELU(),
                                torch.nn.Linear(options.width, options.width), torch.nn.GELU(),
                                torch.nn.Linear(options.width, CLASSES))
    return model.to(device)


# ---- checkpoints ---------------------------------------------------------------------------------


def saved_steps(folder):
    """{step: folder} of the whole ones; of one step the newest attempt's."""
    found = {}
    for path in sorted(folder.glob("step-*.a-*"),
                       key=lambda path: int(path.name.rpartition("-")[2])):
        match = re.fullmatch(r"step-(\d+)\.a-(\d+)", path.name)
        if match and (path / "state.pt").exists():
            found[int(match.group(1))] = path
    return found


def save(options, step, model, optimizer):
    """Whole or not at all: written beside, made durable, then renamed. A folder is never written
    twice: the attempt is in its name, which torchrun and Keepstep count alike."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    folder = options.checkpoint_dir / f"step-{step}.a-{attempt}"
    beside = options.checkpoint_dir / f".{folder.name}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    with open(beside / "state.pt", "wb") as file:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   file)
        os.fsync(file.fileno())
    beside.rename(folder)
    descriptor = os.open(options.checkpoint_dir, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return folder


def resume(options, model, optimizer, device):
    """The step that the state is of, on every rank the same: rank 0 looks, the others follow."""
    found = saved_steps(options.checkpoint_dir)
    step = options.resume_step or max(found, default=0)
    word = torch.tensor([step], dtype=torch.int64, device=device)
    dist.broadcast(word, src=0)
    step = int(word)
    if step > 0:
        state = torch.load(saved_steps(options.checkpoint_dir)[step] / "state.pt",
                           map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    return step


# ---- training ------------------------------------------------------------------------------------


def train(options, device):
    rank = dist.get_rank()
    bare = model_of(options, device)
    optimizer = torch.optim.AdamW(bare.parameters(), lr=3e-3)
    first = resume(options, bare, optimizer, device) + 1
    model = DistributedDataParallel(bare, device_ids=[device] if device.type == "cuda" else None)
    if rank == 0:
        print(f"begins at step {first} of {options.steps} on {dist.get_world_size()} ranks",
              flush=True)
    for step in range(first, options.steps + 1):
        begun = time.monotonic()
        inputs, wanted = batch_of(options, step, rank, device)
        loss = torch.nn.functional.cross_entropy(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(max(0.0, options.pace - (time.monotonic() - begun)))
        keepstep.step(step)
        if step % options.checkpoint_every == 0 or step == options.steps:
            if rank == 0:
                folder = save(options, step, bare, optimizer)
                keepstep.checkpoint_done(step, folder)
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            dist.barrier()
    if rank == 0 and options.weights is not None:
        options.weights.write_bytes(b"".join(one.detach().cpu().numpy().tobytes()
                                             for one in bare.parameters()))


def main():
    options = arguments()
    torch.set_num_threads(1)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or cuBLAS is not deterministic
    torch.use_deterministic_algorithms(True)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(options, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
