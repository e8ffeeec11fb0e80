"""FSDP1 in every form that it saves: full, sharded and local state dicts, as one file, as DCP and as a file a
rank; optimizer state by names, by numbers, and raw as each rank has it.

A run is what trains (Run); a form is how it was saved. Truth is cut from the shards by torch's own records of
them, not from any state dict.
"""

import copy
import dataclasses
import json
import os
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import (FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig,
                                    LocalStateDictConfig, MixedPrecision, OptimStateKeyType,
                                    ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy,
                                    StateDictType)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

import tiny
import truth
from ranks import run_ranks

FULL, SHARDED, LOCAL = (StateDictType.FULL_STATE_DICT, StateDictType.SHARDED_STATE_DICT,
                        StateDictType.LOCAL_STATE_DICT)
# offload_to_cpu=True makes two moments of one on a CPU (torch 2.13)
CONFIGS = {FULL: (FullStateDictConfig(offload_to_cpu=False), FullOptimStateDictConfig(offload_to_cpu=False)),
           SHARDED: (ShardedStateDictConfig(offload_to_cpu=False),
                     ShardedOptimStateDictConfig(offload_to_cpu=False)),
           LOCAL: (LocalStateDictConfig(offload_to_cpu=False), LocalOptimStateDictConfig(offload_to_cpu=False))}


@dataclasses.dataclass(frozen=True)
class Run:
    """What is trained."""
    world: int = 4
    root: bool = False     # one unit only; else each layer is one, too
    orig: bool = True      # use_orig_params
    dims: tuple = ()       # of the device mesh; (): a process group; two: HYBRID_SHARD
    hybrid: tuple = ()     # HYBRID_SHARD by process groups
    frozen: str = ""       # "kept": in the groups without state; "left": not in the optimizer
    tied: bool = False
    bf16: bool = False     # mixed precision: each parameter is aligned to 8 elements
    small: bool = False    # sizes, and units of one norm, that leave ranks without anything
    wrapped: bool = False  # layers in activation checkpointing, whose name is in all names
    buffers: bool = False  # of one element and of none dimension, and a norm of ones
    tp: bool = False       # FSDP2 over tensor parallelism; dims are those of both
    groups: str = ""       # of the optimizer: "dims" as only original parameters can be, "units", "one"

    @property
    def grouping(self):
        return self.groups or ("dims" if self.orig else "one" if self.root else "units")

    @property
    def shards(self):
        return (self.dims or self.hybrid or (self.world,))[-1]


def make_config(run):
    sizes = dict(hidden_size=10, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                 intermediate_size=12) if run.small else {}
    return tiny.make_config(tie_word_embeddings=run.tied, **sizes)


def freeze(run, model):
    """Within units where original parameters allow it; else a whole layer."""
    for name, p in model.named_parameters():
        if run.frozen and (".layers.0." in name if run.grouping == "units" else
                           name.endswith(("embed_tokens.weight", "layers.1.input_layernorm.weight"))):
            p.requires_grad_(False)
    return model


def make_model(run, seed=7):
    model = freeze(run, tiny.make_model(make_config(run), seed=seed))
    if run.buffers:
        model.model.register_buffer("scale", torch.tensor([0.5]))
        model.register_buffer("seen", torch.tensor(3, dtype=torch.int64))
    if run.wrapped:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, LlamaDecoderLayer))
    return model


def wrap(run, model):
    how = {}
    if run.dims:
        names = ("replicate", "shard")[-len(run.dims):]
        how["device_mesh"] = init_device_mesh("cpu", run.dims, mesh_dim_names=names)
    if run.hybrid:
        copies, shards = run.hybrid
        how["process_group"] = (
            dist.new_subgroups_by_enumeration([list(range(c * shards, (c + 1) * shards))
                                               for c in range(copies)])[0],
            dist.new_subgroups_by_enumeration([list(range(s, copies * shards, shards))
                                               for s in range(shards)])[0])
    if run.hybrid or len(run.dims) == 2:
        how["sharding_strategy"] = ShardingStrategy.HYBRID_SHARD
    if not run.root:
        how["auto_wrap_policy"] = ModuleWrapPolicy({LlamaDecoderLayer, *([LlamaRMSNorm] if run.small else [])})
    if run.bf16:
        how["mixed_precision"] = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return FSDP(model, device_id=torch.device("cpu"), use_orig_params=run.orig, **how)


