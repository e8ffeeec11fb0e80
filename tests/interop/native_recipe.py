"""A small checkpoint of the native format, version 1, put together from specs/native.md by hand: every kind of piece,
every codec, empty and uneven shards, values of one rank. And the same with one thing wrong, all digests set right.

    python3 native_recipe.py DIR          writes it
    python3 native_recipe.py --text       prints it as text, which tests/cli/native/version-1.txt keeps
"""
import hashlib
import json
import os
import struct
import sys

import digest_reference

SAVE_ID = bytes(range(0xA0, 0xB0))
ALIGN = 16
MESHES = [{"axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 1}]}]
LAYOUTS = [{"kind": "dtensor", "mesh": 0, "placements": ["S(0)", "R"]}, {"kind": "flat"}, {"kind": "boxes"}]
TYPES = {2: "uint8", 5: "int16", 9: "int64", 11: "bfloat16", 12: "float32"}
ASSETS = {"config.json": b'{"model_type":"recipe"}\n', "zzz": b""}
# Names of tensors where they stand, and a value of each kind that has a tag.
STATE = '''{"format":1,"ordered":true,"root":{"":{"$tensor":""},"empty":{"$tensor":"empty"},"flat":{"\u00e9":{"$tensor":\
"flat.\u00e9"}},"same":{"$tensor":"same"},"scalar":{"$tensor":"scalar"},"w":{"$tensor":"w"},"w.bf16":{"$tensor":"w.bf16"},\
"step":7,"lr":0.001,"one":1.0,"tiny":1e-05,"none":null,"yes":true,"text":"a\\"b","betas":{"$tuple":[0.9,0.95]},\
"nan":{"$float":"nan"},"inf":{"$float":"-inf"},"big":{"$int":"000000000000008000"},"c":{"$complex":[1.0,-0.0]},\
"raw":{"$bytes":"AAH/"},"own":{"$bytearray":""},"ids":{"$dict":[[0,"a"],[1,"b"]]},"set":{"$set":[1]},\
"type":{"$global":["torch","float32"]},"both":[{"$id":0,"$value":[1]},{"$ref":0}]}}
'''
RANK_VALUES = '{"format":1,"values":[[1,"rng",{"$bytes":"AQI="}],[3,"rng",{"$bytes":"AwQ="}]]}\n'


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def section(data):
    blocks = [sha256(data[i:i + (1 << 20)]) for i in range(0, len(data), 1 << 20)]
    return sha256(b"\4", struct.pack("<Q", len(data)), *blocks)


def same_bytes(byte, size):
    """A zstd frame (RFC 8878) of one byte many times: single segment, its size, one last RLE block."""
    head = b"\x28\xb5\x2f\xfd" + (struct.pack("<BB", 0x20, size) if size < 256
                                  else struct.pack("<BH", 0x60, size - 256))
    return head + (1 | 1 << 1 | size << 3).to_bytes(3, "little") + bytes([byte])


def planes(raw, width, rotated):
    """Planes of one value as frames, others as they are."""
    count, bits = len(raw) // width, 8 * width
    words = [int.from_bytes(raw[i * width:(i + 1) * width], "little") for i in range(count)]
    if rotated:
        words = [(x << 1 | x >> bits - 1) & (1 << bits) - 1 for x in words]
    cut = [bytes(x >> 8 * k & 255 for x in words) for k in range(width)]
    cut = [same_bytes(p[0], count) if len(set(p)) == 1 and count > 16 else p for p in cut]
    return struct.pack(f"<BBH{width}I", width, rotated, 0, *map(len, cut)) + b"".join(cut) + raw[count * width:]


def content():
    """name: (type code, role, layout, shape, bytes), in ascending order of names."""
    return {
        "": (2, 0, 2, [3], b"\7\7\7"),
        "empty": (12, 1, 0, [0, 4], b""),
        "flat.\u00e9": (5, 2, 1, [3, 5], struct.pack("<15h", *range(-7, 8))),
        "same": (2, 0, 2, [600], b"\5" * 600),
        "scalar": (9, 0, 2, [], struct.pack("<q", -2)),
        "w": (12, 1, 0, [5, 3], struct.pack("<15f", *range(15))),
        "w.bf16": (11, 1, 2, [2, 99], struct.pack("<198H", *(0x3f80 + i % 64 | (i & 1) << 15 for i in range(198)))),
    }


def pieces(tensors):
    """By rank: [number of the tensor, kind, offset, length, length of chunks, [(codec, stored)]]."""
    names = list(tensors)
    raw = {name: t[4] for name, t in tensors.items()}

    def piece(name, kind, offset, length, step, *chunks):
        return [names.index(name), kind, offset, length, step, list(chunks)]

    w, flat = raw["w"], raw["flat.\u00e9"]
    right = b"".join(w[12 * i + 8:12 * i + 12] for i in range(3))
    left = [w[12 * i:12 * i + 8] for i in range(3)]
    return [
        [piece("", 0, [0], [3], [3], (0, raw[""])),
         piece("flat.\u00e9", 1, [0], [7], [4], (0, flat[:8]), (0, flat[8:14])),
         piece("same", 2, [], [], [], (1, same_bytes(5, 600))),
         piece("w", 0, [0, 0], [3, 3], [2, 2], (0, left[0] + left[1]), (0, right[:8]), (0, left[2]), (0, right[8:])),
         piece("w.bf16", 0, [0, 0], [1, 99], [1, 99], (2, planes(raw["w.bf16"][:198], 2, 1)))],
        [piece("flat.\u00e9", 1, [7], [8], [8], (0, flat[14:])),
         piece("scalar", 2, [], [], [], (0, raw["scalar"])),
         piece("w", 0, [3, 0], [2, 3], [2, 3], (0, w[36:])),
         piece("w.bf16", 0, [1, 0], [1, 99], [1, 99], (0, raw["w.bf16"][198:]))]]


def unedited(what, data):
    return data


def table(tensors, edit):
    rows = [(name.encode(), *t) for name, t in tensors.items()]
    ends, shape_ends, name_end, shape_end = [], [], 0, 0
    for name, _, _, _, shape, _ in rows:
        name_end, shape_end = name_end + len(name) + 1, shape_end + len(shape)
        ends.append(name_end)
        shape_ends.append(shape_end)
    n = len(rows)
    arrays = edit("arrays", [
        struct.pack(f"<{n}I", *ends), struct.pack(f"<{n}I", *shape_ends), struct.pack(f"<{n}I", *(r[3] for r in rows)),
        bytes(r[1] for r in rows), bytes(r[2] for r in rows), b"\1" * n,
        struct.pack(f"<{shape_end}q", *(s for r in rows for s in r[4])),
        b"".join(digest_reference.tensor_digest(TYPES[r[1]], r[4], r[5]) for r in rows),
        b"".join(r[0] + b"\0" for r in rows)])
    out = struct.pack("<8sIIQQ", b"SWTABLE1", n, shape_end, name_end, 0)
    for array in arrays:
        out += bytes(-len(out) % 8) + array
    return edit("table", out)


def shard(rank, world, parts, values, edit):
    """The file, and the digest of its head and foot."""
    head = struct.pack("<8sHHIII16s24x", b"SWSHARD1", 1, 0, rank, world, ALIGN, SAVE_ID)
    out, index, records = head, b"", b""
    parts = edit(f"pieces{rank}", parts)
    for number, kind, offset, length, step, chunks in parts:
        axes = len(offset)
        index += struct.pack(f"<IBBHQ{3 * axes}Q", number, kind, axes, 0, len(chunks), *offset, *length, *step)
        for codec, stored in chunks:
            out += edit("padding", bytes(-len(out) % ALIGN))
            records += struct.pack("<QIB3x32s", len(out), len(stored), codec, sha256(stored))
            out += stored
    index = edit(f"index{rank}", index + records)
    values_at, index_at = len(out), len(out) + len(values)
    out += values + index
    foot = struct.pack("<QQ32sQQ32sQQQ32x8s", values_at, len(values), section(values), index_at, len(index),
                       section(index), len(out) + 160, len(parts), len(records) // 48, b"SWSHARDF")
    head, foot = edit(f"head{rank}", head), edit(f"foot{rank}", foot)
    return head + out[64:] + foot, sha256(head, foot)


def canonical(m):
    return json.dumps(m, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def files(edit=unedited):
    """{name: bytes} of the folder; `edit(what, made)` gives what is to be put there instead."""
    tensors, m, out = content(), {}, dict(ASSETS)
    out["tensors.swt"] = table(tensors, edit)
    out["state.json"] = edit("state", STATE.encode())
    by_rank = pieces(tensors)
    for rank, parts in enumerate(by_rank):
        name = f"rank-{rank:05d}-of-{len(by_rank):05d}.sws"
        values = edit("values", RANK_VALUES.encode()) if rank == 1 else b""
        out[name], digest = shard(rank, len(by_rank), parts, values, edit)
        m.setdefault("shards", []).append({"file": name, "bytes": len(out[name]), "digest": digest.hex()})
    for member, name in (("table", "tensors.swt"), ("state", "state.json")):
        m[member] = {"file": name, "bytes": len(out[name]), "digest": section(out[name]).hex()}
    m["assets"] = [{"file": n, "bytes": len(d), "digest": section(d).hex()} for n, d in sorted(ASSETS.items())]
    digests = {n: digest_reference.tensor_digest(TYPES[t[0]], t[3], t[4]) for n, t in tensors.items()}
    m.update(format="shardwright", version=[1, 0], writer="by hand", save_id=SAVE_ID.hex(), meshes=MESHES,
             layouts=LAYOUTS, tensors=len(tensors), content=digest_reference.list_root(digests).hex())
    m = edit("manifest", json.loads(json.dumps(m)))
    m["root"] = sha256(canonical(m).encode()).hex()
    out["manifest.json"] = edit("text", (canonical(m) + "\n").encode())
    return edit("files", out)


def write(folder, made):
    os.makedirs(folder)
    for name, data in made.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def as_text(made):
    """file NAME, then lines: = text with a line feed behind it, - text without, x hex digits."""
    lines = []
    for name, data in made.items():
        lines.append(f"file {name}")
        if name.endswith(".json"):
            *whole, rest = data.decode().split("\n")
            lines += [f"= {line}" for line in whole] + ([f"- {rest}"] if rest else [])
        else:
            lines += [f"x {data[i:i + 48].hex()}" for i in range(0, len(data), 48)]
    return "".join(line + "\n" for line in lines)


def from_text(text):
    made, name = {}, None
    for line in text.split("\n"):
        kind, _, rest = line.partition(" ")
        if kind == "file":
            name, made[rest] = rest, b""
        elif kind in ("=", "-"):
            made[name] += rest.encode() + (b"\n" if kind == "=" else b"")
        elif kind == "x":
            made[name] += bytes.fromhex(rest)
    return made


def main():
    if sys.argv[1] == "--text":
        sys.stdout.write(as_text(files()))
    else:
        write(sys.argv[1], files())


if __name__ == "__main__":
    main()
