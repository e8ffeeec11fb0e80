"""FSDP1 in every form, and files of ranks: read, converted to each target, bit-equal to the truth, and loaded by
torch into what the target is for, where the run goes on as the one that never stopped."""

import dataclasses
import json
import os
import shutil

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

import checks_good
import checks_torch_out
import kinds_fsdp1
import resume
import resume_fsdp1
import truth
from make_checkpoints import FSDP1

NEAR = 1e-6  # another world adds gradients in another order


@dataclasses.dataclass(frozen=True)
class Target:
    to: str            # as --to has it
    how: str           # resume_fsdp1.LOADERS
    dims: tuple        # of the ranks that load it
    file: bool = False

    @property
    def world(self):
        return torch.Size(self.dims).numel()

    @property
    def flat(self):
        return "mode=local" in self.to

    @property
    def units(self):
        return self.to.startswith("fsdp1")


TARGETS = (
    Target("fsdp2:dp=8", "fsdp2", (2,)), Target("fsdp1:dp=4,mode=local", "local", (2,)),
    Target("ddp", "plain", (1,), file=True), Target("fsdp2:dp=2,files=ranks,device=cpu", "fsdp2_files", (2,)),
    Target("fsdp1:dp=2,mode=sharded", "sharded", (4,)), Target("dcp:ranks=3", "fsdp2", (1,)),
    Target("fsdp1:dp=2,mode=local,files=ranks", "local_files", (2,)),
    Target("fsdp2:dp=2", "fsdp2", (2, 2)), Target("fsdp1:dp=2,mode=full", "full", (2,), file=True),
    Target("fsdp1:dp=2,mode=sharded,files=ranks,device=cpu,optimizer=nested", "sharded_files", (2,)),
    Target("torch:optimizer=nested", "plain_named", (1,), file=True), Target("fsdp2:dp=4", "fsdp2", (4,)),
    Target("fsdp2:dp=2,replicate=2,files=ranks,device=cpu", "fsdp2_files", (2, 2)),
    Target("fsdp1:dp=4,mode=local,files=ranks,device=cpu", "local_files", (4,)),
)


def needs_shapes(kind):
    return kind.startswith(("fsdp1_local", "fsdp1_views", "fsdp1_shards", "accelerate_local"))


# Numbers that two orders of parameters fit: they are known by the names in the optimizer's own order.
AMBIGUOUS = ("fsdp1_full_ids",)


