"""Runs of checkpoints that real frameworks wrote: which is the newest complete one, what points at it."""

import os
import shutil


def _audit(kit, name, run, code, newest, complete, *codes):
    """The audit's document, when it is what it should be."""
    result = kit.run("verify", "--json", run)
    document = result.json() or {}
    found = document.get("run", {})
    said = {f["code"] for f in document.get("findings", []) if f["severity"] in ("defect", "danger")}
    kit.check(f"{name}: exit {code}, newest {newest}, newest complete {complete}, {list(codes)}",
              result.code == code and found.get("newest") == newest and
              found.get("newest_complete") == complete and said == set(codes), result)
    return found


def _steps(found):
    return {c["name"]: (c["state"], c.get("step")) for c in found.get("checkpoints", [])}


def check_titan(kit, folder):
    """torchtitan's run: checkpoint/step-N, and the folder above it."""
    top = kit.path("out", "titan")
    run = os.path.join(top, "checkpoint")
    for step in (2, 10):
        shutil.copytree(os.path.join(folder, "ckpt"), os.path.join(run, f"step-{step}"))
    os.mkdir(os.path.join(top, "tb"))
    found = _audit(kit, "torchtitan's run", top, 0, "step-10", "step-10")
    kit.check("torchtitan's run: the steps that are told inside",
              _steps(found) == {"step-2": ("complete", 2), "step-10": ("complete", 2)}, found)
    os.remove(os.path.join(run, "step-10", ".metadata"))
    _audit(kit, "torchtitan's run, last save cut", run, 1, "step-10", "step-2",
           "incomplete-checkpoint")


def check_trainer(kit, folder):
    """Trainer's folders with the sharded model and the optimizer's DCP folder that transformers 5 writes."""
    run = kit.path("out", "trainer")
    for step in (50, 100):
        to = os.path.join(run, f"checkpoint-{step}")
        shutil.copytree(os.path.join(folder, "ckpt"), to)
        with open(os.path.join(to, "trainer_state.json"), "w") as text:
            text.write('{"global_step": %d, "log_history": []}' % step)
    os.symlink("checkpoint-100", os.path.join(run, "last-checkpoint"))
    found = _audit(kit, "Trainer's run", run, 0, "checkpoint-100", "checkpoint-100")
    kit.check("Trainer's run: steps", _steps(found) == {"checkpoint-50": ("complete", 50),
                                                        "checkpoint-100": ("complete", 100)}, found)
    shard = os.path.join(run, "checkpoint-100", "shard-00001-model-00001-of-00001.safetensors")
    os.truncate(shard, os.path.getsize(shard) - 4)
    _audit(kit, "Trainer's run, a shard cut", run, 1, "checkpoint-100", "checkpoint-50",
           "incomplete-checkpoint", "pointer-incomplete")
    optimizer = os.path.join(folder, "ckpt", "optimizer")
    kit.expect("the optimizer's folder of transformers 5", kit.run("verify", optimizer), 0, "ok")


def check_runs(kit, folders):
    if "no_prefix" in folders:
        kit.guarded("torchtitan's run", check_titan, folders["no_prefix"])
    if "hf_distributed" in folders:
        kit.guarded("Trainer's run", check_trainer, folders["hf_distributed"])
