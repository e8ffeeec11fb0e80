"""A tiny llama of awkward sizes, two steps of training, and state dicts as people save them."""

import copy

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, LlamaConfig

import truth

INPUT_IDS = torch.arange(3 * 11).reshape(3, 11) * 7 % 250


def make_config(**changes):
    sizes = dict(vocab_size=250, hidden_size=48, num_hidden_layers=3, num_attention_heads=6,
                 num_key_value_heads=2, intermediate_size=100, max_position_embeddings=64,
                 tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
    sizes.update(changes)
    return LlamaConfig(**sizes)


def make_model(config, dtype=torch.float32, seed=7):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    with torch.no_grad():  # norms of ones look alike on every rank and would hide a wrong order
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    return model


def make_optimizer(model, foreach=None, named=False):
    """Two groups: with weight decay and without. named: the optimizer keeps the names."""
    def members(choose):
        return [(n, p) if named else p for n, p in model.named_parameters() if choose(p)]
    groups = [{"params": members(lambda p: p.dim() > 1), "weight_decay": 0.1},
              {"params": members(lambda p: p.dim() <= 1), "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), foreach=foreach)


def make_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=1e-5)


def train(model, optimizer, steps=2, seed=0, scheduler=None):
    for step in range(steps):
        gen = torch.Generator().manual_seed(1000 * seed + step + 17 * dist.get_rank())
        ids = torch.randint(0, 250, (2, 9), generator=gen)
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def same_batch_train(model, optimizer, steps=2, seed=0, scheduler=None):
    """All ranks see one batch: runs of other worlds can be compared. Returns the losses."""
    losses = []
    for step in range(steps):
        gen = torch.Generator().manual_seed(1000 * seed + step)
        ids = torch.randint(0, 250, (2, 9), generator=gen)
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.detach().clone())
    return losses


def state_of(model, optimizer=None, flatten=False):
    """{"model": ..., "optimizer": ...} as torch's own helpers give it."""
    state = {"model": dsd.get_model_state_dict(model)}
    if optimizer is not None:
        options = dsd.StateDictOptions(flatten_optimizer_state_dict=flatten)
        state["optimizer"] = dsd.get_optimizer_state_dict(model, optimizer, options=options)
    return state


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def split_state(state):
    """(full tensors, other values), keyed as DCP keys them. A collective: call it on all ranks."""
    flat, _ = flatten_state_dict(state)
    tensors = {k: whole(v).detach().cpu() for k, v in flat.items() if torch.is_tensor(v)}
    return tensors, {k: v for k, v in flat.items() if not torch.is_tensor(v)}


def snapshot(model, optimizer, scheduler=None):
    """(full tensors, other values) of a run, whatever its layout; copies. A collective."""
    state = state_of(model, optimizer)
    if scheduler is not None:
        state["lr_scheduler"] = scheduler.state_dict()
    tensors, values = split_state(state)
    return {k: t.clone() for k, t in tensors.items()}, copy.deepcopy(values)


def go_on(model, optimizer, scheduler=None):
    """Where a run stands, its next three losses, and where it stands then. A collective."""
    state = snapshot(model, optimizer, scheduler)
    losses = same_batch_train(model, optimizer, steps=3, seed=6, scheduler=scheduler)
    return {"state": state, "losses": losses, "after": snapshot(model, optimizer, scheduler)}


def model_names(tensors, prefix="model."):
    return {k: k[len(prefix):] for k in tensors if k.startswith(prefix)}


def write_model_truth(folder, kind, config, tensors, model_keys, values=None, notes=None):
    """Truth, assets and logits of a model; rank 0 only."""
    named = {name: tensors[key] for key, name in model_keys.items()}
    dtype = named["model.embed_tokens.weight"].dtype
    plain = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    missing, unexpected = plain.load_state_dict(named, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    plain.tie_weights()
    with torch.no_grad():
        logits = plain(input_ids=INPUT_IDS).logits
    torch.save({"input_ids": INPUT_IDS, "logits": logits}, f"{folder}/logits.pt")
    plain.config.dtype = dtype
    plain.config.architectures = ["LlamaForCausalLM"]
    plain.config.save_pretrained(f"{folder}/assets")
    truth.write_truth(folder, kind, tensors, model_keys, values,
                      {"model": True, "tied": bool(config.tie_word_embeddings), **(notes or {})})
