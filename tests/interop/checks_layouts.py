"""Layouts: boxes against torch's own rule, layouts that are found in checkpoints of every parallelism, and
folders written by a layout in another order, loaded by real FSDP2 + tensor parallelism."""

import os
import pickle
import random
import re
import shutil

import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Replicate, Shard, _StridedShard

import checks_writers
import resume

# Kinds whose pieces a layout tells, and whether a DCP folder can be compared box by box.
FOUND = ("fsdp2_w3", "fsdp2_w4_nested", "fsdp2_w4_flat", "fsdp2_w8_empty", "hsdp_2x2", "fsdp_tp_2x2",
         "fsdp_tp_3x2", "strided_2x2", "strided_3x2", "columns", "random_3x2", "random_2x4",
         "rank_files", "rank_files_hsdp", "rank_files_strided", "hf_distributed", "hf_distributed_tp")

# dp before tp, which no strided placement says: what FSDP over TP does is tp>dp.
OTHER_ORDER = """layout: 1
mesh: {dp: 1, tp: 1}
rules:
  - tensor: ["**.o_proj.weight", "**.down_proj.weight"]
    dims: [dp, tp]
  - tensor: ["**norm.weight"]
    dims: [dp]
  - tensor: "**"
    dims: [dp>tp]
"""
STANDARD = OTHER_ORDER.replace("dp>tp", "tp>dp")


def read_metadata(folder):
    with open(f"{folder}/.metadata", "rb") as file:
        return pickle.load(file)


def boxes_of(folder):
    """{key: {(offsets, sizes): rank}} of the tensors of a DCP folder; torch lists empty ones too."""
    meta = read_metadata(folder)
    boxes = {}
    for index, info in meta.storage_data.items():
        stored = meta.state_dict_metadata[index.fqn]
        if not isinstance(stored, TensorStorageMetadata):
            continue
        rank = int(re.match(r"__(\d+)_", info.relative_path).group(1))
        for chunk in stored.chunks:
            if 0 not in chunk.sizes and tuple(chunk.offsets) == tuple(index.offset or chunk.offsets):
                boxes.setdefault(index.fqn, {})[(tuple(chunk.offsets), tuple(chunk.sizes))] = rank
    return boxes


def write_layout(kit, name, text):
    path = kit.path("out", f"{name}.yaml")
    with open(path, "w") as out:
        out.write(text)
    return path


# ---- layouts that are found ------------------------------------------------------------------------

def rules_of(text):
    return sorted(text.split("layout: 1")[-1].splitlines())


def check_found(kit, kind, folder):
    """The layout of a checkpoint, used to write it again, gives the same boxes, and is found again."""
    source, dest = f"{folder}/ckpt", kit.path("out", f"found-{kind}")
    shutil.rmtree(dest, ignore_errors=True)
    found = kit.run("inspect", source, "--emit-layout")
    if not kit.expect(f"{kind}: a layout is found", found, 0, "layout: 1", "mesh: {"):
        return
    kit.check(f"{kind}: no tensor is left", "no rule describes" not in found.out, found.out[-500:])
    layout = write_layout(kit, f"found-{kind}", found.out)
    done = kit.run("convert", source, dest, "--to", "fsdp2", "--layout", layout, "--verify")
    if not kit.check(f"{kind}: written by it", done.code in (0, 3), done):  # 3: values of ranks
        return
    kit.check(f"{kind}: every rule was met", "unused-rule" not in done.text, done.text[-500:])
    again = kit.run("inspect", dest, "--emit-layout")
    same = rules_of(again.out) == rules_of(found.out) or kind.startswith("random")  # small: many fit
    kit.check(f"{kind}: found again", again.code == 0 and same, again.out)
    if os.path.exists(f"{source}/.metadata") and not kind.startswith("hf"):
        was, now = boxes_of(source), boxes_of(dest)
        wrong = [k for k in was.keys() | now.keys()
                 if was.get(k, {}).keys() != now.get(k, {}).keys()]
        kit.check(f"{kind}: the same boxes, of the optimizer too", not wrong, wrong[:6])


