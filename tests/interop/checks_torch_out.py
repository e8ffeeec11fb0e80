"""Files that the command wrote as torch.save's, loaded by torch: with weights_only and mapped, every tensor
bit by bit, what shared a storage shares one, objects equal, and a resumed run goes on as before."""

import argparse
import os
import shutil

import numpy
import torch
import torch.distributed.checkpoint.state_dict as dsd
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from transformers import AutoConfig

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


def written(kit, label, source, form):
    path = kit.path("out", f"written-{form}.pt")
    if os.path.exists(path):
        os.remove(path)
    done = kit.run("convert", source, path, "--to", f"torch:form={form}", "--verify")
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
    want = by_torch(kit, source)
    plain = kind != "objects"  # classes of which weights_only knows nothing
    for form in FORMS:
        label = f"{kind} -> torch:{form}"
        if form == "legacy" and refused_untyped(kit, label, source, tensors):
            continue
        path = written(kit, label, source, form)
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
    if not plain:  # tensors in tuples among them
        dest = kit.path("out", "objects-dcp")
        shutil.rmtree(dest, ignore_errors=True)
        if kit.expect(f"{kind} -> dcp: converted", kit.run("convert", source, dest, "--to", "dcp:ranks=3"), 0):
            got = by_torch(kit, dest)
            kit.check(f"{kind} -> dcp: as dcp_to_torch_save has it", same(want, got, ordered=False),
                      where_differs(want, got))


def check_file(kit, kind, folder, apart=0):
    """A file of torch again; `apart` tensors cannot share what they did, and that is said."""
    source = os.path.join(folder, "ckpt")
    names = os.listdir(source)
    if len(names) != 1:  # shards of a model
        check_weights(kit, kind, folder)
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


def check_opaque(kit):
    """What is no plain tensor is carried as it is: the calls that rebuild it, and their storages."""
    wide = torch.arange(6.).reshape(2, 3)
    state = {
        "w": wide, "sparse": torch.sparse_coo_tensor([[0, 1], [2, 0]], [1., 2.], (2, 3)),
        "csr": torch.eye(3).to_sparse_csr(), "conj": torch.tensor([1 + 2j]).conj(),
        "q": torch.quantize_per_tensor(wide, 0.1, 10, torch.quint8),
        "channels": torch.quantize_per_channel(wide, torch.tensor([.1, .2]), torch.tensor([1, 2]), 0,
                                               torch.qint8),
    }
    source = kit.path("out", "opaque.pt")
    torch.save(state, source)
    for form in FORMS:
        path = written(kit, f"opaque tensors -> torch:{form}", source, form)
        if path is not None:
            got = load(path, plain=form == "zip")
            wrong = [k for k in state if repr(state[k]) != repr(got[k])]
            kit.check(f"opaque tensors -> torch:{form}: the same", not wrong, wrong)
    weights = kit.run("convert", source, kit.path("out", "opaque-hf"), "--to", "hf")
    kit.expect("opaque tensors -> hf: in part", weights, 3, "opaque-tensor")


def check_tuples(kit):
    """Tensors inside tuples become parts of DCP's values, checked, and come back the same."""
    wide = torch.arange(12.).reshape(3, 4)
    state = {"model": {"w": wide}, "step": 3, "extra": {
        "pair": (torch.arange(5), torch.zeros(0, 3), torch.tensor(2.5, dtype=torch.float64)),
        "mixed": (1, "x", [torch.full((2, 2), 7, dtype=torch.uint16)], {"k": wide.t()}),
        "tied": (wide, wide[1])}}
    for form in FORMS:
        label, source, middle = f"tuples, {form}", kit.path("out", "tuples.pt"), kit.path("out", "tuples-dcp")
        shutil.rmtree(middle, ignore_errors=True)
        torch.save(state, source, _use_new_zipfile_serialization=form == "zip")
        done = kit.run("convert", source, middle, "--to", "dcp:ranks=2", "--verify")
        if not kit.expect(f"{label} -> dcp", done, 0):
            continue
        own, theirs = written(kit, label, middle, "zip"), kit.path("out", "tuples-by-torch.pt")
        dcp_to_torch_save(middle, theirs)
        kit.check(f"{label} -> dcp: as torch reads it", same(state, torch.load(theirs, weights_only=False)))
        if own is not None:
            kit.check(f"{label} -> dcp -> torch: identical content", same(state, load(own)))
    torch.save(state, source)
    with open(source, "r+b") as file:
        data = file.read()
        file.seek(data.index(torch.arange(5).numpy().tobytes()) + 8)
        file.write(b"\5")
    done = kit.run("convert", source, kit.path("out", "tuples-bad"), "--to", "dcp:ranks=2")
    kit.expect("tuples, a byte changed", done, 2, "extra.pair", "CRC-32", "crc-mismatch")


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


