"""Broken and hostile checkpoints: found, named, refused; nothing runs, nothing is left behind."""

import builtins
import json
import os
import random
import shutil
import subprocess

import torch
import zstandard

import checks_good
import damage
import truth


def convert_refused(kit, label, folder, code, *words):
    dest = kit.path("out", "refused")
    shutil.rmtree(dest, ignore_errors=True)
    done = kit.run("convert", folder, dest, "--to", "hf")
    kit.expect(f"{label}: convert", done, code, *words)
    kit.check(f"{label}: nothing under the final name", not os.path.exists(dest))


def check_flips(kit, label, source, count, seed):
    """Single-bit flips in the stored bytes of tensors, one at a time, each undone."""
    folder = damage.copy_of(source, kit.path("flips"))
    places = damage.tensor_payloads(folder)
    _, tensors = truth.load_truth(os.path.dirname(source))
    whole = {n: truth.raw_bytes(t).numpy().tobytes() for n, t in tensors.items()}
    rng = random.Random(seed)
    missed, unnamed, shown = 0, 0, []
    for file, start, length, fqn in rng.choices(places, [p[2] for p in places], k=count):
        offset, bit = start + rng.randrange(length), rng.randrange(8)
        path = os.path.join(folder, file)
        damage.flip(path, offset, bit)
        said = kit.run("verify", "--json", folder)
        # a compressed frame also holds the archive's padding, and bits that no decoder looks at
        harmless = (label == "zstd" and said.code == 0
                    and kit.run("cat", "--raw", folder, fqn).raw == whole[fqn])
        damage.flip(path, offset, bit)
        found = (said.json() or {}).get("findings", [])
        named = any(f["severity"] == "defect" and f["file"] == file and f["tensor"] == fqn
                    for f in found)
        lost, mute = said.code != 1, not (named and said.has(file, fqn))
        if harmless or not (lost or mute):
            continue
        missed, unnamed = missed + lost, unnamed + mute
        if len(shown) < 4:
            shown.append(f"    bit {bit} of byte {offset} of {file} ({fqn})\n{said}")
    kit.check(f"{label}: all of {count} flips found, {missed} missed", missed == 0,
              "\n".join(shown))
    kit.check(f"{label}: file and tensor named each time, {unnamed} not", unnamed == 0)
    kit.expect(f"{label}: whole again after the flips", kit.run("verify", folder), 0)


def check_any_flips(kit, source, count=300):
    """Flips anywhere: reported, or harmless (the conversion is still right); never a crash."""
    folder = damage.copy_of(source, kit.path("flips"))
    listing, tensors = truth.load_truth(os.path.dirname(source))
    want = checks_good.wanted_names(listing, tensors)
    rng = random.Random(9)
    files = sorted(n for n in os.listdir(folder) if n.endswith(".distcp"))
    odd, wrong, silent = [], [], 0
    for _ in range(count):
        file = rng.choice(files)
        path = os.path.join(folder, file)
        offset, bit = rng.randrange(os.path.getsize(path)), rng.randrange(8)
        damage.flip(path, offset, bit)
        said = kit.run("verify", folder)
        if said.code not in (0, 1, 2, 5):
            odd.append(f"    bit {bit} of byte {offset} of {file}\n{said}")
        if said.code == 0:
            silent += 1
            dest = kit.path("out", "flipped")
            done = kit.run("convert", folder, dest, "--to", "hf", "--overwrite")
            found = checks_good.read_hf(dest)[0] if done.code == 0 else {}
            if done.code == 0 and any(n not in found or not truth.same_bits(found[n], t)
                                      for n, t in want.items()):
                wrong.append(f"    bit {bit} of byte {offset} of {file}\n{said}")
        damage.flip(path, offset, bit)
    kit.check(f"{count} flips anywhere in data files: found or refused", not odd, "".join(odd[:3]))
    kit.check(f"{silent} of them not reported, all harmless", not wrong, "".join(wrong[:3]))


