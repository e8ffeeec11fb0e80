"""Checkpoints by content: objects, schedulers, tied weights, strides, a zoo of dtypes."""

import argparse
import collections
import datetime
import pathlib

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import kinds_parallel as par
import tiny
import truth
from ranks import run_ranks


class Settings:
    """A user's own class: opaque to a reader that imports nothing, and harmless."""

    def __init__(self):
        self.lr, self.names = 0.5, ["a", "b"]


def odd_objects():
    """Values as they turn up in training states, and some that nobody should trip over."""
    return {
        "int": 3, "negative": -1, "big": 2**70 + 1, "zero": 0, "float": 0.1, "nan": float("nan"),
        "inf": float("inf"), "true": True, "none": None, "string": "a \"quoted\" π\n", "empty": "",
        "bytes": b"\x00\xff", "complex": 1 + 2j, "tuple": (1, 2.5, "x", None), "empty_tuple": (),
        "list": [1, 2, 3], "empty_list": [], "list_of_dicts": [{"a": 1}, {"b": (2, 3)}],
        "set": {3, 1}, "nested": {"deep": {"er": {"value": 7, "t": torch.arange(5)}}},
        "intkeys": {0: "zero", 1: torch.ones(2)},
        "np_float": numpy.float64(2.5), "np_int": numpy.int64(-4), "np_bool": numpy.bool_(True),
        "np_array": numpy.arange(6, dtype=numpy.int32).reshape(2, 3),
        "tuple_of_tensors": (torch.zeros(2), torch.ones(3)),
        "dtype": torch.bfloat16, "size": torch.Size([2, 3]), "device": torch.device("cpu"),
        "ordered": collections.OrderedDict(a=1), "rng": torch.get_rng_state(),
        "np_rng": numpy.random.RandomState(3).get_state(),
        "namespace": argparse.Namespace(lr=0.1, tp=2), "path": pathlib.PurePosixPath("/a/b"),
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5), "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, a=[1]), "deque": collections.deque([1, 2], 5),
        "own": Settings(), "bytearray": bytearray(b"xyz"), "frozen": frozenset({1, "a"}),
        "shared_list": (lambda one: [one, one])([1, 2]),
    }


def _save_objects(rank, world, folder, kind, config):
    mesh = init_device_mesh("cpu", (world,))
    model = par.shard_model(tiny.make_model(config), mesh)
    opt = tiny.make_optimizer(model)
    step = torch.optim.lr_scheduler.StepLR(opt, step_size=2)
    tiny.train(model, opt, steps=3, scheduler=step)
    linear = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 1.0 / (1 + s))
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
    state = tiny.state_of(model, opt)
    state["lr_scheduler"] = step.state_dict()
    state["schedulers"] = [linear.state_dict(), cosine.state_dict()]
    state["extra"] = odd_objects()
    state[f"only_rank{rank}"] = {"seen": rank}
    dcp.save(state, checkpoint_id=f"{folder}/ckpt")
    par.finish(rank, folder, kind, config, state)


def objects(folder, kind, world):
    run_ranks(world, _save_objects, folder, kind, tiny.make_config())


def tied(folder, kind, world, **more):
    par.fsdp2(folder, kind, world, config=tiny.make_config(tie_word_embeddings=True), **more)


ZOO = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
       "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "int64",
       "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool", "complex128",
       "complex64", "complex32"]
SHAPES = {"m": (5, 7), "v": (11,), "scalar": (), "empty": (0, 3), "cube": (3, 2, 4)}


def random_tensor(dtype, shape, gen):
    """Any bit pattern at all (NaN payloads, denormals), but only 0 and 1 for bool."""
    count = torch.Size(shape).numel()
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=gen, dtype=torch.uint8).to(torch.bool)
    raw = torch.randint(0, 256, (count * dtype.itemsize,), generator=gen, dtype=torch.uint8)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return raw.view(dtype).reshape(shape)


