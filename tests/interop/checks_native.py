"""The native format, between real checkpoints and what loads them: written of every kind of source, read by the second
reader, equal to the truth and, written on, to what the source itself becomes; resharded, damaged and signed."""

import filecmp
import importlib.util
import os
import random
import shutil
import subprocess
import sys

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

import checks_fsdp1
import checks_good
import checks_torch_out
import damage
import native_faults
import native_recipe
import native_values
import tiny
import truth
from native_reader import Checkpoint, Refused

# kind, ranks, codec, what is written of it: each kind of source, each codec, each number of ranks, each target
COVER = (
    ("fsdp2_w4_nested", 3, "planes", ("torch", "dcp:ranks=3", "hf", "vllm:tp=2")),
    ("fsdp2_w4_flat", 16, "zstd", ("dcp:ranks=2", "ddp")),
    ("fsdp2_bf16", 1, "planes", ("hf", "torch:form=legacy")),
    ("fsdp2_w8_empty", 16, "stored", ("torch", "fsdp2:dp=4")),
    ("fsdp_tp_2x2", 3, "zstd", ("torch", "hf")),
    ("strided_3x2", 16, "planes", ("torch",)),
    ("hsdp_2x2", 1, "stored", ("dcp:ranks=4",)),
    ("torch_zip", 16, "planes", ("torch", "dcp:ranks=2", "ddp")),
    ("torch_ddp", 1, "zstd", ("torch:form=legacy", "hf")),
    ("torch_legacy", 3, "stored", ("torch",)),
    ("torch_tied", 3, "planes", ("torch", "hf")),
    ("torch_views", 1, "zstd", ("torch",)),
    ("hf_sharded", 3, "planes", ("hf", "dcp:ranks=3", "torch")),
    ("hf_distributed_tp", 16, "zstd", ("hf",)),
    ("rank_files", 3, "planes", ("torch", "fsdp2:dp=2,files=ranks,device=cpu")),
    ("zoo", 3, "planes", ("torch", "dcp:ranks=2")),
    ("objects", 1, "planes", ("torch",)),
    ("strides", 3, "zstd", ("torch",)),
    ("columns", 16, "zstd", ("torch",)),
    ("whole_run", 3, "planes", ("dcp:ranks=4", "torch")),
    ("accelerate_fsdp2", 3, "planes", ("dcp:ranks=2",)),
    ("fsdp1_sharded", 3, "stored", ("torch",)),
    ("prefixes", 1, "stored", ("torch",)),
)
FSDP1 = (
    ("fsdp1_local", 3, "planes", ("torch:optimizer=nested", "fsdp1:dp=2,mode=sharded", "hf")),
    ("fsdp1_views_w8", 16, "zstd", ("fsdp1:dp=2,mode=full",)),
    ("fsdp1_full", 1, "planes", ("fsdp1:dp=4,mode=local,files=ranks", "fsdp2:dp=2")),
    ("fsdp1_shards_flat", 16, "planes", ("dcp:ranks=3",)),
    ("fsdp1_dcp_hybrid", 1, "zstd", ("torch",)),
    ("verl_w4", 3, "planes", ("torch:optimizer=nested",)),
    ("trainer_sharded", 16, "zstd", ("torch:optimizer=nested",)),
)
CODECS = ("planes", "zstd", "stored")


class Source:
    """A checkpoint, and what the command is given with it."""

    def __init__(self, kind, folder, more=(), path=None):
        self.kind, self.folder, self.more = kind, folder, more
        self.path = path or os.path.join(folder, "ckpt")
        self.listing, self.tensors = truth.load_truth(folder)

    def assets(self):
        return self.given() if os.path.isdir(os.path.join(self.folder, "assets")) else ()

    def given(self):
        return ("--assets", os.path.join(self.folder, "assets"))


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def convert(kit, source, dest, target, *more):
    remove(dest)
    return kit.run("convert", source, dest, "--to", target, *more)


def content(tensor):
    return truth.raw_bytes(tensor).numpy().tobytes()


def oracle(kit, label, folder):
    """What the second reader makes of it, or None."""
    try:
        read = Checkpoint(folder)
    except Refused as why:
        kit.check(f"{label}: the second reader takes it", False, f"    {why}")
        return None
    kit.check(f"{label}: the second reader takes it", True)
    return read


