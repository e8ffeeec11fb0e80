"""Files of ranks that are damaged, exchanged, missing or too many, and flat parameters of which nothing tells:
the right result, or a refusal that names what is wrong; never something else."""

import os
import random
import shutil
import zipfile

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed._shard.sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
from torch.distributed._shard.sharded_tensor.shard import Shard as TensorShard
from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

import checks_good
import ranks

RANKS = 101


def copy_of(kit, kind, name):
    """A folder of its own with the files of a kind."""
    path = kit.path("out", name)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(kind.source, path)
    return path


def file_of(path, part, rank):
    return next(os.path.join(path, n) for n in sorted(os.listdir(path))
                if n.startswith(part) and n.endswith((f"rank{rank}.pt", f"rank_{rank}.pt")))


def exchange(path, part, a, b):
    one, two = file_of(path, part, a), file_of(path, part, b)
    os.rename(one, one + ".x")
    os.rename(two, one)
    os.rename(one + ".x", two)


def change(path, choose, edit):
    """Rewrites the first record of an archive of torch.save that `choose` accepts, with a right CRC."""
    with zipfile.ZipFile(path) as archive:
        records = [(e.filename, archive.read(e)) for e in archive.infolist()]
    name = next(n for n, data in records if "/data/" in n and choose(data))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for n, data in records:
            archive.writestr(n, edit(data) if n == name else data)
    return name


def convert(kit, kind, source, dest, *options, shapes=True):
    shutil.rmtree(dest, ignore_errors=True)
    return kit.run("convert", source, dest, "--to", "hf", *(kind.shapes if shapes else ()), *options)


def refused(kit, label, kind, source, *words):
    """convert refuses and leaves nothing; verify finds it, too."""
    dest = kit.path("out", "refused")
    kit.expect(f"{label}: refused", convert(kit, kind, source, dest), 2, *words)
    kit.check(f"{label}: nothing is written", not os.path.exists(dest))
    kit.expect(f"{label}: verify finds it", kit.run("verify", source, *kind.shapes), 1, *words)


def right_or_refused(kit, label, kind, source, *words):
    dest = kit.path("out", "right")
    done = convert(kit, kind, source, dest)
    if done.code != 0:
        kit.expect(f"{label}: right, or refused by name", done, 2, *words)
        return
    checks_good.compare(kit, f"{label}: right", dest, kind.weights(), kind.listing["tied"])