def check_index_flips(kit, source, count=300):
    """Nothing guards .metadata with a checksum: a flip may pass, but never ends in a crash."""
    folder = damage.copy_of(source, kit.path("flips"))
    path = os.path.join(folder, ".metadata")
    rng = random.Random(10)
    odd = []
    for _ in range(count):
        offset, bit = rng.randrange(os.path.getsize(path)), rng.randrange(8)
        damage.flip(path, offset, bit)
        said = kit.run("verify", folder)
        damage.flip(path, offset, bit)
        if said.code not in (0, 1, 2, 5):
            odd.append(f"    bit {bit} of byte {offset}\n{said}\n")
    kit.check(f"{count} flips in .metadata: an answer to each", not odd, "".join(odd[:3]))


def check_flip_convert(kit, source):
    folder = damage.copy_of(source, kit.path("flips"))
    payloads = [p for p in damage.tensor_payloads(folder) if p[3].startswith("model.")]
    file, start, length, fqn = payloads[len(payloads) // 2]
    damage.flip(os.path.join(folder, file), start + length // 2, 3)
    convert_refused(kit, "a flipped bit", folder, 2, file, fqn)


def evil_calls(marker):
    """[(label, Evil, names of which the message must hold one)]"""
    touch = f"touch {marker}"
    write = f"open({marker!r}, 'w').close()"
    return [
        ("os.system", damage.Evil(os.system, touch), ["system"]),
        ("builtins.eval", damage.Evil(builtins.eval, write), ["eval"]),
        ("builtins.exec", damage.Evil(builtins.exec, write), ["exec"]),
        ("subprocess.Popen", damage.Evil(subprocess.Popen, ["touch", marker]), ["Popen"]),
        ("os.popen", damage.Evil(os.popen, touch), ["popen"]),
        ("builtins.getattr", damage.Evil(getattr, os, "system"), ["getattr", "import_module"]),
        ("builtins.open", damage.Evil(open, marker, "w"), ["open"]),
    ]


def expect_unsafe(kit, label, folder, marker, file, names, positions):
    said = kit.run("verify", folder)
    kit.expect(f"{label}: verify says unsafe, and where", said, 5, file)
    kit.check(f"{label}: the global is named", any(n in said.text for n in names), said)
    if positions is not None:
        near = {p + d for p in positions for d in (0, 1)}
        kit.check(f"{label}: the offset is right", bool(said.numbers() & near),
                  f"    one of {sorted(positions)}\n{said}")
    convert_refused(kit, label, folder, 5, file)
    kit.run("inspect", folder)
    kit.check(f"{label}: nothing ran", not os.path.exists(marker))


def check_evil(kit, source, zstd_source):
    marker = kit.path("it-ran")
    for label, evil, names in evil_calls(marker):
        if label == "builtins.getattr":  # a module does not pickle: take what does
            evil = damage.Evil(getattr, damage.Evil(__import__, "os"), "system")
            names = ["getattr", "__import__"]
        folder = damage.copy_of(source, kit.path("evil"))
        found = damage.evil_index(folder, evil, names)
        expect_unsafe(kit, f"{label} in .metadata", folder, marker, ".metadata", names, found)
        folder = damage.copy_of(source, kit.path("evil"))
        file, found = damage.evil_item(folder, evil, names, damage.bytes_key(folder))
        expect_unsafe(kit, f"{label} in an object", folder, marker, file, names, found)
    evil, names = damage.Evil(os.system, f"touch {marker}"), ["system"]
    folder = damage.copy_of(source, kit.path("evil"))
    file, found = damage.evil_item(folder, evil, names, "model.model.norm.weight")
    expect_unsafe(kit, "os.system in a tensor's item", folder, marker, file, names, found)
    folder = damage.copy_of(source, kit.path("evil"))
    file, found = damage.evil_item(folder, {"a": [1, (evil, torch.ones(2))]}, names,
                                   damage.bytes_key(folder))
    expect_unsafe(kit, "os.system deep in an object", folder, marker, file, names, found)
    folder = damage.copy_of(zstd_source, kit.path("evil"))
    file, _ = damage.evil_item(folder, evil, names, damage.bytes_key(folder),
                               zstandard.ZstdCompressor().compress)
    expect_unsafe(kit, "os.system in a zstd item", folder, marker, file, names, None)


def check_missing(kit, source):
    for name in ("__1_0.distcp", ".metadata"):
        folder = damage.copy_of(source, kit.path("broken"))
        os.remove(os.path.join(folder, name))
        kit.expect(f"{name} missing: verify", kit.run("verify", folder), 1, name)
        convert_refused(kit, f"{name} missing", folder, 2, name)


def cut_lengths(size):
    return sorted({0, 1, 30, size // 3, size // 2, size - 100, size - 1})


def check_cut(kit, source):
    for name in ("__1_0.distcp", ".metadata"):
        size = os.path.getsize(os.path.join(source, name))
        for length in cut_lengths(size):
            folder = damage.copy_of(source, kit.path("broken"))
            os.truncate(os.path.join(folder, name), length)
            label = f"{name} cut to {length} of {size}"
            kit.expect(f"{label}: verify", kit.run("verify", folder), 1, name)
            convert_refused(kit, label, folder, 2, name)


def check_replaced(kit, source):
    """Something else under the name of a data file."""
    pointer = ("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64
               + "\nsize 424236\n")
    for label, content in (("an LFS pointer", pointer), ("HTML", "<!DOCTYPE html><html>404</html>"),
                           ("zeros", "\0" * 500_000)):
        folder = damage.copy_of(source, kit.path("broken"))
        with open(os.path.join(folder, "__1_0.distcp"), "w") as file:
            file.write(content)
        label = f"{label} in place of __1_0.distcp"
        kit.expect(f"{label}: verify", kit.run("verify", folder), 1, "__1_0.distcp")
        convert_refused(kit, label, folder, 2, "__1_0.distcp")
    folder = damage.copy_of(source, kit.path("broken"))
    one, two = (os.path.join(folder, f"__{r}_0.distcp") for r in (1, 2))
    os.rename(one, one + "x")
    os.rename(two, one)
    os.rename(one + "x", two)
    said = kit.run("verify", folder)
    kit.check("two ranks' files swapped: verify knows or cannot know", said.code in (0, 1), said)


def check_index_faults(kit, source):
    """Faults in the index itself, written with torch's own classes."""
    name = "model.model.norm.weight"

    def fault(label, change, verify=1, refuse=2, words=()):
        folder = damage.copy_of(source, kit.path("broken"))
        index = damage.read_index(folder)
        change(index, [k for k in index.storage_data if k.fqn == name])
        damage.write_index(folder, index)
        kit.expect(f"{label}: verify", kit.run("verify", folder), verify, *words)
        convert_refused(kit, label, folder, refuse, *words)

    def lose_chunk(index, keys):
        index.state_dict_metadata[name].chunks.pop(1)
        del index.storage_data[keys[1]]

    def overlap(index, keys):
        chunks = index.state_dict_metadata[name].chunks
        where = index.storage_data.pop(keys[1])
        chunks[1].offsets = torch.Size([chunks[1].offsets[0] - 1])
        index.storage_data[type(keys[1])(name, chunks[1].offsets, 1)] = where

    def outside(index, keys):
        index.state_dict_metadata[name].size = torch.Size([7])

    def unplaced(index, keys):
        del index.storage_data[keys[0]]

    def far(index, keys):
        index.storage_data[keys[0]].offset = 1 << 40

    def negative(index, keys):
        index.storage_data[keys[0]].offset = -8

    def shifted(index, keys):
        index.storage_data[keys[0]].offset += 64

    def escape(index, keys):
        index.storage_data[keys[0]].relative_path = "../../etc/passwd"

    def absolute(index, keys):
        index.storage_data[keys[0]].relative_path = "/etc/passwd"

    def unknown_transform(index, keys):
        index.storage_data[keys[0]].transform_descriptors = ["stream.rot13/1"]

    fault("a chunk missing from the index", lose_chunk, words=(name,))
    fault("two chunks overlap", overlap, words=(name,))
    fault("chunks outside the tensor", outside, words=(name,))
    fault("a chunk without a place", unplaced, words=(name,))
    fault("an offset past the file", far, words=(name,))
    fault("a negative offset", negative)
    fault("an offset inside another item", shifted, words=(name,))
    fault("a path that escapes", escape, verify=5, refuse=5)
    fault("an absolute path", absolute, verify=5, refuse=5)
    fault("an unknown transform", unknown_transform, verify=(1, 2), words=("stream.rot13/1",))


def check_hf(kit, sharded, plain):
    """Folders of safetensors: a file missing, cut, or not what the index says."""

    def fault(label, source, change, file, words=()):
        folder = damage.copy_of(source, kit.path("broken"))
        change(os.path.join(folder, file))
        kit.expect(f"{label}: verify", kit.run("verify", folder), 1, *words)
        convert_refused(kit, label, folder, 2, *words)

    def cut(length):
        return lambda path: os.truncate(path, length)

    def listed_elsewhere(path):
        with open(path) as text:
            index = json.load(text)
        index["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors"
        index["weight_map"]["no.such"] = "model-00002-of-00003.safetensors"
        with open(path, "w") as text:
            json.dump(index, text)

    shard = "shard-00002-model-00001-of-00003.safetensors"
    second = "model-00002-of-00003.safetensors"
    fault("a rank's shard missing", sharded, os.remove, shard, ("model.embed_tokens.weight",))
    fault("a rank's shard cut", sharded, cut(20_000), shard, (shard,))
    fault("a numbered file missing", plain, os.remove, second, (second,))
    for length in (0, 7, 100, 60_000):
        fault(f"a numbered file cut to {length}", plain, cut(length), second, (second,))
    fault("the index lists what is not there", plain, listed_elsewhere,
          "model.safetensors.index.json", ("no.such",))


def check_rank_index(kit, source):
    """One index per rank: each is needed."""
    for name in ("__1.metadata", "__0.metadata", "__1_0.distcp"):
        folder = damage.copy_of(source, kit.path("broken"))
        os.remove(os.path.join(folder, name))
        kit.expect(f"{name} of one index per rank missing: verify", kit.run("verify", folder), 1)
        convert_refused(kit, f"{name} of one index per rank missing", folder, 2)


def check_dtype_lie(kit, source):
    """The index says another dtype than the item's pickle."""
    name = "model.model.norm.weight"
    folder = damage.copy_of(source, kit.path("broken"))
    index = damage.read_index(folder)
    index.state_dict_metadata[name].properties.dtype = torch.int32
    damage.write_index(folder, index)
    kit.expect("the index lies about a dtype: verify", kit.run("verify", folder), 1, name)
    convert_refused(kit, "the index lies about a dtype", folder, 2, name)


def check_bad(kit, folders, flips):
    good = os.path.join(folders["fsdp2_w4_nested"], "ckpt")
    zstd = os.path.join(folders["zstd"], "ckpt")
    for check in (check_missing, check_cut, check_replaced, check_index_faults, check_dtype_lie,
                  check_flip_convert, check_any_flips, check_index_flips):
        kit.guarded(check.__name__, check, good)
    kit.guarded("check_evil", check_evil, good, zstd)
    kit.guarded("check_hf", check_hf, *(os.path.join(folders[k], "ckpt")
                                        for k in ("hf_sharded", "hf_plain")))
    kit.guarded("check_rank_index", check_rank_index,
                os.path.join(folders["no_collectives"], "ckpt"))
    fifth = flips // 5
    for seed, (kind, count) in enumerate((("fsdp2_w4_nested", flips - 2 * fifth),
                                          ("fsdp2_bf16", fifth), ("fsdp2_w8_empty", fifth))):
        kit.guarded(kind, check_flips, kind, os.path.join(folders[kind], "ckpt"), count, seed)
    kit.guarded("zstd", check_flips, "zstd", zstd, max(flips // 5, 1), 4)