def make_optimizer(run, model, foreach=False):
    """Two groups where there are two units, or parameters of one and of more dimensions."""
    chosen = [(clean(n), p) for n, p in model.named_parameters() if run.frozen != "left" or p.requires_grad]
    if run.grouping == "dims":
        first = [p for n, p in chosen if not n.endswith("norm.weight")]
        rest = [p for n, p in chosen if n.endswith("norm.weight")]  # a slice has one dimension, too
    else:
        first = [p for n, p in chosen if ".layers." in n or run.grouping == "one"]
        rest = [p for n, p in chosen if ".layers." not in n and run.grouping != "one"]
    groups = [{"params": some, "weight_decay": decay} for some, decay in ((first, 0.1), (rest, 0.0)) if some]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), foreach=foreach)


def clean(name):
    for part in ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."):
        name = name.replace(part, "")
    return name


def gathered(value, group):
    """What all ranks of a group have, in their order."""
    all_of_it = [None] * dist.get_world_size(group)
    dist.all_gather_object(all_of_it, value, group=group)
    return all_of_it


def cut(flat, row):
    """The parameters in a row: by the record that the flat parameter keeps of itself."""
    padding = getattr(flat, "_is_padding_mask", [False] * len(flat._numels))
    at, parts = 0, []
    numels = getattr(flat, "_numels_with_padding", flat._numels)
    for numel, is_padding in zip(numels, padding, strict=True):
        if not is_padding:
            parts.append(row[at:at + numel])
        at += numel
    return [p.reshape(shape).clone() for p, shape in zip(parts, flat._shapes, strict=True)]


def state_rows(flat, optimizer, group):
    """{name of a state: parts of each parameter, or one value}: joined from what the ranks have."""
    if flat._params is None:
        states = gathered(dict(optimizer.state.get(flat, {})), group)
        return {n: cut(flat, torch.cat([s[n] for s in states])) if states[0][n].dim() else states[0][n]
                for n in states[0]}
    mine = [dict(optimizer.state.get(p, {})) for p in flat._params]
    of_ranks, out = gathered(mine, group), {}
    for number, shape in enumerate(flat._shapes):
        held = [states[number] for states in of_ranks if states[number]]
        for name in held[0] if held else ():
            whole = (torch.cat([s[name].reshape(-1) for s in held]).reshape(shape)
                     if name != "step" else held[0][name])
            out.setdefault(name, [None] * len(flat._shapes))[number] = whole.clone()
    return out


def live(model, optimizer):
    """({key: tensor}, {other name: name of a tied parameter}) of a wrapped model and its optimizer."""
    tensors, tied = {}, {}
    for name, unit in model.named_modules():
        if not isinstance(unit, FSDP) or unit._handle is None:
            continue
        flat, prefix = unit._handle.flat_param, clean(name + "." if name else "")
        row = torch.cat(gathered(flat._local_shard.detach(), unit.process_group))
        names = [clean(prefix + n) for n in flat._fqns]
        tensors.update({f"model.{n}": t for n, t in zip(names, cut(flat, row), strict=True)})
        for key, parts in state_rows(flat, optimizer, unit.process_group).items():
            parts = parts if isinstance(parts, list) else [parts.clone() for _ in names]
            tensors.update({f"optimizer.state.{n}.{key}": t for n, t in zip(names, parts) if t is not None})
        for info in flat._shared_param_infos:
            to = f"{info.prim_module_name}.{info.prim_param_name}"
            tied[clean(f"{prefix}{info.module_name}.{info.param_name}")] = clean(prefix + to)
    return tensors, tied


def under(kind, model):
    """With copies of the settings: torch notes in them that a model has a mesh."""
    return FSDP.state_dict_type(model, kind, *map(copy.copy, CONFIGS[kind]))


def whole_state(model, optimizer):
    with warnings.catch_warnings(), under(FULL, model):
        return {"model": model.state_dict(), "optimizer": FSDP.optim_state_dict(model, optimizer)}


def snapshot(model, optimizer):
    """As tiny.snapshot of other layouts: (full tensors, other values), copies."""
    tensors, values = tiny.split_state(whole_state(model, optimizer))
    return {k: t.clone() for k, t in tensors.items()}, values


def go_on(model, optimizer):
    state = snapshot(model, optimizer)
    losses = tiny.same_batch_train(model, optimizer, steps=3, seed=6)
    return {"state": state, "losses": losses, "after": snapshot(model, optimizer)}


