"""Digest lists against tests/interop/digest_reference.py, which knows the definitions alone, and the
vectors of the specification against both."""
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import SOURCE_DIR, Run, exits, expect, write_st

sys.path.insert(0, os.path.join(SOURCE_DIR, "tests", "interop"))
import digest_reference as reference


def check_specification():
    """The vectors that are printed in specs/digest.md are what the reference computes."""
    with open(os.path.join(SOURCE_DIR, "specs", "digest.md"), encoding="utf-8") as file:
        text = file.read()
    for dtype, code, shape in reference.VECTORS:
        line = f"| `{dtype}` {shape}: 0, 1, 2 ... | `{reference.ramp(dtype, code, shape).hex()}` |"
        expect(f"specs/digest.md has {line}", line in text)


def check_file():
    """Every type that the reference knows, shapes of any kind, several leaves, names to escape."""
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
             "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8}
    tensors = {}
    for i, (dtype, size) in enumerate(sizes.items()):
        for j, shape in enumerate(([], [0], [7], [3, 5], [2, 0, 3], [1, 1, 2])):
            count = 1
            for n in shape:
                count *= n
            content = bytes((i * 31 + j * 7 + k) % 2 if dtype == "BOOL" else (i + j * 5 + k * 3) % 251
                            for k in range(count * size))
            tensors[f"{dtype}.{j}"] = (dtype, shape, content)
    tensors["F4"] = ("F4", [3, 6], bytes(range(0x10, 0x19)))
    tensors["F4.empty"] = ("F4", [0, 6], b"")
    tensors["F8_E8M0"] = ("F8_E8M0", [2, 2], b"\x7f\x80\x00\xff")
    big = bytes(range(256)) * (3 * 4096 + 1)
    tensors["big"] = ("I32", [len(big) // 4], big)
    tensors["a name\\with \u00fcml\u00e4ut\n"] = ("U8", [1], b"\1")
    write_st("all.safetensors", tensors)
    want = reference.list_text(reference.read_safetensors("all.safetensors"))
    for threads in ("1", "2", "7"):
        found = exits(0, "hash", "all.safetensors", "--threads", threads)
        expect(f"hash --threads {threads}: as the reference has it", found.out == want, found)
    exits(0, "convert", "all.safetensors", "all", "--to", "hf", "--digests", "all.list")
    with open("all.list", encoding="utf-8") as file:
        expect("convert --digests: as the reference has what was written",
               file.read() == reference.list_text(reference.read_safetensors(
                   "all/model.safetensors"), "weights"))
    exits(0, "hash", "all.safetensors", "--write", "list")
    with open("list", encoding="utf-8") as file:
        expect("hash --write: the same text", file.read() == want)
    exits(0, "verify", "all.safetensors", "--digests", "list")


def check_cast():
    """--as: what can be cast is, whatever its shape; the rest stays as it is."""
    def half(*values):
        return struct.pack(f"<{len(values)}e", *values)

    def double(*values):
        return struct.pack(f"<{len(values)}d", *values)

    values = (1.5, -2.0, float("inf"))
    kept = {"i": ("I32", [2], bytes(range(8))), "f8": ("F8_E4M3", [3], b"\x38\x40\x7f"),
            "f4": ("F4", [2, 2], b"\x12\x34"), "b": ("BOOL", [], b"\1"),
            "d": ("F64", [2], double(0.1, 3))}
    cast = {"h": ("F16", [3], half(*values)), "scalar": ("F16", [], half(-0.0)),
            "none": ("F16", [4, 0], b""), "f": ("F32", [3, 1], struct.pack("<3f", *values)),
            "bf": ("BF16", [2], b"\x80\x3f\x00\xc0")}
    as_double = {"h": ("F64", [3], double(*values)), "scalar": ("F64", [], double(-0.0)),
                 "none": ("F64", [4, 0], b""), "f": ("F64", [3, 1], double(*values)),
                 "bf": ("F64", [2], double(1, -2))}
    write_st("kinds.safetensors", {**kept, **cast})
    write_st("double.safetensors", {**kept, **as_double})
    want = reference.list_text(reference.read_safetensors("double.safetensors"))
    want = want.replace("# root", "# as float64\n# root")
    found = exits(0, "hash", "kinds.safetensors", "--as", "f64")
    expect("hash --as f64: the reference's digests of the cast values", found.out == want, found)
    exits(0, "hash", "kinds.safetensors", "--as", "f64", "--write", "double.list")
    for path in ("kinds.safetensors", "double.safetensors"):
        exits(0, "verify", path, "--digests", "double.list")


def check_sample():
    exits(0, "demo", "sample")
    exits(0, "convert", "sample", "hf", "--to", "hf")
    digests = reference.read_safetensors("hf/model.safetensors")
    found = Run("hash", "sample", "--weights")
    expect("hash --weights of the sharded form: the exported form by the reference",
           found.out == reference.list_text(digests, "weights"), found)
    script = os.path.join(SOURCE_DIR, "tests", "interop", "digest_reference.py")
    done = subprocess.run([sys.executable, script, "hf/model.safetensors"], capture_output=True,
                          check=True)
    found = Run("hash", "hf")
    expect("the reference as a command", done.stdout.decode() == found.out, found)


if __name__ == "__main__":
    check_specification()
    check_file()
    check_cast()
    check_sample()
    _cli.finish()
