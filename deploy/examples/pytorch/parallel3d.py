#!/usr/bin/env python3
"""parallel3d.py: tensor, pipeline and data parallel training in plain PyTorch, under Keepstep.

    torchrun --nproc_per_node 8 parallel3d.py --tensor 2 --pipeline 2 --checkpoint-dir /shared/ckpt
    keepstep submit parallel3d.yaml

The same file runs under both: gloo on CPUs, NCCL where every rank has a GPU of its own (not tried
yet). It shows how a program with process groups of its own lives under Keepstep:

  Grid          the groups, from the order of ranks that the job file's layout has, checked against
                the coordinates that Keepstep gives
  Stage         column and row split linears with their all-reduce, the stages of a pipeline
  train_step    micro-batches through the stages, gradients summed over the replicas by hand
  save, load    a shard a rank, durable, with hashes; what makes it a checkpoint comes last
  main          all of it; the calls of Keepstep's library are those of `keepstep.`

The model learns the function of a fixed random network, so it needs no files. Data is a function of
(seed, step) alone and nothing else is random, so a run that is interrupted and restored computes
what an unbroken one computes. On gloo, with one layout, one thread a rank and nodes of one kind,
those are the same bits: each sum over ranks is made in one piece and one order, whatever happened
before. (DistributedDataParallel forms its buckets anew after a start, so with more than two ranks
its sums may differ in their last digits.)

Where the library (keepstep.py, libkeepstep.so.0) is not installed, this still runs: Keepstep then
sees processes but no steps, and a new attempt begins where the file `latest` says, as under
torchrun."""

import argparse
import ctypes
import hashlib
import io
import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional


class Absent:
    """In place of the module where it is not installed: every call does nothing."""

    WEIGHTS = OPTIMIZER = DATA = 0

    def __getattr__(self, name):
        return lambda *_: 0


try:
    import keepstep  # by PYTHONPATH; see parallel3d.yaml
except ImportError:
    keepstep = Absent()

INPUTS, WIDTH, HIDDEN, OUTPUTS, LAYERS = 16, 32, 128, 8, 4
EXIT_RESTART = 75  # to Keepstep: start me again, free of charge
EXIT_NEVER = 93    # to Keepstep: starting me again would not help
MARKER = "latest"  # names the newest checkpoint's folder, for when nobody tells
MANIFEST = "manifest.json"  # in the form that `keepstep checkpoint verify` reads


def give_up(text):
    print(f"parallel3d: {text}", file=sys.stderr, flush=True)
    sys.exit(EXIT_NEVER)


# ---- who works with whom ---------------------------------------------------------------------