def check_truth(kit, label, source, read):
    """Every tensor of the truth bit by bit, types and shapes."""
    aliases = source.listing.get("aliases", {})
    want = {**source.tensors, **{k: source.tensors[to] for k, to in aliases.items() if k in read.tensors}}
    numbered = any(k.startswith("optimizer.state.0.") for k in read.tensors)  # names come with a target
    wrong = [] if numbered else sorted(want.keys() - read.tensors.keys())
    wrong += [k for k in want.keys() & read.tensors.keys()
              if (truth.dtype_name(want[k].dtype), list(want[k].shape))
              != (read.tensors[k].dtype, read.tensors[k].shape) or content(want[k]) != read.data[k]]
    kit.check(f"{label}: every tensor in it is the truth", not wrong, wrong[:6])


def digests_of(kit, path, *more):
    said = kit.run("hash", path, *more)
    return said.out if said.code == 0 else said


def lines_of(listing):
    """The digests in a list, with their names."""
    return {line for line in str(listing).split("\n") if line[:1] != "#"}


def same_files(a, b):
    """What differs between two files or folders."""
    if os.path.isfile(a):
        return [] if filecmp.cmp(a, b, shallow=False) else [a]
    both = [{os.path.relpath(os.path.join(where, n), top) for where, _, names in os.walk(top) for n in names}
            for top in (a, b)]
    wrong = sorted(both[0] ^ both[1])
    return wrong + [n for n in sorted(both[0] & both[1])
                    if not filecmp.cmp(os.path.join(a, n), os.path.join(b, n), shallow=False)]


def holds_same(kit, a, b):
    """Whether two files or folders are the same to the byte, or but for which tuples are shared, hold the same."""
    if not same_files(a, b):
        return True
    if os.path.isdir(a):  # files of ranks, which torch loads in as many processes
        said = kit.run("diff", "--state", a, b)
        return said.code == 0 or said
    one, two = (torch.load(p, weights_only=False) for p in (a, b))
    return checks_torch_out.same(one, two) or checks_torch_out.where_differs(one, two)


def check_target(kit, label, source, native, target):
    """From the native checkpoint comes what comes from the source itself, to the byte."""
    direct, through = kit.path("out", "direct"), kit.path("out", "through")
    more = source.assets()
    want = convert(kit, source.path, direct, target, *source.more, *more)
    done = convert(kit, native, through, target, "--verify", *more)
    label = f"{label} -> {target}"
    if not kit.expect(f"{label}: converted", done, want.code) or want.code not in (0, 3):
        return
    tied = target == "hf" and source.listing.get("tied")  # one name of a storage is as good as the other
    if not tied:
        equal = holds_same(kit, direct, through)
        kit.check(f"{label}: as from the source itself", equal is True, f"    {equal} {same_files(direct, through)[:6]}")
    if os.path.isfile(through):
        flat, _ = flatten_state_dict(torch.load(through, weights_only=False))
        found = {k: t for k, t in flat.items() if torch.is_tensor(t)}
        missing = [k for k in source.tensors if k in found and not truth.same_bits(source.tensors[k], found[k])]
        kit.check(f"{label}: tensors are the truth", not missing, missing[:6])
    elif target == "hf" and source.listing.get("model"):
        names = {**source.listing["model_keys"], **source.listing.get("buffers", {})}
        checks_good.compare(kit, label, through, {n: source.tensors[k] for k, n in names.items()},
                            source.listing.get("tied"))
    for path in (direct, through):
        remove(path)


def check_reshard(kit, label, native, read, ranks, codec):
    """Other ranks and another codec: the same tensors, digests, state; values of ranks where they were."""
    again = kit.path("out", "resharded")
    label = f"{label} -> native:{codec},ranks={ranks}"
    if not kit.expect(f"{label}: converted", convert(kit, native, again, f"native:codec={codec},ranks={ranks}",
                                                     "--verify"), (0, 3)):
        return
    kit.check(f"{label}: the same digests", digests_of(kit, native) == digests_of(kit, again), digests_of(kit, again))
    other = oracle(kit, label, again)
    if other is not None:
        kit.check(f"{label}: the same bytes and state", other.data == read.data and other.digests == read.digests
                  and native_values.shown(other.state) == native_values.shown(read.state)
                  and other.ordered == read.ordered)
    remove(again)


