"""Content digests and diff: one checkpoint in any form has one list, which convert writes on the way; any bit
that flips changes the digest of its tensor alone, and diff finds it with its coordinates."""

import json
import os
import random
import shutil
import struct

import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

import checks_torch
import damage
import digest_reference
import tiny
import truth

TARGETS = ("hf:shard=100KB", "dcp:ranks=3", "torch")
DIGITS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I64": 8, "I32": 4}


def weights_list(listing, tensors):
    """The text of the list that the definitions give for the live model."""
    digests = {}
    for key, name in listing["model_keys"].items():
        content = truth.raw_bytes(tensors[key]).numpy().tobytes()
        about = listing["tensors"][key]
        digests[name] = digest_reference.tensor_digest(about["dtype"], about["shape"], content)
    return digest_reference.list_text(digests, "weights")


def write_forms(folder, listing, tensors):
    """The same model as torch and safetensors save it: {label: path}."""
    model = {name: tensors[key].clone() for key, name in listing["model_keys"].items()}
    state = {"model": model, "step": 3}
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "hf"))
    forms = {label: os.path.join(folder, label) for label in ("zip.pt", "legacy.pt", "dcp")}
    forms["hf"] = os.path.join(folder, "hf")
    torch.save(state, forms["zip.pt"])
    torch.save(state, forms["legacy.pt"], _use_new_zipfile_serialization=False)
    dcp.save(state, checkpoint_id=forms["dcp"], no_dist=True)
    save_file(model, os.path.join(forms["hf"], "model.safetensors"), metadata={"format": "pt"})
    return forms


def check_forms(kit, kind, source):
    listing, tensors = truth.load_truth(source)
    if not listing.get("model"):
        return
    want, ckpt = weights_list(listing, tensors), f"{source}/ckpt"
    forms = {"as saved": ckpt, **write_forms(kit.path("forms"), listing, tensors)}
    wrong = [f"    {label}\n{said}" for label, path in forms.items()
             if (said := kit.run("hash", "--weights", path)).out != want]
    kit.check(f"{kind}: one list in {len(forms)} forms", not wrong, "\n".join(wrong[:3]))
    for target in TARGETS:
        # tuples of tensors in a DCP folder have no place in what takes the whole state
        drop = ("--drop", "extra.*") if kind == "objects" and target[:2] != "hf" else ()
        check_written(kit, f"{kind} -> {target}", ckpt, (target, *drop), want)
    said = kit.run("diff", ckpt, forms["hf"])
    kit.expect(f"{kind}: diff against the model's safetensors", said, 0, "are equal")


def check_written(kit, label, ckpt, target, want):
    """convert --digests: DEST fits its list, SOURCE too, and the weights in it are the same."""
    dest, listed = kit.path("out", "listed"), kit.path("out", "list")
    done = kit.run("convert", ckpt, dest, "--to", *target, "--digests", listed, "--overwrite")
    if kit.expect(f"{label}: convert --digests", done, (0, 3), "digests: root"):
        said = kit.run("hash", "--weights", dest)
        kit.check(f"{label}: the same list", said.out == want, said)
        kit.expect(f"{label}: it fits", kit.run("verify", dest, "--digests", listed), 0,
                   "as the digest list says")
    for path in (dest, listed):
        shutil.rmtree(path) if os.path.isdir(path) else os.path.lexists(path) and os.remove(path)


# ---- flips ----------------------------------------------------------------------------------------


def coordinates(shape, element):
    return [int(i) for i in numpy.unravel_index(element, shape)] if shape else []