class Grid:
    """This rank's coordinates and groups, in the order tp-pp-dp: neighbours in tensor parallel are
    next to each other, so they share a node. The job file's default order, tp-cp-pp-dp, is this one
    (context is 1)."""

    def __init__(self, tensor, pipeline):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        if self.world % (tensor * pipeline) != 0:
            give_up(f"{self.world} ranks cannot be {tensor} tensor x {pipeline} pipeline x n data")
        self.tensor, self.pipeline = tensor, pipeline
        self.data = self.world // (tensor * pipeline)
        self.tp, self.pp, self.dp = self.coordinates(self.rank)
        self.tp_group = self.pp_group = self.dp_group = None
        # Making a group is collective: every rank makes all, in one order, and keeps its own.
        for name, own in (("tp", (self.pp, self.dp)), ("pp", (self.tp, self.dp)),
                          ("dp", (self.tp, self.pp))):
            for key, ranks in self.lines(name).items():
                group = dist.new_group(ranks)
                if key == own:
                    setattr(self, name + "_group", group)
        # Small things on the host, also where the others are NCCL's.
        self.control = dist.new_group(backend="gloo")

    def coordinates(self, rank):
        return (rank % self.tensor, rank // self.tensor % self.pipeline,
                rank // (self.tensor * self.pipeline))

    def lines(self, name):
        """{the two other coordinates: ranks along the third}"""
        at = {"tp": 0, "pp": 1, "dp": 2}[name]
        found = {}
        for rank in range(self.world):
            where = self.coordinates(rank)
            found.setdefault(where[:at] + where[at + 1:], []).append(rank)
        return found

    def check_layout(self):
        """Keepstep's idea of where this rank is must be ours: blame by stage hangs on it."""
        keepstep.coordinates(self.tp, 0, self.pp, self.dp)
        for name, own in (("TP", self.tp), ("CP", 0), ("PP", self.pp), ("DP", self.dp)):
            said = os.environ.get(f"KEEPSTEP_{name}_RANK", str(own))
            if said != str(own):
                give_up(f"rank {self.rank} is {name.lower()} {own} here and {said} in the job file:"
                        " compare its layout and order with --tensor and --pipeline")

    def next_stage(self, by):
        return self.rank + by * self.tensor


# ---- the model -------------------------------------------------------------------------------


class IntoSplit(torch.autograd.Function):
    """Before a column split linear: nothing forward; backward, each rank's share is summed."""

    @staticmethod
    def forward(ctx, value, group):
        ctx.group = group
        return value

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class OutOfSplit(torch.autograd.Function):
    """After a row split linear: the shares are summed; nothing backward."""

    @staticmethod
    def forward(ctx, value, group):
        value = value.clone()
        dist.all_reduce(value, group=group)
        return value

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def initial(seed, name, *shape):
    """A whole weight by its name: the same whatever the layout, so a rank cuts out its part."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "little")
    generator = torch.Generator().manual_seed(number)
    return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])


class Block(torch.nn.Module):
    """x + row(gelu(column(norm(x)))): the hidden width is split over the tensor parallel ranks."""

    def __init__(self, seed, index, grid):
        super().__init__()
        self.group = grid.tp_group
        part = slice(grid.tp * HIDDEN // grid.tensor, (grid.tp + 1) * HIDDEN // grid.tensor)
        self.norm = torch.nn.LayerNorm(WIDTH)
        column, row = (initial(seed, f"{index} column", HIDDEN, WIDTH),
                       initial(seed, f"{index} row", WIDTH, HIDDEN))
        self.column = torch.nn.Parameter(column[part].clone())
        self.column_bias = torch.nn.Parameter(torch.zeros(HIDDEN // grid.tensor))
        self.row = torch.nn.Parameter(row[:, part].clone())
        self.row_bias = torch.nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        hidden = IntoSplit.apply(self.norm(x), self.group)
        hidden = functional.gelu(functional.linear(hidden, self.column, self.column_bias))
        return x + OutOfSplit.apply(functional.linear(hidden, self.row), self.group) + self.row_bias


class Stage(torch.nn.Module):
    """The layers of one pipeline stage; the first also reads the inputs, the last also answers."""

    def __init__(self, seed, grid):
        super().__init__()
        count = LAYERS // grid.pipeline
        self.is_first, self.is_last = grid.pp == 0, grid.pp == grid.pipeline - 1
        if self.is_first:
            self.reads = torch.nn.Parameter(initial(seed, "reads", WIDTH, INPUTS))
        self.blocks = torch.nn.ModuleList(
            Block(seed, index, grid) for index in range(grid.pp * count, (grid.pp + 1) * count))
        if self.is_last:
            self.answers = torch.nn.Parameter(initial(seed, "answers", OUTPUTS, WIDTH))

    def forward(self, x):
        if self.is_first:
            x = functional.linear(x, self.reads)
        for block in self.blocks:
            x = block(x)
        return functional.linear(x, self.answers) if self.is_last else x


def batch_of(args, step):
    """Inputs and wanted outputs of the whole world's step: every rank can make them by itself."""
    generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
    inputs = torch.randn(args.batch, INPUTS, generator=generator)
    hidden = torch.tanh(inputs @ initial(args.seed, "teacher in", INPUTS, HIDDEN))
    return inputs, hidden @ initial(args.seed, "teacher out", HIDDEN, OUTPUTS) / math.sqrt(HIDDEN)


# ---- one step --------------------------------------------------------------------------------


def forward_all(model, grid, parts, device):
    """All micro-batches through this stage. [(what came in, what goes out or the loss)]"""
    done = []
    for inputs, wanted in parts:
        x = inputs.to(device)
        if not model.is_first:
            x = torch.empty(len(inputs), WIDTH, device=device)
            dist.recv(x, grid.next_stage(-1), group=grid.pp_group)
            x.requires_grad_()
        out = model(x)
        if model.is_last:
            out = functional.mse_loss(out, wanted.to(device)) / len(parts)
        else:
            dist.send(out.detach(), grid.next_stage(+1), group=grid.pp_group)
        done.append((x, out))
    return done


def backward_all(model, grid, done):
    for x, out in done:
        gradient = None
        if not model.is_last:
            gradient = torch.empty_like(out)
            dist.recv(gradient, grid.next_stage(+1), group=grid.pp_group)
        out.backward(gradient)
        if not model.is_first:
            dist.send(x.grad, grid.next_stage(-1), group=grid.pp_group)


def sum_over_replicas(model, grid):
    """One all-reduce of all gradients in one piece, always of the same order and size."""
    gradients = [one.grad for one in model.parameters()]
    flat = torch.cat([one.reshape(-1) for one in gradients])
    dist.all_reduce(flat, group=grid.dp_group)
    flat /= grid.data
    at = 0
    for one in gradients:
        one.copy_(flat[at:at + one.numel()].view_as(one))
        at += one.numel()


def train_step(model, optimizer, grid, args, step, device):
    """The share of the step's loss that this rank knows: others know the rest of it."""
    size = args.batch // grid.data
    own = [one[grid.dp * size:(grid.dp + 1) * size] for one in batch_of(args, step)]
    parts = list(zip(*(one.chunk(args.micro_batches) for one in own)))
    optimizer.zero_grad(set_to_none=True)
    done = forward_all(model, grid, parts, device)
    backward_all(model, grid, done)
    sum_over_replicas(model, grid)
    optimizer.step()
    if not model.is_last or grid.tp != 0:
        return 0.0
    return sum(loss.item() for _, loss in done) / grid.data


# ---- checkpoints -----------------------------------------------------------------------------


def write_durably(path, data):
    """The whole file under its name, or nothing: also after a loss of power."""
    with open(path + ".part", "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".part", path)
    sync_folder(os.path.dirname(path))


def sync_folder(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash_of(data):
    """XXH3-128 as 32 hex digits, by the library that libkeepstep uses too."""
    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.restype, function.argtypes = Hash128, (ctypes.c_char_p, ctypes.c_size_t)
    value = function(data, len(data))
    return f"{value.high:016x}{value.low:016x}"


def identity(grid, args):
    """What must be equal between who saved and who restores."""
    return {"tensor": grid.tensor, "pipeline": grid.pipeline, "data": grid.data, "seed": args.seed,
            "batch": args.batch, "micro_batches": args.micro_batches}


def save(model, optimizer, grid, args, step):
    """Every rank its shard, then rank 0 the manifest, then the marker."""
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))  # as KEEPSTEP_ATTEMPT
    folder = os.path.join(args.checkpoint_dir, f"step-{step}.a-{attempt}")
    keepstep.checkpoint_begin(step, grid.world)
    if grid.rank == 0:
        os.mkdir(folder)  # fails when it exists: nothing of another attempt is ever overwritten
    dist.barrier(group=grid.control)
    memory = io.BytesIO()  # so that what is hashed is what is written
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}, memory)
    data = memory.getvalue()
    shard = {"file": f"rank-{grid.rank:05d}.pt", "size": len(data), "hash": hash_of(data)}
    write_durably(os.path.join(folder, shard["file"]), data)
    keepstep.checkpoint_shard(os.path.join(folder, shard["file"]), shard["size"], shard["hash"])
    shards = [None] * grid.world if grid.rank == 0 else None
    dist.gather_object(shard, shards, dst=0, group=grid.control)  # after it, all are durable
    if grid.rank == 0:
        text = json.dumps({
            "format": "keepstep", "job": os.environ.get("KEEPSTEP_JOB", "parallel3d"),
            "attempt": attempt, "step": step, "identity": identity(grid, args),
            "parts": ["weights", "optimizer", "data"], "shards": shards}).encode()
        write_durably(os.path.join(folder, MANIFEST), text)
        sync_folder(args.checkpoint_dir)
        keepstep.checkpoint_commit(folder, hash_of(text),
                                   keepstep.WEIGHTS | keepstep.OPTIMIZER | keepstep.DATA)
        write_durably(os.path.join(args.checkpoint_dir, MARKER), os.path.basename(folder).encode())
    keepstep.phase("step")