def units(run):
    """Patterns of the names of wrapped modules, the root besides."""
    norms = ["model.layers.{n}.(input|post_attention)_layernorm", "model.norm"]
    return [] if run.root else ["model.layers.{n}", *(norms if run.small else [])]


def write_assets(run, folder):
    """What the files of a run lack: the shapes of its parameters, in order, what was wrapped, the names that the
    optimizer has numbers for."""
    with open(f"{folder}/assets/shapes.yaml", "w") as text:
        text.write(f"shapes: 1\nmodel: shapes.pt\nunits: {json.dumps(units(run))}\n"
                   f"use_orig_params: {str(run.orig).lower()}\n")
    plain = make_model(dataclasses.replace(run, wrapped=False))
    numbers = {id(p): n for n, p in plain.named_parameters()}
    with open(f"{folder}/assets/names.txt", "w") as text:
        for group in make_optimizer(run, plain).param_groups:
            text.writelines(numbers[id(p)] + "\n" for p in group["params"])
    torch.save(plain.state_dict(), f"{folder}/assets/shapes.pt")


def write_model_truth(run, folder, kind, tensors, names, values, buffers=(), aliases=None):
    """On one rank. buffers: keys of those of which transformers' model knows nothing."""
    known = {k: n for k, n in names.items() if k not in buffers}
    tiny.write_model_truth(folder, kind, make_config(run), tensors, known, values,
                           {"run": dataclasses.asdict(run), "aliases": aliases or {},
                            "buffers": {k: names[k] for k in buffers}})
    write_assets(run, folder)


def write_truth(run, folder, kind, model, optimizer):
    """Cut by hand from live shards, and equal to what torch gathers; a collective."""
    tensors, tied = live(model, optimizer)
    gathered_tensors, values = tiny.split_state(whole_state(model, optimizer))
    for key, t in tensors.items():
        assert truth.same_bits(t, gathered_tensors[key]), key
    others = {f"model.{name}": f"model.{to}" for name, to in tied.items()}
    assert set(gathered_tensors) - set(tensors) <= set(others), set(gathered_tensors) ^ set(tensors)
    if dist.get_rank() == 0:
        write_model_truth(run, folder, kind, tensors, tiny.model_names(tensors), values, aliases=others)


def trained(run):
    model = wrap(run, make_model(run))
    optimizer = make_optimizer(run, model)
    tiny.train(model, optimizer)
    return model, optimizer


def optimizer_state(run, keys, model, optimizer):
    """By names ("named"), by the numbers of a model that is not wrapped ("ids"), or as this rank has it ("raw")."""
    if keys == "raw":
        return optimizer.state_dict()
    state = FSDP.optim_state_dict(model, optimizer)
    if keys == "ids":
        plain = make_model(run)
        state = FSDP.rekey_optim_state_dict(state, OptimStateKeyType.PARAM_ID, plain,
                                            optim=make_optimizer(run, plain))
    return state


def save_file(run, ckpt, model, state, rank):
    if rank == 0:
        torch.save({**state, "step": 2}, f"{ckpt}/checkpoint.pt")


def save_dcp(run, ckpt, model, state, rank):
    dcp.save(state, checkpoint_id=ckpt)


def extra_state():
    import random

    import numpy
    return {"lr_scheduler": {"last_epoch": 2, "_last_lr": [1e-3, 1e-3]},
            "rng": {"cpu": torch.get_rng_state(), "numpy": numpy.random.get_state(),
                    "random": random.getstate()}}


def save_verl(run, ckpt, model, state, rank, version=1):
    """Names and neighbours as verl has them."""
    world = dist.get_world_size()
    parts = {"model": state["model"], "optim": state["optimizer"], "extra_state": extra_state()}
    for part, value in parts.items():
        torch.save(value, f"{ckpt}/{part}_world_size_{world}_rank_{rank}.pt")
    if rank == 0:
        with open(f"{ckpt}/fsdp_config.json", "w") as text:
            text.write('{"FSDP_version": %d, "world_size": %d}' % (version, world))
        make_config(run).save_pretrained(f"{ckpt}/huggingface")


def save_plain(run, ckpt, model, state, rank):
    """Names as people make them up."""
    for part, value in state.items():
        torch.save(value, f"{ckpt}/{part}_rank{rank}.pt")


SAVED = {"file": save_file, "dcp": save_dcp, "verl": save_verl, "plain": save_plain}