def check_source(kit, source, ranks, codec, targets):
    label = f"{source.kind} -> native:{codec},ranks={ranks}"
    native = kit.path("out", "native")
    done = convert(kit, source.path, native, f"native:codec={codec},ranks={ranks}", "--verify", *source.more,
                   *source.assets())
    if not kit.expect(f"{label}: converted", done, 0):
        return
    kit.expect(f"{label}: verified", kit.run("verify", native), 0)
    shards = [n for n in os.listdir(native) if n.endswith(".sws")]
    kit.check(f"{label}: {ranks} shard files", len(shards) == ranks, shards)
    read = oracle(kit, label, native)
    if read is None:
        return
    check_truth(kit, label, source, read)
    kit.check(f"{label}: digests as the source's", lines_of(digests_of(kit, native))
              <= lines_of(digests_of(kit, source.path, *source.more)), digests_of(kit, native))
    for target in targets:
        check_target(kit, label, source, native, target)
    more = {1: 3, 3: 16, 16: 3}[ranks]
    check_reshard(kit, label, native, read, more, CODECS[(CODECS.index(codec) + 1) % 3])
    remove(native)


def sources(folders, fsdp1):
    for kind, ranks, codec, targets in COVER:
        if kind in folders:
            path = os.path.join(folders[kind], "ckpt")
            names = os.listdir(path)
            one = os.path.join(path, names[0]) if kind.startswith("torch_") and len(names) == 1 else path
            yield Source(kind, folders[kind], path=one), ranks, codec, targets
    for kind, ranks, codec, targets in FSDP1:
        if kind in fsdp1:
            known = checks_fsdp1.Kind(kind, fsdp1[kind])
            yield Source(kind, fsdp1[kind], known.shapes + known.names, known.source), ranks, codec, targets


def check_all(kit, folders, fsdp1, whole=False):
    for source, ranks, codec, targets in sources(folders, fsdp1):
        every = [(r, c) for r in (1, 3, 16) for c in CODECS] if whole else [(ranks, codec)]
        for r, c in every:
            kit.guarded(f"{source.kind}: native", check_source, source, r, c, targets)


# ---- what is wrong --------------------------------------------------------------------------------


def check_recipe(kit):
    """Put together by hand: both readers take it, and neither takes it with one thing wrong."""
    good = kit.path("out", "recipe")
    remove(good)
    native_recipe.write(good, native_recipe.files())
    read = oracle(kit, "native by hand", good)
    kit.expect("native by hand: verify", kit.run("verify", good), 0)
    said = kit.run("hash", "--json", good)
    seen = {t["name"]: t["digest"] for t in (said.json() or {}).get("tensors", [])}
    kit.check("native by hand: the same digests", read and seen == {n: d.hex() for n, d in read.digests.items()}, said)
    wrong = [f"    {label}: {said}" for label, said in native_faults.not_refused()]
    kit.check(f"native by hand: {len(native_faults.FAULTS)} faults, all refused by the second reader", not wrong,
              "\n".join(wrong[:5]))
    wrong = []
    for label, rule, edit in native_faults.FAULTS:
        bad = kit.path("out", "fault")
        remove(bad)
        native_recipe.write(bad, native_recipe.files(edit))
        # that a chunk with a right digest cannot be decoded shows where it is read
        said = kit.run("hash" if rule.startswith("COD") else "verify", bad)
        if said.code not in (1, 2, 5) and not rule.startswith("DIG") and not (rule == "NAT-3" and said.has("left.bin")):
            wrong.append(f"    {label} [{rule}]\n{said}")
    kit.check(f"native by hand: {len(native_faults.FAULTS)} faults, {len(wrong)} not found by the command", not wrong,
              "\n".join(wrong[:5]))


