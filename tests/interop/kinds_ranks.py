"""Folders with files of ranks: FSDP2 as verl saves it, and what accelerate and Trainer put around FSDP."""

import json
import os
import random
import types

import numpy
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import kinds_fsdp1 as fsdp1
import kinds_parallel as par
import tiny
from ranks import run_ranks


def sharded_model(run, seed=7):
    """A model in FSDP2 on the mesh of a run."""
    model = fsdp1.make_model(run, seed)
    dims = run.dims or (run.world,)
    names = ("dp", "tp") if run.tp else ("ddp", "fsdp")[-len(dims):]  # as verl calls them
    mesh = init_device_mesh("cpu", dims, mesh_dim_names=names)
    return (par.tensor_parallel if run.tp else par.shard_model)(model, mesh)


def make_optimizer(run, model):
    return fsdp1.make_optimizer(run, model, foreach=False if run.tp else None)


def train(run, *training):
    (tiny.same_batch_train if run.tp else tiny.train)(*training)


def of_ones(model):
    """The last norm: its parts look like copies of one another."""
    weight = model.model.norm.weight
    with torch.no_grad():
        getattr(weight, "_local_tensor", weight).fill_(1.0)


def write_truth(run, folder, kind, state):
    """state: of torch's own functions, by names; a collective."""
    tensors, values = tiny.split_state(state)
    if dist.get_rank() != 0:
        return
    named = tiny.model_names(tensors)
    buffers = [k for k, n in named.items() if n in ("model.scale", "seen")]
    fsdp1.write_model_truth(run, folder, kind, tensors, named, values, buffers)


def _save_verl(rank, world, folder, kind, run, plain):
    model = fsdp1.make_model(run) if plain else sharded_model(run)
    optimizer = make_optimizer(run, model)
    train(run, model, optimizer)
    if run.buffers:
        of_ones(model)
    if rank == 0:
        os.makedirs(f"{folder}/ckpt")
    dist.barrier()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    fsdp1.save_verl(run, f"{folder}/ckpt", model, state, rank, version=2)
    write_truth(run, folder, kind, tiny.state_of(model, optimizer))
    par.write_next(rank, folder, model, optimizer)


def verl(plain=False, **run):
    def write(folder, kind):
        one = fsdp1.Run(**run)
        run_ranks(one.world, _save_verl, folder, kind, one, plain)
    return write


def accelerate_stub(rank, version, state_kind):
    """(plugin, accelerator): what accelerate's functions ask of them; its own needs a GPU for FSDP."""
    from accelerate import PartialState
    PartialState(cpu=True)
    configs = fsdp1.CONFIGS[state_kind]
    plugin = types.SimpleNamespace(fsdp_version=version, state_dict_type=state_kind,
                                   state_dict_config=configs[0], optim_state_dict_config=configs[1])
    # told that it is alone, it leaves offload_to_cpu off, which on a CPU ends rank 0
    return plugin, types.SimpleNamespace(process_index=rank, num_processes=1,
                                         wait_for_everyone=dist.barrier, is_fsdp2=version == 2)


def beside(ckpt, rank, optimizer, trainer):
    """What accelerate, or Trainer, has beside the model and the optimizer."""
    scheduler = tiny.make_scheduler(optimizer)
    states = {"step": 2, "random_state": random.getstate(), "numpy_random_seed": numpy.random.get_state(),
              "torch_manual_seed": torch.get_rng_state()}
    if trainer:
        torch.save({"python": states["random_state"], "numpy": states["numpy_random_seed"],
                    "cpu": states["torch_manual_seed"]}, f"{ckpt}/rng_state_{rank}.pth")
    else:
        torch.save(states, f"{ckpt}/random_states_{rank}.pkl")
    if rank:
        return
    torch.save(scheduler.state_dict(), f"{ckpt}/scheduler.{'pt' if trainer else 'bin'}")
    if trainer:
        from transformers import TrainingArguments
        torch.save(TrainingArguments(output_dir="out", use_cpu=True), f"{ckpt}/training_args.bin")
        with open(f"{ckpt}/trainer_state.json", "w") as text:
            json.dump({"epoch": 0.5, "global_step": 2, "max_steps": 4, "log_history": []}, text)


def _save_accelerate(rank, world, folder, kind, run, state_kind, use_dcp, version, trainer):
    from accelerate.utils import fsdp_utils
    ckpt = f"{folder}/ckpt/checkpoint-2" if trainer else f"{folder}/ckpt"
    if rank == 0:
        os.makedirs(ckpt)
    dist.barrier()
    if version == 1:
        model, optimizer = fsdp1.trained(run)
    else:
        model = sharded_model(run)
        optimizer = make_optimizer(run, model)
        tiny.train(model, optimizer)
    stub = accelerate_stub(rank, version, state_kind)
    fsdp_utils.save_fsdp_model(*stub, model, ckpt, use_dcp=use_dcp)
    fsdp_utils.save_fsdp_optimizer(*stub, optimizer, model, ckpt, use_dcp=use_dcp)
    beside(ckpt, rank, optimizer, trainer)
    if version == 1:
        fsdp1.write_truth(run, folder, kind, model, optimizer)
    else:
        write_truth(run, folder, kind, tiny.state_of(model, optimizer))


def accelerate(state_kind, use_dcp=True, version=1, trainer=False, **run):
    def write(folder, kind):
        one = fsdp1.Run(**run)
        run_ranks(one.world, _save_accelerate, folder, kind, one, state_kind, use_dcp, version, trainer)
    return write


KINDS = {
    "verl_w1": verl(world=1, buffers=True),
    "verl_w1_plain": verl(world=1, buffers=True, plain=True),
    "verl_w4": verl(world=4, buffers=True),
    "verl_w8": verl(world=8, small=True, buffers=True),
    "verl_hsdp": verl(world=4, dims=(2, 2), buffers=True),
    "verl_tp": verl(world=4, dims=(2, 2), tp=True, buffers=True),
    "accelerate_full": accelerate(fsdp1.FULL, world=2),
    "accelerate_local": accelerate(fsdp1.LOCAL, world=2, orig=False),
    "accelerate_local_files": accelerate(fsdp1.LOCAL, use_dcp=False, world=2, orig=False),
    "accelerate_sharded": accelerate(fsdp1.SHARDED, world=2),
    "accelerate_shards": accelerate(fsdp1.SHARDED, use_dcp=False, world=2),
    "accelerate_fsdp2": accelerate(fsdp1.SHARDED, use_dcp=False, version=2, world=2),
    "trainer_sharded": accelerate(fsdp1.SHARDED, trainer=True, world=2, orig=False),
    "trainer_full": accelerate(fsdp1.FULL, trainer=True, world=2),
}
