"""Makes broken and hostile copies of a good DCP folder."""

import io
import os
import pickle
import pickletools
import shutil
import struct
import zipfile

import torch

import ranks  # noqa: F401


def copy_of(source, dest):
    shutil.rmtree(dest, ignore_errors=True)
    shutil.copytree(source, dest)
    return dest


def read_index(folder):
    with open(os.path.join(folder, ".metadata"), "rb") as file:
        return pickle.load(file)


def write_index(folder, index):
    with open(os.path.join(folder, ".metadata"), "wb") as file:
        pickle.dump(index, file)


def payloads_of(folder, where):
    """[(file, absolute offset, length)] of the stored bytes of one tensor item."""
    with open(os.path.join(folder, where.relative_path), "rb") as file:
        file.seek(where.offset)
        item = file.read(where.length)
    if getattr(where, "transform_descriptors", None):
        return [(where.relative_path, where.offset, where.length)]
    out = []
    with zipfile.ZipFile(io.BytesIO(item)) as archive:
        for entry in archive.infolist():
            if "/data/" in entry.filename and entry.file_size:
                at = entry.header_offset
                name, extra = struct.unpack_from("<HH", item, at + 26)
                out.append((where.relative_path, where.offset + at + 30 + name + extra,
                            entry.file_size))
    return out


def tensor_payloads(folder):
    """[(file, absolute offset, length, fqn)] of the stored bytes of each tensor item."""
    return [(*place, key.fqn) for key, where in read_index(folder).storage_data.items()
            if key.offset is not None for place in payloads_of(folder, where)]


def flip(path, offset, bit):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


class Evil:
    """Pickles as a call: REDUCE of any callable with any arguments."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def call_positions(data, names):
    """Positions, in the bytes, of opcodes that name or make the call of one of `names`."""
    out, before = set(), []
    for op, arg, pos in pickletools.genops(data):
        said = str(arg) if arg is not None else ""
        if op.name in ("GLOBAL", "INST") and any(n in said.split() for n in names):
            out.add(pos)
        if said in names:
            out.add(pos)
        if op.name == "STACK_GLOBAL" and any(n in before[-4:] for n in names):
            out.add(pos)
        if op.name in ("REDUCE", "NEWOBJ", "OBJ") and out:
            out.add(pos)
        if said:
            before.append(said)
    return out


def evil_index(folder, evil, names):
    """Puts the call into .metadata; the positions a reader may rightly name."""
    index = read_index(folder)
    index.storage_meta = evil
    write_index(folder, index)
    with open(os.path.join(folder, ".metadata"), "rb") as file:
        return call_positions(file.read(), names)


def evil_item(folder, evil, names, fqn, compress=None):
    """Appends an item with the call to a data file and points `fqn` at it.

    Returns (file, positions in the file or None when it is compressed)."""
    index = read_index(folder)
    key = next(k for k in index.storage_data if k.fqn == fqn)
    where = index.storage_data[key]
    saved = io.BytesIO()
    torch.save(evil, saved)
    item = compress(saved.getvalue()) if compress else saved.getvalue()
    path = os.path.join(folder, where.relative_path)
    where.offset, where.length = os.path.getsize(path), len(item)
    with open(path, "ab") as file:
        file.write(item)
    write_index(folder, index)
    if compress:
        return where.relative_path, None
    with zipfile.ZipFile(io.BytesIO(item)) as archive:
        entry = next(e for e in archive.infolist() if e.filename.endswith("/data.pkl"))
        name, extra = struct.unpack_from("<HH", item, entry.header_offset + 26)
        start = entry.header_offset + 30 + name + extra
        found = call_positions(archive.read(entry), names)
    # a reader may count from the file's start or from the pickle's, and say which
    return where.relative_path, {where.offset + start + p for p in found}


def bytes_key(folder):
    index = read_index(folder)
    return next(k.fqn for k in index.storage_data if k.offset is None)
