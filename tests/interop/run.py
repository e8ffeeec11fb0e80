"""Judges the command on checkpoints that real frameworks write.

    run.py --shardwright BIN --work DIR [--ckpts DIR] [--only KIND]... [--no-bad | --bad-only] [--flips N]
           [--digest-flips N] [--native-flips N] [--full]

Prints one line per check and ends with "N passed, N failed, N skipped"; exit 1 on any failure.
"""

import argparse
import os
import shutil
import sys
import warnings

import ranks
import torch

import checks_bad
import checks_digests
import checks_fsdp1
import checks_good
import checks_layouts
import checks_maps
import checks_native
import checks_ranks
import checks_run
import checks_scales
import checks_torch
import checks_torch_out
import checks_writers
import kinds_maps
import make_checkpoints
from kit import Kit

NEEDED_BY_BAD = ("fsdp2_w4_nested", "fsdp2_bf16", "fsdp2_w8_empty", "zstd", "no_collectives",
                 "hf_sharded", "hf_plain", "torch_zip")


def generate(kit, root, kinds):
    """{kind: folder}; a kind that its framework could not write is a failure here."""
    folders = {}
    for kind in kinds:
        lacks = make_checkpoints.lacks(root, kind)
        if lacks:
            kit.skip(kind, f"{lacks} is not installed")
            continue
        try:
            folders[kind] = make_checkpoints.make(root, kind)
        except ranks.RanksFailed as why:
            kit.check(f"{kind}: written by its framework", False, f"    {why}"[-3000:])
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--ckpts", help="where generated checkpoints are kept (WORK/ckpts)")
    parser.add_argument("--only", action="append",
                        choices=sorted(make_checkpoints.KINDS) + sorted(kinds_maps.KINDS))
    parser.add_argument("--no-bad", action="store_true", help="whole checkpoints only")
    parser.add_argument("--bad-only", action="store_true", help="broken and hostile ones only")
    parser.add_argument("--full", action="store_true",
                        help="each form of FSDP1 to every target, each source to native in every way")
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--digest-flips", type=int, default=100, help="that hash and diff must find")
    parser.add_argument("--native-flips", type=int, default=300, help="in a native checkpoint")
    args = parser.parse_args()
    torch.set_num_threads(1)
    kit = Kit(args.shardwright, args.work)
    root = os.path.abspath(args.ckpts or kit.path("ckpts"))
    os.makedirs(root, exist_ok=True)
    shutil.rmtree(kit.path("out"), ignore_errors=True)
    os.makedirs(kit.path("out"))
    bad = not args.no_bad and not args.only
    kinds = [k for k in args.only or make_checkpoints.KINDS
             if k in make_checkpoints.KINDS and k not in make_checkpoints.FSDP1]
    maps = [k for k in args.only or () if k in kinds_maps.KINDS]
    folders = generate(kit, root, NEEDED_BY_BAD if args.bad_only else kinds)
    if not args.bad_only:
        for kind, folder in folders.items():
            kit.guarded(kind, checks_good.check_kind, kind, folder)
            kit.guarded(f"{kind}: model", checks_maps.check_model, kind, folder)
            kit.guarded(f"{kind}: digests", checks_digests.check_forms, kind, folder)
        if "fsdp2_w4_nested" in folders:
            kit.guarded("options", checks_good.check_options, folders["fsdp2_w4_nested"])
            kit.guarded("paths", checks_good.check_paths, folders["fsdp2_w4_nested"])
            kit.guarded("sections", checks_digests.check_sections, folders["fsdp2_w4_nested"])
    if not args.bad_only:
        if "hf_plain" in folders:
            kit.guarded("weights in FSDP2", checks_writers.check_weights, folders["hf_plain"])
        kit.guarded("resumed", checks_writers.check_dcp, folders)
        checks_layouts.check_all_found(kit, folders)
        kit.guarded("FSDP2 + TP", checks_layouts.check_tensor_parallel, folders)
        if "fsdp2_w4_nested" in folders:
            kit.guarded("DCP -> DCP", checks_writers.check_same_content, folders["fsdp2_w4_nested"])
    for kind, folder in ({} if args.bad_only else folders).items():
        kit.guarded(f"{kind} as a torch file", checks_torch_out.check_kind, kind, folder)
    if not args.bad_only:
        kit.guarded("resumed from torch files", checks_torch_out.check_resumed, folders)
        checks_run.check_runs(kit, folders)
        checks_maps.check_trained(kit, folders)
    if not args.bad_only and (maps or not args.only):
        deepseek = checks_maps.check_maps(kit, root, maps).get("map_deepseek_v3")
        if deepseek:
            kit.guarded("fp8 blocks", checks_scales.check_scales, deepseek)
            kit.guarded("further tokens", checks_scales.check_further_tokens, deepseek)
    if not args.bad_only and not args.only:
        kit.guarded("demo", checks_good.check_demo)
        kit.guarded("boxes", checks_layouts.check_boxes)
        kit.guarded("layouts", checks_layouts.check_refusals, folders["fsdp2_w4_nested"])
        kit.guarded("numbers", checks_writers.check_numbers)
        kit.guarded("opaque tensors", checks_torch_out.check_opaque)
        kit.guarded("tuples", checks_torch_out.check_tuples)
    fsdp1 = generate(kit, root, [k for k in make_checkpoints.FSDP1 if args.only is None or k in args.only])
    if not args.bad_only:
        checks_fsdp1.check_all(kit, fsdp1, args.full)
        checks_native.check_all(kit, folders, fsdp1, args.full)
    if bad:
        checks_ranks.check_all(kit, {k: checks_fsdp1.Kind(k, folder) for k, folder in fsdp1.items()})
    if bad and "fsdp2_w4_nested" in folders:
        checks_native.check_bad(kit, folders, args.native_flips)
    if bad:
        checks_digests.check_all_flips(kit, folders, args.digest_flips)
    if bad and "torch_zip" in folders:
        kit.guarded("torch files", checks_torch.check_torch, folders["torch_zip"])
    if bad and all(k in folders for k in NEEDED_BY_BAD):
        checks_bad.check_bad(kit, folders, args.flips)
    elif bad:
        kit.skip("broken and hostile checkpoints", "their good originals could not be written")
    return kit.finish()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