def check_files(kit, kind):
    """What happens to folders of files of ranks."""
    path = copy_of(kit, kind, "ranks")
    exchange(path, "model", 0, 1)
    right_or_refused(kit, f"{kind.name}, two ranks exchanged", kind, path, "rank")
    path = copy_of(kit, kind, "ranks")
    os.remove(file_of(path, "model", 1))
    refused(kit, f"{kind.name}, a rank missing", kind, path, "rank", "1")
    path = copy_of(kit, kind, "ranks")
    shutil.copy(file_of(path, "model", 0), file_of(path, "model", 1))
    refused(kit, f"{kind.name}, a rank twice", kind, path, "rank")
    path = copy_of(kit, kind, "ranks")
    os.remove(file_of(path, "optim", 1))
    refused(kit, f"{kind.name}, an optimizer's rank missing", kind, path, "optim")
    path = copy_of(kit, kind, "ranks")
    change(file_of(path, "optim", 1), lambda data: len(data) == 4, lambda data: torch.tensor(7.).numpy().tobytes())
    said = kit.run("verify", path, *kind.shapes)
    kit.expect(f"{kind.name}, a rank of another step: found", said, 1, "step", "rank")
    dest = kit.path("out", "other-step")
    shutil.rmtree(dest, ignore_errors=True)
    done = kit.run("convert", path, dest, "--to", "dcp:ranks=1", *kind.shapes)
    kit.expect(f"{kind.name}, a rank of another step: refused", done, 2, "step")
    path = copy_of(kit, kind, "ranks")
    with open(file_of(path, "model", 1), "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 100)
    refused(kit, f"{kind.name}, a file cut", kind, path, "model")


def check_worlds(kit, kind):
    """A file that another, larger world left behind is named, and is no part of what is made."""
    path, label = copy_of(kit, kind, "ranks"), f"{kind.name}, two worlds"
    shutil.copy(file_of(path, "model", 0), f"{path}/model_world_size_8_rank_7.pt")
    kit.expect(f"{label}: said", kit.run("verify", path, *kind.shapes), (0, 1), "model_world_size_8_rank_7.pt")
    right_or_refused(kit, label, kind, path, "model_world_size_8_rank_7.pt")


def check_copies(kit, kind):
    """Plain tensors and replicas that differ are told with tensor and ranks, never joined."""
    path = copy_of(kit, kind, "ranks")
    half, other = (torch.tensor([x]).numpy().tobytes() for x in (0.5, 0.75))
    change(file_of(path, "model", 2), lambda data: data == half, lambda data: other)
    refused(kit, f"{kind.name}, a buffer of another value", kind, path, "model.scale",
            "rank_2", "replicas-differ")
    if len(kind.run.dims) < 2:
        return
    path = copy_of(kit, kind, "ranks")

    def edited(data):
        return data[:-4] + torch.tensor(9.).numpy().tobytes()
    change(file_of(path, "model", 2), lambda data: len(data) > 20000, edited)
    said = kit.run("verify", "--level", "values", path)
    kit.expect(f"{kind.name}, a replica of another value: found", said, 1, "replica", "embed_tokens", "rank")


def check_shapes(kit, kinds):
    """Of flat parameters: without shapes, without their order, with those of another model."""
    kind = kinds["fsdp1_local"]
    dest = kit.path("out", "unshaped")
    shutil.rmtree(dest, ignore_errors=True)
    done = convert(kit, kind, kind.source, dest, shapes=False)
    kit.expect("flat parameters without shapes: refused", done, 2, "_flat_param", "--shapes")
    kit.check("flat parameters without shapes: nothing is written", not os.path.exists(dest))
    kit.expect("flat parameters without shapes: verify says so", kit.run("verify", kind.source), (0, 1),
               "flat-parameters", "--shapes")
    kit.expect("flat parameters without shapes: inspect", kit.run("inspect", kind.source), 0, "_flat_param")
    unordered = kit.path("out", "unordered.safetensors")
    save_file(torch.load(f"{kind.folder}/assets/shapes.pt", weights_only=True), unordered)
    done = kit.run("convert", kind.source, dest, "--to", "hf", "--shapes", unordered)
    kit.expect("shapes without order: refused", done, 2, "order")
    unordered = kit.path("out", "unordered.yaml")
    with open(unordered, "w") as text:
        text.write("shapes: 1\nparameters:\n  a.weight: [3, 3]\n  b.weight: [9]\n")
    done = kit.run("convert", kind.source, dest, "--to", "hf", "--shapes", unordered)
    kit.expect("shapes as a mapping: refused", done, 2, "order", "unordered.yaml")
    for name, shapes in (("fsdp1_local", "fsdp1_local_w8"), ("fsdp1_views", "fsdp1_local_w8"),
                         ("fsdp1_local_w8", "fsdp1_local"), ("fsdp1_local_dcp_root", "fsdp1_local_w8")):
        other = f"{kinds[shapes].folder}/assets/shapes.pt"
        done = kit.run("convert", kinds[name].source, dest, "--to", "hf", "--shapes", other)
        kit.expect(f"{name} with shapes of another model: refused", done, 2, "flat parameter of module", shapes, "FS-8")
    kind = kinds["fsdp1_views"]
    state = torch.load(f"{kind.folder}/assets/shapes.pt", weights_only=True)
    names = list(state)
    a, b = (next(i for i, n in enumerate(names) if n.endswith(f"layers.1.{end}.weight"))
            for end in ("self_attn.k_proj", "self_attn.v_proj"))
    names[a], names[b] = names[b], names[a]
    torch.save({n: state[n] for n in names}, kit.path("out", "exchanged.pt"))
    done = kit.run("convert", kind.source, dest, "--to", "hf", "--shapes", kit.path("out", "exchanged.pt"))
    if kit.expect("order that the views tell better", done, 0, "places that are recorded"):
        checks_good.compare(kit, "order that the views tell better", dest, kind.weights())


def rows(rank, whole):
    share = -(-len(whole) // RANKS)
    return min(rank * share, len(whole)), min((rank + 1) * share, len(whole))


def as_dtensor(rank, whole):
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",))
    lo, hi = rows(rank, whole)
    return DTensor.from_local(whole[lo:hi].clone(), mesh, (Shard(0),), run_check=False, shape=whole.shape,
                              stride=whole.stride())


def as_sharded_tensor(rank, whole):
    boxes = [(r, *rows(r, whole)) for r in range(RANKS)]
    shards = [ShardMetadata([lo, 0], [hi - lo, whole.shape[1]], f"rank:{r}/cpu") for r, lo, hi in boxes if lo < hi]
    about = ShardedTensorMetadata(shards, whole.shape, TensorProperties(dtype=whole.dtype))
    lo, hi = rows(rank, whole)
    mine = [TensorShard(whole[lo:hi].clone(), s) for s in shards if s.shard_offsets[0] == lo and lo < hi]
    return ShardedTensor._init_from_local_shards_and_global_metadata(mine, about)


def _write_many(rank, world, folder, make, name):
    """One process plays all ranks, in any order: that is the order in which the folder lists them."""
    dist.destroy_process_group()
    order = list(range(RANKS))
    random.Random(8).shuffle(order)
    for number in order:
        dist.init_process_group("fake", store=FakeStore(), rank=number, world_size=RANKS)
        state = {f"w{n}": make(number, torch.arange(n * 2.).reshape(n, 2)) for n in (RANKS, 300, 64)}
        torch.save({**state, "plain": torch.tensor(2.5)}, f"{folder}/{name.format(number)}")
        dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}.store", rank=0, world_size=1)


def check_many(kit):
    """101 ranks, more than two digits and than one digit of their names."""
    want = {f"w{n}": torch.arange(n * 2.).reshape(n, 2) for n in (RANKS, 300, 64)}
    want["plain"] = torch.tensor(2.5)
    for label, make, name in (("DTensors", as_dtensor, "model_world_size_101_rank_{}.pt"),
                              ("ShardedTensors", as_sharded_tensor, "weights-rank{:02d}.pt")):
        folder = kit.path("out", f"many-{label}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        ranks.run_ranks(1, _write_many, folder, make, name)
        dest = kit.path("out", f"many-{label}-hf")
        shutil.rmtree(dest, ignore_errors=True)
        if kit.expect(f"101 ranks of {label}", kit.run("convert", folder, dest, "--to", "hf"), 0):
            checks_good.compare(kit, f"101 ranks of {label}", dest, want)


def check_all(kit, kinds):
    for name in ("fsdp1_local_w3", "fsdp1_shards", "verl_w4"):
        kit.guarded(name, check_files, kinds[name])
        kit.guarded(name, check_worlds, kinds[name])
    for name in ("verl_w4", "verl_hsdp"):
        kit.guarded(name, check_copies, kinds[name])
    kit.guarded("shapes", check_shapes, kinds)
    kit.guarded("101 ranks", check_many)
