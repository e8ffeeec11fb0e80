"""Runs that go on in what a checkpoint was converted to: FSDP1 in each of its state dicts, FSDP2 from DCP or
from files of ranks, a plain model and optimizer. Each is loaded as its framework's documentation says."""

import dataclasses
import os

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

import kinds_fsdp1 as fsdp1
import kinds_ranks
import ranks
import tiny


@dataclasses.dataclass
class Job:
    """One checkpoint to go on from."""
    label: str
    path: str
    how: str          # a key of LOADERS
    run: fsdp1.Run    # the model, its layout and the groups of its optimizer
    goes_on: bool = True


def rank_file(path, part):
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    for name in (f"{part}_world_size_{world}_rank_{rank}.pt", f"{part}_rank{rank}.pt",
                 f"{'optimizer' if part == 'optim' else part}_rank{rank}.pt"):
        if os.path.exists(f"{path}/{name}"):
            return torch.load(f"{path}/{name}", weights_only=False)
    raise FileNotFoundError(f"{path}: no {part} of rank {rank}")


def load_fsdp2(path, model, optimizer):
    state = tiny.state_of(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    dsd.set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def load_files(path, model, optimizer):
    """As verl does."""
    model.load_state_dict(rank_file(path, "model"))
    optimizer.load_state_dict(rank_file(path, "optim"))


def load_plain(path, model, optimizer):
    state = torch.load(path, weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def load_named(path, model, optimizer):
    state = torch.load(path, weights_only=False)
    dsd.set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def set_fsdp1(model, optimizer, state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, state["optimizer"]))


def load_dcp_as(kind):
    def load(path, model, optimizer):
        with fsdp1.under(kind, model):
            state = {"model": model.state_dict(), "optimizer": FSDP.optim_state_dict(model, optimizer)}
            with torch.no_grad():  # flat parameters of another number of shards are read into by parts
                dcp.load(state, checkpoint_id=path)
            set_fsdp1(model, optimizer, state)
    return load


def load_full(path, model, optimizer):
    with fsdp1.under(fsdp1.FULL, model):
        set_fsdp1(model, optimizer, torch.load(path, weights_only=False))


def load_files_as(kind):
    def load(path, model, optimizer):
        with fsdp1.under(kind, model):
            model.load_state_dict(rank_file(path, "model"))
            state = rank_file(path, "optim")
            if all(isinstance(key, str) for key in state["state"]):
                state = FSDP.optim_state_dict_to_load(model, optimizer, state)
            optimizer.load_state_dict(state)
    return load


LOADERS = {
    "fsdp2": load_fsdp2, "fsdp2_files": load_files, "plain": load_plain, "plain_named": load_named,
    "full": load_full, "sharded": load_dcp_as(fsdp1.SHARDED), "local": load_dcp_as(fsdp1.LOCAL),
    "sharded_files": load_files_as(fsdp1.SHARDED), "local_files": load_files_as(fsdp1.LOCAL),
}
FSDP1 = ("full", "sharded", "local", "sharded_files", "local_files")


def make(job):
    """A model and an optimizer of another start, trained on other batches, so that only the checkpoint can
    make two runs agree."""
    if job.how in FSDP1:
        model = fsdp1.wrap(job.run, fsdp1.make_model(job.run, seed=99))
    elif job.how.startswith("plain"):
        model = fsdp1.make_model(job.run, seed=99)
    else:
        model = kinds_ranks.sharded_model(job.run, seed=99)
    optimizer = kinds_ranks.make_optimizer(job.run, model) if job.how not in FSDP1 else (
        fsdp1.make_optimizer(job.run, model))
    (tiny.same_batch_train if job.run.tp else tiny.train)(model, optimizer, steps=1, seed=5)
    return model, optimizer


def go_on(job):
    model, optimizer = make(job)
    LOADERS[job.how](job.path, model, optimizer)
    module = fsdp1 if job.how in FSDP1 else tiny
    return module.go_on(model, optimizer) if job.goes_on else {"state": module.snapshot(model, optimizer)}


def _go_on_all(rank, world, jobs, out):
    for number, job in enumerate(jobs):
        try:
            went = go_on(job)
        # the same on all ranks, or the others wait in vain and all is lost; dcp's own is no Exception
        except (Exception, CheckpointException) as why:
            went = {"error": f"{type(why).__name__}: {why}"[:600]}
        if rank == 0:
            torch.save(went, f"{out}/{number}.pt")


def resume(kit, jobs):
    """{label: what tiny.go_on says, or its error} of jobs of one world, on one start of its ranks."""
    out = kit.path("out", f"resumed-{jobs[0].run.world}")
    os.makedirs(out, exist_ok=True)
    ranks.run_ranks(jobs[0].run.world, _go_on_all, jobs, out)
    return {job.label: torch.load(f"{out}/{number}.pt", weights_only=False)
            for number, job in enumerate(jobs)}
