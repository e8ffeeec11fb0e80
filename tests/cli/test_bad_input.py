"""Input that is broken or means harm, beyond the matrix: contradictions of an index, what is no file,
what may not be read, names that would steer a terminal, a full disk, the wrong level of folders, and
small files that are made to cost much (_bombs.py). Each run is held to 2 s of CPU and 100 MiB.
"""
import json
import os
import pickle
import resource
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _bombs
import _cli
import _inputs as make
from _cli import Run, expect

CPU_SECONDS, MEMORY_BYTES = 2, 100 << 20
MARKER = os.path.abspath("it-ran")
NOBODY = 65534
ESCAPED = {c for c in range(32) if c != 10} | {0x7f} | set(range(0x80, 0xa0)) | {
    0x61c, 0x200e, 0x200f, *range(0x202a, 0x202f), *range(0x2066, 0x206a), 0x2028, 0x2029}


def is_instrumented():
    """Sanitizers cost more than what is allowed here."""
    with open(_cli.BINARY, "rb") as file:
        return b"__asan_init" in file.read()


INSTRUMENTED = is_instrumented()


def limits(user=None):
    def set_them():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        if not INSTRUMENTED:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        if user is not None and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
    return set_them


class Measured:
    """A run with its cost; it looks like _cli.Run."""

    def __init__(self, *argv, user=None):
        with open("stdout", "w+b") as out, open("stderr", "w+b") as err:
            child = subprocess.Popen([_cli.BINARY, *argv], stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=err, preexec_fn=limits(user))
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = self.code = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            self.raw_out, self.raw_err = out.read(), err.read()
        self.argv, self.cpu, self.bytes = argv, used.ru_utime + used.ru_stime, used.ru_maxrss << 10
        self.out = self.raw_out.decode("utf-8", "replace")
        self.err = self.raw_err.decode("utf-8", "replace")

    __str__ = Run.__str__

    def check(self, label):
        """What holds for every run, whatever it was given."""
        expect(f"{label}: {self.argv[0]} ends by itself", self.code in (0, 1, 2, 3, 4, 5), self)
        if not INSTRUMENTED:
            expect(f"{label}: {self.argv[0]} took {self.cpu:.2f} s", self.cpu <= CPU_SECONDS, self)
            expect(f"{label}: {self.argv[0]} took {self.bytes >> 20} MiB",
                   self.bytes <= MEMORY_BYTES, self)
        if "--raw" in self.argv:
            return
        try:
            text = (self.raw_out + self.raw_err).decode("utf-8")
        except UnicodeDecodeError:
            expect(f"{label}: {self.argv[0]} prints UTF-8", False, self)
            return
        found = sorted({f"U+{ord(c):04X}" for c in text if ord(c) in ESCAPED})
        expect(f"{label}: {self.argv[0]} prints no {found}", not found, self)


def both(label, path, verify, convert, *words, user=None, all_words=True, to="hf"):
    """verify and convert of a path: exit codes, words in both, nothing left, the source untouched."""
    before = make.tree(path) if user is None else None
    runs = [(Measured("verify", path, user=user), verify),
            (Measured("convert", path, "out", "--to", to, user=user), convert),
            (Measured("inspect", "--values", "--tensors", "*", path, user=user), None)]
    for run, codes in runs:
        run.check(label)
        if codes is None:
            continue
        codes = codes if isinstance(codes, tuple) else (codes,)
        expect(f"{label}: {run.argv[0]} exits {codes}", run.code in codes, run)
        said = [w in run.out + run.err for w in words]
        if run.code != 0 and words:
            expect(f"{label}: {run.argv[0]} says {words}", all(said) if all_words else any(said),
                   run)
        expect(f"{label}: {run.argv[0]}: a message of one line each", run.code == 0 or
               run.out + run.err, run)
    expect(f"{label}: nothing ran", not os.path.exists(MARKER))
    expect(f"{label}: the source is as it was", before is None or make.tree(path) == before)
    if runs[1][0].code not in (0, 3):
        left = [n for n in os.listdir(".") if n.startswith("out")]
        expect(f"{label}: nothing is left", not left, str(left))
    shutil.rmtree("out", ignore_errors=True)
    return runs[0][0], runs[1][0]


# ---- an index that contradicts itself -------------------------------------------------------------

NAME = "model.layers.0.up.weight"


