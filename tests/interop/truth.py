"""The truth beside a checkpoint: made from live tensors, never from the checkpoint.

KIND/ckpt/        what the framework wrote
KIND/truth.pt     {key in the checkpoint: full tensor}, every tensor, optimizer state included
KIND/truth.json   kind, model_keys {checkpoint key: Hugging Face name},
                  tensors {key: {dtype, shape, sha256 of the row-major raw bytes}}, values {key: repr}
KIND/logits.pt    {input_ids, logits} of the live weights in a plain transformers model
KIND/next.pt      of some: the run that never stopped: {state, losses, after}, see tiny.go_on
KIND/assets/      config.json of that model
"""

import hashlib
import json
import os

import torch


def raw_bytes(tensor):
    """Row-major bytes of a tensor of any dtype, as a 1-D uint8 tensor."""
    flat = tensor.detach().contiguous()
    if flat.numel() == 0:
        return torch.empty(0, dtype=torch.uint8)
    return flat.reshape(-1).view(torch.uint8)


def same_bits(a, b):
    return (a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
            and torch.equal(raw_bytes(a), raw_bytes(b)))


def sha256(tensor):
    return hashlib.sha256(raw_bytes(tensor).numpy().tobytes()).hexdigest()


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def write_truth(folder, kind, tensors, model_keys, values=None, notes=None):
    """tensors: {checkpoint key: full CPU tensor}; model_keys: {checkpoint key: HF name}."""
    full = {key: t.detach().clone(memory_format=torch.contiguous_format)
            for key, t in tensors.items()}
    torch.save(full, os.path.join(folder, "truth.pt"))
    listing = {
        "kind": kind,
        "model_keys": model_keys,
        "tensors": {key: {"dtype": dtype_name(t.dtype), "shape": list(t.shape), "sha256": sha256(t)}
                    for key, t in sorted(full.items())},
        "values": {key: repr(v) for key, v in sorted((values or {}).items())},
    }
    listing.update(notes or {})
    with open(os.path.join(folder, "truth.json"), "w") as out:
        json.dump(listing, out, indent=1)
        out.write("\n")


def load_truth(folder):
    with open(os.path.join(folder, "truth.json")) as text:
        listing = json.load(text)
    tensors = torch.load(os.path.join(folder, "truth.pt"), weights_only=True)
    return listing, tensors