def check_rank_files(kit, folder):
    """What inference engines get: rank files of tensor parallelism, fused tensors as rows of parts."""
    for target, words in (("vllm:tp=2", ("mesh: {tp: 2}", "qkv_proj.weight", "parts: [48, 16, 16]")),
                          ("meta:tp=2", ("mesh: {tp: 2}", "feed_forward.w2.weight", "dims: [_, tp]"))):
        dest = kit.path("out", "found-" + target.split(":")[0])
        shutil.rmtree(dest, ignore_errors=True)
        done = kit.run("convert", f"{folder}/ckpt", dest, "--to", target, "--assets", f"{folder}/assets")
        if kit.expect(f"{target}: written", done, 0):
            kit.expect(f"{target}: its layout is found", kit.run("inspect", dest, "--emit-layout"), 0, *words)


def check_all_found(kit, folders):
    if "hf_plain" in folders:
        kit.guarded("rank files: layout", check_rank_files, folders["hf_plain"])
    for kind in FOUND:
        if kind in folders:
            kit.guarded(f"{kind}: layout", check_found, kind, folders[kind])


# ---- boxes against torch --------------------------------------------------------------------------

def placements_of(entries, axes):
    """Placements of a DTensor for `a>b` entries; None: no placements have this order."""
    made = [Replicate()] * len(axes)
    sizes = dict(axes)
    order = [name for name, _ in axes]
    strided = False
    for dim, entry in enumerate(entries):
        for i, axis in enumerate(entry):
            at, before = order.index(axis), entry[:i]
            later = [b for b in before if order.index(b) > at]
            # only what lies behind in the mesh may be split before, and then all of it
            behind = [b for b in entry if order.index(b) > at]
            if later and (later != before or set(later) != set(behind)):
                return None, strided
            factor = 1
            for b in later:
                factor *= sizes[b]
            strided = strided or bool(later)
            made[at] = _StridedShard(dim, split_factor=factor) if later else Shard(dim)
    return made, strided


def chunk_boxes(shape, entries, sizes, coordinate):
    """The box of a rank by torch.chunk itself, split after split."""
    offset, length = [], []
    for dim, size in enumerate(shape):
        index = torch.arange(size)
        for axis in entries[dim] if dim < len(entries) else ():
            parts = torch.chunk(index, sizes[axis])
            index = parts[coordinate[axis]] if coordinate[axis] < len(parts) else index[:0]
        offset.append(int(index[0]) if len(index) else 0)
        length.append(len(index))
    return tuple(offset), tuple(length)


def random_case(gen, axes):
    shape = [gen.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 24, 29)) for _ in range(gen.randint(1, 3))]
    left, entries = [name for name, _ in axes], []
    gen.shuffle(left)
    for _ in shape:
        count = gen.choice((0, 0, 1, 1, 2, 3))
        entries.append(left[:count])
        left = left[count:]
    return shape, entries


def compare_case(got, shape, entries, axes):
    """What is wrong with the boxes of one tensor, "" when nothing is; and whether DTensor was asked."""
    sizes, world = dict(axes), 1
    for _, size in axes:
        world *= size
    placements, strided = placements_of(entries, axes)
    even = all(size % max(1, torch.Size([sizes[a] for a in entry]).numel()) == 0
               for size, entry in zip(shape, entries))
    asked = placements is not None and (even or not strided)
    holders = {}
    for rank in range(world):
        rest, coordinate = rank, {}
        for name, size in reversed(axes):
            coordinate[name], rest = rest % size, rest // size
        box = chunk_boxes(shape, entries, sizes, coordinate)
        if asked:
            local, offset = _compute_local_shape_and_global_offset(
                tuple(shape), [s for _, s in axes], [coordinate[n] for n, _ in axes], placements)
            if tuple(local) != box[1] or (0 not in local and tuple(offset) != box[0]):
                return f"torch disagrees with torch.chunk: {local} {offset} {box}", asked
        if 0 not in box[1]:
            holders.setdefault(box, set()).add(rank)
    if got.keys() != holders.keys():
        return f"boxes {sorted(got)} are not {sorted(holders)}", asked
    wrong = [box for box, rank in got.items() if rank not in holders[box]]
    return (f"{wrong} lie on ranks that do not hold them" if wrong else ""), asked