def of_name(index):
    return next(v for (n, _), v in make.places(index).items() if n == NAME)


def lose_chunk(index):
    chunk = index.state["state_dict_metadata"][NAME].state["chunks"].pop(1)
    offset = tuple(chunk.state["offsets"].args[0])
    for key in list(index.state["storage_data"]):
        if key.state["fqn"] == NAME and tuple(key.state["offset"].args[0]) == offset:
            del index.state["storage_data"][key]


def lose_place(index):
    key = next(k for k in index.state["storage_data"] if k.state["fqn"] == NAME)
    del index.state["storage_data"][key]


def lose_tensor(index):
    del index.state["state_dict_metadata"][NAME]


def overlap(index):
    """The second chunk begins a row early."""
    chunk = index.state["state_dict_metadata"][NAME].state["chunks"][1]
    row = chunk.state["offsets"].args[0][0]
    for key in index.state["storage_data"]:
        if key.state["fqn"] == NAME and key.state["offset"].args[0][0] == row:
            key.state["offset"].args = (tuple([row - 1, 0]),)
    chunk.state["offsets"].args = (tuple([row - 1, 0]),)


def smaller(index):
    index.state["state_dict_metadata"][NAME].state["size"].args = (tuple([90, 48]),)


def larger(index):
    index.state["state_dict_metadata"][NAME].state["size"].args = (tuple([101, 48]),)


def placed(**changes):
    def change(index):
        of_name(index).update(changes)
    return change


def shifted(index):
    of_name(index)["offset"] += 64


def shorter(index):
    of_name(index)["length"] -= 100


# (what, change, verify, convert, words)
INDEX_FAULTS = [
    ("a chunk is missing", lose_chunk, 1, 2, (NAME, "of 4800 elements", "next: ")),
    ("a chunk has no place", lose_place, 1, 2, (NAME,)),
    ("places of a tensor that is not there", lose_tensor, 1, 2, (NAME,)),
    ("chunks overlap", overlap, 1, 2, (NAME,)),
    ("chunks lie outside the tensor", smaller, 1, 2, (NAME,)),
    ("the tensor is larger than its chunks", larger, 1, 2, (NAME, "4800 of 4848")),
    ("an offset past the file", placed(offset=1 << 40), 1, 2, ("__0_0.distcp",)),
    ("an offset near the end of numbers", placed(offset=(1 << 63) - 1), 1, 2, (".distcp",)),
    ("a negative offset", placed(offset=-8), 1, 2, (".metadata",)),
    ("an offset inside an item", shifted, 1, 2, (NAME,)),
    ("a length that is short", shorter, 1, 2, (NAME,)),
    ("a length past the file", placed(length=1 << 40), 1, 2, (NAME,)),
    ("a negative length", placed(length=-1), 1, 2, (".metadata",)),
    ("a file that is not there", placed(relative_path="__9_0.distcp"), 1, 2, ("__9_0.distcp",)),
    ("a path to the parent", placed(relative_path="../sample/__0_0.distcp"), 5, 5, ("would leave the checkpoint", "next: ")),
    ("an absolute path", placed(relative_path="/etc/passwd"), 5, 5, ("/etc/passwd",)),
    ("a path through a name", placed(relative_path="a/../__0_0.distcp"), 5, 5, ("__0_0",)),
    ("a path that is empty", placed(relative_path=""), (1, 5), (2, 5), (".metadata",)),
    ("an unknown transform", placed(transform_descriptors=["stream.rot13/1"]), 1, 2, ("rot13",)),
    ("too many transforms", placed(transform_descriptors=["stream.zstd/1"] * 99), (1, 5), (2, 5),
     ("transform",)),
]


def check_index():
    for what, change, verify, convert, words in INDEX_FAULTS:
        folder = make.copy("sample", "broken")
        index = make.read_index(folder)
        change(index)
        make.write_index(folder, index)
        both(what, folder, verify, convert, *words)
    shutil.rmtree("broken")


def write_st(path, names, extra=""):
    entries = ",".join(f'"{n}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}'
                       for i, n in enumerate(names))
    text = ("{" + entries + extra + "}").encode()
    make.write(path, len(text).to_bytes(8, "little") + text + bytes(len(names)))


