"""DCP folders that the command wrote of every kind of training state: loaded by torch into FSDP2 models and
optimizers of other worlds. Parameters, moments, steps and hyper-parameters are equal bit by bit to those of
the run that was saved; three steps later they are where the run that never stopped is."""

import os
import shutil

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import resume
import tiny
import truth

NEAR = 1e-6  # another world adds gradients in another order

# kind, target, and the mesh on which the kind was written: there all is equal to the bit
COVER = (
    ("fsdp2_w4_nested", "dcp:ranks=1", None), ("fsdp2_w4_nested", "dcp:ranks=2,replicate=2", None),
    ("fsdp2_w4_nested", "dcp:ranks=8,optimizer=flat", None),
    ("fsdp2_w4_flat", "dcp:ranks=2", None), ("fsdp2_w4_flat", "dcp:ranks=8,optimizer=nested", None),
    ("fsdp2_w3", "dcp:ranks=8", None), ("fsdp2_w8_empty", "dcp:ranks=2", None),
    ("hsdp_2x2", "dcp:ranks=1", (2, 2)), ("hsdp_2x2", "fsdp2:dp=8", (2, 2)),
    ("fsdp_tp_2x2", "dcp:ranks=2", None),
    ("whole_run", "dcp:ranks=2", (2,)), ("whole_run", "dcp:ranks=8,optimizer=flat", (2,)),
    ("whole_run_flat", "dcp:ranks=1", (2,)), ("whole_run_flat", "dcp:ranks=2,optimizer=nested", (2,)),
    ("torch_zip", "dcp:ranks=2", None), ("torch_zip", "dcp:ranks=1,optimizer=flat", None),
    ("torch_legacy", "dcp:ranks=8", None), ("torch_ddp", "dcp:ranks=1", None),
    ("torch_compiled", "dcp:ranks=2", None), ("torch_legacy_ddp", "dcp:ranks=8", None),
    ("torch_legacy_ddp", "dcp:ranks=2,optimizer=flat", None),
)
KINDS = tuple(dict.fromkeys(kind for kind, _, _ in COVER))


def convert_all(kit, folders):
    """The jobs to resume, each with the mesh of its kind."""
    jobs = []
    for number, (kind, target, own) in enumerate(COVER):
        if kind not in folders:
            continue
        label, dest = f"{kind} -> {target}", kit.path("out", f"written-{number}")
        done = kit.run("convert", f"{folders[kind]}/ckpt", dest, "--to", target, "--verify")
        if not kit.expect(f"{label}: converted", done, 0):
            continue
        flat = "optimizer=flat" in target or (kind.endswith("_flat") and "nested" not in target)
        whole = kind.startswith(("whole", "torch"))
        job = resume.Job(label, dest, folders[kind], flatten=flat, scheduler=whole,
                         named=kind in ("whole_run", "whole_run_flat", "torch_legacy_ddp"))
        jobs.append((job, own))
    return jobs


def as_fsdp2_calls_them(state):
    """param_names of DDP begin with "module."; those of the new optimizer do not."""
    tensors, values = state
    return tensors, {k: [n.removeprefix("module.") for n in v] if k.endswith(".param_names") else v
                     for k, v in values.items()}


def check_resumed(kit, label, want, went, exact):
    near = None if exact else NEAR
    wrong = resume.differing(as_fsdp2_calls_them(want["state"]), went["state"])
    kit.check(f"{label}: state", not wrong, wrong[:6])
    wrong = resume.losses_differ(want["losses"], went["losses"], near)
    kit.check(f"{label}: three losses", not wrong, wrong)
    wrong = resume.differing(as_fsdp2_calls_them(want["after"]), went["after"], near)
    kit.check(f"{label}: three steps later", not wrong, wrong[:6])


def one_of_each(jobs):
    """The first job of each kind."""
    return list({job.kind: (job, own) for job, own in reversed(jobs)}.values())


def check_dcp(kit, folders):
    """All of them on a mesh of 2; on 2 x 2, where each takes twice as long, one of each kind."""
    jobs = convert_all(kit, folders)
    for dims, some in ((((2,), jobs), ((2, 2), one_of_each(jobs))) if jobs else ()):
        went = resume.resume(kit, [job for job, _ in some], dims)
        for job, own in some:
            want = torch.load(f"{job.kind}/next.pt", weights_only=False)
            check_resumed(kit, f"{job.label} on {dims}", want, went[job.label], own == dims)


def check_weights(kit, kind):
    """Hugging Face weights as a DCP folder of 4 ranks, in a real FSDP2 model of 2."""
    dest = kit.path("out", "weights-dcp")
    shutil.rmtree(dest, ignore_errors=True)
    done = kit.run("convert", f"{kind}/ckpt", dest, "--to", "dcp:ranks=4", "--verify")
    if not kit.expect("hf -> dcp:ranks=4: converted", done, 0):
        return
    _, tensors = truth.load_truth(kind)
    got = resume.load_weights(kit, kind, dest, 2)
    wrong = [k for k in tensors.keys() | got.keys()
             if k not in tensors or k not in got or not truth.same_bits(tensors[k], got[k])]
    kit.check("hf -> dcp:ranks=4: an FSDP2 model has the truth", not wrong, wrong[:6])


def as_torch_file(kit, folder):
    out = kit.path("out", "as.pt")
    dcp_to_torch_save(folder, out)
    return tiny.split_state(torch.load(out, weights_only=False))


def check_same_content(kit, folder):
    """torch's own converter finds the same in both folders, order and objects included."""
    dest = kit.path("out", "same")
    shutil.rmtree(dest, ignore_errors=True)
    done = kit.run("convert", f"{folder}/ckpt", dest, "--to", "dcp:ranks=2,replicate=2")
    if kit.expect("DCP -> DCP: converted", done, 0):
        wrong = resume.differing(as_torch_file(kit, f"{folder}/ckpt"), as_torch_file(kit, dest))
        kit.check("DCP -> DCP: dcp_to_torch_save gives the same", not wrong, wrong[:6])


def check_numbers(kit):
    """Numbers that two parameters fit are refused, and right with the names of the user."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    trained = [net[1].weight, net[1].bias, net[2].weight]
    opt = torch.optim.AdamW(trained, lr=0.01)
    net(torch.ones(3, 4)).sum().backward()
    opt.step()
    source, dest, names = (kit.path("out", n) for n in ("two.pt", "two-dcp", "names.txt"))
    torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, source)
    done = kit.run("convert", source, dest, "--to", "dcp:ranks=2")
    kit.expect("two assignments fit", done, 2, "[OPT-8]", "--param-names", "0.bias", "1.bias",
               "both fit all shapes in order")
    kit.check("two assignments fit: nothing is written", not os.path.exists(dest))
    with open(names, "w") as out:
        out.write("1.weight\n1.bias\n2.weight\n")
    done = kit.run("convert", source, dest, "--to", "dcp:ranks=2", "--param-names", names)
    if kit.expect("two assignments fit, with names", done, 0, "[optimizer-form]"):
        tensors, values = as_torch_file(kit, dest)
        wrong = [n for n, p in zip(("1.weight", "1.bias", "2.weight"), trained)
                 if not torch.equal(tensors[f"optimizer.state.{n}.exp_avg"], opt.state[p]["exp_avg"])]
        kit.check("two assignments fit, with names: right", not wrong, wrong)
        kit.check("two assignments fit, with names: the group",
                  values["optimizer.param_groups.0.params"] == ["1.weight", "1.bias", "2.weight"])
