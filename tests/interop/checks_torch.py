"""Files of torch.save: flips, missing data, hostile content, and where they are taken for one."""

import os
import random
import shutil
import zipfile

import torch

import damage
import kinds_torch
import truth


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


def payloads(path):
    """(start, size, record) of every storage of an archive."""
    found = []
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for entry in archive.infolist():
            if "/data/" not in entry.filename or entry.file_size == 0:
                continue
            file.seek(entry.header_offset + 26)
            head = file.read(4)
            names = int.from_bytes(head[:2], "little") + int.from_bytes(head[2:], "little")
            found.append((entry.header_offset + 30 + names, entry.file_size, entry.filename))
    return found


def check_flips(kit, source, count=200):
    path = kit.path("flips.pt")
    shutil.copy(f"{source}/ckpt/checkpoint.pt", path)
    places = payloads(path)
    rng, missed, shown = random.Random(4), 0, []
    for start, size, record in rng.choices(places, [p[1] for p in places], k=count):
        offset, bit = start + rng.randrange(size), rng.randrange(8)
        damage.flip(path, offset, bit)
        said = kit.run("verify", path)
        damage.flip(path, offset, bit)
        if said.code != 1 or not said.has("flips.pt", "CRC-32"):
            missed += 1
            shown.append(f"    bit {bit} of byte {offset} ({record})\n{said}")
    kit.check(f"torch file: all of {count} flips found, {missed} missed", missed == 0,
              "\n".join(shown[:3]))
    whole = os.path.getsize(path)
    odd = []
    for _ in range(count):
        offset, bit = rng.randrange(whole), rng.randrange(8)
        damage.flip(path, offset, bit)
        said = kit.run("verify", path)
        damage.flip(path, offset, bit)
        if said.code not in (0, 1, 2):
            odd.append(f"    bit {bit} of byte {offset}\n{said}")
    kit.check(f"torch file: {count} flips anywhere end well", not odd, "\n".join(odd[:3]))
    kit.expect("torch file: whole again after the flips", kit.run("verify", path), 0)


def check_torch(kit, source):
    check_flips(kit, source)
    path = kit.path("skipped.pt")
    kinds_torch.skipped(path)
    kit.expect("torch file without its data: said", kit.run("verify", path), 0, "skip_data")
    path = kit.path("evil.pt")
    for form in (True, False):
        name = "zip" if form else "stream"
        torch.save({"w": torch.ones(3), "x": Evil()}, path, _use_new_zipfile_serialization=form)
        kit.expect(f"hostile {name}: verify", kit.run("verify", path), 5, "system")
        dest = kit.path("out", f"evil-{name}")
        kit.expect(f"hostile {name}: convert", kit.run("convert", path, dest, "--to", "hf"), 5,
                   "system")
        kit.check(f"hostile {name}: nothing left", not os.path.exists(dest))
        done = kit.run("convert", path, dest, "--to", "hf", "--drop-unsafe")
        kit.expect(f"hostile {name}: --drop-unsafe", done, 0)
    path = kit.path("script.pt")
    torch.jit.script(torch.nn.Linear(2, 2)).save(path)
    kit.expect("TorchScript: refused by name", kit.run("verify", path), 2, "TorchScript")
    both = kit.path("both")
    shutil.rmtree(both, ignore_errors=True)
    shutil.copytree(f"{source}/ckpt", both)
    torch.save({"w": torch.ones(3)}, f"{both}/other.pt")
    kit.expect("two files in a folder: both named", kit.run("convert", both,
                                                                kit.path("out", "both"),
                                                                "--to", "hf"), 2,
               "checkpoint.pt", "other.pt")
    kit.expect("one of them by its name", kit.run("verify", f"{both}/other.pt"), 0)
    cut = kit.path("cut.pt")
    for size in (0, 3, 60, 1000, os.path.getsize(f"{source}/ckpt/checkpoint.pt") - 1):
        shutil.copy(f"{source}/ckpt/checkpoint.pt", cut)
        os.truncate(cut, size)
        kit.expect(f"cut to {size} bytes: found", kit.run("verify", cut), 1, "cut.pt")
    listing, tensors = truth.load_truth(source)
    key = next(iter(listing["model_keys"]))
    kit.check("a tensor of a file by cat", kit.run("cat", "--raw", f"{source}/ckpt/checkpoint.pt",
                                                   key).raw
              == truth.raw_bytes(tensors[key]).numpy().tobytes())
