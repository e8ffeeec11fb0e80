"""A file of torch.save an item and rank: what meta-pytorch/torch_checkpointing writes."""

import functools
import logging

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import kinds_parallel as par
import tiny
import truth
from ranks import run_ranks


def _gather_on_cpu(manager, data, process_group=None):
    """What torch_checkpointing does through the GPU's memory."""
    parts = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(parts, data, group=process_group)
    return dict(enumerate(parts))


def _save(state, path):
    """Items of tensors with a resharder, so that metadata.pkl tells of them; the others without."""
    from torch_checkpointing import CheckpointManager, ItemSpec
    from torch_checkpointing.default_resharder import DefaultResharder
    from torch_checkpointing.metadata_manager import DefaultMetadataManager
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig
    DefaultMetadataManager._all_gather_pickled_data = _gather_on_cpu
    logging.disable(logging.WARNING)
    config = CheckpointManager.Config.with_sync_save()
    config.items = {key: ItemSpec(resharder=DefaultResharder() if key in ("model", "optimizer")
                                  else None) for key in state}
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    manager = config.build()
    manager.save(path, state)
    manager.close()
    dist.barrier()


def _save_trained(rank, world, folder, kind, config, dims):
    mesh = init_device_mesh("cpu", dims, mesh_dim_names=("replicate", "shard")[-len(dims):])
    model = par.shard_model(tiny.make_model(config), mesh)
    opt = tiny.make_optimizer(model)
    tiny.train(model, opt)
    state = tiny.state_of(model, opt)
    state["train_state"] = {"step": 2, "tokens": 36}
    _save(state, f"{folder}/ckpt")
    par.finish(rank, folder, kind, config, state)


def trained(folder, kind, dims):
    world = functools.reduce(lambda a, b: a * b, dims)
    run_ranks(world, _save_trained, folder, kind, tiny.make_config(), dims)


def _save_probes(rank, world, folder, kind, dims):
    """Value probes under FSDP over TP, in rows and columns; some ranks own nothing."""
    mesh = init_device_mesh("cpu", dims, mesh_dim_names=("dp", "tp"))
    dp_rank, tp_rank = rank // dims[1], rank % dims[1]
    tensors, model = {}, {}
    for n in (1, 2, 3, 5, 8, 11, 17):
        full = torch.arange(n * 3, dtype=torch.float32).reshape(n, 3)
        for axis in (0, 1):
            lo, hi = par.local_box(n, dims[0], dp_rank, dims[1], tp_rank)
            whole = full if axis == 0 else full.T.contiguous()
            local = (whole[lo:hi] if axis == 0 else whole[:, lo:hi]).clone()
            model[f"probe{n}_{axis}"] = DTensor.from_local(
                local, mesh, (_StridedShard(axis, split_factor=dims[1]), Shard(axis)),
                run_check=False, shape=whole.shape, stride=whole.stride())
            tensors[f"model.probe{n}_{axis}"] = whole
    _save({"model": model, "rng": {"rank": rank, "all": "same"}}, f"{folder}/ckpt")
    if rank == 0:
        truth.write_truth(folder, kind, tensors, tiny.model_names(tensors))


def probes(folder, kind, dims):
    run_ranks(dims[0] * dims[1], _save_probes, folder, kind, dims)
