"""Checkpoints and damage for the tests, without torch: its pickles are read and written through
stand-ins of its classes, which are made as they are named and never do anything.
"""
import collections
import copyreg
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import sys
import types
import zipfile

SAFE = {"builtins", "collections", "copyreg", "_codecs"}


# ---- stand-ins ------------------------------------------------------------------------------------


class Stub:
    """An object of a class that is not here: what it was made of, and its state."""

    def __new__(cls, *args):
        self = object.__new__(cls)
        self.args, self.called, self.state = args, False, None
        return self

    def __init__(self, *args):
        self.called = True

    def __setstate__(self, state):
        self.state = state

    def __reduce__(self):
        make = (type(self), self.args) if self.called else (copyreg.__newobj__,
                                                            (type(self), *self.args))
        return make if self.state is None else (*make, self.state)


def stub(module, name):
    """The class of this name, which pickles as a global of the module."""
    for end in [i for i, c in enumerate(module + ".") if c == "."]:
        sys.modules.setdefault(module[:end], types.ModuleType(module[:end]))
    found = getattr(sys.modules[module], name, None)
    if found is None:
        found = type(name, (Stub,), {"__module__": module, "__qualname__": name})
        setattr(sys.modules[module], name, found)
    return found


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return super().find_class(module, name) if module in SAFE else stub(module, name)


# ---- torch.save -----------------------------------------------------------------------------------


class Storage:
    def __init__(self, kind, size, data):
        self.kind, self.size, self.data = kind, size, data

    def __len__(self):
        return len(self.data) // self.size


class Tensor:
    """A dense tensor as torch pickles one."""

    def __init__(self, storage, shape, offset=0, stride=None):
        self.storage, self.shape, self.offset, self.stride = storage, shape, offset, stride

    def __reduce__(self):
        stride, step = [], 1
        for length in reversed(self.shape):
            stride.insert(0, step)
            step *= max(length, 1)
        return (stub("torch._utils", "_rebuild_tensor_v2"),
                (self.storage, self.offset, tuple(self.shape),
                 tuple(self.stride if self.stride is not None else stride), False,
                 collections.OrderedDict()))


def floats(values, shape):
    return Tensor(Storage("FloatStorage", 4, struct.pack(f"<{len(values)}f", *values)), shape)


class TorchPickler(pickle.Pickler):
    def __init__(self, file, storages):
        super().__init__(file, protocol=2)
        self.storages = storages

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        if obj not in self.storages:
            self.storages.append(obj)
        return ("storage", stub("torch", obj.kind), str(self.storages.index(obj)), "cpu", len(obj))


def torch_pickle(value):
    """(data.pkl, storages)"""
    text, storages = io.BytesIO(), []
    TorchPickler(text, storages).dump(value)
    return text.getvalue(), storages


def torch_save(path, value, records=None):
    """A torch.save archive; `records` {name: bytes or None} replaces or leaves out what it holds."""
    text, storages = torch_pickle(value)
    content = {"data.pkl": text, "byteorder": b"little"}
    content.update({f"data/{i}": s.data for i, s in enumerate(storages)})
    content.update({"version": b"3\n", ".data/serialization_id": b"1234567890"})
    content.update(records or {})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(f"archive/{name}", data)


def records_of(path):
    """[(name, offset of its data, size)] of an archive of stored records."""
    found = []
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            names = struct.unpack("<HH", file.read(4))
            found.append((info.filename, info.header_offset + 30 + sum(names), info.file_size))
    return found


def patched(archive, offset, data):
    """The bytes of an archive with some of a record's replaced, and its CRC-32 right again."""
    archive = bytearray(archive)
    archive[offset:offset + len(data)] = data
    with io.BytesIO(archive) as file, zipfile.ZipFile(file) as old:
        found = {}
        for info in old.infolist():
            names = struct.unpack_from("<HH", archive, info.header_offset + 26)
            first = info.header_offset + 30 + sum(names)
            found[info.filename] = bytes(archive[first:first + info.file_size])
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w", zipfile.ZIP_STORED) as new:
        for name, content in found.items():
            new.writestr(name, content)
    return text.getvalue()


# ---- DCP ------------------------------------------------------------------------------------------


def read_index(folder, name=".metadata"):
    with open(os.path.join(folder, name), "rb") as file:
        return Unpickler(file).load()


def write_index(folder, index, name=".metadata"):
    with open(os.path.join(folder, name), "wb") as file:
        pickle.dump(index, file, protocol=4)


def places(index):
    """{(tensor, offsets or None): the state of its _StorageInfo}"""
    found = {}
    for key, info in index.state["storage_data"].items():
        offset = key.state.get("offset")
        at = None if offset is None else tuple(offset.args[0])
        found[key.state["fqn"], at] = info.state
    return found


def put_item(folder, index, where, item):
    """The bytes of an item are written at the end of its file, and the index finds them there."""
    with open(os.path.join(folder, where["relative_path"]), "ab") as file:
        where["offset"], where["length"] = file.tell(), len(item)
        file.write(item)
    write_index(folder, index)


def archive_of(value, records=None):
    text = io.BytesIO()
    torch_save(text, value, records)
    return text.getvalue()


# ---- safetensors ----------------------------------------------------------------------------------


def read_header(path):
    """(header, offset of the data)"""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(size)), 8 + size


# ---- what would run -------------------------------------------------------------------------------


class Evil:
    """Would run when a pickle of it is loaded."""

    def __init__(self, call, *args):
        self.call = (call, args)

    def __reduce__(self):
        return self.call


def evil_touch(marker):
    return Evil(os.system, f"touch {marker}")


# ---- files ----------------------------------------------------------------------------------------


def cut(path, size):
    with open(path, "r+b") as file:
        file.truncate(size)


def flip(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def copy(source, name):
    """A copy in the place of an earlier one."""
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(source, name, symlinks=True)
    return name


def tree(folder):
    """{path: digest, or what else it is} of everything in a folder, or of a file."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            if os.path.islink(path):
                found[path] = "-> " + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
            else:
                found[path] = "folder" if os.path.isdir(path) else "other"
    return found
