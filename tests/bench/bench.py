"""Speed and memory as ratios to a yardstick that runs beside, never as times.

    bench.py --shardwright BIN --work DIR --python VENV/bin/python [--size 2GiB] [--pairs 7] [CASE...]

Each pair runs the yardstick and the command one after the other, in alternating order, on the same
files, with the page cache in the same state (warm unless the case says cold). The figure of a case
is the median of the pairs' ratios yardstick / command: above 1 the command is faster. A case is VOID
when the yardstick's own spread ((max - min) / median) is over 25 %: the machine was too noisy.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INTEROP = os.path.join(os.path.dirname(HERE), "interop")
MAX_SPREAD = 0.25


def timed(command):
    """Runs it to its end: (seconds, peak resident bytes). Fails loudly."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command} ended with {child.returncode}: {message.decode(errors='replace')}")
    return seconds, usage.ru_maxrss * 1024


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def drop_caches(folder):
    """The folder's files are not in the page cache any more; programs and their libraries stay."""
    os.sync()
    for root, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(root, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def warm(folder):
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                while file.read(1 << 22):
                    pass


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(root, name))
               for root, _, names in os.walk(folder) for name in names)


def sha256_speed():
    """Bytes a second of one thread; hashlib is libcrypto's EVP."""
    piece, best = bytes(1 << 20), 0
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(128):
            hashlib.sha256(piece).digest()
        best = max(best, (128 << 20) / (time.perf_counter() - start))
    return best