def _write(rank, world, folder, kind, run, state_kind, how, keys, goes_on):
    model, optimizer = trained(run)
    if rank == 0:
        os.makedirs(f"{folder}/ckpt")
    dist.barrier()
    with under(state_kind, model):
        state = {"model": model.state_dict(), "optimizer": optimizer_state(run, keys, model, optimizer)}
    SAVED[how](run, f"{folder}/ckpt", model, state, rank)
    del state
    write_truth(run, folder, kind, model, optimizer)
    if goes_on:
        going = go_on(model, optimizer)
        if rank == 0:
            torch.save(going, f"{folder}/next.pt")


def write(folder, kind, state_kind, how, keys, goes_on=True, **run):
    run = Run(**run)
    run_ranks(run.world, _write, folder, kind, run, state_kind, how, keys, goes_on)


def full(keys="named", **run):
    return lambda folder, kind: write(folder, kind, FULL, "file", keys, **run)


def sharded(how, keys="named", **run):
    return lambda folder, kind: write(folder, kind, SHARDED, how, keys, **run)


def local(how, keys="raw", **run):
    return lambda folder, kind: write(folder, kind, LOCAL, how, keys, **run)


FLAT = dict(orig=False)
SMALL = dict(world=8, small=True, goes_on=False)
KINDS = {
    "fsdp1_full": full(world=2),
    "fsdp1_full_ids": full("ids", world=3, **FLAT),
    "fsdp1_full_frozen": full("ids", world=2, frozen="kept"),
    "fsdp1_full_left": full(world=2, frozen="left"),
    "fsdp1_full_tied": full("ids", world=2, tied=True),
    "fsdp1_full_root": full(world=4, root=True, **FLAT),
    "fsdp1_dcp_w3": sharded("dcp", world=3, **FLAT),
    "fsdp1_dcp_w8": sharded("dcp", **SMALL),
    "fsdp1_dcp_mesh": sharded("dcp", dims=(4,)),
    "fsdp1_dcp_hybrid": sharded("dcp", dims=(2, 2), **FLAT),
    "fsdp1_dcp_frozen": sharded("dcp", world=2, frozen="left"),
    "fsdp1_dcp_tied": sharded("dcp", world=2, tied=True),
    "fsdp1_shards": sharded("verl", "raw"),
    "fsdp1_shards_flat": sharded("verl", "raw", world=3, **FLAT),
    "fsdp1_shards_named": sharded("plain", "named"),
    "fsdp1_shards_w8": sharded("verl", "raw", **SMALL),
    "fsdp1_shards_bf16": sharded("verl", "raw", bf16=True),
    "fsdp1_shards_root": sharded("verl", "raw", world=3, root=True),
    "fsdp1_shards_tied": sharded("verl", "raw", world=2, tied=True, **FLAT),
    "fsdp1_shards_frozen": sharded("verl", "raw", world=2, frozen="kept"),
    "fsdp1_shards_mesh": sharded("verl", "raw", dims=(4,)),
    "fsdp1_shards_mesh_flat": sharded("verl", "raw", dims=(4,), **FLAT),
    "fsdp1_shards_mesh_hybrid": sharded("verl", "raw", dims=(2, 2)),
    "fsdp1_shards_hybrid": sharded("verl", "raw", hybrid=(2, 2), **FLAT),
    "fsdp1_local": local("plain", **FLAT),
    "fsdp1_local_w3": local("verl", world=3, **FLAT),
    "fsdp1_local_root": local("plain", root=True, **FLAT),
    "fsdp1_local_w8": local("verl", groups="one", **SMALL, **FLAT),
    "fsdp1_local_bf16": local("plain", world=2, bf16=True, **FLAT),
    "fsdp1_local_tied": local("plain", world=2, tied=True, **FLAT),
    "fsdp1_local_frozen": local("plain", world=2, frozen="kept", **FLAT),
    "fsdp1_local_named": local("plain", "named", world=2, **FLAT),
    "fsdp1_local_dcp": local("dcp", "named", **FLAT),
    "fsdp1_local_dcp_root": local("dcp", "named", world=3, root=True, **FLAT),
    "fsdp1_views": local("plain"),
    "fsdp1_views_root": local("verl", world=3, root=True, groups="one"),
    "fsdp1_views_w8": local("verl", **SMALL),
    "fsdp1_views_units": local("plain", world=2, groups="units"),
    "fsdp1_views_bf16": local("plain", bf16=True),
    "fsdp1_views_tied": local("plain", world=2, tied=True),
    "fsdp1_views_frozen": local("plain", world=2, frozen="kept"),
    "fsdp1_views_wrapped": local("plain", world=2, wrapped=True),
}