def where_to_begin(args):
    """(step, folder) of the checkpoint to restore; (0, None): begin from the beginning. Keepstep
    tells: it knows which are complete, and which one was corrupt the last time."""
    if keepstep.attached():
        info = keepstep.restore_info()
        return (info.step, info.directory) if info.step > 0 else (0, None)
    step = int(os.environ.get("KEEPSTEP_RESTORE_STEP", "0"))
    if step > 0:
        return step, os.path.join(
            args.checkpoint_dir, f"step-{step}.a-{os.environ['KEEPSTEP_RESTORE_ATTEMPT']}")
    try:
        with open(os.path.join(args.checkpoint_dir, MARKER), encoding="ascii") as file:
            name = file.read()
    except FileNotFoundError:
        return 0, None
    return int(name.split(".")[0].split("-")[1]), os.path.join(args.checkpoint_dir, name)


def load(model, optimizer, grid, args, step, folder):
    """This rank's shard, after it was found to be what the manifest says. ValueError, OSError: this
    rank ends, and when the next attempt cannot load it either, Keepstep takes the one before."""
    with open(os.path.join(folder, MANIFEST), "rb") as file:
        manifest = json.load(file)
    if (manifest["step"], manifest["identity"]) != (step, identity(grid, args)):
        give_up(f"{folder} is of step {manifest['step']} and {manifest['identity']}; this run"
                f" wants step {step} and {identity(grid, args)}")
    shard = manifest["shards"][grid.rank]
    path = os.path.join(folder, shard["file"])
    with open(path, "rb") as file:
        data = file.read()
    if (len(data), hash_of(data)) != (shard["size"], shard["hash"]):
        raise ValueError(f"{path} is not what was written: {len(data)} bytes with hash "
                         f"{hash_of(data)}, expected {shard['size']} with {shard['hash']}")
    # weights_only: tensors, and no objects that run code.
    state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state["optimizer"]})