def check_boxes(kit):
    """2 000 random tensors on 10 meshes, written by the command, against torch."""
    gen, tensors = random.Random(5), 200
    asked = 0
    for number in range(10):
        axes = [(name, gen.randint(1, 4)) for name in ("dp", "cp", "tp")[:1 + number % 3]]
        cases = [random_case(gen, axes) for _ in range(tensors)]
        source, dest = kit.path("out", f"boxes-{number}"), kit.path("out", f"boxes-{number}-dcp")
        os.makedirs(source, exist_ok=True)
        save_file({f"t{i}": torch.arange(torch.Size(shape).numel()).reshape(shape)
                   for i, (shape, _) in enumerate(cases)}, f"{source}/model.safetensors")
        rules = "".join(f"  - {{tensor: t{i}, dims: [{', '.join('>'.join(e) or '_' for e in entries)}]}}\n"
                        for i, (_, entries) in enumerate(cases))
        mesh = ", ".join(f"{name}: {size}" for name, size in axes)
        layout = write_layout(kit, f"boxes-{number}", f"layout: 1\nmesh: {{{mesh}}}\nrules:\n{rules}")
        done = kit.run("convert", source, dest, "--to", "dcp", "--layout", layout, "--verify")
        if not kit.expect(f"boxes on {{{mesh}}}: written", done, 0):
            continue
        boxes, wrong = boxes_of(dest), []
        for i, (shape, entries) in enumerate(cases):
            why, was_asked = compare_case(boxes[f"t{i}"], shape, entries, axes)
            asked += was_asked
            if why:
                wrong.append((shape, entries, why))
        kit.check(f"boxes on {{{mesh}}}: as torch's", not wrong, wrong[:3])
    kit.check("boxes: most of them have placements", asked > 1000, asked)


# ---- FSDP2 over tensor parallelism -------------------------------------------------------------------

def check_tensor_parallel(kit, folders):
    """Folders by layouts of two orders, loaded by FSDP2 + TP on 2 x 2: equal bit by bit, then goes on."""
    jobs, wants = [], {}
    for kind, name, text in (("fsdp_tp_2x2", "other", OTHER_ORDER), ("fsdp_tp_2x2", "standard", STANDARD),
                             ("fsdp2_w4_nested", "from rows", STANDARD)):
        if kind not in folders:
            continue
        label = f"{kind} -> fsdp2:dp=2,tp=2, {name} order"
        layout = write_layout(kit, f"tp-{name.replace(' ', '-')}", text)
        dest = kit.path("out", f"tp-{name.replace(' ', '-')}")
        shutil.rmtree(dest, ignore_errors=True)
        done = kit.run("convert", f"{folders[kind]}/ckpt", dest, "--to", "fsdp2:dp=2,tp=2",
                       "--layout", layout, "--verify")
        if not kit.expect(f"{label}: written", done, 0):
            continue
        kit.check(f"{label}: a file for each rank",
                  {f"__{r}_0.distcp" for r in range(4)} <= set(os.listdir(dest)), os.listdir(dest))
        jobs.append(resume.Job(label, dest, folders[kind], tensor_parallel=True))
        wants[label] = (f"{folders[kind]}/next.pt", kind == "fsdp_tp_2x2")
    went = resume.resume(kit, jobs, (2, 2)) if jobs else {}
    for job in jobs:
        path, exact = wants[job.label]
        checks_writers.check_resumed(kit, job.label, torch.load(path, weights_only=False),
                                     went[job.label], exact)


def check_refusals(kit, folder):
    """What tp needs, and what a layout may not say."""
    out = kit.path("out", "refused")
    source = f"{folder}/ckpt"
    kit.expect("tp without a layout", kit.run("convert", source, out, "--to", "fsdp2:dp=2,tp=2"), 2,
               "how tensors are split is not known without --layout FILE", "--emit-layout")
    cases = (("an axis that it lacks", STANDARD, "fsdp2:pp=2", ["has no axis \"pp\"", "LAY-7"]),
             ("no last rule", STANDARD.replace("\"**\"", "nothing"), "fsdp2:dp=2", ["LAY-6", "matches tensor"]),
             ("an unknown key", STANDARD.replace("dims: [dp]", "dims: [dp], spit: even"), "fsdp2", [":"]),
             ("flat", STANDARD.replace("dims: [tp>dp]", "flat: dp"), "fsdp2:dp=2", ["flat", "DCP-21"]))
    for name, text, target, words in cases:
        layout = write_layout(kit, "bad-" + name.replace(" ", "-"), text)
        done = kit.run("convert", source, out, "--to", target, "--layout", layout)
        kit.expect(f"layout with {name}", done, 2, *words)
    done = kit.run("convert", source, out, "--to", "hf", "--layout", write_layout(kit, "fine", STANDARD))
    kit.expect("a layout for whole tensors", done, 2, "--layout is for targets whose ranks hold parts")
    kit.check("refused: nothing is written", not os.path.exists(out))