def check_partial(kit):
    """Terms that are not added up: both readers list them, and neither takes them for the tensor (NAT-7)."""
    def partial(what, made):
        if what == "manifest":
            made["layouts"][0]["placements"] = ["P(sum)", "R"]
        return made

    folder = kit.path("out", "partial")
    remove(folder)
    native_recipe.write(folder, native_recipe.files(partial))
    read = oracle(kit, "Partial", folder)
    kit.expect("Partial: verify", kit.run("verify", folder), 0, "not added up")
    kit.expect("Partial: other tensors", kit.run("cat", folder, "same"), 0)
    kit.expect("Partial: the tensor", kit.run("cat", folder, "w"), 2, "\"w\"")
    try:
        loaded = read is None or bool(read.load("same") and read.load("w"))
    except Refused as why:
        loaded = "NAT-7" not in str(why)
    kit.check("Partial: the second reader does not load it", not loaded)


def regions_of(folder, read):
    """(file, begin, end, name of the tensor or None, what it is): every byte of the checkpoint."""
    for name in sorted(os.listdir(folder)):
        size = os.path.getsize(os.path.join(folder, name))
        if not name.endswith(".sws"):
            yield name, 0, size, None, name
            continue
        at = 0
        for begin, end, tensor in read.extents[name]:
            if begin > at:
                yield name, at, begin, None, "head" if at == 0 else "padding"
            yield name, begin, end, tensor, "chunk"
            at = end
        yield name, at, size - 160, None, "values, index"
        yield name, size - 160, size, None, "foot"


def reported(kit, label, folder, words, wrong):
    said = kit.run("verify", "--json", folder)
    lacking = [w for w in words if w not in said.out + said.err]
    if said.code != 1 or lacking:
        wrong.append(f"    {label}: lacking {lacking}\n{said}")


def check_damage(kit, source, flips, seed=1):
    """A flip in each region and in `flips` random places, cuts at each region's ends: file and tensor are named."""
    good, bad = kit.path("out", "whole"), kit.path("out", "damaged")
    convert(kit, source.path, good, "native:codec=planes,ranks=3", *source.more)
    read = oracle(kit, "damage", good)
    if read is None:
        return
    damage.copy_of(good, bad)
    rng, wrong, regions = random.Random(seed), [], list(regions_of(good, read))
    for name, begin, end, tensor, _ in one_of_each(regions) + rng.choices(regions, [r[2] - r[1] for r in regions],
                                                                          k=flips):
        if begin == end:
            continue
        at, bit, path = rng.randrange(begin, end), rng.randrange(8), os.path.join(bad, name)
        damage.flip(path, at, bit)
        reported(kit, f"bit {bit} of byte {at} of {name}", bad, [name] + ([tensor] if tensor else []), wrong)
        damage.flip(path, at, bit)
    kit.check(f"native: flips in each region and {flips} more are reported, {len(wrong)} not", not wrong,
              "\n".join(wrong[:3]))
    wrong = []
    for name in sorted(os.listdir(good)):
        path, size = os.path.join(bad, name), os.path.getsize(os.path.join(good, name))
        for length in {0, 1, size // 2, size - 161, size - 160, size - 1} & set(range(size)):
            with open(path, "r+b") as file:
                file.truncate(length)
            reported(kit, f"{name} cut to {length}", bad, [name], wrong)
            shutil.copyfile(os.path.join(good, name), path)
    kit.check(f"native: files that are cut are reported, {len(wrong)} not", not wrong, "\n".join(wrong[:3]))
    check_files(kit, good, bad)


def one_of_each(regions):
    return list({(r[0], r[4]): r for r in regions}.values())


def check_files(kit, good, bad):
    """Files exchanged, missing, of another save, and one too many."""
    one, two = "rank-00000-of-00003.sws", "rank-00001-of-00003.sws"
    os.rename(f"{bad}/{one}", f"{bad}/x")
    os.rename(f"{bad}/{two}", f"{bad}/{one}")
    os.rename(f"{bad}/x", f"{bad}/{two}")
    kit.expect("native: shard files exchanged", kit.run("verify", bad), 1, one)
    damage.copy_of(good, bad)
    for name in (one, "tensors.swt", "state.json"):
        os.remove(f"{bad}/{name}")
        kit.expect(f"native: no {name}", kit.run("verify", bad), 1, name)
        shutil.copyfile(f"{good}/{name}", f"{bad}/{name}")
    os.remove(f"{bad}/manifest.json")
    kit.expect("native: no manifest", kit.run("verify", bad), (1, 2), "manifest.json")
    shutil.copyfile(f"{good}/manifest.json", f"{bad}/manifest.json")
    for name in ("rank-00003-of-00004.sws", "left.bin"):
        with open(f"{bad}/{name}", "wb") as file:
            file.write(b"x")
        kit.check(f"native: {name} that is not listed is said", name in kit.run("verify", bad).text)
        os.remove(f"{bad}/{name}")
    kit.expect("native: whole again", kit.run("verify", bad), 0)


# ---- signatures -----------------------------------------------------------------------------------


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def keys(folder):
    """(private, public) of P-256."""
    private, public = (os.path.join(folder, n) for n in ("key.pem", "key.pub"))
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    return private, public


def model_signing(*arguments):
    done = subprocess.run([sys.executable, "-m", "model_signing", *arguments], capture_output=True, text=True,
                          check=False)
    return done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]


