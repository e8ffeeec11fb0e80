"""Files that the command wrote as torch.save's, loaded by torch: with weights_only and mapped, every tensor
bit by bit, what shared a storage shares one, objects equal, and a resumed run goes on as before."""

import argparse
import os
import shutil

import numpy
import torch
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import ranks
import tiny
import truth

FORMS = ("zip", "legacy")
SAFE = [argparse.Namespace]
# with a class of storages, which the form before 1.6 needs
TYPED = {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16,
         torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128}


def load(path, mapped=False, plain=True):
    with torch.serialization.safe_globals(SAFE):
        return torch.load(path, weights_only=plain, mmap=mapped)


def leaves(value, path=()):
    """(path, leaf) of everything in dicts, lists and tuples, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, path + ((type(key), key),))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from leaves(inner, path + (i,))
    else:
        yield path, value


def kind_of(value):
    return torch.Tensor if isinstance(value, torch.nn.Parameter) else type(value)


def same(a, b, ordered=True):
    """Kinds, order, tensors bit by bit, values by their own equality; NaN is NaN."""
    if kind_of(a) is not kind_of(b):
        return False
    if torch.is_tensor(a):
        return truth.same_bits(a, b)
    if isinstance(a, dict):
        return ((list(a) == list(b) if ordered else a.keys() == b.keys())
                and all(same(a[k], b[k], ordered) for k in a))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, ordered) for x, y in zip(a, b))
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        return same(vars(a), vars(b), ordered)
    return bool(a == b) or repr(a) == repr(b)


def where_differs(a, b):
    """The first places that differ, for people."""
    one, two = dict(leaves(a)), dict(leaves(b))
    found = [k for k in one.keys() | two.keys()
             if k not in one or k not in two or not same(one[k], two[k])]
    return sorted(map(str, found))[:6] or "order, or kinds of containers"


def sharing(state):
    """Sets of tensors that lie in one storage."""
    groups = {}
    for path, value in leaves(state):
        if torch.is_tensor(value) and value.numel():
            groups.setdefault(value.untyped_storage().data_ptr(), set()).add(path)
    return sorted(map(sorted, (map(str, g) for g in groups.values())))


def written(kit, label, source, form, *more):
    path = kit.path("out", f"written-{form}.pt")
    if os.path.exists(path):
        os.remove(path)
    done = kit.run("convert", source, path, "--to", f"torch:form={form}", "--verify", *more)
    if not kit.expect(f"{label}: converted", done, 0):
        return None
    kit.expect(f"{label}: verified", kit.run("verify", path), 0)
    return path


def by_torch(kit, folder):
    """What torch's own converter makes of a DCP folder, or None where it cannot read it."""
    path = kit.path("out", "by-torch.pt")
    try:
        dcp_to_torch_save(folder, path)
    except Exception:
        return None
    return torch.load(path, weights_only=False)


def refused_untyped(kit, label, source, tensors):
    """Of dtypes without a storage class torch cannot load the form before 1.6."""
    if all(t.dtype in TYPED for t in tensors.values()):
        return False
    done = kit.run("convert", source, kit.path("out", "untyped.pt"), "--to", "torch:form=legacy")
    return kit.expect(f"{label}: refused by name", done, 2, "cannot hold", "form=zip")


def check_dcp(kit, kind, folder):
    source = os.path.join(folder, "ckpt")
    _, tensors = truth.load_truth(folder)
    want, more = by_torch(kit, source), []
    plain = kind != "objects"  # classes of which weights_only knows nothing
    if not plain:
        done = kit.run("convert", source, kit.path("out", "refused.pt"), "--to", "torch")
        kit.expect(f"{kind} -> torch: tensors in a tuple are refused", done, 2, "tuple_of_tensors",
                   "--drop")
        more = ["--drop", "*tuple_of_tensors*"]
        want["extra"].pop("tuple_of_tensors")
    for form in FORMS:
        label = f"{kind} -> torch:{form}"
        if form == "legacy" and refused_untyped(kit, label, source, tensors):
            continue
        path = written(kit, label, source, form, *more)
        if path is None:
            continue
        state = load(path, plain=plain)
        flat = tiny.split_state(state)[0]
        wrong = [k for k in tensors if k not in flat or not truth.same_bits(tensors[k], flat[k])]
        kit.check(f"{label}: every tensor is the truth", not wrong, wrong[:6])
        if want is not None:
            kit.check(f"{label}: as dcp_to_torch_save has it", same(want, state, ordered=False),
                      where_differs(want, state))
        if form == "zip":
            kit.check(f"{label}: mapped", same(state, load(path, True, plain)))


