"""Weights in fp8 blocks with their scales, and layers that predict further tokens (DeepSeek-V3)."""

import json
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import checks_good
import kinds_maps
import map_reference
import truth
from checks_maps import as_torch, config_of, convert, hf_of, read_file, refused, same

BLOCK = 8  # of 12 rows the second block row is half empty


def quantized(tensors):
    """({name: tensor} as published, {name: what it means}) with projections in fp8."""
    stored, meant = {}, {}
    generator = torch.Generator().manual_seed(5)
    for name, tensor in tensors.items():
        stored[name] = meant[name] = tensor
        if tensor.dim() == 2 and "_proj" in name:
            grid = [-(-n // BLOCK) for n in tensor.shape]
            scale = torch.rand(grid, generator=generator) + 0.5
            stored[name] = tensor.to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = scale
            rows, columns = (torch.arange(n) // BLOCK for n in tensor.shape)
            meant[name] = stored[name].float() * scale[rows][:, columns]
    return stored, meant


def saved(kit, name, tensors, config):
    folder = kit.path("out", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as text:
        json.dump(config, text)
    return folder


def check_scales(kit, folder):
    config = config_of(folder)
    stored, meant = quantized(hf_of(folder))
    form = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}
    source = saved(kit, "fp8", stored, {**config, "quantization_config": form})
    dest = kit.path("out", "fp8-out")
    if kit.expect("fp8 -> hf", convert(kit, source, dest, "hf", "--verify"), 0):
        wrong = same(checks_good.read_hf(dest)[0], stored)
        kit.check("fp8 -> hf: kept as it is, scales too", not wrong, wrong[:6])
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        done = convert(kit, source, dest, "hf", "--dequant", "--dtype", name)
        if kit.expect(f"fp8 -> hf, {name}", done, 0):
            want = {n: t.to(dtype) if t.is_floating_point() else t for n, t in meant.items()}
            wrong = same(checks_good.read_hf(dest)[0], want)
            kit.check(f"fp8 -> hf, {name}: fp8 times scale of its block", not wrong, wrong[:6])
            with open(os.path.join(dest, "config.json"), encoding="utf-8") as text:
                kit.check(f"fp8 -> hf, {name}: the configuration tells of no quantisation",
                          not json.load(text).get("quantization_config"))
            if dtype == torch.float32:  # torch's grouped product of bf16 wants larger experts
                check_logits(kit, f"fp8 -> hf, {name}", dest, want)
    for label, name in (("without a scale", "model.layers.0.self_attn.o_proj.weight_scale_inv"),
                        ("with a scale of another shape", "model.layers.0.self_attn.kv_a_proj_with_mqa.weight_scale_inv")):
        bad = {n: t for n, t in stored.items() if n != name}
        if label != "without a scale":
            bad[name] = stored[name][:1].clone()
        source = saved(kit, "fp8-bad", bad, {**config, "quantization_config": form})
        refused(kit, f"fp8 {label}", convert(kit, source, dest, "hf", "--dequant", "--dtype", "bf16"), dest, name)


def check_logits(kit, label, dest, tensors):
    """transformers reads the result as an ordinary model and computes what these tensors give."""
    again = saved_plainly(dest, tensors)
    logits = []
    for where in (dest, again):
        model = AutoModelForCausalLM.from_pretrained(where, dtype="auto").eval()
        with torch.no_grad():
            logits.append(model(input_ids=kinds_maps.IDS).logits)
    kit.check(f"{label}: transformers gives the same logits", truth.same_bits(*logits))
    shutil.rmtree(again)


def saved_plainly(dest, tensors):
    again = dest + "-again"
    shutil.rmtree(again, ignore_errors=True)
    os.makedirs(again)
    save_file(tensors, os.path.join(again, "model.safetensors"), metadata={"format": "pt"})
    config = AutoConfig.from_pretrained(dest)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(again)
    return again


def check_further_tokens(kit, folder):
    """A layer behind the last: torchtitan numbers it anew, vLLM leaves it to another model."""
    config = {**config_of(folder), "num_nextn_predict_layers": 1}
    judge = map_reference.Map(map_reference.embedded("deepseek-v3"), config)
    tensors, generator = hf_of(folder), torch.Generator().manual_seed(9)
    for name in judge.tensors["hf"]:
        if name not in tensors:
            shape = judge.atoms[name]["shape"]
            tied = judge.ties.get(name)
            tensors[name] = tensors[tied].clone() if tied else torch.randn(shape, generator=generator)
    source, dest = saved(kit, "mtp", tensors, config), kit.path("out", "mtp.pt")
    done = convert(kit, source, dest, "torch:names=torchtitan")
    if kit.expect("further tokens -> torchtitan", done, 0):
        atoms = judge.from_side("hf", {n: t.numpy() for n, t in tensors.items()})
        wrong = same(read_file(dest), as_torch(judge.to_side("torchtitan", atoms), torch.float32))
        kit.check("further tokens -> torchtitan: as the map says", not wrong, wrong[:6])
        back = kit.path("out", "mtp-back")
        done = convert(kit, dest, back, "hf", "--assets", source)
        if kit.expect("further tokens -> torchtitan -> hf", done, 0):
            wrong = same(checks_good.read_hf(back)[0], tensors)
            kit.check("further tokens -> torchtitan -> hf: all of it, copies too", not wrong, wrong[:6])
    copy = "model.layers.2.shared_head.head.weight"
    other = {**tensors, copy: tensors[copy] + 1}
    done = convert(kit, saved(kit, "mtp-other", other, config), dest, "torch:names=torchtitan")
    refused(kit, "a tied copy that differs", done, dest, copy)