def check_oms(kit, source):
    """Bundles that model_signing verifies, and the reverse; a byte that changes fails in both."""
    if importlib.util.find_spec("model_signing") is None:
        kit.skip("OMS", "model-signing is not installed")
        return
    work = kit.path("out", "oms")
    remove(work)
    os.makedirs(work)
    private, public = keys(work)
    folder, mine, theirs = (os.path.join(work, n) for n in ("model", "mine.sig", "theirs.sig"))
    convert(kit, source.path, folder, "native:ranks=2", *source.more)
    kit.expect("OMS: signed here", kit.run("sign", folder, "--key", private, "--format", "oms", "--out", mine), 0)
    by_them = ("verify", "key", folder, "--public_key", public, "--signature")
    good, said = model_signing(*by_them, mine)
    kit.check("OMS: signed here, model_signing verifies it", good, said)
    good, said = model_signing("sign", "key", folder, "--private_key", private, "--signature", theirs)
    kit.check("OMS: signed by model_signing", good, said)
    for label, bundle in (("ours", mine), ("theirs", theirs)):
        kit.expect(f"OMS: {label} verified here", kit.run("verify", folder, "--signature", bundle, "--key", public), 0)
    name = sorted(n for n in os.listdir(folder) if n.endswith(".sws"))[0]
    damage.flip(os.path.join(folder, name), 70, 3)
    for label, bundle in (("ours", mine), ("theirs", theirs)):
        kit.expect(f"OMS: {label}, a changed byte", kit.run("verify", folder, "--signature", bundle, "--key", public),
                   1, name, "signature-mismatch")
        good, said = model_signing(*by_them, bundle)
        kit.check(f"OMS: {label}, a changed byte fails there too", not good, said)


def check_signature(kit, source):
    """Our own signature holds for what was resharded, and not for what was changed."""
    work = kit.path("out", "signed")
    remove(work)
    os.makedirs(work)
    private, public = keys(work)
    folder, again, sig = (os.path.join(work, n) for n in ("model", "again", "checkpoint.sig"))
    convert(kit, source.path, folder, "native:ranks=3,codec=planes", *source.more)
    kit.expect("signature: made", kit.run("sign", folder, "--key", private, "--out", sig), 0)
    verify = ("--signature", sig, "--key", public)
    kit.expect("signature: the same files", kit.run("verify", folder, *verify), 0)
    convert(kit, folder, again, "native:ranks=16,codec=zstd")
    kit.expect("signature: resharded", kit.run("verify", again, *verify), 0)
    other = os.path.join(work, "other")
    done = convert(kit, source.path, other, "native:ranks=3,codec=planes", *source.more, "--drop", "*norm*")
    if kit.expect("signature: another checkpoint is made", done, (0, 3)):
        kit.expect("signature: of another checkpoint", kit.run("verify", other, *verify), 1, "UNTRUSTED")
    name = sorted(n for n in os.listdir(again) if n.endswith(".sws"))[0]
    damage.flip(os.path.join(again, name), 70, 3)
    kit.expect("signature: a changed byte", kit.run("verify", again, *verify), 1)


def check_bad(kit, folders, flips):
    kit.guarded("native by hand", check_recipe)
    kit.guarded("Partial", check_partial)
    source = Source("fsdp2_w4_nested", folders["fsdp2_w4_nested"])
    kit.guarded("native: damage", check_damage, source, flips)
    kit.guarded("OMS", check_oms, source)
    kit.guarded("signature", check_signature, source)
