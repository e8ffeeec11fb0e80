"""Files of torch.save: zip and stream form, protocols, without CRCs, views, shards of a model."""

import argparse
import json
import os

import torch
from torch.serialization import set_crc32_options, skip_data

import tiny
import truth
from ranks import run_ranks


def _write(rank, world, folder, kind, config, wrap, prefix, how, crc, named):
    os.makedirs(f"{folder}/ckpt")
    model = tiny.make_model(config)
    wrapped = wrap(model) if wrap else model
    opt = tiny.make_optimizer(wrapped, named=named)
    scheduler = tiny.make_scheduler(opt)
    tiny.train(wrapped, opt, scheduler=scheduler)
    state = {"model": wrapped.state_dict(), "optimizer": opt.state_dict(), "step": 2,
             "lr_scheduler": scheduler.state_dict(),
             "args": argparse.Namespace(lr=1e-3, layers=[1, 2]), "rng": torch.get_rng_state()}
    set_crc32_options(crc)
    torch.save(state, f"{folder}/ckpt/checkpoint.pt", **how)
    set_crc32_options(True)
    tensors, others = tiny.split_state(state)
    others.pop("args")
    tiny.write_model_truth(folder, kind, config, tensors,
                           tiny.model_names(tensors, f"model.{prefix}"), others)
    if not config.tie_word_embeddings:
        torch.save(tiny.go_on(wrapped, opt, scheduler), f"{folder}/next.pt")


def training(folder, kind, wrap=None, prefix="", crc=True, tied=False, named=False, **how):
    config = tiny.make_config(tie_word_embeddings=tied)
    run_ranks(1, _write, folder, kind, config, wrap, prefix, how, crc, named)


def ddp(model):
    return torch.nn.parallel.DistributedDataParallel(model)


def compiled(model):
    return torch.compile(model, backend="eager")


def _write_shards(rank, world, folder, kind, config):
    """As transformers wrote models before safetensors: N files of a third, and an index."""
    os.makedirs(f"{folder}/ckpt")
    model = tiny.make_model(config)
    state = model.state_dict()
    names = list(state)
    third, where = -(-len(names) // 3), {}
    for number in range(3):
        file = f"pytorch_model-{number + 1:05d}-of-00003.bin"
        part = names[number * third:(number + 1) * third]
        torch.save({n: state[n] for n in part}, f"{folder}/ckpt/{file}")
        where.update(dict.fromkeys(part, file))
    size = sum(t.numel() * t.element_size() for t in state.values())
    with open(f"{folder}/ckpt/pytorch_model.bin.index.json", "w") as out:
        json.dump({"metadata": {"total_size": size}, "weight_map": where}, out)
    tensors = {n: t.detach().clone() for n, t in state.items()}
    tiny.write_model_truth(folder, kind, config, tensors, {n: n for n in tensors})


def shards(folder, kind):
    run_ranks(1, _write_shards, folder, kind, tiny.make_config())


def views(folder, kind, **how):
    """Parts, transposes, expanded and shared tensors, Parameters, dtypes with no storage class."""
    os.makedirs(f"{folder}/ckpt")
    long, square = torch.arange(1000.), torch.arange(20.).reshape(4, 5)
    state = {
        "part": long[10:14], "steps": long[::7], "turned": square.t(), "row": square[2],
        "column": square[:, 3], "spread": torch.arange(4.).reshape(1, 4).expand(3, 4),
        "same": square, "tied": square.view(4, 5), "parameter": torch.nn.Parameter(square * 2),
        "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 3), "bool": torch.tensor([True, False]),
        "bf16": torch.randn(3, 5).bfloat16().t(), "u16": torch.arange(6).to(torch.uint16),
        "f8": torch.randn(8).to(torch.float8_e4m3fn), "last": torch.randn(2, 3, 4, 5).to(
            memory_format=torch.channels_last), "i64": torch.arange(6).flip(0),
    }
    torch.save(state, f"{folder}/ckpt/views.pt", **how)
    truth.write_truth(folder, kind, state, {n: n for n in state})


def module(folder, kind, **how):
    """A whole module: its class is not imported, its tensors have the names of its state dict."""
    os.makedirs(f"{folder}/ckpt")
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7),
                              torch.nn.ModuleDict({"a": torch.nn.Linear(7, 2)}))
    torch.save(net, f"{folder}/ckpt/net.pth", **how)
    state = net.state_dict()
    truth.write_truth(folder, kind, state, {n: n for n in state})


def skipped(path):
    """A file without its data: all headers, storages of zeros."""
    with skip_data():
        torch.save({"w": torch.ones(64, 3), "b": torch.ones(3)}, path)
