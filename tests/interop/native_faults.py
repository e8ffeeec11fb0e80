"""The hand-made checkpoint with one thing wrong that no digest tells, and which rule of the specs it breaks.

    python3 native_faults.py          both readers' judge: native_reader.py refuses each, by that rule
"""
import os
import struct
import sys
import tempfile

import native_recipe as recipe


def bytes_at(at, data):
    return lambda old: old[:at] + data + old[at + len(data):]


def sealed(what, change):
    """What `change` makes of it, before any digest is taken over it."""
    return lambda name, made: change(made) if name == what else made


def listed(*path, to):
    """A member of the manifest set, or taken out (None)."""
    def change(m):
        inner = m
        for key in path[:-1]:
            inner = inner[key]
        if to is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        return m
    return sealed("manifest", change)


def piece(number, at, to, rank=0):
    """Field `at` of a piece: 0 tensor, 1 kind, 2 offset, 3 length, 4 length of chunks, 5 chunks."""
    def change(parts):
        parts[number][at] = to
        return parts
    return sealed(f"pieces{rank}", change)


def without(number, rank):
    return sealed(f"pieces{rank}", lambda parts: parts[:number] + parts[number + 1:])


def twice(number, rank):
    return sealed(f"pieces{rank}", lambda parts: parts[:number + 1] + parts[number:])


def array(number, at, data):
    """Bytes of one of the table's arrays, in the order of NAT-8's table."""
    return sealed("arrays", lambda arrays: arrays[:number] + [bytes_at(at, data)(arrays[number])] + arrays[number + 1:])


def text(old, new):
    return sealed("text", lambda data: data.replace(old, new, 1))


def state(old, new):
    return sealed("state", lambda data: data.replace(old.encode(), new.encode(), 1))


def stored(codec, chunk):
    """In place of the chunk of "same": 600 bytes of 5."""
    return piece(2, 5, [(codec, chunk)])


def extra_file(made):
    return {**made, "left.bin": b"x"}


def exchanged(made):
    a, b = (f"rank-0000{r}-of-00002.sws" for r in (0, 1))
    return {**made, a: made[b], b: made[a]}


def lacks(name):
    return sealed("files", lambda made: {n: d for n, d in made.items() if n != name})


FRAME, RANK1 = recipe.same_bytes(5, 600), "rank-00001-of-00002.sws"
HEX = "0" * 64