class Dcp:
    """A DCP folder: where its tensor bytes lie, and which element each is of."""

    def __init__(self, source, dest):
        self.path = damage.copy_of(f"{source}/ckpt", dest)
        self.listing, _ = truth.load_truth(source)
        index = damage.read_index(self.path)
        self.places = []
        for key, where in index.storage_data.items():
            if key.offset is None:
                continue
            chunks = index.state_dict_metadata[key.fqn].chunks
            chunk = next(c for c in chunks if c.offsets == key.offset)
            self.places += [(*place, (key.fqn, chunk))
                            for place in damage.payloads_of(self.path, where)]

    def find(self, place, offset):
        """{name in the catalog: coordinates}, and the name in diff."""
        name, chunk = place
        dtype = getattr(torch, self.listing["tensors"][name]["dtype"])
        inner = coordinates(list(chunk.sizes), offset // dtype.itemsize)
        at = [a + b for a, b in zip(chunk.offsets, inner)]
        return {name: at}, {self.listing["model_keys"].get(name, name): at}


class Safetensors:
    def __init__(self, source, dest):
        self.path = damage.copy_of(f"{source}/ckpt", dest)
        self.places = []
        for file in sorted(os.listdir(self.path)):
            if not file.endswith(".safetensors"):
                continue
            with open(os.path.join(self.path, file), "rb") as data:
                size = struct.unpack("<Q", data.read(8))[0]
                header = json.loads(data.read(size))
            header.pop("__metadata__", None)
            for name, about in header.items():
                begin, end = about["data_offsets"]
                self.places.append((file, 8 + size + begin, end - begin, (name, about)))

    def find(self, place, offset):
        name, about = place
        found = {name: coordinates(about["shape"], offset // DIGITS[about["dtype"]])}
        return found, found


class TorchFile:
    """What differs is told by torch.load, which looks at no CRC."""

    def __init__(self, source, dest):
        shutil.rmtree(dest, ignore_errors=True)
        os.makedirs(dest)
        self.path = os.path.join(dest, "checkpoint.pt")
        shutil.copy(f"{source}/ckpt/checkpoint.pt", self.path)
        self.listing, _ = truth.load_truth(source)
        self.whole = self.load()
        self.places = [("checkpoint.pt", start, size, None)
                       for start, size, _ in checks_torch.payloads(self.path)]
        self.path = dest

    def load(self):
        file = self.path if self.path.endswith(".pt") else os.path.join(self.path, "checkpoint.pt")
        return tiny.split_state(torch.load(file, weights_only=False))[0]

    def find(self, place, offset):
        now, found = self.load(), {}
        for name, before in self.whole.items():
            if truth.same_bits(before, now[name]):
                continue
            a, b = (truth.raw_bytes(t).view(-1, t.element_size()) for t in (before, now[name]))
            element = int((a != b).any(dim=1).nonzero()[0])
            found[name] = coordinates(list(before.shape), element)
        return found, {self.listing["model_keys"].get(n, n): at for n, at in found.items()}


def digests_of(kit, path):
    said = kit.run("hash", "--json", path)
    return {t["name"]: t["digest"] for t in (said.json() or {}).get("tensors", [])}, said


def check_flips(kit, kind, form, source, count, seed):
    """`count` flips, one at a time: hash differs in what holds the bit, diff finds just that."""
    good = f"{source}/ckpt"
    bad = form(source, kit.path("flips"))
    before, _ = digests_of(kit, good)
    listed = kit.path("out", "flips.list")
    kit.run("hash", good, "--write", listed, "--overwrite")
    rng, wrong, silent = random.Random(seed), [], 0
    for file, start, size, place in rng.choices(bad.places, [p[2] for p in bad.places], k=count):
        offset, bit = rng.randrange(size), rng.randrange(8)
        path = os.path.join(bad.path, file)
        damage.flip(path, start + offset, bit)
        touched, shown = bad.find(place, offset)
        after, hashed = digests_of(kit, bad.path)
        changed = {name for name in before if before[name] != after.get(name)}
        diff = kit.run("diff", "--json", "--state", good, bad.path)
        found = {d["name_a"]: d.get("at") for d in (diff.json() or {}).get("differences", [])}
        verified = kit.run("verify", bad.path, "--digests", listed)
        if form is Safetensors:
            silent += kit.run("verify", bad.path).code == 0
        damage.flip(path, start + offset, bit)
        if (not touched or changed != set(touched) or found != shown or diff.code != 1
                or verified.code != 1 or not verified.has("digest-mismatch", *touched)):
            wrong.append(f"    bit {bit} of byte {offset} behind {start} of {file}: {touched}, hash "
                         f"{sorted(changed)}, diff {found}\n{hashed}\n{diff}\n{verified}")
    kit.check(f"{kind}: {count} flips change the digest of their tensor, diff has its coordinates, "
              f"{len(wrong)} not", not wrong, "\n".join(wrong[:2]))
    if form is Safetensors:
        kit.check(f"{kind}: verify alone sees none of them", silent == count, silent)
        kit.expect(f"{kind}: verify says what it did not check", kit.run("verify", good), 0,
                   "not checked")
    kit.expect(f"{kind}: equal again after the flips", kit.run("diff", "--state", good, bad.path), 0)


def check_all_flips(kit, folders, count):
    forms = (("fsdp2_w4_nested", Dcp), ("fsdp2_bf16", Dcp), ("torch_zip", TorchFile),
             ("hf_plain", Safetensors))
    for seed, (kind, form) in enumerate(forms):
        if kind in folders:
            kit.guarded(f"{kind}: flips", check_flips, kind, form, folders[kind],
                        max(count // len(forms), 1), seed)


def check_sections(kit, source):
    """A training checkpoint's model against an export of it, named or found."""
    dest = kit.path("out", "sections")
    kit.run("convert", f"{source}/ckpt", dest, "--to", "hf")
    ckpt = f"{source}/ckpt"
    found = kit.run("hash", "--section", "model", ckpt)
    kit.check("--section model: the list of the export", found.code == 0
              and found.out == kit.run("hash", "--weights", dest).out, found)
    kit.expect("diff --section model: equal", kit.run("diff", "--section", "model", ckpt, dest), 0)
    kit.expect("--section of another name", kit.run("hash", "--section", "ema", ckpt), 2, "ema")