def _save_zoo(rank, world, folder, kind):
    mesh = init_device_mesh("cpu", (world,))
    gen = torch.Generator().manual_seed(11)
    full, model = {}, {}
    for name in ZOO:
        dtype = getattr(torch, name)
        for label, shape in SHAPES.items():
            full[f"{name}.{label}"] = random_tensor(dtype, shape, gen)
            model[f"{name}.{label}"] = full[f"{name}.{label}"]
        whole = random_tensor(dtype, (5, 6), gen)
        lo = min(-(-5 // world) * rank, 5)
        hi = min(-(-5 // world) * (rank + 1), 5)
        full[f"{name}.sharded"] = whole
        model[f"{name}.sharded"] = DTensor.from_local(
            whole[lo:hi].clone(), mesh, (Shard(0),), run_check=False, shape=whole.shape,
            stride=whole.stride())
    dcp.save({"model": model}, checkpoint_id=f"{folder}/ckpt")
    if rank == 0:
        tensors = {f"model.{k}": v for k, v in full.items()}
        truth.write_truth(folder, kind, tensors, tiny.model_names(tensors))


def zoo(folder, kind, world):
    run_ranks(world, _save_zoo, folder, kind)


def _save_strides(rank, world, folder, kind):
    base = torch.arange(60, dtype=torch.float32)
    cube = base.reshape(3, 4, 5)
    model = {
        "t": base.reshape(6, 10).t(), "permuted": cube.permute(2, 0, 1), "bf16_t":
        base.to(torch.bfloat16).reshape(10, 6).t(), "expanded": base[:3].reshape(1, 3).expand(4, 3),
        "view": base[7:19].reshape(3, 4), "step2": base[::2], "column": base.reshape(6, 10)[:, 3],
        "window": base.reshape(6, 10)[1:4, 2:7], "channels_last": torch.arange(
            48, dtype=torch.float32).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last),
        "scalar_view": base[5], "parameter": torch.nn.Parameter(base.reshape(12, 5).clone()),
    }
    dcp.save({"model": model}, checkpoint_id=f"{folder}/ckpt")
    if rank == 0:
        tensors = {f"model.{k}": v for k, v in model.items()}
        truth.write_truth(folder, kind, tensors, tiny.model_names(tensors))


def strides(folder, kind, world):
    run_ranks(world, _save_strides, folder, kind)


def _save_strided_columns(rank, world, folder, kind):
    """Column shards: Shard(1), uneven, and one of three dimensions split in the middle."""
    mesh = init_device_mesh("cpu", (world,))
    tensors, model = {}, {}
    for label, shape, dim in (("cols", (6, 13), 1), ("mid", (3, 10, 4), 1), ("last", (2, 3, 9), 2)):
        full = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
        step = -(-shape[dim] // world)
        lo = min(rank * step, shape[dim])
        local = full.narrow(dim, lo, min(step, shape[dim] - lo)).clone()
        model[label] = DTensor.from_local(local, mesh, (Shard(dim),), run_check=False,
                                          shape=full.shape, stride=full.stride())
        tensors[f"model.{label}"] = full
    dcp.save({"model": model}, checkpoint_id=f"{folder}/ckpt")
    if rank == 0:
        truth.write_truth(folder, kind, tensors, tiny.model_names(tensors))


def columns(folder, kind, world):
    run_ranks(world, _save_strided_columns, folder, kind)


def _save_prefixes(rank, world, folder, kind):
    """Wrapper names anywhere in the path, and names that only look like them."""
    names = {"_orig_mod.module.layers.0._checkpoint_wrapped_module.w": "layers.0.w",
             "_orig_mod.module.layers.1._fsdp_wrapped_module._checkpoint_wrapped_module.w":
             "layers.1.w", "_orig_mod.module.modules.w": "modules.w",
             "_orig_mod.module.my_module.w": "my_module.w",
             "_orig_mod.module.x_orig_mod.w": "x_orig_mod.w", "_orig_mod.module.model": "model"}
    full = {n: torch.arange(6.0).reshape(2, 3) + 10 * i for i, n in enumerate(names)}
    dcp.save({"model": full}, checkpoint_id=f"{folder}/ckpt")
    truth.write_truth(folder, kind, {f"model.{n}": t for n, t in full.items()},
                      {f"model.{n}": clean for n, clean in names.items()})


def prefixes(folder, kind):
    run_ranks(1, _save_prefixes, folder, kind)


def _save_casts(rank, world, folder, kind):
    """Any bits at all, and the values at which rounding and overflow are decided."""
    gen = torch.Generator().manual_seed(5)
    edges = [0.0, -0.0, 1.00390625, 1.01171875, 3e38, 3.4e38, -3.4e38, 1e-40, 1e-45, 65504.0,
             65519.9, 65520.0, 2.0**-24, 2.0**-25, 2.0**-26, 6e-8, float("inf"), float("-inf"),
             float("nan"), 1 + 2**-8 + 2**-20, 1 + 2**-8 - 2**-20]
    full = {}
    for name in ("float32", "float64", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        full[f"{name}.random"] = random_tensor(dtype, (64, 65), gen)
        full[f"{name}.edges"] = torch.tensor(edges, dtype=torch.float64).to(dtype)
        full[f"{name}.near_one"] = torch.rand(999, generator=gen, dtype=torch.float64).to(dtype)
    full["int32.whole"] = torch.arange(7, dtype=torch.int32)
    dcp.save({"model": full}, checkpoint_id=f"{folder}/ckpt")
    tensors = {f"model.{n}": t for n, t in full.items()}
    truth.write_truth(folder, kind, tensors, tiny.model_names(tensors))


def casts(folder, kind):
    run_ranks(1, _save_casts, folder, kind)