class Bench:
    def __init__(self, options):
        self.o = options
        self.out = os.path.join(options.work, "out")
        self.results = []
        os.makedirs(options.work, exist_ok=True)

    # ---- inputs --------------------------------------------------------------------------------

    def folder(self, kind, *more):
        path = os.path.join(self.o.work, "-".join([kind, self.o.size, *more]).replace("/", "_"))
        if not os.path.exists(path + ".done"):
            remove(path)
            command = [self.o.python, os.path.join(INTEROP, "make_big.py"), kind, path]
            command += ["--chunks", self.o.chunks] if kind == "metadata" else \
                ["--size", self.o.size, *more]
            subprocess.run(command, check=True)
            open(path + ".done", "w").close()
        return path

    # ---- one case ------------------------------------------------------------------------------

    def pairs(self, name, source, yardstick, command, cold=False, goal=None, count=None,
              allowed_s=0):
        """`yardstick` and `command` make a command line for an output path; the command may take
        `allowed_s` more."""
        times, peaks = {"yard": [], "ours": []}, {"yard": 0, "ours": 0}
        makers = {"yard": yardstick, "ours": command}
        for i in range((count or self.o.pairs) + 1):
            for who in ("yard", "ours") if i % 2 else ("ours", "yard"):
                remove(self.out)
                os.sync()
                drop_caches(source) if cold else warm(source)
                seconds, peak = timed(makers[who](self.out))
                if i == 0:  # warming up
                    continue
                times[who].append(seconds)
                peaks[who] = max(peaks[who], peak)
        remove(self.out)
        ratios = [(y + allowed_s) / c for y, c in zip(times["yard"], times["ours"])]
        self.say(name, ratios, times, peaks, goal)
        return statistics.median(times["ours"])

    def say(self, name, ratios, times, peaks, goal):
        yard = times["yard"]
        spread = (max(yard) - min(yard)) / statistics.median(yard)
        result = {
            "case": name, "ratio": round(statistics.median(ratios), 3), "goal": goal,
            "ratio_min": round(min(ratios), 3), "ratio_max": round(max(ratios), 3),
            "pairs": len(ratios), "yardstick_spread": round(spread, 3),
            "void": spread > MAX_SPREAD,
            "yardstick_s": round(statistics.median(yard), 3),
            "command_s": round(statistics.median(times["ours"]), 3),
            "yardstick_peak_mib": round(peaks["yard"] / 2**20, 1),
            "command_peak_mib": round(peaks["ours"] / 2**20, 1)}
        self.results.append(result)
        verdict = "VOID" if result["void"] else "" if goal is None else \
            "ok" if result["ratio"] >= goal else "MISSED"
        print(f"{name:28} ratio {result['ratio']:7.3f} [{result['ratio_min']:.3f} .. "
              f"{result['ratio_max']:.3f}] goal {goal if goal is not None else '-'} {verdict}  "
              f"yardstick {result['yardstick_s']:.3f} s (spread {100 * spread:.0f} %, "
              f"{result['yardstick_peak_mib']:.0f} MiB), command {result['command_s']:.3f} s "
              f"({result['command_peak_mib']:.1f} MiB)", flush=True)

    # ---- command lines -------------------------------------------------------------------------

    def convert(self, source, target="hf:shard=500GB"):
        return lambda out: [self.o.shardwright, "convert", source, out, "--to", target, "--quiet"]

    def copy(self, source):
        return lambda out: ["sh", "-c", 'cp -r "$1" "$2" && sync', "sh", source, out]

    # ---- cases ---------------------------------------------------------------------------------

    def case_rows(self):
        source = self.folder("rows")
        self.rows_s = self.pairs("rows: cp -r + sync", source, self.copy(source),
                                 self.convert(source), goal=1.1)

    def case_writers(self):
        source = self.folder("rows")
        for target in ("torch", "torch:form=legacy", "dcp:ranks=3"):
            self.pairs(f"rows to {target}: cp -r + sync", source, self.copy(source),
                       self.convert(source, target), goal=1.0)

    def case_columns(self):
        source = self.folder("columns")
        self.pairs("columns: cp -r + sync", source, self.copy(source), self.convert(source))

    def case_columns_rows(self):
        rows, columns = self.folder("rows"), self.folder("columns")
        warm(rows)
        self.pairs("columns against rows", columns, self.convert(rows), self.convert(columns),
                   goal=0.95)

    def case_cold(self):
        source = self.folder("rows")
        self.pairs("rows, cold: cp -r + sync", source, self.copy(source), self.convert(source),
                   cold=True, goal=0.95)

    def case_torch(self):
        source = self.folder("rows")
        peer = [self.o.python, "-m", "torch.distributed.checkpoint.format_utils", "dcp_to_torch"]
        self.pairs("format_utils dcp_to_torch", source, lambda out: [*peer, source, out],
                   self.convert(source), goal=8, count=min(3, self.o.pairs))

    def case_consolidate(self):
        both = self.folder("rows", "--hf")
        source, sharded = both, both
        for name in sorted(os.listdir(both)):
            path = os.path.join(both, name)
            if os.path.isdir(path) and any(f.endswith(".safetensors") for f in os.listdir(path)):
                sharded = path
        peer = [self.o.python, os.path.join(INTEROP, "peers.py"), "hf_consolidate", sharded]

        def consolidate(out):
            os.makedirs(out, exist_ok=True)
            return [*peer, out]
        if sharded == both:
            source = both
        self.pairs("torch HF consolidation", sharded, consolidate, self.convert(sharded), goal=9,
                   count=min(3, self.o.pairs))

    def case_fsdp1(self):
        """Flat parameters of a model into weights: against a copy, and the way people do it."""
        source = self.folder("fsdp1")
        peer = [self.o.python, os.path.join(INTEROP, "peers.py"), "fsdp1_merge", source]

        def merge(out):
            return [*self.convert(source)(out), "--shapes", source + ".shapes.yaml"]
        self.pairs("FSDP1 flat to HF: cp -r + sync", source, self.copy(source), merge, goal=1.0)
        self.pairs("FSDP1 flat: load, cat, save", source, lambda out: [*peer, out], merge, goal=5,
                   count=min(3, self.o.pairs))

    def case_metadata(self):
        source = self.folder("metadata")
        peer = [self.o.python, os.path.join(INTEROP, "peers.py"), "read_metadata", source]
        self.pairs("read_metadata of many chunks", source, lambda out: peer,
                   lambda out: [self.o.shardwright, "plan", source, "--to", "hf", "--quiet"],
                   goal=15, count=min(5, self.o.pairs))
        size = os.path.getsize(os.path.join(source, ".metadata"))
        last = self.results[-1]
        print(f"    .metadata {size / 2**20:.0f} MiB; peak memory "
              f"{last['command_peak_mib'] * 2**20 / size:.2f} x the file (goal <= 4), "
              f"torch {last['yardstick_peak_mib'] * 2**20 / size:.1f} x", flush=True)

    def case_digests(self):
        """Goal: not more than all cores need to hash the bytes, over the same without digests."""
        evp, cores = sha256_speed(), len(os.sched_getaffinity(0))
        print(f"    SHA-256: {evp / 1e9:.2f} GB/s a thread, {cores} cores", flush=True)
        for kind in ("rows", "columns"):
            source, listed = self.folder(kind), self.out + ".digests"

            def with_digests(out, source=source, listed=listed):
                remove(listed)
                return [*self.convert(source)(out), "--digests", listed]
            allowed = folder_bytes(source) / (cores * evp)
            self.pairs(f"{kind}: with --digests", source, self.convert(source), with_digests,
                       goal=1, allowed_s=allowed)
            last = self.results[-1]
            cost = last["command_s"] - last["yardstick_s"]
            last.update(cost_s=round(cost, 3), allowed_s=round(allowed, 3))
            print(f"    {cost:+.3f} s for the digests, {allowed:.3f} s allowed", flush=True)
            remove(listed)

    def case_maps(self):
        """Tensor-parallel inference files: fused, permuted, cut; against a copy of the source."""
        hf = self.folder("llama")
        dcp = hf + "-dcp"
        if not os.path.exists(dcp + ".done"):
            remove(dcp)
            subprocess.run([*self.convert(hf, "dcp:ranks=4")(dcp)], check=True)
            open(dcp + ".done", "w").close()

        def mapped(source, target):
            return lambda out: [*self.convert(source, target)(out), "--config", hf]
        self.pairs("DCP to vllm:tp=4", dcp, self.copy(dcp), mapped(dcp, "vllm:tp=4"), goal=0.95)
        self.pairs("HF to meta:tp=4", hf, self.copy(hf), mapped(hf, "meta:tp=4"), goal=0.95)
        self.pairs("HF to vllm:tp=4", hf, self.copy(hf), mapped(hf, "vllm:tp=4"))

    def case_codec(self):
        """Its own program, as both sides are calls and no commands; its lines are the results."""
        program = os.environ.get("SW_CODEC_BENCH")
        if not program:
            sys.exit("codec: SW_CODEC_BENCH names no codec_bench; tests/bench/run.sh sets it")
        for kib in ("128", "512"):
            subprocess.run([program, "--pairs", str(self.o.pairs), "--chunk-kib", kib], check=True)

    def case_verify(self):
        source = self.folder("rows")
        self.pairs("verify: cat of all files", source,
                   lambda out: ["sh", "-c", 'cat "$1"/__*.distcp > /dev/null', "sh", source],
                   lambda out: [self.o.shardwright, "verify", source, "--quiet"])


    # ---- the native format ---------------------------------------------------------------------

    def native(self, source, *options):
        """`source` as a native checkpoint; made once."""
        dest = "-".join([source, "native", *options])
        if not os.path.exists(dest + ".done"):
            remove(dest)
            target = "native:" + ",".join(options) if options else "native"
            subprocess.run([*self.convert(source, target)(dest)], check=True)
            open(dest + ".done", "w").close()
        return dest

    def native_bench(self):
        program = os.environ.get("SW_NATIVE_BENCH")
        if not program:
            sys.exit("SW_NATIVE_BENCH names no native_bench; tests/bench/run.sh sets it")
        return [program]

    def inside(self, *arguments):
        """What native_bench says it measured."""
        said = subprocess.run([*self.native_bench(), *arguments], check=True, capture_output=True)
        return json.loads(said.stdout)

    def note(self, name, value, goal, unit="", least=False):
        """A figure that is not a time: at most (or at least) `goal`."""
        self.results.append({"case": name, "value": round(value, 4), "goal": goal, "void": False,
                             "ratio": value / goal if least else goal / max(value, 1e-9), "least": 1})
        good = value >= goal if least else value <= goal
        print(f"{name:28} {value:.4g} {unit} goal {'>=' if least else '<='} {goal:g} "
              f"{'ok' if good else 'MISSED'}", flush=True)

    def case_native_verify(self):
        """Warm against a pread + SHA-256 loop of as many threads; cold against plain reading."""
        source = self.native(self.folder("rows"), "codec=stored")
        threads = len(os.sched_getaffinity(0))
        verify = [self.o.shardwright, "verify", source, "--quiet"]
        self.pairs("native verify: pread + SHA-256", source,
                   lambda out: [*self.native_bench(), "sha256", str(threads), source],
                   lambda out: verify, goal=0.95)
        self.pairs("native verify, cold: reading", source,
                   lambda out: [*self.native_bench(), "read", source], lambda out: verify,
                   cold=True, goal=0.95)

    def case_native_convert(self):
        """To native with content digests: at most 1.1 times a copy, or all cores' SHA-256."""
        source, listed = self.folder("rows"), self.out + ".digests"
        need_s = folder_bytes(source) / (len(os.sched_getaffinity(0)) * sha256_speed())
        for codec in ("stored", "zstd", "planes"):
            def with_digests(out, codec=codec):
                remove(listed)
                return [*self.convert(source, f"native:codec={codec}")(out), "--digests", listed]
            self.pairs(f"to native, {codec}: cp -r + sync", source, self.copy(source), with_digests)
            last = self.results[-1]
            allowed = max(last["yardstick_s"], need_s)
            self.note(f"to native, {codec}: of allowed", last["command_s"] / allowed, 1.1)
            print(f"    {last['command_s']:.3f} s, copy {last['yardstick_s']:.3f} s, "
                  f"SHA-256 {need_s:.3f} s", flush=True)
            remove(listed)

    def case_native_sizes(self):
        for kind, goal in (("moments", 0.84), ("random", 1.001)):
            source = self.folder(kind)
            held = sum(t["bytes"] for t in self.listing(source)["tensors"])
            size = folder_bytes(self.native(source, "codec=planes"))
            self.note(f"native size: {kind}", size / held, goal, "of the tensors' bytes")

    def listing(self, source):
        said = subprocess.run([self.o.shardwright, "inspect", "--json", source], check=True,
                              capture_output=True)
        return json.loads(said.stdout)

    def case_native_open(self):
        """Many tensors: opened inside a process, against json.load of such a safetensors header."""
        path = os.path.join(self.o.work, f"many-{self.o.chunks}")
        if not os.path.exists(path + ".done"):
            remove(path)
            subprocess.run([*self.native_bench(), "many", self.o.chunks, path], check=True)
            header = {f"model.layers.{i:07d}.mlp.experts.w.weight": {
                "dtype": "F32", "shape": [2, 3], "data_offsets": [24 * i, 24 * i + 24]}
                for i in range(int(self.o.chunks))}
            with open(path + ".json", "w") as file:
                json.dump(header, file, separators=(",", ":"))
            open(path + ".done", "w").close()
        times = {"yard": [], "ours": []}
        for i in range(self.o.pairs):
            for who in ("yard", "ours") if i % 2 else ("ours", "yard"):
                if who == "ours":
                    times[who].append(self.inside("open", path)["seconds"])
                else:
                    said = subprocess.run([self.o.python, "-c", JSON_LOAD, path + ".json"],
                                          check=True, capture_output=True)
                    times[who].append(float(said.stdout))
        ratios = [y / c for y, c in zip(times["yard"], times["ours"])]
        _, peak = timed([*self.native_bench(), "open", path])
        self.say("native open: json.load", ratios, times, {"yard": 0, "ours": peak}, 20)

    def case_native_slices(self):
        """Bytes that are read for a slice of every matrix, over the slice's own."""
        source = self.native(self.folder("rows"), "codec=stored")
        for axis, parts, goal in (("rows", 64, 1.05), ("columns", 8, 2), ("columns", 64, 2)):
            said = self.inside("slice", axis, str(parts), source)
            self.note(f"native slice: 1/{parts} {axis}", said["read"] / said["asked"], goal,
                      "of its bytes")
            print(f"    {said}", flush=True)


JSON_LOAD = """
import json, sys, time
with open(sys.argv[1]) as file:
    start = time.perf_counter()
    json.load(file)
    print(time.perf_counter() - start)
"""
CASES = [name[5:] for name in dir(Bench) if name.startswith("case_")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--size", default="2GiB")
    parser.add_argument("--chunks", default="1000000")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--json", help="write the results there too")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    options.shardwright = os.path.abspath(options.shardwright)
    order = options.cases or ["rows", "writers", "columns", "columns_rows", "cold", "digests",
                              "maps", "fsdp1", "verify", "codec", "native_verify",
                              "native_convert", "native_sizes", "native_open", "native_slices",
                              "metadata", "torch", "consolidate"]
    bench = Bench(options)
    for case in order:
        getattr(bench, "case_" + case)()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(bench.results, file, indent=2)
    void = [r["case"] for r in bench.results if r["void"]]
    missed = [r["case"] for r in bench.results
              if not r["void"] and r["goal"] is not None and r["ratio"] < r.get("least", r["goal"])]
    print(f"{len(bench.results)} cases, {len(missed)} below their goal, {len(void)} void")


if __name__ == "__main__":
    main()