class Kind:
    """One checkpoint, its truth, and what the command is given with it."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.listing, self.tensors = truth.load_truth(folder)
        self.source = os.path.join(folder, "ckpt", "checkpoint-2" if name.startswith("trainer") else "")
        saved = {k: tuple(v) if isinstance(v, list) else v for k, v in self.listing["run"].items()}
        run = kinds_fsdp1.Run(**saved)
        self.run = dataclasses.replace(run, groups=run.grouping)
        self.order = ("--shapes", f"{folder}/assets/shapes.yaml")
        self.shapes = self.order if needs_shapes(name) else ()
        # random states of ranks have no place in one file
        self.carried = (0, 3) if os.path.exists(f"{self.source}/huggingface") else 0
        self.names = ("--param-names", f"{folder}/assets/names.txt") if name in AMBIGUOUS else ()

    def convert(self, kit, dest, target, *options):
        if os.path.isdir(dest):
            shutil.rmtree(dest)
        elif os.path.exists(dest):
            os.remove(dest)
        return kit.run("convert", self.source, dest, "--to", target, *self.shapes,
                       *(self.names if target != "hf" else ()), *options)

    def weights(self):
        """{Hugging Face name: tensor}."""
        names = {**self.listing["model_keys"], **self.listing["buffers"]}
        return {name: self.tensors[key] for key, name in names.items()}

    def wanted(self, flat):
        """Tensors that differ from the truth; other names of tied ones may be there."""
        want = dict(self.tensors)
        aliases = self.listing["aliases"]
        want.update({k: self.tensors[to] for k, to in aliases.items() if k in flat})
        return [k for k in want.keys() | flat.keys()
                if k not in want or k not in flat or not truth.same_bits(want[k], flat[k])]


def ours(key):
    return key.startswith(("model.", "optimizer."))


def check_read(kit, kind):
    seen = kit.run("inspect", "--json", kind.source, *kind.shapes)
    kit.expect(f"{kind.name}: inspect", seen, 0)
    document = seen.json() or {}
    shown = {t["name"]: t["shape"] for t in document.get("tensors", []) if t["name"].startswith("model.")}
    want = {k: list(t.shape) for k, t in kind.tensors.items() if k.startswith("model.")}
    aliases = kind.listing["aliases"]
    wrong = [k for k in shown.keys() | want.keys() if shown.get(k) != want.get(k) and k not in aliases]
    kit.check(f"{kind.name}: inspect shows the model's names and shapes", not wrong, sorted(wrong)[:6])
    said = kit.run("verify", "--json", kind.source, *kind.shapes)
    kit.expect(f"{kind.name}: verify finds nothing wrong", said, 0)
    worse = [f for f in (said.json() or {}).get("findings", []) if f["severity"] not in ("note", "warning")]
    kit.check(f"{kind.name}: no finding but notes and warnings", not worse, worse)


def check_hf(kit, kind, load):
    dest = kit.path("out", kind.name)
    done = kind.convert(kit, dest, "hf", "--assets", f"{kind.folder}/assets", "--verify")
    if not kit.expect(f"{kind.name} -> hf", done, 0):
        return
    checks_good.compare(kit, f"{kind.name} -> hf", dest, kind.weights(), kind.listing["tied"])
    if load and not kind.listing["buffers"]:
        checks_good.load_with_transformers(kit, f"{kind.name} -> hf", dest, kind.folder)


def check_file(kit, kind):
    """All tensors of model and optimizer, by their names."""
    dest = kit.path("out", f"{kind.name}.pt")
    if kind.names:
        done = kit.run("convert", kind.source, dest, "--to", "torch:optimizer=nested", *kind.shapes)
        kit.expect(f"{kind.name} -> torch: numbers that two orders fit", done, 2, "--param-names")
    done = kind.convert(kit, dest, "torch:optimizer=nested", "--verify")
    if not kit.expect(f"{kind.name} -> torch", done, kind.carried):
        return
    flat, _ = flatten_state_dict(torch.load(dest, weights_only=False))
    tensors = {k: t for k, t in flat.items() if torch.is_tensor(t) and ours(k)}
    wrong = kind.wanted(tensors)
    kit.check(f"{kind.name} -> torch: every tensor is the truth", not wrong, sorted(wrong)[:8])


def can(kind, target):
    """Flat parameters have one group for all of a unit, and FSDP1 here no buffers and no tensor parallelism."""
    run = kind.run
    if target.flat and (run.grouping == "dims" or run.frozen and run.grouping != "units"):
        return False
    if target.flat and run.frozen == "left":
        return False
    if run.small and target.how == "sharded" and target.world > 2:
        return False  # FSDP.optim_state_dict gives ranks without elements no groups to load into
    if target.how == "fsdp2_files" and run.buffers and run.world == 1:
        return False  # where nothing was divided nothing tells a buffer: --layout has to
    return not target.units or not (run.buffers or run.tp)


def loaded_run(kind, target):
    """The run as the one that loads: another layout, the same groups."""
    plain = dict(world=target.world, dims=target.dims if len(target.dims) > 1 else (), hybrid=(), tp=False,
                 bf16=False, wrapped=False)
    return dataclasses.replace(kind.run, **plain, **({"orig": False} if target.flat else {}))


def layout(kit, kind):
    """The file for --layout that names the wrapped modules."""
    path = kit.path("out", f"units-{kind.run.root}-{kind.run.small}.yaml")
    with open(path, "w") as text:
        text.write(f"layout: 1\nunits: {json.dumps(kinds_fsdp1.units(kind.run))}\n")
    return ("--layout", path) if kinds_fsdp1.units(kind.run) else ()


def convert(kit, kind, target, number):
    """The job to go on from what was written, or None."""
    label = f"{kind.name} -> {target.to}"
    dest = kit.path("out", f"for-{number}" + (".pt" if target.file else ""))
    more = layout(kit, kind) if target.units else ()
    if target.flat and not kind.shapes:  # DCP does not keep the order
        more += kind.order
    done = kind.convert(kit, dest, target.to, "--verify", *more)
    if not kit.expect(f"{label}: converted", done, kind.carried):
        return None
    if target.how == "plain":
        drop_module(dest)
    goes_on = os.path.exists(f"{kind.folder}/next.pt") and not kind.run.bf16
    return resume_fsdp1.Job(f"{label}, loaded on {target.dims}", dest, target.how, loaded_run(kind, target), goes_on)


def drop_module(path):
    """DistributedDataParallel was not made again: the names of its module."""
    state = torch.load(path, weights_only=False)
    torch.save({"model": {k.removeprefix("module."): t for k, t in state["model"].items()},
                "optimizer": state["optimizer"]}, path)


def unordered(state):
    """Flat parameters lie in another order in their group than the parameters that they are made of."""
    tensors, values = state
    return tensors, {k: sorted(v) if k.endswith(".params") else v for k, v in values.items()
                     if not k.endswith(".param_names")}  # with numbers, names are written beside them


def check_went(kit, kind, label, went):
    if not kit.check(f"{label}: loaded", "error" not in went, went.get("error", "")):
        return
    tensors, _ = went["state"]
    wrong = kind.wanted(tensors)
    kit.check(f"{label}: every tensor is the truth", not wrong, sorted(wrong)[:8])
    if "losses" not in went:
        return
    want = torch.load(f"{kind.folder}/next.pt", weights_only=False)
    wrong = resume.differing(unordered(want["state"]), unordered(went["state"]))
    kit.check(f"{label}: state and groups", not wrong, sorted(wrong)[:8])
    wrong = resume.losses_differ(want["losses"], went["losses"], NEAR)
    kit.check(f"{label}: three losses", not wrong, wrong)
    wrong = resume.differing(unordered(want["after"]), unordered(went["after"]), NEAR)
    kit.check(f"{label}: three steps later", not wrong, sorted(wrong)[:8])


def pairs(kinds, whole):
    """(kind, target): all of them, or each kind with one target and each target with several kinds."""
    for number, kind in enumerate(kinds):
        possible = [t for t in TARGETS if can(kind, t)]
        for target in possible if whole else [possible[(number * 3) % len(possible)]]:
            yield kind, target


def check_targets(kit, kinds, whole):
    jobs = []
    for number, (kind, target) in enumerate(pairs(kinds, whole)):
        job = convert(kit, kind, target, number)
        if job:
            jobs.append((job, kind))
    for world in sorted({job.run.world for job, _ in jobs}):
        some = [(job, kind) for job, kind in jobs if job.run.world == world]
        went = resume_fsdp1.resume(kit, [job for job, _ in some])
        for job, kind in some:
            check_went(kit, kind, job.label, went[job.label])


def check_refused(kit, kind):
    """What torch cannot load or train; the kind's groups are parts of units."""
    dest = kit.path("out", "refused")
    for target, *words in (("fsdp1:dp=2,mode=local", "FS-23", "groups"),
                           ("fsdp1:dp=2,mode=local,use_orig_params=true", "use_orig_params"),
                           ("fsdp1:dp=2,mode=local,replicate=2", "replicate")):
        done = kind.convert(kit, dest, target, *layout(kit, kind), *(() if kind.shapes else kind.order))
        kit.expect(f"{kind.name} -> {target}: refused", done, (2, 5), *words)
        kit.check(f"{kind.name} -> {target}: nothing is written", not os.path.exists(dest))


