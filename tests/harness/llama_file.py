"""A small model of the Llama kind as Hugging Face stores it: model.safetensors and config.json in a
folder. Element i of a tensor is i; what is asked for is left out, renamed, or given another shape."""
import json
import os
import struct

import torch_file


def config(**change):
    return {"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2,
            "num_key_value_heads": 1, "intermediate_size": 8, "num_hidden_layers": 3,
            "vocab_size": 10, "tie_word_embeddings": False, **change}


def llama(layers=3):
    """Names and shapes in the order of registration."""
    tensors = {"model.embed_tokens.weight": [10, 4]}
    for n in range(layers):
        layer = f"model.layers.{n}."
        tensors |= {layer + "self_attn.q_proj.weight": [4, 4],
                    layer + "self_attn.k_proj.weight": [2, 4],
                    layer + "self_attn.v_proj.weight": [2, 4],
                    layer + "self_attn.o_proj.weight": [4, 4],
                    layer + "mlp.gate_proj.weight": [8, 4],
                    layer + "mlp.up_proj.weight": [8, 4],
                    layer + "mlp.down_proj.weight": [4, 8],
                    layer + "input_layernorm.weight": [4],
                    layer + "post_attention_layernorm.weight": [4]}
    return tensors | {"model.norm.weight": [4], "lm_head.weight": [10, 4]}


def mixtral(experts=4):
    tensors = {"model.embed_tokens.weight": [10, 4]}
    for n in range(2):
        layer = f"model.layers.{n}."
        tensors |= {layer + "self_attn.q_proj.weight": [4, 4],
                    layer + "self_attn.k_proj.weight": [2, 4],
                    layer + "self_attn.v_proj.weight": [2, 4],
                    layer + "self_attn.o_proj.weight": [4, 4],
                    layer + "block_sparse_moe.gate.weight": [4, 4]}
        for e in range(experts):
            expert = f"{layer}block_sparse_moe.experts.{e}."
            tensors |= {expert + "w1.weight": [8, 4], expert + "w3.weight": [8, 4],
                        expert + "w2.weight": [4, 8]}
        tensors |= {layer + "input_layernorm.weight": [4],
                    layer + "post_attention_layernorm.weight": [4]}
    return tensors | {"model.norm.weight": [4], "lm_head.weight": [10, 4]}


def write(folder, tensors=None, without=(), rename=None, shapes=None, first=None, **change):
    """`without`: beginnings of names. `shapes`: {name or its end: shape}. `first`: {name: what is
    added to its elements}. Anything else goes into config.json."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config(**change), file)
    header, data = {}, b""
    for name, shape in (tensors or llama()).items():
        if any(name.startswith(start) for start in without):
            continue
        for end, other in (shapes or {}).items():
            shape = other if name.endswith(end) else shape
        count = 1
        for size in shape:
            count *= size
        base = (first or {}).get(name, 0)
        content = struct.pack(f"<{count}f", *[base + i for i in range(count)])
        header[(rename or {}).get(name, name)] = {
            "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


MOMENT = 1000.0  # times 1, 2 ... is added to the moments of the first, second ... name of llama()


def write_run(path, names, groups, prefix=""):
    """A file of torch.save of a run whose module has these names in this order, and whose optimizer
    numbers the parameters of its groups."""
    shapes = llama()
    at = {name: i for i, name in enumerate(shapes)}
    number = {name: i for i, name in enumerate(name for group in groups for name in group)}
    torch_file.save({
        "model": {prefix + name: torch_file.Tensor(*shapes[name]) for name in names},
        "optimizer": {
            "state": {i: {"exp_avg": torch_file.Tensor(*shapes[name], base=MOMENT * (at[name] + 1))}
                      for name, i in number.items()},
            "param_groups": [{"lr": 0.1, "params": [number[name] for name in group]}
                             for group in groups]}}, path)
