"""Writes large DCP folders quickly with real torch, for memory and speed checks.

    make_big.py rows|columns|one OUT --size 4GiB [--world 4] [--tensor 64MiB] [--hf]
    make_big.py llama OUT --size 2GiB
    make_big.py moments|random OUT --size 1GiB
    make_big.py fsdp1 OUT --size 2GiB [--world 4]
    make_big.py metadata OUT --chunks 1000000 [--items]
    make_big.py check OUT HF_FOLDER

rows, columns: many bf16 matrices, row or column shards. one: one column-sharded tensor of --size.
llama: Hugging Face safetensors of a model with real shapes, as many layers as make the size.
moments: bf16 weights with what AdamW keeps of them. random: bytes that nothing makes shorter.
fsdp1: FSDP1's local state dicts of such a model, each layer wrapped, a file a rank; OUT.shapes.yaml
says what is in the flat parameters. One rank is in memory at a time.
--hf: the same tensors as DCP's sharded safetensors, the input of torch's own HF consolidation.
metadata: only an index of that many chunks; the files are sparse, or with --items whole ones.
check: compares a converted folder with the values, which are made again from their seeds.
"""

import argparse
import io
import json
import os
import pickle
import sys
import uuid

import ranks
import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   StorageMeta, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_size(text):
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text[:-3]) * factor)
    return int(text)


def random_bf16(shape, seed):
    """Finite bf16 of any sign, exponent below 1.0's next: bit 14 is cleared."""
    count = int(numpy.prod(shape))
    raw = numpy.frombuffer(bytearray(numpy.random.default_rng(seed).bytes(count * 2)), numpy.uint16)
    raw &= numpy.uint16(0xBFFF)
    return torch.from_numpy(raw.view(numpy.int16)).view(torch.bfloat16).reshape(shape)