# (what, text of weight_map, names in a.safetensors, verify, convert, words)
HF_FAULTS = [
    ("a tensor that is in no file", '"a":"a.safetensors","b":"a.safetensors"', ["a"], 1, 2,
     ('"b"', "a.safetensors")),
    ("a tensor that is not listed", '"a":"a.safetensors"', ["a", "b"], 1, 2, ('"b"',)),
    ("a file that is not there", '"a":"a.safetensors","b":"b.safetensors"', ["a"], 1, 2,
     ("b.safetensors", '"b"')),
    ("a name twice", '"a":"a.safetensors","a":"a.safetensors"', ["a"], 1, 2, ("a",)),
    ("a name twice in the file", '"a":"a.safetensors"', ["a", "a"], 1, 2, ('"a"',)),
    ("a path to the parent", '"a":"../hf/model.safetensors"', ["a"], 5, 5, ("../hf",)),
    ("an absolute path", '"a":"/etc/passwd"', ["a"], 5, 5, ("/etc/passwd",)),
    ("a path with a zero", '"a":"a\\u0000.safetensors"', ["a"], (1, 2, 5), (2, 5), ("NUL",)),
    ("no files at all", "", ["a"], (0, 1, 2), (2, 3), ("tensor",)),
]


def check_hf():
    for what, listed, names, verify, convert, words in HF_FAULTS:
        shutil.rmtree("broken", ignore_errors=True)
        os.mkdir("broken")
        write_st("broken/a.safetensors", names)
        make.write("broken/model.safetensors.index.json", f'{{"weight_map":{{{listed}}}}}')
        both(f"index: {what}", "broken", verify, convert, *words)
    shutil.rmtree("broken")


# ---- what is no file, or may not be read -----------------------------------------------------------


def put_fifo(path):
    os.mkfifo(path)


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)


def put_folder(path):
    os.mkdir(path)


def put_dangling_link(path):
    os.symlink("nowhere", path)


def put_link_to_itself(path):
    os.symlink(os.path.basename(path), path)


def put_link_to_a_device(path):
    os.symlink("/dev/zero", path)


def put_link_to_a_file_that_is_no_checkpoint(path):
    os.symlink("/etc/passwd", path)


KINDS = [("sample", "__1_0.distcp"), ("sample", ".metadata"), ("hf", "model.safetensors"),
         ("hf-sharded", "model-00002-of-00003.safetensors"),
         ("hf-sharded", "model.safetensors.index.json"), ("torch", "step.pt")]


def check_no_files():
    for folder, name in KINDS:
        for put in (put_fifo, put_socket, put_folder, put_dangling_link, put_link_to_itself,
                    put_link_to_a_device, put_link_to_a_file_that_is_no_checkpoint):
            broken = make.copy(folder, "broken")
            os.remove(f"{broken}/{name}")
            put(f"{broken}/{name}")
            # of an only file, or one that others do without, nobody knows that it was to be there
            spare = name in ("model.safetensors", "model.safetensors.index.json", "step.pt")
            label = f"{put.__name__[4:]} in place of {folder}/{name}"
            both(label, broken, (0, 1, 2, 5) if spare else (1, 5),
                 (0, 2, 5) if spare else (2, 5), *(() if spare else (name,)))
    shutil.rmtree("broken")
    for path in ("fifo", "/dev/zero", "/dev/null", "broken.sock"):
        if path == "fifo":
            os.mkfifo(path)
        if path.endswith("sock"):
            put_socket(path)
        for argv in (["verify", path], ["convert", path, "out", "--to", "hf"], ["hash", path]):
            run = Measured(*argv)
            run.check(f"{argv[0]} of {path}")
            expect(f"{argv[0]} of {path}: exit 2", run.code == 2, run)
            expect(f"{argv[0]} of {path}: names it", path in run.err, run)


def check_unreadable():
    """As a user who may not read: root may."""
    if os.geteuid() == 0:
        os.chmod(".", 0o777)
    for folder, name in KINDS + [("sample", "")]:
        broken = make.copy(folder, "broken")
        os.chmod(os.path.join(broken, name), 0)
        label = f"{folder}/{name} that may not be read"
        both(label, broken, (1, 2), 2, name or broken, "Permission denied", user=NOBODY)
        os.chmod(os.path.join(broken, name), 0o755)
    shutil.rmtree("broken")
    os.mkdir("locked", 0o555)
    run = Measured("convert", "sample", "locked/out", "--to", "hf", user=NOBODY)
    run.check("a folder that may not be written")
    expect("a folder that may not be written: exit 2", run.code == 2, run)
    expect("and that is said", "locked/out" in run.err and "Permission denied" in run.err, run)
    plan = Measured("plan", "sample", "locked/out", "--to", "hf", user=NOBODY)
    expect("plan says the same", plan.code == 2 and "Permission denied" in plan.err, plan)
    expect("nothing is in it", os.listdir("locked") == [])


