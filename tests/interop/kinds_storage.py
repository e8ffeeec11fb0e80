"""Checkpoints by storage: async, threads, file per item, zstd, HF storage, no collectives, resave."""

import functools
import json
import os
import random
import shutil

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
import transformers
from transformers import AutoModelForCausalLM

import kinds_parallel as par
import tiny
from ranks import run_ranks


def _async(state, checkpoint_id):
    dcp.async_save(state, checkpoint_id=checkpoint_id).result()


def _with_writer(state, checkpoint_id, **options):
    dcp.save(state, storage_writer=FileSystemWriter(checkpoint_id, **options))


def save_zstd(state, checkpoint_id):
    from torch.distributed.checkpoint._extension import ZStandard
    dcp.save(state, storage_writer=FileSystemWriter(checkpoint_id, _extensions=[ZStandard()]))


def _alone(state, checkpoint_id):
    dcp.save(state, storage_writer=FileSystemWriter(checkpoint_id), use_collectives=False)


def async_save(folder, kind, world):
    par.fsdp2(folder, kind, world, save=_async)


def threads(folder, kind, world):
    par.fsdp2(folder, kind, world, save=functools.partial(_with_writer, thread_count=3))


def file_per_item(folder, kind, world):
    save = functools.partial(_with_writer, single_file_per_rank=False)
    par.fsdp2(folder, kind, world, save=save)


def zstd(folder, kind, world):
    par.fsdp2(folder, kind, world, save=save_zstd)


def no_collectives(folder, kind, world):
    par.fsdp2(folder, kind, world, save=_alone)
    names = os.listdir(f"{folder}/ckpt")
    assert "__0.metadata" in names and ".metadata" not in names, names


def stale_resave(folder, kind):
    """A first save of a larger world with other values; then a second one on top."""
    par.fsdp2(folder, kind, 4, seed=5, write_truth=False)
    par.fsdp2(folder, kind, 2, seed=6)
    assert os.path.exists(f"{folder}/ckpt/__3_0.distcp")


def _save_hf(rank, world, folder, kind, config, mode):
    mesh = init_device_mesh("cpu", (world,))
    model = par.shard_model(tiny.make_model(config), mesh)
    opt = tiny.make_optimizer(model)
    tiny.train(model, opt)
    state = tiny.state_of(model)["model"]
    names = sorted(state)
    index = {n: 1 + i * 3 // len(names) for i, n in enumerate(names)}
    options = dict(fqn_to_index_mapping=index)
    if mode != "plain":
        options["save_distributed"] = True
    if mode == "consolidated":
        options["enable_consolidation"] = True
    tensors, _ = tiny.split_state(state)
    # one rank only: with more, the plain mode of torch 2.13 loses what other ranks would write
    dcp.save(tensors if mode == "plain" else state,
             storage_writer=HuggingFaceStorageWriter(f"{folder}/ckpt", **options))
    dist.barrier()
    if rank == 0:
        tiny.write_model_truth(folder, kind, config, tensors, {k: k for k in tensors})
        files = [os.path.relpath(os.path.join(d, f), folder) for d, _, fs in
                 os.walk(f"{folder}/ckpt") for f in fs]
        with open(f"{folder}/files.json", "w") as out:
            json.dump(sorted(files), out, indent=1)


def hf_storage(folder, kind, world, mode):
    run_ranks(world, _save_hf, folder, kind, tiny.make_config(), mode)


def _save_accelerate(rank, world, folder, kind, config):
    """The folder that accelerate leaves: two DCP folders and files of torch.save beside them."""
    mesh = init_device_mesh("cpu", (world,))
    model = par.shard_model(tiny.make_model(config), mesh)
    opt = tiny.make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1.0 / (1 + step))
    tiny.train(model, opt, scheduler=scheduler)
    state = tiny.state_of(model, opt)
    dcp.save({"model": state["model"]}, checkpoint_id=f"{folder}/ckpt/pytorch_model_fsdp_0")
    dcp.save({"optimizer": state["optimizer"]}, checkpoint_id=f"{folder}/ckpt/optimizer_0")
    states = {"step": 2, "random_state": random.getstate(), "torch_manual_seed":
              torch.get_rng_state(), "numpy_random_seed": numpy.random.get_state()}
    torch.save(states, f"{folder}/ckpt/random_states_{rank}.pkl")
    if rank == 0:
        torch.save(scheduler.state_dict(), f"{folder}/ckpt/scheduler.bin")
    par.finish(rank, folder, kind, config, {"model": state["model"], "optimizer": state["optimizer"]})


def _save_transformers(rank, world, folder, kind, config, sizes):
    """save_pretrained(distributed_checkpoint=True) and the optimizer's folder, as transformers 5 does."""
    from transformers.distributed import DistributedConfig, save_optimizer_distributed
    transformers.utils.logging.disable_progress_bar()
    base = f"{folder}/base"
    if rank == 0:
        tiny.make_model(config).save_pretrained(base)
    dist.barrier()
    model = AutoModelForCausalLM.from_pretrained(base, distributed_config=DistributedConfig(**sizes))
    opt = tiny.make_optimizer(model, foreach=False)
    tiny.same_batch_train(model, opt)
    model.save_pretrained(f"{folder}/ckpt", distributed_checkpoint=True)
    save_optimizer_distributed(model, opt, f"{folder}/ckpt/optimizer")
    tensors, _ = tiny.split_state(tiny.state_of(model)["model"])
    if rank == 0:
        shutil.rmtree(base)
        names = os.listdir(f"{folder}/ckpt")
        assert [n for n in names if n.startswith("shard-00001-model-")], names
        assert "__0_0.distcp" in os.listdir(f"{folder}/ckpt/optimizer")
        tiny.write_model_truth(folder, kind, config, tensors, {k: k for k in tensors})


def transformers_distributed(folder, kind, world, **sizes):
    run_ranks(world, _save_transformers, folder, kind, tiny.make_config(), sizes)


def accelerate(folder, kind, world):
    run_ranks(world, _save_accelerate, folder, kind, tiny.make_config())
