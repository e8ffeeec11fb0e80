"""Checks with torch itself that the generated checkpoints hold what the truth says.

    check_truth.py OUT [KIND]...
"""

import os
import sys
import tempfile
import warnings

import ranks  # noqa: F401
import torch
import torch.distributed.tensor  # noqa: F401
from safetensors import safe_open
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

import truth


def read_dcp(ckpt):
    with tempfile.TemporaryDirectory() as scratch:
        dcp_to_torch_save(ckpt, f"{scratch}/all.pt")
        state = torch.load(f"{scratch}/all.pt", weights_only=False)
    flat, _ = flatten_state_dict(state)
    return {k: v for k, v in flat.items() if torch.is_tensor(v)}


def read_hf(ckpt):
    """Joins by DCP_SHARDING_INFO offsets where there are any."""
    import json
    out = {}
    for name in sorted(os.listdir(ckpt)):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(f"{ckpt}/{name}", "pt") as file:
            info = json.loads((file.metadata() or {}).get("DCP_SHARDING_INFO", "{}"))
            for key in file.keys():
                part = file.get_tensor(key)
                offsets = info.get(key, {}).get("saved_offsets", [0] * part.dim())
                out.setdefault(key, []).append((offsets, part))
    return {key: join(parts) for key, parts in out.items()}


def join(parts):
    size = [max(o[d] + p.shape[d] for o, p in parts) for d in range(parts[0][1].dim())]
    full = torch.empty(size, dtype=parts[0][1].dtype)
    for offsets, part in parts:
        where = tuple(slice(o, o + n) for o, n in zip(offsets, part.shape))
        full[where] = part
    return full


def check(folder):
    listing, tensors = truth.load_truth(folder)
    ckpt = f"{folder}/ckpt"
    if any(n.endswith(".metadata") for n in os.listdir(ckpt)):
        if not os.path.exists(f"{ckpt}/.metadata"):
            return "not joined by torch itself (one index per rank)"
        found = read_dcp(ckpt)
    else:
        found = read_hf(ckpt)
    extra = set(found) - set(tensors)
    missing = set(tensors) - set(found)
    if extra or missing:
        return f"FAIL extra {sorted(extra)[:5]} missing {sorted(missing)[:5]}"
    wrong = [k for k in tensors if not truth.same_bits(found[k], tensors[k])]
    for key, entry in listing["tensors"].items():
        if truth.sha256(tensors[key]) != entry["sha256"]:
            wrong.append(key)
    return f"FAIL differ: {wrong[:8]}" if wrong else f"{len(tensors)} tensors equal"


def main():
    warnings.simplefilter("ignore")
    kinds = sys.argv[2:] or sorted(os.listdir(sys.argv[1]))
    bad = 0
    for kind in kinds:
        said = check(os.path.join(sys.argv[1], kind))
        bad += said.startswith("FAIL")
        print(f"{kind}: {said}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