# ---- files besides --------------------------------------------------------------------------------


def check_besides():
    """What is given beside the checkpoint: digest lists, names, assets."""
    os.mkfifo("pipe-besides")
    for path in ("/dev/zero", "pipe-besides", "sample", ".", "absent"):
        for argv in (["verify", "hf", "--digests", path],
                     ["convert", "sample", "out.pt", "--to", "ddp", "--param-names", path],
                     ["convert", "sample", "out", "--to", "hf", "--assets", path]):
            if argv[-2] == "--assets" and path in ("sample", "."):
                continue
            run = Measured(*argv)
            run.check(f"{argv[-2]} {path}")
            expect(f"{argv[-2]} {path}: exit 2, and the path is named", run.code == 2 and
                   path in run.err, run)
    os.mkdir("assets")
    make.write("assets/config.json", "{}")
    for put in (put_fifo, put_dangling_link, put_link_to_a_device, put_link_to_itself):
        put("assets/tokenizer.json")
        run = Measured("convert", "sample", "out", "--to", "hf", "--assets", "assets")
        run.check(f"an asset that is {put.__name__[4:]}")
        expect(f"an asset that is {put.__name__[4:]}: refused by name", run.code == 2 and
               "tokenizer.json: a link to nothing, or no regular file" in run.err, run)
        os.remove("assets/tokenizer.json")
    with open("assets/tokenizer.json", "wb") as file:
        file.truncate(1 << 40)
    run = Measured("convert", "sample", "out", "--to", "hf", "--assets", "assets")
    run.check("an asset of a terabyte")
    expect("an asset of a terabyte: refused by name", run.code == 5 and "tokenizer.json" in run.err,
           run)
    expect("nothing is made", not [n for n in os.listdir(".") if n.startswith("out")])


# ---- a full disk ----------------------------------------------------------------------------------


def check_full_disk():
    """A file system of 64 KiB in a namespace of its own, where that is allowed."""
    os.mkdir("small")
    script = ('mount -t tmpfs -o size=64k none small || exit 77; "$0" plan sample small/out --to hf; '
              'echo "plan $?"; "$0" convert sample small/out --to hf; echo "convert $?"; ls -A small')
    enter = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    try:
        done = subprocess.run([*enter, "bash", "-c", script, _cli.BINARY], capture_output=True,
                              text=True, timeout=60, check=False)
    except FileNotFoundError:
        return "not run: no unshare"
    if done.returncode == 77 or "unshare" in done.stderr:
        return "not run: no file system can be mounted here"
    about = done.stdout + done.stderr
    expect("a full disk: plan and convert exit 2", "plan 2" in about and "convert 2" in about, about)
    expect("a full disk: how much is needed and free", "125892 bytes are needed" in about and
           "are free; make room there or choose another destination" in about, about)
    expect("a full disk: nothing is left", about.count("small/out") <= 2 and
           done.stdout.rstrip().endswith("convert 2"), about)
    return "run"


# ---- folders --------------------------------------------------------------------------------------


def check_levels():
    os.makedirs("above/step-7")
    shutil.copytree("sample", "above/step-7/model")
    os.makedirs("sample-with/logs")
    for name in os.listdir("sample"):
        shutil.copy(f"sample/{name}", f"sample-with/{name}")
    make.write("sample-with/logs/train.log", "step 1\n")
    run = Measured("verify", "above/step-7")
    expect("one level too high: seen through, and said", run.code == 0 and
           "above/step-7/model" in run.out, run)
    for path in ("above", "sample-with/logs", "sample-with/logs/train.log"):
        for argv in (["verify", path], ["convert", path, "out", "--to", "hf"]):
            run = Measured(*argv)
            run.check(f"{argv[0]} of {path}")
            expect(f"{argv[0]} of {path}: exit 2", run.code == 2, run)
    run = Measured("verify", "sample-with/logs")
    expect("one level too low: the right one is named", "sample-with" in run.err, run)
    run = Measured("verify", "sample/__1_0.distcp")
    expect("a file of the folder: the folder", run.code == 0, run)


