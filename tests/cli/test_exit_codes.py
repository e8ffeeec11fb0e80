"""The table of exit codes in specs/cli.md, row by row; and that --json is valid whatever happens."""
import os
import pickle
import resource
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import Run, exits, expect, write_st


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


def cut(path, size):
    with open(path, "r+b") as file:
        file.truncate(size)


def make_folders():
    exits(0, "demo", "demo")
    shutil.copytree("demo", "cut")
    cut("cut/__1_0.distcp", 1000)
    shutil.copytree("demo", "no-index")
    os.remove("no-index/.metadata")
    shutil.copytree("demo", "flipped")
    with open("flipped/__2_0.distcp", "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 4]))
    shutil.copytree("demo", "unsafe")
    with open("unsafe/rng_state.pth", "wb") as file:
        pickle.dump({"a": Evil()}, file, protocol=2)
    os.mkdir("empty")
    shutil.copytree("demo", "run/step-1")
    shutil.copytree("demo", "run/step-2")
    shutil.copytree("run", "run-cut")
    os.remove("run-cut/step-2/.metadata")
    shutil.copytree("run", "run-behind")
    with open("run-behind/latest", "w") as file:
        file.write("step-1")
    shutil.copytree("run", "run-unsafe")
    shutil.copy("unsafe/rng_state.pth", "run-unsafe/step-1")
    shutil.copytree("run", "run-old-cut")
    os.remove("run-old-cut/step-1/__1_0.distcp")
    shutil.copytree("run", "run-unknown")
    for name in ("a.pt", "b.pt"):
        with open(f"run-unknown/{name}", "wb") as file:
            file.write(b"x")
        os.makedirs("run-unknown/step-3", exist_ok=True)
        shutil.copy(f"run-unknown/{name}", "run-unknown/step-3")
    os.mkdir("hf")
    write_st("hf/model.safetensors", {"w": ("F32", [4], bytes(16))})
    os.mkdir("bits")
    write_st("bits/model.safetensors", {"w": ("F99", [4], bytes(16)), "v": ("U8", [1], b"x")})
    os.mkdir("exists")


# (code, what is said, command line)
TABLE = [
    (0, None, "inspect demo"),
    (0, "ok", "verify demo"),
    (0, "ok", "verify --level structure demo"),
    (0, "ok", "verify --level coverage demo"),
    (0, "done: out-1", "convert demo out-1 --to hf"),
    (0, "in one.list", "convert demo out-list --to hf --digests one.list --overwrite"),
    (5, "one.list: exists", "convert demo out-other --to hf --digests one.list"),
    (2, "lies in the source folder", "convert demo out-other --to hf --digests demo/list"),
    (0, "nothing was moved", "convert demo --to hf --dry-run"),
    (0, "nothing was moved", "plan demo --to hf"),
    (0, "nothing was moved", "plan demo out-2 --to hf"),
    (5, "--overwrite", "plan demo exists --to hf"),
    (5, "--overwrite", "convert demo exists --to hf --dry-run"),
    (0, "nothing was moved", "plan demo exists --to hf --overwrite"),
    (2, "make it first", "plan demo absent/out --to hf"),
    (2, "lies in the source", "plan demo demo/out --to hf"),
    (2, "one argument too many", "plan demo out-2 out-3 --to hf"),
    (0, None, "cat demo model.norm.weight"),
    (0, "not checked", "verify hf"),
    (0, None, "verify --quiet demo"),
    (0, "ok: part 2 of 3", "verify --subset 2/3 demo"),
    (0, "ok: 3 tensors that were named, part 1 of 1", "verify --tensors model.layers.0.* --subset 1/1 demo"),
    (0, '"chosen_tensors": 1', "verify --json --tensors model.embedding.weight demo"),
    (0, '"parts": 7', "verify --json --subset 7/7 demo"),
    (0, "left out, so not checked", "verify --level coverage demo"),
    (1, "crc-mismatch", "verify --subset 1/1 flipped"),
    (2, "--subset takes N/T", "verify --subset 0/3 demo"),
    (2, "--subset takes N/T", "verify --subset 4/3 demo"),
    (2, "--subset takes N/T", "verify --subset 1 demo"),
    (2, "--subset takes N/T", "verify --subset 1/2/3 demo"),
    (2, "not of a --run", "verify --run --subset 1/3 run"),
    (2, "of a whole checkpoint", "verify --tensors * --digests list demo"),
    (4, "meets no tensor", "verify --tensors nowhere demo"),
    (1, "__1_0.distcp", "verify cut"),
    (1, "__1_0.distcp", "inspect cut"),
    (1, ".metadata is missing", "verify no-index"),
    (1, "crc-mismatch", "verify flipped"),
    (0, None, "inspect flipped"),
    (2, "no known", "verify empty --from"),
    (2, "no checkpoint of a known kind", "verify empty"),
    (2, "no checkpoint of a known kind", "inspect empty"),
    (2, "No such file", "verify absent"),
    (2, "No such file", "inspect absent"),
    (2, "No such file", "convert absent out-2 --to hf"),
    (2, "No such file", "cat absent w"),
    (2, "holds several checkpoints", "convert run out-2 --to hf"),
    (0, "newest complete: step-2", "inspect run"),
    (0, "ok", "verify run"),
    (0, "newest: step-2", "verify --level digest run"),
    (0, "step-1: not complete", "verify run-old-cut"),
    (1, "newest complete: step-1", "verify run-cut"),
    (1, "newest complete: step-1", "inspect run-cut"),
    (1, "pointer-behind", "verify run-behind"),
    (5, "system", "verify --level digest run-unsafe"),
    (2, "several files of torch.save", "verify run-unknown"),
    (2, "several files of torch.save", "verify run-unknown/step-3"),
    (2, "no checkpoints are in it", "verify --run demo"),
    (0, "newest: step-2", "verify --run run"),
    (2, "not of a --run", "verify --run run --digests x"),
    (2, ".metadata is missing", "convert no-index out-2 --to hf"),
    (2, "__1_0.distcp", "convert cut out-2 --to hf"),
    (2, "__2_0.distcp", "convert flipped out-2 --to hf"),
    (2, "no tensor of that name", "cat demo absent"),
    (2, "not a region", "cat demo model.norm.weight[5]"),
    (2, "not a region", "cat demo model.norm.weight[0:1,0]"),
    (2, "not a region", "cat demo model.norm.weight[0:1"),
    (2, "--to", "convert demo out-2"),
    (2, "not a target", "convert demo out-2 --to gguf"),
    (2, "SOURCE and DEST", "convert demo --to hf"),
    (2, "one argument too many", "convert demo out-2 out-3 --to hf"),
    (2, "unknown option", "verify demo --fast"),
    (2, "takes no value", "verify demo --json=yes"),
    (2, "a value is missing", "verify demo --level"),
    (2, "--level takes", "verify demo --level deep"),
    (2, "--dtype takes", "convert demo out-2 --to hf --dtype int8"),
    (2, "--drop-role takes", "convert demo out-2 --to hf --drop-role model"),
    (2, "not a value", "verify demo --threads 0"),
    (2, "not a value", "verify demo --threads 99999"),
    (2, "not a value", "verify demo --memory lots"),
    (2, "a path is needed", "verify"),
    (2, "a path is needed", "inspect"),
    (2, "a path and a tensor", "cat demo"),
    (2, "a new folder", "demo"),
    (2, "exclude each other", "cat demo model.norm.weight --raw --json"),
    (2, "--section", "convert demo out-2 --to hf --section nowhere"),
    (2, "no tensor is left", "convert demo out-2 --to hf --only nothing"),
    (2, "lies in the source", "convert demo demo/out --to hf"),
    (4, "UNCHECKED", "verify --level digest hf"),
    (0, "root", "hash demo --weights"),
    (0, "root", "hash demo --as bf16 --only *.weight"),
    (2, "--only names", "hash demo --only nope"),
    (2, "--as takes", "hash demo --as int8"),
    (0, "ok", "diff demo demo --state"),
    (1, "only in A", "diff demo hf --state"),
    (4, "UNCHECKED", "diff demo demo --expect-change nope"),
    (2, "not negative", "diff demo hf --atol -1"),
    (2, "two paths", "diff demo"),
    (2, "nowhere", "diff demo nowhere"),
    (0, "ok", "verify demo --level values"),
    (5, "system", "verify unsafe"),
    (5, "exists", "convert demo exists --to hf"),
    (5, "exists", "demo exists"),
]


def check_table():
    for code, say, line in TABLE:
        if line.endswith("--from"):
            exits(2, *line.split(), say="a value is missing")
            continue
        exits(code, *line.split(), say=say)
        expect(f"{line}: nothing under a refused name", not os.path.exists("out-2"))
    # the words of help and version
    for words in (["--help"], ["-h"], ["help"]) + tuple([v, "--help"] for v in _cli.VERBS):
        run = exits(0, *words)
        expect(f"{words}: on standard output", run.out and not run.err, run)
        expect(f"{words}: an example first", "example" in "\n".join(run.out.split("\n")[:3]), run)
    exits(0, "--version", say="shardwright 0.1.0")
    run = exits(2)
    expect("no command: help on standard error", "commands" in run.err and not run.out, run)
    exits(2, "frobnicate", say="no command is called frobnicate")


def check_unsafe_conversion():
    """--drop-unsafe is for what lies in values; a file beside is not read by convert."""
    run = Run("convert", "unsafe", "out-u", "--to", "hf")
    expect("convert of a folder with an unsafe side file: 0 or refused", run.code in (0, 5), run)
    shutil.rmtree("out-u", ignore_errors=True)


def check_json():
    spec, codes = _cli.spec_keys(), _cli.severities_and_codes()
    for verb in _cli.VERBS:
        expect(f"specs/cli.md says the keys of {verb}", verb in spec or verb == "demo")
    for code, _, line in TABLE:
        argv = line.split()
        if code == 0 and "out-1" in argv:
            shutil.rmtree("out-1")
        # before "--from" without a value; and everything else that can be said
        run = Run(argv[0], "--json", *argv[1:])
        expect(f"{line} --json: exit {code}", run.code == code, run)
        document = _cli.check_document(run, spec, codes)
        if code in (2, 5) and argv[0] != "verify":
            expect(f"{line} --json: has an error", "error" in document, run)
        if "error" in document:
            status = document["error"]["status"]
            expect(f"{line}: a status of the specification", status in
                   "ARG NOMEM LIMIT IO NOTFOUND EXISTS FORMAT UNSUPPORTED CORRUPT INCOMPLETE "
                   "CONFLICT UNSAFE UNTRUSTED CANCELED".split(), run)
    run = Run("demo", "--json", "new-demo")
    _cli.check_document(run, spec, codes)
    return spec, codes


def check_content(spec, codes):
    """What is in the documents, against the text and against each other."""
    inspect = _cli.check_document(Run("inspect", "demo", "--json", "--values"), spec, codes)
    expect("inspect: 32 tensors", inspect["tensor_count"] == len(inspect["tensors"]) == 32)
    expect("inspect: bytes add up",
           sum(t["bytes"] for t in inspect["tensors"]) == inspect["tensor_bytes"])
    expect("inspect: values", [v["name"] for v in inspect["values"]] ==
           ["trainer.epoch", "trainer.learning_rate"] and inspect["values"][0]["text"] == "3")
    expect("inspect: files", [f["path"] for f in inspect["files"]] ==
           [f"__{r}_0.distcp" for r in range(4)])
    roles = {t["name"]: (t["role"], t["section"]) for t in inspect["tensors"]}
    expect("inspect: roles", roles["model.norm.weight"] == ("model", "model") and
           roles["optimizer.state.norm.weight.step"] == ("optimizer", "optimizer"))
    verify = _cli.check_document(Run("verify", "demo", "--json"), spec, codes)
    expect("verify: all checked", verify["verdict"] == "ok" and verify["bytes"]["unchecked"] == 0
           and verify["bytes"]["checked"] > verify["tensor_bytes"])
    plan = _cli.check_document(Run("plan", "demo", "--to", "hf", "--dtype", "bf16", "--json"),
                               spec, codes)
    expect("plan: casts", all(t["cast_from"] == "float32" and t["dtype"] == "bfloat16"
                              for t in plan["tensors"]))
    done = _cli.check_document(Run("convert", "demo", "out-j", "--to", "hf", "--dtype", "bf16",
                                   "--verify", "--json"), spec, codes)
    expect("convert: as planned", done["tensors"] == plan["tensors"] and
           done["total_bytes"] == plan["total_bytes"] == os.path.getsize("out-j/model.safetensors"))
    expect("convert: read back", done["verified_tensors"] == done["tensor_count"] == 8)
    expect("convert: cast", done["cast"]["elements"] == 31299)
    cat = _cli.check_document(Run("cat", "demo", "model.layers.0.up.weight[1:3, 46:]", "--json"),
                              spec, codes)
    expect("cat: values", cat["values"] == [94 + 2 / 64, 95 + 2 / 64, 142 + 2 / 64, 143 + 2 / 64])
    expect("cat: region", (cat["begin"], cat["end"]) == ([1, 46], [3, 48]))
    write_st("odd.safetensors", {"f": ("F32", [3], b"\0\0\xc0\x7f\0\0\x80\xff\0\0\x80\x3f"),
                                 "b": ("BOOL", [2], b"\0\1"), "u": ("U64", [1], b"\xff" * 8),
                                 "c": ("C64", [1], bytes(8)), "e": ("F8_E4M3", [1], b"\x7e")})
    for name, want in (("f", ["nan", "-inf", 1]), ("b", [False, True]), ("u", [2 ** 64 - 1]),
                       ("c", ["(0,0)"]), ("e", None)):
        cat = _cli.check_document(Run("cat", "odd.safetensors", name, "--json"), spec, codes)
        expect(f"cat: {name} is {want}", want is None or cat["values"] == want, str(cat["values"]))


def check_file_limit():
    """ulimit -f: the write fails and is said; the signal that comes with it ends nothing."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    exits(2, "convert", "demo", "limited", "--to", "hf", say="File too large", preexec_fn=limit)
    expect("a limit on files: nothing under the name", not os.path.exists("limited"))


def main():
    make_folders()
    check_table()
    check_file_limit()
    check_unsafe_conversion()
    spec, codes = check_json()
    check_content(spec, codes)
    _cli.finish()


if __name__ == "__main__":
    main()
