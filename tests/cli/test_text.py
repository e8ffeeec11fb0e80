"""Elements of every type as text and as JSON, sizes as options, and lists that are too long to show."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import Run, exits, expect, write_st

# dtype, bytes, text, JSON
ELEMENTS = [
    ("BOOL", b"\0\1", "False True", [False, True]),
    ("U8", b"\0\xff", "0 255", [0, 255]),
    ("I8", b"\x80\x7f\xff", "-128 127 -1", [-128, 127, -1]),
    ("U16", b"\xff\xff\1\0", "65535 1", [65535, 1]),
    ("I16", b"\0\x80\xff\x7f", "-32768 32767", [-32768, 32767]),
    ("U32", b"\xff\xff\xff\xff", "4294967295", [4294967295]),
    ("I32", struct.pack("<2i", -2 ** 31, 2 ** 31 - 1), "-2147483648 2147483647",
     [-2 ** 31, 2 ** 31 - 1]),
    ("U64", b"\xff" * 8, "18446744073709551615", [2 ** 64 - 1]),
    ("I64", struct.pack("<2q", -2 ** 63, 2 ** 63 - 1),
     "-9223372036854775808 9223372036854775807", [-2 ** 63, 2 ** 63 - 1]),
    ("F16", struct.pack("<5e", 1.5, -0.0, 65504, 2 ** -24, float("inf")),
     "1.5 -0 65504 5.9605e-08 inf", [1.5, -0.0, 65504, 5.9605e-08, "inf"]),
    ("BF16", b"\x80\x3f\x40\xc0\x80\xff\xc0\x7f\x01\x00", "1 -3 -inf nan 9.184e-41",
     [1, -3, "-inf", "nan", 9.184e-41]),
    ("F32", struct.pack("<4f", 0.1, 1e-45, 3.4028234663852886e38, float("-inf")),
     "0.100000001 1.40129846e-45 3.40282347e+38 -inf",
     [0.100000001, 1.40129846e-45, 3.40282347e+38, "-inf"]),
    ("F64", struct.pack("<3d", 0.1, 5e-324, float("nan")),
     "0.10000000000000001 4.9406564584124654e-324 nan", [0.1, 5e-324, "nan"]),
    ("C64", struct.pack("<4f", 1, -2, 0, float("inf")), "(1,-2) (0,inf)", ["(1,-2)", "(0,inf)"]),
    ("F8_E4M3", b"\x7e\x01", "0x7e 0x01", ["0x7e", "0x01"]),
    ("F8_E5M2", b"\x7b", "0x7b", ["0x7b"]),
]


def check_elements():
    sizes = {"8": 1, "BOOL": 1, "16": 2, "32": 4, "64": 8}
    for dtype, content, text, want in ELEMENTS:
        size = sizes.get(dtype) or (1 if dtype.startswith("F8") else
                                    next(n for end, n in sizes.items() if dtype.endswith(end)))
        write_st("one.safetensors", {"w": (dtype, [len(content) // size], content)})
        run = exits(0, "cat", "one.safetensors", "w")
        expect(f"{dtype}: text", run.out == text + "\n", run)
        document = json.loads(exits(0, "cat", "one.safetensors", "w", "--json").raw_out)
        expect(f"{dtype}: JSON {want}", document["values"] == want, str(document["values"]))
        raw = Run("cat", "one.safetensors", "w", "--raw", raw=True)
        expect(f"{dtype}: raw", raw.out == content, raw)
    # what was printed gives the value back
    values = struct.pack("<200f", *(1.7 ** k / 3 for k in range(-100, 100)))
    write_st("one.safetensors", {"w": ("F32", [200], values)})
    back = [float(x) for x in Run("cat", "one.safetensors", "w").out.split()]
    expect("float32 text gives the bits back", struct.pack("<200f", *back) == values)


def check_regions():
    content = struct.pack("<60i", *range(60))
    write_st("box.safetensors", {"w": ("I32", [3, 4, 5], content), "s": ("I32", [], b"\7\0\0\0"),
                                 "e": ("I32", [2, 0], b""), "a[0]": ("I32", [1], b"\1\0\0\0")})
    for region, want in (
            ("", "\n".join(" ".join(str(20 * i + 5 * j + k) for k in range(5))
                           for i in range(3) for j in range(4))),
            ("[1]", "20 21 22 23 24\n25 26 27 28 29\n30 31 32 33 34\n35 36 37 38 39"),
            ("[2, 1:3, 4]", "49\n54"), ("[:, 3, :1]", "15\n35\n55"), ("[0,0,0]", "0"),
            ("[ 2 , 3 , 3: ]", "58 59"), ("[2:2]", ""), ("[:, :, 5:]", "")):
        run = exits(0, "cat", "box.safetensors", "w" + region)
        expect(f"region {region!r}", run.out.rstrip("\n") == want, run)
    for region in ("[3]", "[0,0,0,0]", "[0:4]", "[a]", "[", "[]x", "[0;1]", "[0,,1]", "[1:0]", "[--1]",
                   "[0x1]", "[0 1]"):
        exits(2, "cat", "box.safetensors", "w" + region, say="not a region")
    expect("a scalar", exits(0, "cat", "box.safetensors", "s").out == "7\n")
    expect("an empty tensor", exits(0, "cat", "box.safetensors", "e").out == "")
    expect("a name with brackets", exits(0, "cat", "box.safetensors", "a[0]").out == "1\n")


def check_sizes():
    for text, ok in (("1", 1), ("64K", 1), ("64k", 1), ("1MiB", 1), ("1mib", 1), ("2MB", 1), ("1G", 1),
                     ("0", 1), ("", 0), ("M", 0), ("1T", 0), ("1MiBs", 0), ("-1", 0), ("1.5M", 0),
                     ("99999999999999999999", 0), ("18446744073709551615G", 0)):
        run = Run("verify", "demo", "--memory", text)
        expect(f"--memory {text!r}", (run.code == 0) == bool(ok) and run.code in (0, 2), run)
    for text, ok in (("1", 1), ("16", 1), ("4096", 1), ("4097", 0), ("0", 0), ("x", 0)):
        run = Run("verify", "demo", f"--threads={text}")
        expect(f"--threads {text!r}", (run.code == 0) == bool(ok) and run.code in (0, 2), run)


def check_long_lists():
    """8 findings of a code are shown, the rest counted; all are in the document."""
    os.mkdir("many")
    content = {f"w{i}": ("F32", [1], bytes(4)) for i in range(80)}
    write_st("many/a.safetensors", content)
    write_st("many/b.safetensors", content)
    run = exits(1, "verify", "many")
    lines = [line for line in run.out.splitlines() if "[duplicate-tensor]" in line]
    expect("8 are shown", len(lines) == 8, run)
    expect("72 are counted", "... and 72 more; --json lists them" in run.out, run)
    expect("and in the verdict", "DEFECTIVE: 80 defects" in run.out, run)
    document = json.loads(Run("verify", "many", "--json").raw_out)
    expect("all are listed", len(document["findings"]) == 80)
    # notes are for those who want them
    run = exits(0, "verify", "demo/.metadata")
    expect("a note", "note:" in run.out, run)
    run = exits(0, "verify", "demo/.metadata", "--quiet")
    expect("quiet: none", run.out == "", run)


def main():
    exits(0, "demo", "demo")
    check_elements()
    check_regions()
    check_sizes()
    check_long_lists()
    _cli.finish()


if __name__ == "__main__":
    main()