# ---- names ----------------------------------------------------------------------------------------

NASTY = ["line\nbreak", "\x1b[31mred", "a\rb", "\x7f", "b\u202egnp.exe", "c\u2066d", "\u009b31m",
         "\u2028", "tab\there", "quote\"back\\slash", "\ufeffbom", "e\u0301", "\U0001f600", " ",
         "../up", "/etc/passwd", "a" * 5000, "%s%n", "{}", "-rf", "--help", "dot.", ".", ""]


def check_names():
    """Tensors, keys and values of such names, in each kind; what is printed cannot steer."""
    tensors = {n: make.floats([float(i)], [1]) for i, n in enumerate(NASTY) if n}
    os.mkdir("names")
    make.torch_save("names/step.pt", {"model": tensors, "args": {n: n for n in NASTY}})
    for target in ("hf", "torch", "dcp:ranks=2"):
        out = f"names-{target.split(':')[0]}"
        run = Measured("convert", "names/step.pt", out, "--to", target)
        run.check(f"names to {target}")
        expect(f"names to {target}: done, or refused by name", run.code in (0, 2, 3, 5), run)
        if run.code not in (0, 3):
            continue
        for argv in (["verify", out], ["verify", "--level", "values", out], ["hash", out],
                     ["inspect", "--tensors", "*", "--values", "--tree", "--files", out],
                     ["diff", "names/step.pt", out, "--state"]):
            Measured(*argv).check(f"names in {out}")
        document = json.loads(Measured("inspect", "--json", out).raw_out.decode("utf-8"))
        names = {t["name"].removeprefix("model.") for t in document["tensors"]}
        expect(f"names in {out}: as they were", set(tensors) <= names, str(set(tensors) - names))
    for name in (b"bad\xff\xfe.safetensors", "new\nline.safetensors".encode(),
                 b"\x1b[2J.safetensors", "b\u202e.safetensors".encode()):
        shutil.rmtree("odd", ignore_errors=True)
        os.mkdir("odd")
        shutil.copy("hf/model.safetensors", os.path.join(b"odd", name))
        make.write(os.path.join(b"odd", b"x" + name + b".pkl"), pickle.dumps(
            make.evil_touch(MARKER)))
        for argv in (["verify", "odd"], ["inspect", "--files", "odd"], ["verify", b"odd/" + name],
                     ["convert", "odd", b"out" + name, "--to", "hf"], ["plan", "odd", "--to", "hf"],
                     ["verify", b"absent" + name]):
            run = Measured(*argv)
            run.check(f"a file of the name {name}")
        shutil.rmtree(b"out" + name, ignore_errors=True)
        expect("nothing ran", not os.path.exists(MARKER))
        document = Measured("verify", "--json", "odd")
        expect(f"{name}: JSON is valid", json.loads(document.raw_out.decode("utf-8")), document)


# ---- bombs ----------------------------------------------------------------------------------------


def check_bombs():
    for name, verify, convert, words, function in _bombs.BOMBS:
        function()
        path = "bomb" if os.path.exists("bomb") else "bomb.safetensors"
        both(name, path, verify, convert, *words, all_words=False)
        for argv in (["hash", path], ["plan", path, "--to", "torch"],
                     ["verify", "--level", "values", path], ["diff", "--state", path, path]):
            Measured(*argv).check(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def main():
    for argv in (["demo", "sample"], ["convert", "sample", "hf", "--to", "hf"],
                 ["convert", "sample", "hf-sharded", "--to", "hf:shard=50KB"]):
        expect(f"{argv}: exit 0", Run(*argv).code == 0)
    os.mkdir("torch")
    expect("a torch file", Run("convert", "sample", "torch/step.pt", "--to", "torch").code == 0)
    rows = []
    for check in (check_index, check_hf, check_no_files, check_unreadable, check_besides,
                  check_full_disk, check_levels, check_names, check_bombs):
        before, failed = _cli.checks, len(_cli.failures)
        said = check() or ""
        bad = len(_cli.failures) - failed
        rows.append(f"{check.__name__[6:]:14} {_cli.checks - before} checks"
                    + (f", {bad} FAILED" if bad else "") + (f" ({said})" if said else ""))
    print("\n".join(rows))
    _cli.finish()


if __name__ == "__main__":
    main()