def chunk(length, parts, i):
    step = -(-length // parts)
    return min(i * step, length), min((i + 1) * step, length)


def describe(mode, size, tensor_bytes, world):
    """[(name, shape, sharded dim or None)], about `size` bytes together."""
    if mode == "one":
        cols = 16384 - 8
        return [("model.embed.weight", (size // 2 // cols, cols), 1)]
    cols = 4096
    rows = max(tensor_bytes // 2 // cols, world)
    dim = 0 if mode == "rows" else 1
    out = []
    for i in range(max(size // (rows * cols * 2), 1)):
        out.append((f"model.layers.{i}.mlp.proj.weight", (rows, cols), dim))
        out.append((f"model.layers.{i}.norm.weight", (cols,), None))
    return out


def shard_of(index, entry, world, rank):
    """(local tensor, lo) of one rank; the seed is the tensor's and the rank's."""
    _, shape, dim = entry
    if dim is None:
        return random_bf16(shape, (index, 0)), 0
    lo, hi = chunk(shape[dim], world, rank)
    local = list(shape)
    local[dim] = hi - lo
    return random_bf16(tuple(local), (index, rank)), lo


def _save_big(rank, world, out, entries, hf):
    mesh = init_device_mesh("cpu", (world,))
    state = {}
    for index, entry in enumerate(entries):
        name, shape, dim = entry
        local, _ = shard_of(index, entry, world, rank)
        placement = (Replicate(),) if dim is None else (Shard(dim),)
        stride = tuple(int(numpy.prod(shape[d + 1:])) for d in range(len(shape)))
        state[name] = DTensor.from_local(local, mesh, placement, run_check=False,
                                         shape=torch.Size(shape), stride=stride)
    if hf:
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
        writer = HuggingFaceStorageWriter(out, save_distributed=True)
        dcp.save(state, storage_writer=writer)
    else:
        dcp.save(state, checkpoint_id=out)


def make_big(args):
    entries = describe(args.mode, parse_size(args.size), parse_size(args.tensor), args.world)
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    ranks.run_ranks(args.world, _save_big, os.path.abspath(args.out), entries, args.hf,
                    timeout_s=1200)
    with open(args.out.rstrip("/") + ".plan.json", "w") as text:
        json.dump({"world": args.world, "entries": entries}, text)


def trained(count, seed):
    """What AdamW keeps of `count` parameters: bf16 weight, fp32 master, first and second moments."""
    random = numpy.random.default_rng(seed)
    master, first, root = (torch.from_numpy(random.standard_normal(count, numpy.float32)) for _ in range(3))
    master *= 0.02
    return {"model.{}.weight": master.to(torch.bfloat16), "optimizer.state.{}.weight.master": master,
            "optimizer.state.{}.weight.exp_avg": first * 1e-4,
            "optimizer.state.{}.weight.exp_avg_sq": (root * 1e-4) ** 2}


def make_state(args):
    """moments, random: one process writes all."""
    size, part, state = parse_size(args.size), parse_size(args.tensor), {}
    for i in range(max(size // part, 1)):
        if args.mode == "random":
            raw = bytearray(numpy.random.default_rng(i).bytes(part))
            state[f"model.layers.{i}.weight"] = torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, 1024)
            continue
        for name, tensor in trained(part // 14 // 1024 * 1024, i).items():
            state[name.format(f"layers.{i}")] = tensor.reshape(-1, 1024)
    dcp.save(state, checkpoint_id=args.out, no_dist=True)


def tensors_of(folder):
    """{name: the file that has it}"""
    from safetensors import safe_open
    where = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            file = safe_open(os.path.join(folder, name), "pt")
            where.update({key: file for key in file.keys()})
    return where


def check_big(args):
    with open(args.out.rstrip("/") + ".plan.json") as text:
        plan = json.load(text)
    where, wrong = tensors_of(args.converted), []
    if "units" in plan:
        return check_fsdp1(plan, where)
    for index, entry in enumerate(plan["entries"]):
        key = entry[0] if entry[0] in where else entry[0].removeprefix("model.")
        if key not in where:
            wrong.append(entry[0])
            continue
        wrong += [] if _same(where[key].get_slice(key), index, entry, plan["world"]) else [entry[0]]
    extra = len(where) - len(plan["entries"])
    print(f"{len(plan['entries'])} tensors, {len(wrong)} wrong {wrong[:4]}, {extra} extra")
    return 1 if wrong or extra else 0


def _same(piece, index, entry, world):
    _, shape, dim = entry
    if list(piece.get_shape()) != list(shape):
        return False
    for rank in range(1 if dim is None else world):
        local, lo = shard_of(index, entry, world, rank)
        if dim is None:
            found = piece[:]
        elif dim == 0:
            found = piece[lo:lo + local.shape[0]]
        else:
            found = piece[:, lo:lo + local.shape[1]]
        if not torch.equal(found.view(torch.int16), local.view(torch.int16)):
            return False
    return True


def make_metadata(args):
    """An index of `chunks` chunks over 512 ranks, by real torch classes; items of one size."""
    world, row = 512, 16
    saved = io.BytesIO()
    torch.save(torch.zeros(1, row, dtype=torch.bfloat16), saved)
    item = saved.getvalue()
    props = TensorProperties(dtype=torch.bfloat16)
    tensors, storage, planner = {}, {}, {}
    ends = [0] * world
    for number in range(-(-args.chunks // world)):
        fqn = f"model.layers.{number // 9}.block.{number % 9}.weight"
        planner[fqn] = ("model", fqn[6:])
        boxes = []
        for rank in range(min(world, args.chunks - number * world)):
            boxes.append(ChunkStorageMetadata(offsets=torch.Size([rank, 0]),
                                              sizes=torch.Size([1, row])))
            storage[MetadataIndex(fqn, torch.Size([rank, 0]), rank)] = _StorageInfo(
                f"__{rank}_0.distcp", ends[rank], len(item))
            ends[rank] += len(item)
        tensors[fqn] = TensorStorageMetadata(props, torch.Size([len(boxes), row]), boxes)
    os.makedirs(args.out, exist_ok=True)
    for rank in range(world):
        with open(os.path.join(args.out, f"__{rank}_0.distcp"), "wb") as out:
            if args.items:
                out.write(item * (ends[rank] // len(item)))
            else:
                out.truncate(ends[rank])
    meta = StorageMeta(checkpoint_id=args.out, save_id=str(uuid.uuid4()))
    with open(os.path.join(args.out, ".metadata"), "wb") as out:
        pickle.dump(Metadata(tensors, planner, storage, meta, version="1.0.0"), out)
    print(f"{args.chunks} chunks, .metadata {os.path.getsize(args.out + '/.metadata')} bytes")


LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 5632, "vocab_size": 32000, "tie_word_embeddings": False,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16"}


def llama_layer(config, n):
    hidden, width = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    k = config["num_key_value_heads"] * config["head_dim"]
    shapes = {"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (k, hidden),
              "self_attn.v_proj": (k, hidden), "self_attn.o_proj": (hidden, q),
              "mlp.gate_proj": (width, hidden), "mlp.up_proj": (width, hidden),
              "mlp.down_proj": (hidden, width), "input_layernorm": (hidden,),
              "post_attention_layernorm": (hidden,)}
    return [(f"model.layers.{n}.{name}.weight", shape) for name, shape in shapes.items()]


def elements(entries):
    return sum(int(numpy.prod(shape)) for _, shape in entries)


def llama_of_size(size):
    """The configuration, and what is outside of layers, in the order of registration."""
    config, top = dict(LLAMA), [("model.embed_tokens.weight", (32000, 2048)),
                                ("model.norm.weight", (2048,)), ("lm_head.weight", (32000, 2048))]
    layer_bytes = 2 * elements(llama_layer(config, 0))
    config["num_hidden_layers"] = max(1, parse_size(size) // layer_bytes - 1)
    return config, top


def make_llama(args):
    """Two layers a file, so that no more is in memory."""
    config, top = llama_of_size(args.size)
    layers = config["num_hidden_layers"]
    parts = [top] + [[t for n in range(i, min(i + 2, layers)) for t in llama_layer(config, n)]
                     for i in range(0, layers, 2)]
    os.makedirs(args.out)
    weight_map = {}
    for i, part in enumerate(parts):
        name = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        weight_map.update({tensor: name for tensor, _ in part})
        save_file({tensor: random_bf16(shape, i * 100 + k) for k, (tensor, shape) in enumerate(part)},
                  os.path.join(args.out, name), metadata={"format": "pt"})
    with open(os.path.join(args.out, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
    with open(os.path.join(args.out, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def flat_shard(index, total, world, rank):
    """(what the rank has of the flat parameter of unit `index`, its offset)."""
    lo, hi = chunk(total, world, rank)
    return random_bf16((hi - lo,), (index, rank)), lo


def sharded(local, lo, total, world, rank):
    """The ShardedTensor that FSDP1 has of a flat parameter; every rank has some of it."""
    from torch.distributed._shard.metadata import ShardMetadata
    from torch.distributed._shard.sharded_tensor import Shard as LocalShard
    from torch.distributed._shard.sharded_tensor import ShardedTensor
    from torch.distributed._shard.sharded_tensor.metadata import (ShardedTensorMetadata,
                                                                  TensorProperties as Properties)
    boxes = [ShardMetadata([a], [b - a], f"rank:{r}/cpu")
             for r in range(world) for a, b in [chunk(total, world, r)]]
    meta = ShardedTensorMetadata(boxes, torch.Size([total]), Properties(dtype=local.dtype))
    return ShardedTensor._init_from_local_shards_and_global_metadata(
        [LocalShard(local, boxes[rank])], meta)


def as_rank(rank, world, work, *arguments):
    """Calls it in a process group of so many ranks, of which only this one is there."""
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        return work(*arguments)
    finally:
        torch.distributed.destroy_process_group()


def save_rank(path, units, world, rank):
    state = {}
    for index, (unit, entries) in enumerate(units):
        local, lo = flat_shard(index, elements(entries), world, rank)
        state[unit + "_flat_param"] = sharded(local, lo, elements(entries), world, rank)
    torch.save(state, path)


def make_fsdp1(args):
    config, top = llama_of_size(args.size)
    layers = [llama_layer(config, n) for n in range(config["num_hidden_layers"])]
    units = [("", top)] + [(f"model.layers.{n}.", layer) for n, layer in enumerate(layers)]
    os.makedirs(args.out)
    for rank in range(args.world):
        path = os.path.join(args.out, f"model_world_size_{args.world}_rank_{rank}.pt")
        as_rank(rank, args.world, save_rank, path, units, args.world, rank)
    with open(args.out.rstrip("/") + ".shapes.yaml", "w", encoding="utf-8") as text:
        text.write("shapes: 1\nparameters:\n")
        for name, shape in top[:1] + [t for layer in layers for t in layer] + top[1:]:
            text.write(f"- {name}: {list(shape)}\n")
        text.write('units: ["model.layers.{n}"]\nuse_orig_params: false\n')
    with open(args.out.rstrip("/") + ".plan.json", "w", encoding="utf-8") as text:
        json.dump({"world": args.world, "units": units}, text)


def check_fsdp1(plan, where):
    wrong, count = [], 0
    for index, (_, entries) in enumerate(plan["units"]):
        total, at = elements(entries), 0
        flat = torch.cat([flat_shard(index, total, plan["world"], rank)[0]
                          for rank in range(plan["world"])])
        for name, shape in entries:
            part = flat[at:at + int(numpy.prod(shape))].reshape(shape)
            at += part.numel()
            count += 1
            if name not in where or not torch.equal(where[name].get_tensor(name).view(torch.int16),
                                                    part.view(torch.int16)):
                wrong.append(name)
    print(f"{count} tensors, {len(wrong)} wrong {wrong[:4]}, {len(where) - count} extra")
    return 1 if wrong or len(where) != count else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["rows", "columns", "one", "llama", "fsdp1", "metadata", "moments",
                                         "random", "check"])
    parser.add_argument("out")
    parser.add_argument("converted", nargs="?")
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--tensor", default="64MiB")
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--items", action="store_true")
    parser.add_argument("--hf", action="store_true")
    args = parser.parse_args()
    if args.mode == "check":
        return check_big(args)
    {"metadata": make_metadata, "llama": make_llama,
     "fsdp1": make_fsdp1, "moments": make_state, "random": make_state}.get(args.mode, make_big)(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
