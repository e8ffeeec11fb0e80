"""Writes every kind of checkpoint with the real frameworks, each with its truth beside it.

    make_checkpoints.py OUT [--only KIND]... [--list]

A kind that has its done-marker is not made again.
"""

import argparse
import os
import shutil
import sys
import time
import warnings
from importlib.util import find_spec

import ranks  # first: it sets the environment for gloo
import torch
import torch.distributed.tensor  # noqa: F401
import transformers  # noqa: F401

import kinds_fsdp1
import kinds_parallel as par
import kinds_rank_files as files
import kinds_ranks
import kinds_storage as sto
import kinds_torch as pt
import kinds_values as val
import tiny

SMALL = dict(hidden_size=36, num_attention_heads=6, num_key_value_heads=1)

KINDS = {
    "fsdp2_w4_nested": lambda d, k: par.fsdp2(d, k, 4, goes_on=True),
    "fsdp2_w4_flat": lambda d, k: par.fsdp2(d, k, 4, flatten=True, goes_on=True),
    "fsdp2_w3": lambda d, k: par.fsdp2(d, k, 3, goes_on=True),
    "fsdp2_w8_empty": lambda d, k: par.fsdp2(d, k, 8, config=tiny.make_config(**SMALL),
                                             goes_on=True),
    "hsdp_2x2": lambda d, k: par.fsdp2(d, k, 4, dims=(2, 2), goes_on=True),
    "whole_run": lambda d, k: par.whole_run(d, k, 2),
    "whole_run_flat": lambda d, k: par.whole_run(d, k, 2, flatten=True),
    "fsdp_tp_2x2": lambda d, k: par.fsdp_tp(d, k, (2, 2)),
    "zoo": lambda d, k: val.zoo(d, k, 2),
    "zstd": lambda d, k: sto.zstd(d, k, 4),
    "tied": lambda d, k: val.tied(d, k, 4),
    "tied_zstd": lambda d, k: val.tied(d, k, 2, save=sto.save_zstd),
    "fsdp_tp_3x2": lambda d, k: par.fsdp_tp(d, k, (3, 2)),
    "strided_2x2": lambda d, k: par.strided(d, k, (2, 2)),
    "strided_3x2": lambda d, k: par.strided(d, k, (3, 2)),
    "random_3x2": lambda d, k: par.random_boxes(d, k, (3, 2)),
    "random_2x4": lambda d, k: par.random_boxes(d, k, (2, 4)),
    "fsdp2_bf16": lambda d, k: par.fsdp2(d, k, 4, dtype=torch.bfloat16),
    "objects": lambda d, k: val.objects(d, k, 2),
    "async_save": lambda d, k: sto.async_save(d, k, 2),
    "threads3": lambda d, k: sto.threads(d, k, 2),
    "file_per_item": lambda d, k: sto.file_per_item(d, k, 2),
    "no_collectives": lambda d, k: sto.no_collectives(d, k, 2),
    "stale_resave": lambda d, k: sto.stale_resave(d, k),
    "accelerate": lambda d, k: sto.accelerate(d, k, 2),
    "rank_files": lambda d, k: files.trained(d, k, (4,)),
    "rank_files_hsdp": lambda d, k: files.trained(d, k, (2, 2)),
    "rank_files_strided": lambda d, k: files.probes(d, k, (2, 2)),
    "hf_distributed": lambda d, k: sto.transformers_distributed(d, k, 2, fsdp_size=2),
    "hf_distributed_tp": lambda d, k: sto.transformers_distributed(d, k, 4, fsdp_size=2, tp_size=2),
    "hf_sharded": lambda d, k: sto.hf_storage(d, k, 4, "sharded"),
    "hf_consolidated": lambda d, k: sto.hf_storage(d, k, 4, "consolidated"),
    "hf_plain": lambda d, k: sto.hf_storage(d, k, 1, "plain"),
    "fsdp1_sharded": lambda d, k: par.fsdp1_sharded(d, k, 4),
    "ddp": lambda d, k: par.ddp(d, k, 2),
    "ddp_module_prefix": lambda d, k: par.ddp(d, k, 2, raw=True),
    "compiled": lambda d, k: par.compiled(d, k, 2),
    "no_prefix": lambda d, k: par.no_prefix(d, k, 2),
    "columns": lambda d, k: val.columns(d, k, 4),
    "prefixes": lambda d, k: val.prefixes(d, k),
    "casts": lambda d, k: val.casts(d, k),
    "strides": lambda d, k: val.strides(d, k, 1),
    "torch_zip": lambda d, k: pt.training(d, k),
    "torch_protocol4": lambda d, k: pt.training(d, k, pickle_protocol=4),
    "torch_legacy": lambda d, k: pt.training(d, k, _use_new_zipfile_serialization=False),
    "torch_nocrc": lambda d, k: pt.training(d, k, crc=False),
    "torch_tied": lambda d, k: pt.training(d, k, tied=True),
    "torch_ddp": lambda d, k: pt.training(d, k, wrap=pt.ddp, prefix="module."),
    "torch_compiled": lambda d, k: pt.training(d, k, wrap=pt.compiled, prefix="_orig_mod."),
    "torch_legacy_ddp": lambda d, k: pt.training(d, k, wrap=pt.ddp, prefix="module.", named=True,
                                                 _use_new_zipfile_serialization=False),
    "torch_shards": lambda d, k: pt.shards(d, k),
    "torch_views": lambda d, k: pt.views(d, k),
    "torch_legacy_views": lambda d, k: pt.views(d, k, _use_new_zipfile_serialization=False),
    "torch_module": lambda d, k: pt.module(d, k),
    "torch_legacy_module": lambda d, k: pt.module(d, k, _use_new_zipfile_serialization=False),
    **kinds_fsdp1.KINDS,
    **kinds_ranks.KINDS,
}
FSDP1 = (*kinds_fsdp1.KINDS, *kinds_ranks.KINDS)  # judged by checks_fsdp1.py


# Beside these lies how the run went on (next.pt).
GO_ON = ("fsdp2_w4_nested", "fsdp2_w4_flat", "fsdp2_w3", "fsdp2_w8_empty", "hsdp_2x2", "fsdp_tp_2x2",
         "whole_run", "whole_run_flat", "torch_zip", "torch_legacy", "torch_ddp", "torch_compiled",
         "torch_legacy_ddp")


def lacks(out, kind):
    """The package without which a kind that is not there yet cannot be made, or None."""
    needed = "torch_checkpointing" if kind.startswith("rank_files") else None
    there = os.path.exists(os.path.join(out, kind, "done"))
    return needed if needed and not there and find_spec(needed) is None else None


def make(out, kind):
    """Makes one kind unless it is there; returns its folder."""
    folder = os.path.join(out, kind)
    marker = os.path.join(folder, "done")
    if os.path.exists(marker) and (kind not in GO_ON or os.path.exists(f"{folder}/next.pt")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    start = time.monotonic()
    KINDS[kind](folder, kind)
    with open(marker, "w") as text:
        text.write(f"torch {torch.__version__} transformers {transformers.__version__}\n")
    print(f"made {kind} in {time.monotonic() - start:.1f} s", flush=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?")
    parser.add_argument("--only", action="append", choices=sorted(KINDS))
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(KINDS))
        return 0
    if args.out is None:
        parser.error("OUT is missing")
    failed = []
    for kind in args.only or KINDS:
        try:
            make(os.path.abspath(args.out), kind)
        except ranks.RanksFailed as why:
            failed.append(kind)
            print(f"{kind}: failed\n{why}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