def check_extras(kit, kind):
    """With as many ranks as before each has its own values again."""
    dest, world = kit.path("out", "extras"), kind.run.world
    done = kind.convert(kit, dest, f"fsdp2:dp={world},files=ranks,device=cpu", "--verify")
    if not kit.expect(f"{kind.name}, values of ranks", done, 0):
        return
    for rank in range(world):
        name = f"extra_state_world_size_{world}_rank_{rank}.pt"
        a, b = (torch.load(f"{where}/{name}", weights_only=False) for where in (kind.source, dest))
        kit.check(f"{kind.name}, values of rank {rank}", checks_torch_out.same(a, b),
                  checks_torch_out.where_differs(a, b))


def check_all(kit, folders, whole=False):
    kinds = [Kind(name, folders[name]) for name in FSDP1 if name in folders]
    for number, kind in enumerate(kinds):
        before = checks_good.digest_of_folder(kind.source)
        kit.guarded(kind.name, check_read, kind)
        kit.guarded(kind.name, check_hf, kind, whole or number % 6 == 0)
        kit.guarded(kind.name, check_file, kind)
        kit.check(f"{kind.name}: source untouched", checks_good.digest_of_folder(kind.source) == before)
    for kind in kinds:
        if kind.name in ("verl_w4", "fsdp1_shards_frozen"):
            kit.guarded(kind.name, check_extras, kind)
        if kind.name == "fsdp1_views":
            kit.guarded(kind.name, check_refused, kind)
    kit.guarded("FSDP1 resumed", check_targets, kinds, whole)
