"""A second reader of Shardwright's native format, written from specs/native.md and, beside it, from
chunk_codecs.md (native_chunks.py), values.md (native_values.py) and digest.md (digest_reference.py) alone. It
checks every rule that a reader must check, and says what it refuses and by which rule.

    python3 native_reader.py DIR [--state]     the digest list (DIG-10) of DIR's tensors, as `hash` prints it
"""
import hashlib
import math
import os
import re
import struct
import sys

import digest_reference
import native_chunks
import native_values
from native_values import Refused, need

BLOCK, AXES_MAX = 1 << 20, 10
# name and bytes of an element by type code
TYPES = dict(enumerate((
    ("bool", 1), ("uint8", 1), ("int8", 1), ("uint16", 2), ("int16", 2), ("uint32", 4), ("int32", 4), ("uint64", 8),
    ("int64", 8), ("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8), ("complex32", 4),
    ("complex64", 8), ("complex128", 16), ("float8_e4m3fn", 1), ("float8_e5m2", 1), ("float8_e4m3fnuz", 1),
    ("float8_e5m2fnuz", 1), ("float8_e8m0fnu", 1), ("float4_e2m1fn_x2", 1), ("bits8", 1), ("bits16", 2)), 1))
PLACEMENT = re.compile(r"R|S\([0-9]\)|SS\([0-9],[1-9][0-9]*\)|P\([A-Za-z0-9_]{1,32}\)")


def sha256(*parts):
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()


def section_digest(data):
    blocks = [sha256(data[i:i + BLOCK]) for i in range(0, len(data), BLOCK)]
    return sha256(b"\4", struct.pack("<Q", len(data)), *blocks)


# ---- manifest.json --------------------------------------------------------------------------------


def is_count(x, least=0):
    return type(x) is int and x >= least


def is_digest(x):
    return isinstance(x, str) and re.fullmatch("[0-9a-f]{64}", x)


def read_manifest(text):
    m = native_values.parse_json(text)
    need(isinstance(m, dict) and m.get("format") == "shardwright", "NAT-1", "no manifest of this format")
    version = m.get("version")
    need(isinstance(version, list) and len(version) == 2 and all(map(is_count, version)), "NAT-2", "no version")
    need(version[0] == 1, "NAT-2", f"version {version[0]}.{version[1]} is newer than version 1")
    need(text == (native_values.canonical(m) + "\n").encode(), "NAT-5", "manifest.json: not in canonical form")
    rest = native_values.canonical({k: v for k, v in m.items() if k != "root"})
    need(m.get("root") == sha256(rest.encode()).hex(), "NAT-5", "manifest.json: the root does not fit")
    lists = ("meshes", "layouts", "shards", "assets")
    need(all(isinstance(m.get(k), list) for k in lists) and is_count(m.get("tensors"))
         and isinstance(m.get("writer"), str) and re.fullmatch("[0-9a-f]{32}", str(m.get("save_id")))
         and (m.get("content") == "" or is_digest(m.get("content"))), "NAT-5", "manifest.json lacks a member")
    world, names = len(m["shards"]), [f.get("file") for f in m["assets"] if isinstance(f, dict)]
    need(1 <= world <= 16384, "NAT-5", f"{world} shard files")
    shards = [f"rank-{r:05d}-of-{world:05d}.sws" for r in range(world)]
    for want, file in [("tensors.swt", m.get("table")), ("state.json", m.get("state")), *zip(shards, m["shards"]),
                       *zip(names, m["assets"])]:
        need(isinstance(file, dict) and file.get("file") == want and is_count(file.get("bytes"))
             and is_digest(file.get("digest")), "NAT-5", f"manifest.json: what it says of {want}")
    need(len(names) == len(m["assets"]) and all(map(is_asset, names)) and names == sorted(set(names)), "NAT-5",
         "assets: names")
    check_layouts(m)
    return m


def is_asset(name):
    return (isinstance(name, str) and name != "" and "/" not in name and name[0] != "."
            and name not in ("manifest.json", "tensors.swt", "state.json") and not name.endswith((".sws", ".sig")))


def check_layouts(m):
    need(max(len(m["meshes"]), len(m["layouts"])) <= 65536, "NAT-5", "more meshes or layouts than any has")
    for mesh in m["meshes"]:
        axes = mesh.get("axes") if isinstance(mesh, dict) else None
        need(isinstance(axes, list) and 1 <= len(axes) <= 8 and all(
            isinstance(a, dict) and isinstance(a.get("name"), str) and is_count(a.get("size"), 1) for a in axes)
            and len({a["name"] for a in axes}) == len(axes), "NAT-5", "a mesh")
    for layout in m["layouts"]:
        kind = layout.get("kind") if isinstance(layout, dict) else None
        need(kind in ("dtensor", "flat", "boxes"), "NAT-6", "a layout of an unknown kind")
        if kind == "dtensor":
            mesh, places = layout.get("mesh"), layout.get("placements")
            need(is_count(mesh) and mesh < len(m["meshes"]) and isinstance(places, list)
                 and len(places) == len(m["meshes"][mesh]["axes"])
                 and all(isinstance(p, str) and PLACEMENT.fullmatch(p) for p in places), "NAT-6", "placements")


# ---- tensors.swt ----------------------------------------------------------------------------------


class Tensor:
    def __init__(self, number, name, dtype, size, shape, role, layout, digest):
        self.number, self.name, self.dtype, self.element_bytes, self.shape = number, name, dtype, size, shape
        self.role, self.layout, self.digest = role, layout, digest  # the digest is None where it is not known
        self.elements, self.pieces = math.prod(shape), []

    @property
    def partial(self):
        return any(p.startswith("P") for p in self.layout.get("placements", ()))


def read_table(data, m):
    need(len(data) >= 32 and data[:8] == b"SWTABLE1" and data[24:32] == bytes(8), "NAT-8", "tensors.swt: its head")
    n, d, b = struct.unpack_from("<IIQ", data, 8)
    at, arrays = 32, []
    for size in (4 * n, 4 * n, 4 * n, n, n, n, 8 * d, 32 * n, b):
        begin = -(-at // 8) * 8
        need(not any(data[at:begin]), "NAT-8", "tensors.swt: bytes between its arrays")
        at = begin + size
        need(at <= len(data), "NAT-8", "tensors.swt is cut")
        arrays.append(data[begin:at])
    need(at == len(data) and n == m["tensors"], "NAT-8", "tensors.swt: it is longer, or of other tensors")
    columns = [struct.unpack(f"<{n}{code}", a) for code, a in zip("IIIBBB", arrays)]
    shapes, digests, names = struct.unpack(f"<{d}q", arrays[6]), arrays[7], arrays[8]
    tensors, name_at, shape_at, before = [], 0, 0, None
    for i, (name_end, shape_end, layout, code, role, flags) in enumerate(zip(*columns)):
        need(name_at < name_end <= b and shape_at <= shape_end <= d and shape_end - shape_at <= AXES_MAX, "NAT-8",
             f"tensor {i}: where its name or shape ends")
        name, shape = names[name_at:name_end - 1], list(shapes[shape_at:shape_end])
        need(before is None or before < name, "NAT-8", f"tensor {i}: order of names")
        need(b"\0" not in name and names[name_end - 1] == 0 and is_utf8(name), "NAT-8", f"tensor {i}: its name")
        digest = digests[32 * i:32 * i + 32]
        need(code in TYPES and role <= 2 and flags <= 1 and layout < len(m["layouts"])
             and (flags or digest == bytes(32)), "NAT-8", f"tensor {i}: type, role, flags, layout or digest")
        need(min(shape, default=0) >= 0 and math.prod(shape) * TYPES[code][1] < 1 << 63, "NAT-8",
             f"tensor {i}: its shape")
        tensors.append(Tensor(i, name.decode(), *TYPES[code], shape, role, m["layouts"][layout],
                              digest if flags else None))
        name_at, shape_at, before = name_end, shape_end, name
    need(name_at == b and shape_at == d, "NAT-8", "tensors.swt: names or shape numbers that no tensor has")
    return tensors


def is_utf8(data):
    return data.decode(errors="replace").encode() == data


# ---- shard files ----------------------------------------------------------------------------------


def read_shard(data, rank, m, tensors, extents):
    """Adds its pieces to the tensors; the text of the rank's own values."""
    file = m["shards"][rank]
    need(len(data) == file["bytes"] and len(data) >= 224, "NAT-10", f"{len(data)} bytes, not {file['bytes']}")
    head, foot = data[:64], data[-160:]
    need(sha256(head, foot).hex() == file["digest"], "NAT-10", "head and foot are not what the manifest says")
    magic, major, _, own, world, align, save = struct.unpack_from("<8sHHIII16s", head)
    need(magic == b"SWSHARD1" and foot[152:] == b"SWSHARDF" and not any(head[40:]) and not any(foot[120:152]),
         "NAT-10", "head or foot")
    need(major == 1, "NAT-2", f"major version {major}")
    need((own, world, save.hex()) == (rank, len(m["shards"]), m["save_id"]), "NAT-10", "of another rank or save")
    need(align & (align - 1) == 0 and 1 <= align <= 65536, "NAT-9", f"alignment {align}")
    values_at, values_size, values_digest, at, size, digest, total, pieces, chunks = struct.unpack_from(
        "<QQ32sQQ32sQQQ", foot)
    need(64 <= values_at and values_at + values_size == at and at + size == len(data) - 160 and total == len(data),
         "NAT-9", "where its sections lie")
    values, index = data[values_at:at], data[at:at + size]
    need(section_digest(values) == values_digest, "NAT-4", "the values are not what was written")
    need(section_digest(index) == digest, "NAT-4", "the index is not what was written")
    need(read_index(data, index, pieces, chunks, align, tensors, extents) == values_at, "NAT-9", "the last chunk's end")
    return values


def read_index(data, index, pieces, chunks, align, tensors, extents):
    """Every record; where the last chunk ends."""
    at, records, last, end = 0, len(index) - 48 * chunks, 0, 64
    need(records >= 0, "NAT-13", "more chunks than the index holds")
    next_chunk = records
    for _ in range(pieces):
        need(at + 16 <= records, "NAT-13", "more pieces than the index holds")
        number, kind, axes, zero, count = struct.unpack_from("<IBBHQ", index, at)
        need(zero == 0 and last <= number < len(tensors), "NAT-13", f"piece of tensor {number}")
        t = tensors[number]
        need(kind <= 2 and axes == (len(t.shape), 1, 0)[kind], "NAT-13", f"{t.name}: kind or axes of a piece")
        need(at + 16 + 24 * axes <= records and next_chunk + 48 * count <= len(index), "NAT-13", "records are cut")
        numbers = struct.unpack_from(f"<{3 * axes}Q", index, at + 16)
        offset, length, step = (list(numbers[i * axes:(i + 1) * axes]) for i in range(3))
        shape = [t.elements] if kind == 1 else t.shape
        if kind == 2:
            offset, length, step = [0] * len(shape), shape, shape
        need(all(n > 0 and o + n <= s for o, n, s in zip(offset, length, shape)), "NAT-13", f"{t.name}: a piece")
        need(all(1 <= c <= n for c, n in zip(step, length)) and t.elements > 0
             and math.prod(step) * t.element_bytes <= native_chunks.RAW_MAX, "NAT-11", f"{t.name}: lengths of chunks")
        need(count == math.prod(-(-n // c) for n, c in zip(length, step)), "NAT-13", f"{t.name}: how many chunks")
        places = []
        for record in range(next_chunk, next_chunk + 48 * count, 48):
            begin, stored, codec, zero, digest = struct.unpack_from("<QIB3s32s", index, record)
            need(begin == -(-end // align) * align and begin + stored <= len(data) and zero == bytes(3), "NAT-9",
                 f"{t.name}: where a chunk lies")
            need(not any(data[end:begin]), "NAT-9", f"{t.name}: bytes before a chunk")
            chunk = data[begin:begin + stored]
            need(sha256(chunk) == digest, "NAT-10", f"{t.name}: a chunk is not what was written")
            places.append((codec, chunk))
            extents.append((begin, begin + stored, t.name))
            end = begin + stored
        t.pieces.append((kind == 1, shape, offset, length, step, places))
        at, next_chunk, last = at + 16 + 24 * axes, next_chunk + 48 * count, number
    need(at == records and next_chunk == len(index), "NAT-13", "the index is longer than its records")
    return end


# ---- tensors ------------------------------------------------------------------------------------


def assemble(t):
    """The row-major bytes; every element is held once (at least once where terms are not added up yet)."""
    size, out, held = t.element_bytes, bytearray(t.elements * t.element_bytes), bytearray(t.elements)
    for _, shape, offset, length, step, places in t.pieces:
        grid = [-(-n // c) for n, c in zip(length, step)]
        for i, (codec, stored) in enumerate(places):
            inner = [0] * len(grid)
            for axis in reversed(range(len(grid))):
                i, inner[axis] = i // grid[axis], i % grid[axis] * step[axis]
            box = [min(c, n - o) for c, n, o in zip(step, length, inner)]
            raw, at = native_chunks.decode(codec, stored, math.prod(box) * size), 0
            for first, count in native_chunks.runs(shape, [o + k for o, k in zip(offset, inner)], box):
                need(t.partial or not any(held[first:first + count]), "NAT-12", f"{t.name}: elements twice")
                held[first:first + count] = b"\1" * count
                out[first * size:(first + count) * size] = raw[at:at + count * size]
                at += count * size
    need(0 not in held, "NAT-12", f"{t.name}: elements that no chunk holds")
    return bytes(out)


# ---- the checkpoint -------------------------------------------------------------------------------


class Checkpoint:
    """tensors {name: Tensor}, data {name: bytes, None where Partial}, state, ordered, rank_values [[(rank, name, value)]],
    extents {shard file: [(begin, end, name of the tensor)]} of its chunks"""

    def __init__(self, folder):
        self.folder, self.extents = folder, {}
        self.manifest = m = read_manifest(self.file("manifest.json"))
        listed = [f["file"] for f in (m["table"], m["state"], *m["shards"], *m["assets"])]
        extra = [n for n in sorted(os.listdir(folder)) if n not in listed and n != "manifest.json"
                 and n[0] != "." and not n.endswith(".sig")]
        need(not extra, "NAT-3", f"not listed in the manifest: {extra}")
        for about in (m["table"], m["state"], *m["assets"]):
            data = self.file(about["file"])
            need(len(data) == about["bytes"] and section_digest(data).hex() == about["digest"], "NAT-4",
                 f"{about['file']} is not what was written")
        tensors = read_table(self.file("tensors.swt"), m)
        names = dict.fromkeys(t.name for t in tensors)
        self.ordered, self.state = native_values.read_state(self.file("state.json"), names)
        self.rank_values = [self.shard(rank, tensors) for rank in range(len(m["shards"]))]
        self.tensors = {t.name: t for t in tensors}
        whole = {t.name: assemble(t) for t in tensors}
        self.data = {n: None if self.tensors[n].partial else data for n, data in whole.items()}
        self.digests = {t.name: digest_reference.tensor_digest(t.dtype, t.shape, whole[t.name])
                        for t in tensors if not t.partial}
        wrong = [t.name for t in tensors if not t.partial and t.digest not in (None, self.digests[t.name])]
        need(not wrong, "DIG-5", f"content digests are others: {wrong[:5]}")
        if m["content"]:
            need(all(t.digest for t in tensors) and digest_reference.list_root(
                {t.name: t.digest for t in tensors}).hex() == m["content"], "DIG-8", "content is another root")

    def load(self, name):
        need(not self.tensors[name].partial, "NAT-7", f"{name}: terms that are not added up")
        return self.data[name]  # the row-major bytes

    def file(self, name):
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return file.read()
        except OSError as why:
            raise Refused("NAT-3", f"{name}: {why.strerror}") from None

    def shard(self, rank, tensors):
        name = self.manifest["shards"][rank]["file"]
        try:
            values = read_shard(self.file(name), rank, self.manifest, tensors, self.extents.setdefault(name, []))
            return native_values.read_ranks(values, rank, len(self.manifest["shards"]))
        except Refused as why:
            why.args = (f"{name}: {why}",)
            raise


def main():
    try:
        read = Checkpoint(sys.argv[1])
    except Refused as why:
        sys.exit(f"{sys.argv[1]}: {why}")
    if "--state" in sys.argv[2:]:
        print(native_values.shown(read.state))
    else:
        sys.stdout.write(digest_reference.list_text(read.digests))


if __name__ == "__main__":
    main()
