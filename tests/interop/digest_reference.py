"""Content digests (specs/digest.md) from the definitions alone, for tests and for other tools.

    python3 digest_reference.py FILE.safetensors     prints a digest list, as `hash` does
    python3 digest_reference.py                      prints the specification's test vectors
"""
import hashlib
import json
import math
import struct
import sys

LEAF = 1 << 20
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16",
         "U32": "uint32", "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16",
         "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
         "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
         "F4": "float4_e2m1fn_x2"}


def tensor_digest(dtype, shape, content):
    """`content`: row-major, little-endian."""
    leaves = [hashlib.sha256(b"\0" + content[i:i + LEAF]).digest()
              for i in range(0, len(content), LEAF)]
    head = struct.pack("<BB", 2, len(dtype)) + dtype.encode()
    head += struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<Q", len(leaves))
    return hashlib.sha256(head + b"".join(leaves)).digest()


def list_root(digests):
    """`digests`: from names to digests."""
    names = sorted((name.encode(), digest) for name, digest in digests.items())
    body = b"".join(struct.pack("<Q", len(name)) + name + digest for name, digest in names)
    return hashlib.sha256(struct.pack("<BQ", 3, len(names)) + body).digest()


def escape(name):
    return "".join(chr(b) if 0x21 <= b <= 0x7e and b != 0x5c else f"\\x{b:02x}"
                   for b in name.encode())


def list_text(digests, names="all"):
    lines = ["# shardwright-digests 1", f"# names {names}", f"# root {list_root(digests).hex()}"]
    lines += [f"{digests[name].hex()}  {escape(name)}"
              for name in sorted(digests, key=lambda name: name.encode())]
    return "".join(line + "\n" for line in lines)


def read_safetensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: tensor_digest(NAMES[t["dtype"]], shape_of(t), data[slice(*t["data_offsets"])])
            for name, t in header.items()}


def shape_of(about):
    """DIG-2: an element of F4 is a byte of two values, of which safetensors counts each."""
    shape = about["shape"]
    return shape[:-1] + [shape[-1] // 2] if about["dtype"] == "F4" else shape


def ramp(dtype, code, shape):
    """Element i is i, as this type."""
    count = math.prod(shape)
    return tensor_digest(dtype, shape, struct.pack(f"<{count}{code}", *range(count)))


VECTORS = [("uint8", "B", [0]), ("uint8", "B", [3]), ("float32", "f", []), ("float32", "f", [0, 4]),
           ("float32", "f", [2, 3]), ("float32", "f", [3, 2]), ("int64", "q", [2, 3]),
           ("int32", "i", [1 << 18]), ("int32", "i", [(1 << 18) + 1]), ("int32", "i", [3, 1 << 18])]


def main():
    if len(sys.argv) > 1:
        sys.stdout.write(list_text(read_safetensors(sys.argv[1])))
        return
    for dtype, code, shape in VECTORS:
        print(f"| `{dtype}` {shape}: 0, 1, 2 ... | `{ramp(dtype, code, shape).hex()}` |")


if __name__ == "__main__":
    main()
