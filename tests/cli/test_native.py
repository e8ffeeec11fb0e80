"""A checkpoint of version 1 of the native format as text (native/version-1.txt), which every later version reads: what
is in it, and that one thing wrong in it is found. tests/interop/native_recipe.py printed it."""
import os
import shutil
import sys
import tempfile

from _cli import SOURCE_DIR, Run, exits, expect, finish

sys.path.insert(0, os.path.join(SOURCE_DIR, "tests", "interop"))
import native_faults  # noqa: E402
import native_recipe  # noqa: E402
import native_values  # noqa: E402

DIGESTS = ("  \n", "  empty\n", "  flat.\\xc3\\xa9\n", "  same\n", "  scalar\n", "  w\n", "  w.bf16\n")


def written(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    native_recipe.write(folder, files)
    return folder


def check_kept(folder):
    with open(os.path.join(SOURCE_DIR, "tests", "cli", "native", "version-1.txt"), encoding="utf-8") as text:
        kept = native_recipe.from_text(text.read())
    expect("the text is what the recipe makes", kept == native_recipe.files())
    written(folder, kept)
    exits(0, "verify", folder, say="7 tensors")
    said = exits(0, "hash", folder)
    tensors = native_recipe.content()
    digests = {n: native_recipe.digest_reference.tensor_digest(native_recipe.TYPES[t[0]], t[3], t[4])
               for n, t in tensors.items()}
    expect("digests", said.out == native_recipe.digest_reference.list_text(digests), said)
    for name, t in tensors.items():
        run = Run("cat", "--raw", folder, name, raw=True)
        expect(f"cat {name!r}", run.code == 0 and run.raw_out == t[4], run)
    for name, text in (("lr", "0.001"), ("betas", "0.95"), ("big", "0x"), ("nan", "nan"), ("ids", "a")):
        said = exits(0, "inspect", "--values", folder)
        expect(f"value {name}", any(line.strip().startswith(name) and text in line for line in said.out.split("\n")),
               said)


def check_faults(folder):
    """verify finds what any digest or rule of the index tells; what only decoding tells, hash."""
    for label, rule, edit in native_faults.FAULTS:
        written(folder, native_recipe.files(edit))
        run = Run("hash" if rule.startswith("COD") else "verify", folder)
        if rule.startswith("DIG"):  # compared by `verify --digests`, and by a signature
            continue
        said = run.code in (1, 2, 5) or (rule == "NAT-3" and "left.bin" in run.err + run.out)
        expect(f"{label} [{rule}]", said, run)


def values_of(kind, text):
    """What the second reader makes of a case of tests/convert/values/cases.txt."""
    text = text if kind == "value" else text.replace("\\n", "\n")
    if kind == "ranks":
        return native_values.read_ranks(f"{text}\n".encode(), 1, 2)
    text = f'{{"format":1,"ordered":true,"root":{text}}}' if kind == "value" else text
    return native_values.read_state(f"{text}\n".encode(), ["w"] if '"$tensor":"w"' in text else [])


def check_values():
    """Both readers of specs/values.md have the same cases; this one says by which clause it refuses them."""
    with open(os.path.join(SOURCE_DIR, "tests", "convert", "values", "cases.txt"), encoding="utf-8") as cases:
        lines = [line[:-1] for line in cases if line[0] not in "#\n"]
    for line in lines:
        verdict, kind, text = line.split(" ", 2)
        clause, text = text.split(" ", 1) if verdict == "bad" else ("", text)
        try:
            values_of(kind, text)
            said = "good"
        except native_values.Refused as why:
            said = str(why)
        expect(line, said == "good" if verdict == "good" else said.endswith(f"[{clause}]"), said)


def main():
    check_values()
    with tempfile.TemporaryDirectory() as work:
        check_kept(os.path.join(work, "kept"))
        check_faults(os.path.join(work, "fault"))
    finish()


if __name__ == "__main__":
    main()
