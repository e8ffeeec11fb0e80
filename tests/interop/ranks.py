"""Runs a function on N forked gloo ranks; torch was imported once, by the parent."""

import ctypes
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

PR_SET_PDEATHSIG = 1
logging.getLogger("torch.distributed").setLevel(logging.ERROR)


class RanksFailed(RuntimeError):
    pass


def _child(rank, world, scratch, fn, args):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                      LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(1)
    code = 1
    try:
        dist.init_process_group("gloo", init_method=f"file://{scratch}/store", rank=rank,
                                world_size=world)
        fn(rank, world, *args)
        dist.barrier()
        dist.destroy_process_group()
        code = 0
    except BaseException:
        with open(f"{scratch}/error.{rank}", "w") as out:
            traceback.print_exc(file=out)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait_all(pids, deadline):
    """Waits for every child; True when all ended with 0."""
    good, left = True, set(pids)
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in left:
            left.discard(pid)
            good = good and status == 0
            if status != 0:
                deadline = min(deadline, time.monotonic() + 3)
            continue
        if time.monotonic() > deadline:
            for one in left:
                os.kill(one, signal.SIGKILL)
                os.waitpid(one, 0)
            return False
        time.sleep(0.005)
    return good


def run_ranks(world, fn, *args, timeout_s=400):
    """Runs fn(rank, world, *args) on `world` ranks. Raises with all ranks' tracebacks."""
    scratch = tempfile.mkdtemp(prefix="ranks.")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        pids = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                _child(rank, world, scratch, fn, args)
            pids.append(pid)
        if not _wait_all(pids, time.monotonic() + timeout_s):
            said = [f"rank {r}:\n{open(f'{scratch}/error.{r}').read()}" for r in range(world)
                    if os.path.exists(f"{scratch}/error.{r}")]
            raise RanksFailed("\n".join(said) or "a rank died or hung without a word")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