# ---- all of it -------------------------------------------------------------------------------


def options():
    parser = argparse.ArgumentParser(description="tensor x pipeline x data parallel training")
    parser.add_argument("--tensor", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="samples a step, of all replicas")
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", required=True)
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps")
    parser.add_argument("--step-min-ms", type=int, default=0, help="so long at least: for a show")
    return parser.parse_args()


def check_options(args, grid):
    if HIDDEN % args.tensor != 0 or LAYERS % args.pipeline != 0:
        give_up(f"--tensor must divide {HIDDEN} and --pipeline {LAYERS}")
    if args.batch % (grid.data * args.micro_batches) != 0:
        give_up(f"--batch must be a multiple of {grid.data} replicas x {args.micro_batches} "
                "micro-batches")


def start():
    """The world, and the device of this rank."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available() and torch.cuda.device_count() > local:
        torch.cuda.set_device(local)
        dist.init_process_group("nccl")
        return torch.device("cuda", local)
    dist.init_process_group("gloo")
    return torch.device("cpu")


def talk(grid, loss):
    """One collective a step for the small things: (loss, save now, stop now). Keepstep asks rank 0
    alone, and all ranks must hear the answer in the same step."""
    words = torch.tensor([loss, float(keepstep.should_checkpoint()), float(keepstep.should_stop())],
                         dtype=torch.float64)
    dist.all_reduce(words, group=grid.control)
    loss, save_now, stop_now = words.tolist()
    return loss, save_now > 0, stop_now > 0


def show_weights(model, grid):
    """One line by which two runs are compared."""
    digest = hashlib.sha256()
    for one in model.state_dict().values():
        digest.update(one.cpu().numpy().tobytes())
    digests = [None] * grid.world if grid.rank == 0 else None
    dist.gather_object(digest.hexdigest(), digests, dst=0, group=grid.control)
    if grid.rank == 0:
        print(f"weights {hashlib.sha256(' '.join(digests).encode()).hexdigest()}", flush=True)


def main():
    args = options()
    keepstep.init()
    device = start()
    grid = Grid(args.tensor, args.pipeline)
    grid.check_layout()
    check_options(args, grid)
    model = Stage(args.seed, grid).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, foreach=False)
    done, folder = where_to_begin(args)
    if folder is not None:
        keepstep.phase("restore")
        load(model, optimizer, grid, args, done, folder)
    if grid.rank == 0:
        print(f"after step {done}: {folder or 'from the beginning'}", flush=True)
    for step in range(done + 1, args.steps + 1):
        keepstep.step_begin(step)
        end = time.monotonic() + args.step_min_ms / 1000
        loss = train_step(model, optimizer, grid, args, step, device)
        loss, save_now, stop_now = talk(grid, loss)
        time.sleep(max(0.0, end - time.monotonic()))
        keepstep.step_end(step)
        if grid.rank == 0:
            print(f"step {step} loss {loss:.9f}", flush=True)
        if save_now or step % args.checkpoint_every == 0 or step == args.steps:
            save(model, optimizer, grid, args, step)
        if stop_now:
            return EXIT_RESTART
    show_weights(model, grid)
    keepstep.finish()
    # A rank that just ended would tear the connections of those that are not so far, and its own
    # threads would meet an interpreter that is being taken down.
    dist.barrier(group=grid.control)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