def check_file(kit, kind, folder, apart=0):
    """A file of torch again; `apart` tensors cannot share what they did, and that is said."""
    source = os.path.join(folder, "ckpt")
    names = os.listdir(source)
    if len(names) != 1:
        return
    source = os.path.join(source, names[0])
    if kind.endswith("_module"):
        done = kit.run("convert", source, kit.path("out", "module.pt"), "--to", "torch")
        kit.expect(f"{kind} -> torch: no state dict", done, 2, "is no dict")
        return
    _, tensors = truth.load_truth(folder)
    try:
        original = torch.load(source, weights_only=False)
    except AttributeError:  # torch writes dtypes in this form that it cannot read
        original = tensors
    for form in FORMS:
        label = f"{kind} -> torch:{form}"
        if form == "legacy" and refused_untyped(kit, label, source, tensors):
            continue
        path = written(kit, label, source, form)
        if path is None:
            continue
        state = load(path)
        kit.check(f"{label}: the same object", same(original, state),
                  where_differs(original, state))
        if original is not tensors:
            lost = len(sharing(state)) - len(sharing(original))
            kit.check(f"{label}: storages are shared again", lost == apart,
                      f"    {sharing(original)}\n    {sharing(state)}")
        if form == "zip":
            kit.check(f"{label}: mapped", same(state, load(path, mapped=True)))
    check_round(kit, kind, source, original)


def check_round(kit, kind, source, original):
    """Through a DCP folder and back: all content, objects included."""
    label = f"{kind} -> dcp -> torch"
    middle = kit.path("out", "through-dcp")
    shutil.rmtree(middle, ignore_errors=True)
    done = kit.run("convert", source, middle, "--to", "dcp:ranks=2,optimizer=keep")
    if not kit.expect(f"{label}: to DCP", done, 0):
        return
    path = written(kit, label, middle, "zip")
    if path is None:
        return
    want, got = tiny.split_state(original), tiny.split_state(load(path))
    wrong = [k for k in want[0].keys() | got[0].keys()
             if k not in want[0] or k not in got[0] or not truth.same_bits(want[0][k], got[0][k])]
    wrong += [k for k in want[1].keys() | got[1].keys() if want[1].get(k, want) != got[1].get(k, got)]
    kit.check(f"{label}: identical content", not wrong, wrong[:6])


def check_hf(kit, kind, folder):
    """A flat dict of the weights."""
    source = os.path.join(folder, "ckpt")
    listing, tensors = truth.load_truth(folder)
    path = written(kit, f"{kind} -> torch", source, "zip")
    if path is None:
        return
    state = load(path)
    wrong = [k for k in tensors if k not in state or not truth.same_bits(tensors[k], state[k])]
    kit.check(f"{kind} -> torch: a flat dict of the truth",
              not wrong and len(state) == len(tensors) and type(state) is dict, wrong[:6])


def resume(rank, world, path, out):
    model = tiny.make_model(tiny.make_config(), seed=99)
    opt = tiny.make_optimizer(model)
    tiny.train(model, opt, steps=1, seed=5)
    state = torch.load(path, weights_only=True)
    dsd.set_state_dict(model, opt, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
    loaded = tiny.split_state(tiny.state_of(model, opt))
    losses = []
    for step in range(3):
        ids = torch.randint(0, 250, (2, 9), generator=torch.Generator().manual_seed(70 + step))
        opt.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        opt.step()
        losses.append(loss.item())
    torch.save({"loaded": loaded, "losses": losses,
                "after": tiny.split_state(tiny.state_of(model, opt))}, out)


def resumed(kit, path):
    out = kit.path("out", "resumed.pt")
    ranks.run_ranks(1, resume, path, out)
    return torch.load(out, weights_only=False)


def check_training(kit, kind, folder):
    """Model and optimizer from the file go on as from what torch itself makes of the folder."""
    source = os.path.join(folder, "ckpt")
    original = kit.path("out", "original.pt")
    dcp_to_torch_save(source, original)
    want = resumed(kit, original)
    for form in FORMS:
        path = written(kit, f"{kind} resumed from {form}", source, form)
        if path is not None:
            got = resumed(kit, path)
            kit.check(f"{kind} resumed from {form}: three steps' losses and all after them equal",
                      same(want, got), where_differs(want, got))


def check_kind(kit, kind, folder):
    if kind.startswith("hf_"):
        check_hf(kit, kind, folder)
    elif kind.startswith("torch_"):
        check_file(kit, kind, folder, apart=1 if kind.endswith("views") else 0)
    elif os.path.exists(os.path.join(folder, "ckpt", ".metadata")):
        check_dcp(kit, kind, folder)
    if kind in ("fsdp2_w4_nested", "fsdp2_w3", "hsdp_2x2"):
        check_training(kit, kind, folder)