FAULTS = (
    ("a newer major version", "NAT-2", listed("version", to=[2, 0])),
    ("version 0", "NAT-2", listed("version", to=[0, 9])),
    ("another format", "NAT-1", listed("format", to="shardwrite")),
    ("a blank in the manifest", "NAT-5", text(b'":', b'": ')),
    ("a member twice", "NAT-5", text(b'{"assets"', b'{"assets":[],"assets"')),
    ("a float", "NAT-5", listed("extra", to=1.5)),
    ("a negative number", "NAT-5", listed("extra", to=-1)),
    ("a number of 2^63", "NAT-5", listed("extra", to=1 << 63)),
    ("a character 0", "NAT-5", listed("writer", to="a\0b")),
    ("escapes that are not needed", "NAT-5", text(b'"by hand"', b'"by \\u0068and"')),
    ("no line feed", "NAT-5", sealed("text", lambda data: data[:-1])),
    ("two line feeds", "NAT-5", sealed("text", lambda data: data + b"\n")),
    ("another root", "NAT-5", text(b'"writer":"by hand"', b'"writer":"by hind"')),
    ("no save id", "NAT-5", listed("save_id", to=None)),
    ("an upper-case save id", "NAT-5", listed("save_id", to="A" * 32)),
    ("no meshes", "NAT-5", listed("meshes", to=None)),
    ("a mesh of nine axes", "NAT-5", listed("meshes", 0, "axes", to=[{"name": str(i), "size": 1} for i in range(9)])),
    ("an axis of no size", "NAT-5", listed("meshes", 0, "axes", 0, "size", to=0)),
    ("two axes of a name", "NAT-5", listed("meshes", 0, "axes", 0, "name", to="tp")),
    ("an asset with a slash", "NAT-5", listed("assets", 0, "file", to="a/b")),
    ("assets out of order", "NAT-5", listed("assets", 1, "file", to="a")),
    ("a shard file of another name", "NAT-5", listed("shards", 0, "file", to="rank-0-of-2.sws")),
    ("a table of another name", "NAT-5", listed("table", "file", to="table.swt")),
    ("another number of tensors", "NAT-8", listed("tensors", to=6)),
    ("another content root", "DIG-8", listed("content", to=HEX)),
    ("a layout of an unknown kind", "NAT-6", listed("layouts", 1, to={"kind": "round"})),
    ("a layout of a mesh that is not there", "NAT-6", listed("layouts", 0, "mesh", to=1)),
    ("a placement too few", "NAT-6", listed("layouts", 0, "placements", to=["R"])),
    ("a placement that is none", "NAT-6", listed("layouts", 0, "placements", to=["S(01)", "R"])),
    ("a factor of 0", "NAT-6", listed("layouts", 0, "placements", to=["SS(0,0)", "R"])),
    ("a file that is not listed", "NAT-3", sealed("files", extra_file)),
    ("no asset", "NAT-3", lacks("config.json")),
    ("no shard file", "NAT-3", lacks(RANK1)),
    ("shard files exchanged", "NAT-10", sealed("files", exchanged)),
    ("another magic of the table", "NAT-8", sealed("table", bytes_at(0, b"swtable1"))),
    ("a reserved word of the table", "NAT-8", sealed("table", bytes_at(24, b"\1"))),
    ("padding of the table", "NAT-8", sealed("table", bytes_at(32 + 28, b"\1"))),
    ("a longer table", "NAT-8", sealed("table", lambda data: data + bytes(8))),
    ("a cut table", "NAT-8", sealed("table", lambda data: data[:-1])),
    ("ends of names that fall", "NAT-8", array(0, 4, struct.pack("<I", 99))),
    ("names that are left over", "NAT-8", array(0, 24, struct.pack("<I", 26))),
    ("ends of shapes that fall", "NAT-8", array(1, 4, struct.pack("<I", 0))),
    ("a layout that is not there", "NAT-8", array(2, 0, struct.pack("<I", 3))),
    ("type 0", "NAT-8", array(3, 0, b"\0")),
    ("type 25", "NAT-8", array(3, 0, b"\x19")),
    ("role 3", "NAT-8", array(4, 0, b"\3")),
    ("an unknown flag", "NAT-8", array(5, 0, b"\3")),
    ("a digest that is not known", "NAT-8", array(5, 0, b"\0")),
    ("a negative shape", "NAT-8", array(6, 0, struct.pack("<q", -1))),
    ("a tensor of 2^63 bytes", "NAT-8", array(6, 8, struct.pack("<qq", 1 << 61, 1))),
    ("a name that is not UTF-8", "NAT-8", array(8, 10, b"\xff")),
    ("a name with a byte 0", "NAT-8", array(8, 10, b"\0")),
    ("names out of order", "NAT-8", array(8, 0, b"z")),
    ("a content digest of other bytes", "DIG-5", array(7, 0, b"\0")),
    ("a head of another magic", "NAT-10", sealed("head0", bytes_at(0, b"SWSHARD2"))),
    ("a head of a newer version", "NAT-2", sealed("head0", bytes_at(8, b"\2"))),
    ("a head of another rank", "NAT-10", sealed("head0", bytes_at(12, b"\1"))),
    ("a head of another world", "NAT-10", sealed("head0", bytes_at(16, b"\3"))),
    ("a head of another save", "NAT-10", sealed("head1", bytes_at(24, b"\0"))),
    ("a reserved byte of a head", "NAT-10", sealed("head1", bytes_at(63, b"\1"))),
    ("an alignment that is no power of two", "NAT-9", sealed("head0", bytes_at(20, struct.pack("<I", 48)))),
    ("an alignment of 0", "NAT-9", sealed("head0", bytes_at(20, struct.pack("<I", 0)))),
    ("an alignment of 131072", "NAT-9", sealed("head0", bytes_at(20, struct.pack("<I", 1 << 17)))),
    ("another alignment than the chunks'", "NAT-9", sealed("head0", bytes_at(20, struct.pack("<I", 64)))),
    ("values that begin elsewhere", "NAT-9", sealed("foot1", bytes_at(0, b"\0\0"))),
    ("another size of the file", "NAT-9", sealed("foot1", bytes_at(96, b"\0"))),
    ("a piece too many", "NAT-13", sealed("foot1", bytes_at(104, b"\5"))),
    ("a chunk too many", "NAT-9", sealed("foot1", bytes_at(112, b"\5"))),
    ("a reserved byte of a foot", "NAT-10", sealed("foot0", bytes_at(120, b"\1"))),
    ("a foot of another magic", "NAT-10", sealed("foot0", bytes_at(152, b"swshardf"))),
    ("padding that is not zero", "NAT-9", sealed("padding", lambda pad: pad[:-1] + b"\1" if pad else pad)),
    ("a gap of another alignment", "NAT-9", sealed("padding", lambda pad: pad + bytes(recipe.ALIGN))),
    ("a piece of a tensor that is not there", "NAT-13", piece(3, 0, 7, rank=1)),
    ("pieces out of order", "NAT-13", sealed("pieces1", lambda parts: parts[::-1])),
    ("a piece of an unknown kind", "NAT-13", piece(0, 1, 3)),
    ("a piece of fewer axes", "NAT-13", sealed("index0", bytes_at(5, b"\0"))),
    ("a reserved byte of a piece", "NAT-13", sealed("index0", bytes_at(6, b"\1"))),
    ("a piece that begins behind its tensor", "NAT-13", piece(0, 2, [1])),
    ("an empty piece", "NAT-13", piece(0, 3, [0])),
    ("chunks of no length", "NAT-11", piece(0, 4, [0])),
    ("chunks longer than the piece", "NAT-11", piece(0, 4, [4])),
    ("a chunk too few", "NAT-13", piece(1, 5, [(0, bytes(8))])),
    ("a reserved byte of a chunk", "NAT-9", sealed("index0", lambda index: index[:-33] + b"\1" + index[-32:])),
    ("a hole", "NAT-12", without(2, 1)),
    ("a tensor without a piece", "NAT-12", without(1, 1)),
    ("elements twice", "NAT-12", twice(0, 0)),
    ("intervals that overlap", "NAT-12", piece(0, 2, [6], rank=1)),
    ("state of another format", "VAL-1", state('"format":1', '"format":2')),
    ("a blank in the state", "VAL-1", state('"step":7', '"step": 7')),
    ("no line feed behind the state", "VAL-1", sealed("state", lambda data: data[:-1])),
    ("a float with more digits", "VAL-1", state("0.001", "0.0010")),
    ("an integer of more than 64 bits", "VAL-1", state('"step":7', '"step":9223372036854775808')),
    ("an unknown tag", "VAL-3", state("$bytes", "$octets")),
    ("a tag that is not alone", "VAL-4", state('{"$set":[1]}', '{"$set":[1],"x":1}')),
    ("base64 without padding", "VAL-3", state('"AAH/"', '"AAE"')),
    ("an integer that 64 bits hold", "VAL-3", state("000000000000008000", "0100")),
    ("a dict that needs no tag", "VAL-1", state('{"$dict":[[0,"a"],[1,"b"]]}', '{"$dict":[["a",1]]}')),
    ("a tensor that the table does not have", "VAL-4", state('"step":7', '"step":{"$tensor":"x"}')),
    ("a tensor that the state does not hold", "VAL-4", state('"w":{"$tensor":"w"}', '"w":1')),
    ("a reference to what comes later", "VAL-5", state('"step":7', '"step":{"$ref":0}')),
    ("a number that nothing refers to", "VAL-5", state('{"$ref":0}', "2")),
    ("a value of another rank", "VAL-1", sealed("values", lambda data: data.replace(b"[3,", b"[2,"))),
    ("codec 3", "COD-1", stored(3, FRAME)),
    ("a chunk that is longer than raw", "COD-1", stored(1, recipe.same_bytes(5, 600) + bytes(600))),
    ("a stored chunk that is short", "COD-2", stored(0, b"\5" * 599)),
    ("a frame of other bytes", "COD-3", stored(1, recipe.same_bytes(5, 599))),
    ("no frame", "COD-3", stored(1, b"\0" + FRAME[1:])),
    ("a skippable frame", "COD-3", stored(1, FRAME + b"\x50\x2a\x4d\x18\0\0\0\0")),
    ("two frames", "COD-3", stored(1, FRAME + FRAME)),
    ("a cut frame", "COD-3", stored(1, FRAME[:-1])),
    ("planes of 3 bytes", "COD-5", stored(2, struct.pack("<BBH3I", 3, 0, 0, 200, 200, 1))),
    ("rotated bytes", "COD-5", stored(2, struct.pack("<BBHI", 1, 1, 0, len(FRAME)) + FRAME)),
    ("a reserved byte of planes", "COD-5", stored(2, struct.pack("<BBHI", 1, 0, 1, len(FRAME)) + FRAME)),
    ("a plane of no bytes", "COD-5", stored(2, struct.pack("<BBHI", 1, 0, 0, 0) + FRAME)),
    ("bytes behind the planes", "COD-5", stored(2, struct.pack("<BBHI", 1, 0, 0, len(FRAME)) + FRAME + b"\0")),
    ("a plane that is cut", "COD-5", stored(2, struct.pack("<BBHI", 1, 0, 0, 500) + FRAME)),
)


def not_refused():
    """(label, what it was): those that the second reader takes, or refuses by another rule."""
    from native_reader import Checkpoint, Refused
    with tempfile.TemporaryDirectory() as folder:
        for i, (label, rule, edit) in enumerate(FAULTS):
            where = os.path.join(folder, str(i))
            recipe.write(where, recipe.files(edit))
            try:
                Checkpoint(where)
                said = "read"
            except Refused as why:
                said = str(why)
            if not said.endswith(f"[{rule}]"):
                yield label, f"{said}, not [{rule}]"


def main():
    wrong = list(not_refused())
    for label, said in wrong:
        print(f"{label}: {said}")
    print(f"{len(FAULTS)} faults, {len(wrong)} not refused by their rule")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
