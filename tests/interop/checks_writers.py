"""DCP folders that the command wrote, loaded by torch: into FSDP2 models and optimizers of other worlds,
and by torch's own converter; parameters, moments, steps and hyper-parameters are equal bit by bit."""

import os
import shutil

import torch
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh

import kinds_parallel
import ranks
import tiny
import truth

SHAPES = ("ranks=1", "ranks=2", "ranks=8", "ranks=2,replicate=2")


def load_and_train(rank, world, folder, out, flatten, dims):
    """Another start and other batches, so that only the checkpoint can make two runs agree."""
    mesh = init_device_mesh("cpu", dims, mesh_dim_names=("replicate", "shard")[-len(dims):])
    model = kinds_parallel.shard_model(tiny.make_model(tiny.make_config(), seed=99), mesh)
    opt = tiny.make_optimizer(model)
    tiny.train(model, opt, steps=1, seed=5)
    state = tiny.state_of(model, opt, flatten)
    dcp.load(state, checkpoint_id=folder)
    options = dsd.StateDictOptions(flatten_optimizer_state_dict=flatten)
    dsd.set_state_dict(model, opt, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"], options=options)
    loaded = tiny.split_state(tiny.state_of(model, opt, flatten))
    tiny.train(model, opt, steps=3, seed=6)
    after = tiny.split_state(tiny.state_of(model, opt, flatten))
    if rank == 0:
        torch.save({"loaded": loaded, "after": after}, out)


def differing(a, b):
    """Names whose tensor or value differs in two (tensors, values)."""
    wrong = [k for k in a[0].keys() | b[0].keys()
             if k not in a[0] or k not in b[0] or not truth.same_bits(a[0][k], b[0][k])]
    return wrong + [k for k in a[1].keys() | b[1].keys() if a[1].get(k, a) != b[1].get(k, b)]


def loaded_by(kit, folder, name, world, flatten, dims=None):
    out = kit.path("out", name)
    ranks.run_ranks(world, load_and_train, folder, out, flatten, dims or (world,))
    return torch.load(out, weights_only=False)


def as_torch_file(kit, folder, name):
    out = kit.path("out", name)
    dcp_to_torch_save(folder, out)
    return tiny.split_state(torch.load(out, weights_only=True))


def check_dcp(kit, kind, source):
    """Every shape holds what the original does; a resumed run goes on as from the original."""
    original, flatten = os.path.join(source, "ckpt"), kind.endswith("_flat")
    want = as_torch_file(kit, original, "original.pt")
    runs = {dims: loaded_by(kit, original, "run.pt", world, flatten, dims)
            for world, dims in ((2, (2,)), (4, (2, 2)))}
    for shape in SHAPES:
        label = f"{kind} -> dcp:{shape}"
        dest = kit.path("out", "dcp-written")
        shutil.rmtree(dest, ignore_errors=True)
        done = kit.run("convert", original, dest, "--to", f"dcp:{shape}", "--verify")
        if not kit.expect(f"{label}: converted", done, 0):
            continue
        wrong = differing(want, as_torch_file(kit, dest, "written.pt"))
        kit.check(f"{label}: dcp_to_torch_save gives the same", not wrong, wrong[:6])
        for dims, run in runs.items():
            mine = loaded_by(kit, dest, "mine.pt", 4 if len(dims) > 1 else 2, flatten, dims)
            wrong = differing(run["loaded"], mine["loaded"])
            kit.check(f"{label}: dcp.load on a mesh {dims}", not wrong, wrong[:6])
            wrong = differing(run["after"], mine["after"])
            kit.check(f"{label}: three steps more on a mesh {dims}", not wrong, wrong[:6])
