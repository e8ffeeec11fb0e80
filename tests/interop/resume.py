"""Runs that go on from DCP folders: dcp.load into a fully_sharded model and optimizer of any mesh."""

import dataclasses
import os

import torch
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoConfig

import kinds_parallel
import ranks
import tiny
import truth


@dataclasses.dataclass
class Job:
    """One folder to go on from."""
    label: str
    folder: str
    kind: str  # folder of the checkpoint that it was made of: its model and what is right
    flatten: bool = False
    named: bool = False  # the new optimizer is given names
    scheduler: bool = False
    tensor_parallel: bool = False  # FSDP2 over it, on a mesh of dp and tp


def _resume(job, mesh):
    """Another start and other batches, so that only the checkpoint can make two runs agree."""
    config = AutoConfig.from_pretrained(f"{job.kind}/assets")
    shard = kinds_parallel.tensor_parallel if job.tensor_parallel else kinds_parallel.shard_model
    model = shard(tiny.make_model(config, seed=99), mesh)
    opt = tiny.make_optimizer(model, named=job.named,
                              foreach=False if job.tensor_parallel else None)
    scheduler = tiny.make_scheduler(opt) if job.scheduler else None
    train = tiny.same_batch_train if job.tensor_parallel else tiny.train
    train(model, opt, steps=1, seed=5, scheduler=scheduler)
    state = tiny.state_of(model, opt, job.flatten)
    if scheduler is not None:
        state["lr_scheduler"] = scheduler.state_dict()
    dcp.load(state, checkpoint_id=job.folder)
    options = dsd.StateDictOptions(flatten_optimizer_state_dict=job.flatten)
    dsd.set_state_dict(model, opt, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"], options=options)
    if scheduler is not None:
        scheduler.load_state_dict(state["lr_scheduler"])
    return tiny.go_on(model, opt, scheduler)


def _resume_all(rank, world, jobs, dims, out):
    names = ("dp", "tp") if jobs[0].tensor_parallel else ("replicate", "shard")[-len(dims):]
    mesh = init_device_mesh("cpu", dims, mesh_dim_names=names)
    for number, job in enumerate(jobs):
        went = _resume(job, mesh)
        if rank == 0:
            torch.save(went, f"{out}/{number}.pt")


def _load_weights(rank, world, kind, folder, out):
    """Weights without a run: straight into a sharded model."""
    config = AutoConfig.from_pretrained(f"{kind}/assets")
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
    model = kinds_parallel.shard_model(tiny.make_model(config, seed=99), mesh)
    state = dsd.get_model_state_dict(model)
    dcp.load(state, checkpoint_id=folder)
    dsd.set_model_state_dict(model, state)
    state = {name: tiny.whole(value) for name, value in dsd.get_model_state_dict(model).items()}
    if rank == 0:
        torch.save(state, out)


def load_weights(kit, kind, folder, world):
    """The whole tensors of an FSDP2 model that has loaded the folder."""
    out = kit.path("out", "loaded.pt")
    ranks.run_ranks(world, _load_weights, kind, folder, out)
    return torch.load(out)


def resume(kit, jobs, dims):
    """{label: what tiny.go_on says} of all jobs, on one start of the ranks of a mesh."""
    out = kit.path("out", "resumed-" + "x".join(map(str, dims)))
    os.makedirs(out, exist_ok=True)
    world = torch.Size(dims).numel()
    ranks.run_ranks(world, _resume_all, jobs, dims, out)
    return {job.label: torch.load(f"{out}/{number}.pt", weights_only=False)
            for number, job in enumerate(jobs)}


def differing(a, b, near=None):
    """Names whose tensor or value differs in two (tensors, values); near: more than so much."""
    def same(x, y):
        if near is None:
            return truth.same_bits(x, y)
        return x.shape == y.shape and (x.double() - y.double()).abs().max() <= near
    wrong = [k for k in a[0].keys() | b[0].keys()
             if k not in a[0] or k not in b[0] or not same(a[0][k], b[0][k])]
    return wrong + [k for k in a[1].keys() | b[1].keys() if a[1].get(k, a) != b[1].get(k, b)]


def losses_differ(a, b, near=None):
    return [(float(x), float(y)) for x, y in zip(a, b, strict=True)
            if (x != y if near is None else (x.double() - y.double()).abs() > near)]