def check_weights(kit, kind, folder):
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


# kind, target, how its file is loaded: by torch's state dict functions, or by load_state_dict alone
RESUMED = (
    ("fsdp2_w4_nested", "torch", "names"), ("fsdp2_w4_nested", "ddp", "numbers"),
    ("fsdp2_w4_nested", "torch:form=legacy,optimizer=flat", "flat"),
    ("fsdp2_w4_flat", "torch:form=legacy", "flat"), ("fsdp2_w4_flat", "torch:optimizer=nested", "names"),
    ("fsdp2_w3", "torch", "names"), ("fsdp2_w8_empty", "torch:form=legacy", "names"),
    ("hsdp_2x2", "torch", "names"), ("hsdp_2x2", "ddp:form=legacy", "numbers"),
    ("fsdp_tp_2x2", "torch", "names"),
    ("torch_zip", "torch", "numbers"), ("torch_zip", "torch:optimizer=nested", "names"),
    ("torch_legacy", "torch", "numbers"), ("torch_legacy", "ddp", "numbers"),
    ("torch_ddp", "ddp", "numbers"), ("torch_ddp", "torch:optimizer=flat", "flat"),
    ("torch_compiled", "torch:form=legacy", "numbers"), ("torch_compiled", "torch:optimizer=nested", "names"),
)


def bare(name):
    return name.removeprefix("module.").removeprefix("_orig_mod.")


def resume(path, assets, how):
    """Another start, so that only the file can make two runs agree."""
    model = tiny.make_model(AutoConfig.from_pretrained(assets), seed=99)
    opt = tiny.make_optimizer(model)
    tiny.train(model, opt, steps=1, seed=5)
    state = load(path)
    if how == "numbers":
        model.load_state_dict({bare(k): v for k, v in state["model"].items()})
        opt.load_state_dict(state["optimizer"])
    else:
        # Flattened settings are set where the groups have them, as a scheduler would have made it.
        for group in opt.param_groups if any(k.endswith(".initial_lr") for k in state["optimizer"]) else ():
            group["initial_lr"] = 0.0
        options = dsd.StateDictOptions(flatten_optimizer_state_dict=how == "flat")
        dsd.set_state_dict(model, opt, model_state_dict=state["model"],
                           optim_state_dict=state["optimizer"], options=options)
    loaded, losses = tiny.split_state(tiny.state_of(model, opt)), []
    for step in range(3):
        ids = torch.randint(0, 250, (2, 9), generator=torch.Generator().manual_seed(70 + step))
        opt.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return {"loaded": loaded, "losses": losses, "after": tiny.split_state(tiny.state_of(model, opt))}


def resume_all(rank, world, jobs, out):
    torch.save([resume(*job) for job in jobs], out)


def originals(kit, folders):
    """{kind: job} of what torch itself goes on from."""
    jobs = {}
    for number, kind in enumerate(dict.fromkeys(kind for kind, _, _ in RESUMED if kind in folders)):
        folder = folders[kind]
        path, how = os.path.join(folder, "ckpt", "checkpoint.pt"), "numbers"
        if not os.path.exists(path):
            path, how = kit.path("out", f"original-{number}.pt"), "flat" if kind.endswith("_flat") else "names"
            dcp_to_torch_save(os.path.join(folder, "ckpt"), path)
        jobs[kind] = (path, os.path.join(folder, "assets"), how)
    return jobs


def check_resumed(kit, folders):
    """Model and optimizer of the file go on as from what torch wrote or itself makes of the folder."""
    wanted, mine, labels = originals(kit, folders), [], []
    for number, (kind, target, how) in enumerate(RESUMED):
        if kind not in wanted:
            continue
        path, label = kit.path("out", f"resumed-{number}.pt"), f"{kind} -> {target}: resumed"
        done = kit.run("convert", os.path.join(folders[kind], "ckpt"), path, "--to", target, "--verify")
        if kit.expect(f"{label}: converted", done, 0):
            mine.append((path, wanted[kind][1], how))
            labels.append((label, kind))
    if not mine:
        return
    out = kit.path("out", "resumed.pt")
    ranks.run_ranks(1, resume_all, [*wanted.values(), *mine], out)
    went = torch.load(out, weights_only=False)
    want = dict(zip(wanted, went))
    for (label, kind), got in zip(labels, went[len(wanted):], strict=True):
        kit.check(f"{label}: state, three losses and what follows are equal",
                  same(want[kind], got, ordered=False), where_differs(want[kind], got))


def check_kind(kit, kind, folder):
    if kind.startswith("hf_"):
        check_weights(kit, kind, folder)
    elif kind.startswith("torch_"):
        check_file(kit, kind, folder, apart=1 if kind.endswith("views") else 0)
    elif os.path.exists(os.path.join(folder, "ckpt", ".metadata")):
        check_dcp(kit, kind, folder)
