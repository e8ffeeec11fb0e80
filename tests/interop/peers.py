"""Times torch's own tools (and any command) as whole processes: seconds and peak memory, as JSON.

    peers.py dcp_to_torch DCP_FOLDER OUT_FILE
    peers.py hf_consolidate SHARDED_FOLDER OUT_FOLDER [--threads N]
    peers.py read_metadata DCP_FOLDER
    peers.py fsdp1_merge RANKS_FOLDER OUT_FOLDER
    peers.py command -- PROGRAM ARGUMENT...
"""

import json
import os
import subprocess
import sys
import time

CONSOLIDATE = """
import sys
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from safetensors import safe_open
import os
src, out, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = set()
for name in os.listdir(src):
    if name.endswith(".safetensors"):
        with safe_open(os.path.join(src, name), "pt") as file:
            names.update(file.keys())
consolidate_safetensors_files(src, out, {n: 1 for n in names}, num_threads=threads)
"""

READ_METADATA = """
import sys
from torch.distributed.checkpoint import FileSystemReader
FileSystemReader(sys.argv[1]).read_metadata()
"""

# What people do with FSDP1's local state dicts: all ranks loaded, joined, cut, saved. OUT gets the
# parameters of RANKS_FOLDER.plan.json.
FSDP1_MERGE = """
import json, os, sys
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.testing._internal.distributed.fake_pg import FakeStore
src, out = sys.argv[1].rstrip("/"), sys.argv[2]
with open(src + ".plan.json") as text:
    plan = json.load(text)
world, parts = plan["world"], {}
for rank in range(world):
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    state = torch.load(f"{src}/model_world_size_{world}_rank_{rank}.pt", weights_only=False)
    for name, tensor in state.items():
        parts.setdefault(name, []).extend(s.tensor for s in tensor.local_shards())
    dist.destroy_process_group()
weights = {}
for unit, entries in plan["units"]:
    flat, at = torch.cat(parts.pop(unit + "_flat_param")), 0
    for name, shape in entries:
        size = torch.Size(shape).numel()
        weights[name] = flat[at:at + size].view(shape)
        at += size
    assert at == flat.numel()
os.makedirs(out, exist_ok=True)
save_file({n: t.clone() for n, t in weights.items()}, out + "/model.safetensors")
os.sync()
"""


def timed(command, quiet=True):
    """Runs a command to its end: {"seconds", "peak_rss_bytes", "exit"} (of it and its children)."""
    sink = subprocess.DEVNULL if quiet else None
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=sink, stderr=None if not quiet else subprocess.PIPE)
    said = child.stderr.read() if quiet else b""
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    result = {"seconds": round(seconds, 4), "peak_rss_bytes": usage.ru_maxrss * 1024,
              "exit": child.returncode}
    if child.returncode != 0:
        result["stderr"] = said.decode(errors="replace")[-2000:]
    return result


def dcp_to_torch(src, out, python=sys.executable):
    return timed([python, "-m", "torch.distributed.checkpoint.format_utils", "dcp_to_torch",
                  src, out])


def hf_consolidate(src, out, threads=1, python=sys.executable):
    os.makedirs(out, exist_ok=True)
    return timed([python, "-c", CONSOLIDATE, src, out, str(threads)])


def read_metadata(src, python=sys.executable):
    return timed([python, "-c", READ_METADATA, src])


def fsdp1_merge(src, out, python=sys.executable):
    return timed([python, "-c", FSDP1_MERGE, src, out])


def main(argv):
    threads = 1
    if "--threads" in argv:
        at = argv.index("--threads")
        threads = int(argv[at + 1])
        del argv[at:at + 2]
    tools = {"dcp_to_torch": dcp_to_torch, "read_metadata": read_metadata,
             "fsdp1_merge": fsdp1_merge,
             "hf_consolidate": lambda src, out: hf_consolidate(src, out, threads)}
    if argv[:2] == ["command", "--"] and len(argv) > 2:
        result = timed(argv[2:], quiet=False)
    elif argv and argv[0] in tools and len(argv) in (2, 3):
        result = tools[argv[0]](*argv[1:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps(result))
    return 0 if result["exit"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
