"""Whole checkpoints: inspect, verify, convert to Hugging Face, and transformers loads the result."""

import hashlib
import json
import os
import shutil

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

import check_truth
import digest_reference
import truth

transformers_logging.disable_progress_bar()
CANNOT_HOLD = ("complex128", "complex32")  # what safetensors has no dtype for
ALSO_UNCARRIED = {"objects"}  # these hold tensors besides the model: "only in part" is right too


def digest_of_folder(folder):
    """One digest over names, bytes and sizes of everything in a folder."""
    total = hashlib.sha256()
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(where, name)
            total.update(os.path.relpath(path, folder).encode() + b"\0")
            with open(path, "rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def read_hf(folder):
    """{name: tensor} of every safetensors file of a folder, and the faults of its index."""
    found, faults, where = {}, [], {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(os.path.join(folder, name), "pt") as file:
            if (file.metadata() or {}).get("format") != "pt":
                faults.append(f"{name}: no format=pt")
            for key in file.keys():
                if key in found:
                    faults.append(f"{key} twice")
                found[key] = file.get_tensor(key)
                where[key] = name
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index) as text:
            listing = json.load(text)
        if listing["weight_map"] != where:
            faults.append("the index's weight_map differs from the files")
        size = sum(truth.raw_bytes(t).numel() for t in found.values())
        if listing["metadata"]["total_size"] != size:
            faults.append(f"total_size {listing['metadata']['total_size']}, files hold {size}")
    elif len(set(where.values())) > 1:
        faults.append("several files and no index")
    return found, faults


def wanted_names(listing, tensors, dtype=None):
    """{Hugging Face name: tensor} as the truth has it, cast if asked."""
    out = {name: tensors[key] for key, name in listing["model_keys"].items()}
    if dtype is not None:
        out = {n: t.to(dtype) if t.is_floating_point() else t for n, t in out.items()}
    return out


def compare(kit, label, folder, want, tied=False):
    if not os.path.isdir(folder):
        return kit.check(f"{label}: output is there", False, folder)
    found, faults = read_hf(folder)
    missing = sorted(set(want) - set(found))
    if tied:  # a tied head may be left out: the config's flag makes it again
        missing = [m for m in missing if m != "lm_head.weight"]
    extra = sorted(set(found) - set(want))
    names = kit.check(f"{label}: names are the model's", not (missing or extra or faults),
                      f"    missing {missing[:6]} extra {extra[:6]} faults {faults[:6]}")
    wrong = [n for n in want if n in found and not truth.same_bits(found[n], want[n])]
    detail = [f"    {n}: {found[n].dtype} {tuple(found[n].shape)}, truth {want[n].dtype} "
              f"{tuple(want[n].shape)}" for n in wrong[:6]]
    return kit.check(f"{label}: every tensor bit-equal", not wrong, "\n".join(detail)) and names


def load_with_transformers(kit, label, folder, source):
    """The logits of the loaded model against the live ones, bit for bit."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype="auto",
                                                           output_loading_info=True)
    except Exception as why:  # whatever transformers raises is the finding
        return kit.check(f"{label}: transformers loads it", False, f"    {why!r}"[:2000])
    bad = {k: v for k, v in info.items() if v and k.endswith("_keys")}
    kit.check(f"{label}: transformers loads it, no key amiss", not bad, f"    {bad}")
    live = torch.load(os.path.join(source, "logits.pt"), weights_only=True)
    with torch.no_grad():
        logits = model.eval()(input_ids=live["input_ids"]).logits
    return kit.check(f"{label}: logits bit-equal to the live model's",
                     truth.same_bits(logits, live["logits"]))


def convert(kit, source, dest, *options, target="hf"):
    shutil.rmtree(dest, ignore_errors=True)
    assets = os.path.join(source, "assets")
    given = ("--assets", assets) if os.path.isdir(assets) else ()
    return kit.run("convert", os.path.join(source, "ckpt"), dest, "--to", target, *given, *options)


def same_value(text, said):
    """Numbers, booleans and None as the truth's repr has them; the rest is shown, not compared."""
    if said in ("True", "False", "None"):
        return text == said
    try:
        number = float(said)
    except ValueError:
        return True
    try:
        shown = float(int(text, 16)) if text.startswith("0x") else float(text)
    except ValueError:
        return False
    return shown == number or (shown != shown and number != number)


def check_listing(kit, kind, document, listing):
    """inspect lists every tensor with its dtype and shape, and every value with its text."""
    seen = {t["name"]: t for t in document["tensors"]
            if not t["name"].startswith("random_states_")}  # each rank's own
    kit.check(f"{kind}: inspect lists exactly the tensors", set(seen) == set(listing["tensors"]),
              f"    {sorted(set(seen) ^ set(listing['tensors']))[:6]}")
    wrong = [n for n, t in listing["tensors"].items() if n in seen
             and (seen[n]["dtype"] != t["dtype"] or seen[n]["shape"] != t["shape"]
                  or seen[n]["elements"] != seen[n]["held_elements"])]
    kit.check(f"{kind}: dtypes and shapes as the truth's", not wrong,
              "\n".join(f"    {n}: {seen[n]}" for n in wrong[:5]))
    texts = {v["name"]: v.get("text", "") for v in document["values"]}
    wrong = [n for n, said in listing["values"].items()
             if n not in texts or not same_value(texts[n], said)]
    kit.check(f"{kind}: inspect shows {len(listing['values'])} values right", not wrong,
              "\n".join(f"    {n}: {texts.get(n)!r}, {listing['values'][n]}" for n in wrong[:5]))


def look(kit, kind, source, listing, tensors):
    """inspect, verify and cat; a whole checkpoint is never flagged."""
    seen = kit.run("inspect", "--json", "--values", f"{source}/ckpt")
    kit.expect(f"{kind}: inspect --json", seen, 0)
    if kit.check(f"{kind}: inspect's output is one JSON document", seen.json() is not None, seen):
        check_listing(kit, kind, seen.json(), listing)
    said = kit.run("verify", "--json", f"{source}/ckpt")
    words = {"stale_resave": ("__3_0.distcp",), "accelerate": ("pytorch_model_fsdp_0",)}
    words = words.get(kind, ())
    kit.expect(f"{kind}: verify finds nothing wrong", said, 0, *words)
    document = said.json() or {}
    kit.check(f"{kind}: verify's output is one JSON document", bool(document), said)
    worse = [f for f in document.get("findings", []) if f["severity"] not in ("note", "warning")]
    kit.check(f"{kind}: no finding but notes and warnings", not worse, worse)
    crc = not kind.startswith(("hf_", "torch_legacy", "torch_nocrc"))
    total = document.get("bytes", {})
    kit.check(f"{kind}: verify counts what {'a CRC covers' if crc else 'nothing covers'}",
              total.get("checked" if crc else "unchecked", 0) > 0
              and (total.get("unchecked") == 0 or not crc), total)
    wrong = [key for key, t in tensors.items()
             if kit.run("cat", "--raw", f"{source}/ckpt", key).raw
             != truth.raw_bytes(t).numpy().tobytes()]
    kit.check(f"{kind}: cat --raw gives all {len(tensors)} tensors, optimizer included, bit-equal",
              not wrong, f"    {wrong[:6]}")


def check_hash(kit, kind, source, listing, tensors):
    """Content digests are those that the definitions give for what torch loads."""
    said = kit.run("hash", "--json", f"{source}/ckpt")
    if not kit.expect(f"{kind}: hash", said, 0):
        return
    seen = {t["name"]: t["digest"] for t in said.json()["tensors"]}
    wrong = []
    for name, t in tensors.items():
        about = listing["tensors"][name]
        content = truth.raw_bytes(t).numpy().tobytes()
        want = digest_reference.tensor_digest(about["dtype"], about["shape"], content).hex()
        if seen.get(name) != want:
            wrong.append(name)
    kit.check(f"{kind}: all {len(tensors)} digests as the definitions have them", not wrong,
              f"    {wrong[:6]}")


def check_model(kit, kind, source, listing, tensors):
    dest = kit.path("out", kind)
    done = convert(kit, source, dest)
    codes = (0, 3) if kind in ALSO_UNCARRIED else 0
    if not kit.expect(f"{kind}: convert --to hf", done, codes):
        return
    compare(kit, kind, dest, wanted_names(listing, tensors), listing["tied"])
    load_with_transformers(kit, kind, dest, source)
    dest = kit.path("out", f"{kind}-bf16")
    done = convert(kit, source, dest, "--dtype", "bf16")
    kit.expect(f"{kind}: convert --dtype bf16", done, codes)
    compare(kit, f"{kind} as bf16", dest, wanted_names(listing, tensors, torch.bfloat16),
            listing["tied"])
    config = os.path.join(dest, "config.json")
    if kit.check(f"{kind} as bf16: config.json is there", os.path.exists(config)):
        with open(config) as text:
            named = json.load(text)
        kit.check(f"{kind} as bf16: config.json says so",
                  named.get("dtype", named.get("torch_dtype")) == "bfloat16", named)


def check_tensors(kit, kind, source, listing, tensors):
    dest = kit.path("out", kind)
    if kit.expect(f"{kind}: convert --to hf", convert(kit, source, dest), 0):
        compare(kit, kind, dest, wanted_names(listing, tensors))


def check_zoo(kit, kind, source, listing, tensors):
    """Dtypes that safetensors cannot hold are refused by name; the rest is carried bit for bit."""
    dest = kit.path("out", kind)
    refused = convert(kit, source, dest)
    kit.expect(f"{kind}: complex128 and complex32 refused", refused, 2)
    named = any(f"{d}.{part}" in refused.text for d in CANNOT_HOLD
                for part in ("m", "v", "scalar", "empty", "cube", "sharded"))
    kit.check(f"{kind}: refusal names tensor and dtype",
              named and any(d in refused.text for d in CANNOT_HOLD), refused)
    kit.check(f"{kind}: refusal leaves nothing behind", not os.path.exists(dest))
    drops = [o for d in CANNOT_HOLD for o in ("--drop", f"*{d}.*")]
    want = wanted_names(listing, tensors)
    want = {n: t for n, t in want.items() if not n.startswith(CANNOT_HOLD)}
    # torch packs two fp4 values in a byte; a 0-d one has no last dimension to double
    drops += ["--drop", "*float4_e2m1fn_x2.scalar"]
    want.pop("float4_e2m1fn_x2.scalar")
    done = convert(kit, source, dest, *drops)
    if kit.expect(f"{kind}: convert with --drop", done, 0):
        compare(kit, kind, dest, want)


def check_casts(kit, kind, source, listing, tensors):
    """Casts as torch does them; a NaN stays a NaN, its payload is free."""
    check_tensors(kit, kind, source, listing, tensors)
    for word, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32),
                        ("f64", torch.float64)):
        dest = kit.path("out", f"{kind}-{word}")
        done = convert(kit, source, dest, "--dtype", word)
        if not kit.expect(f"{kind}: convert --dtype {word}", done, 0):
            continue
        found, _ = read_hf(dest)
        want = wanted_names(listing, tensors, dtype)
        wrong = [n for n in want if n not in found or found[n].dtype != want[n].dtype
                 or not same_but_nan(found[n], want[n])]
        kit.check(f"{kind}: --dtype {word} as torch casts", not wrong, f"    {wrong}")


def same_but_nan(a, b):
    if not a.is_floating_point():
        return truth.same_bits(a, b)
    nan = torch.isnan(a)
    return torch.equal(nan, torch.isnan(b)) and truth.same_bits(a[~nan], b[~nan])


def check_demo(kit):
    """The sample that the command writes is a checkpoint to torch itself."""
    folder = kit.path("out", "demo")
    if not kit.expect("demo DIR", kit.run("demo", folder), 0):
        return
    where = next((d for d, _, names in os.walk(folder) if ".metadata" in names), None)
    if not kit.check("demo: a DCP folder is there", where):
        return
    tensors = check_truth.read_dcp(where)
    kit.check("demo: torch loads it", len(tensors) > 0, tensors.keys())
    kit.expect("demo: verify", kit.run("verify", where), 0)
    dest = kit.path("out", "demo-hf")
    if kit.expect("demo: convert", kit.run("convert", where, dest, "--to", "hf"), 0):
        found, faults = read_hf(dest)
        by_end = {k: t for k, t in tensors.items() for n in found if k.endswith(n)}
        same = all(any(k.endswith(n) and truth.same_bits(t, found[n]) for k, t in by_end.items())
                   for n in found)
        kit.check("demo: converted tensors are those torch loads", found and same and not faults,
                  f"    {sorted(found)[:5]} {faults}")


def check_kind(kit, kind, source):
    listing, tensors = truth.load_truth(source)
    before = digest_of_folder(f"{source}/ckpt")
    look(kit, kind, source, listing, tensors)
    check_hash(kit, kind, source, listing, tensors)
    if kind == "zoo":
        check_zoo(kit, kind, source, listing, tensors)
    elif kind == "casts":
        check_casts(kit, kind, source, listing, tensors)
    elif listing.get("model"):
        check_model(kit, kind, source, listing, tensors)
    else:
        check_tensors(kit, kind, source, listing, tensors)
    kit.check(f"{kind}: source untouched", digest_of_folder(f"{source}/ckpt") == before)


def check_paths(kit, source):
    """A file of the folder stands for it; a folder of one is seen through; of two, both are named."""
    ckpt = f"{source}/ckpt"
    kit.expect("a file of the folder: verify", kit.run("verify", f"{ckpt}/__0_0.distcp"), 0)
    high = kit.path("high")
    shutil.rmtree(high, ignore_errors=True)
    shutil.copytree(ckpt, f"{high}/step-9")
    done = kit.run("verify", high)
    kit.expect("one level too high: found and said", done, 0, "step-9")
    shutil.copytree(ckpt, f"{high}/step-10")
    kit.expect("two checkpoints: both named", kit.run("convert", high, kit.path("out", "two"),
                                                      "--to", "hf"), 2, "step-9", "step-10")
    kit.expect("nothing there", kit.run("verify", kit.path("no-such")), 2, "no-such")
    os.makedirs(f"{high}/empty")
    kit.expect("an empty folder", kit.run("verify", f"{high}/empty"), 2, "empty")


def load_with_dcp(kit, label, folder, want):
    """torch's own reader of safetensors folders takes our output as a checkpoint."""
    state = {n: torch.zeros_like(t) for n, t in want.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder))
    wrong = [n for n, t in want.items() if not truth.same_bits(state[n], t)]
    kit.check(f"{label}: torch's HuggingFaceStorageReader loads it", not wrong, wrong[:6])


def check_options(kit, source):
    """Shards by size, --dry-run, --only, an existing destination, a folder one level too high."""
    listing, tensors = truth.load_truth(source)
    want = wanted_names(listing, tensors)
    dest = kit.path("out", "shards")
    done = convert(kit, source, dest, target="hf:shard=100KB")
    if kit.expect("hf:shard=100KB", done, 0):
        compare(kit, "hf:shard=100KB", dest, want)
        files = [n for n in os.listdir(dest) if n.endswith(".safetensors")]
        kit.check("hf:shard=100KB: several files", len(files) > 2, files)
        load_with_transformers(kit, "hf:shard=100KB", dest, source)
        load_with_dcp(kit, "hf:shard=100KB", dest, want)
    again = kit.run("convert", f"{source}/ckpt", dest, "--to", "hf")
    kit.expect("an existing destination is refused", again, 5)
    compare(kit, "an existing destination is left alone", dest, want)
    again = kit.run("convert", f"{source}/ckpt", dest, "--to", "hf", "--overwrite", "--assets",
                    f"{source}/assets")
    kit.expect("--overwrite", again, 0)
    compare(kit, "--overwrite", dest, want)
    dest = kit.path("out", "dry")
    done = convert(kit, source, dest, "--dry-run")
    kit.expect("--dry-run", done, 0)
    kit.check("--dry-run writes nothing", not os.path.exists(dest), os.listdir(kit.path("out")))
    dest = kit.path("out", "only")
    done = convert(kit, source, dest, "--only", "*embed_tokens*")
    if kit.expect("--only GLOB", done, (0, 3)):
        compare(kit, "--only GLOB", dest, {n: t for n, t in want.items() if "embed_tokens" in n})
    tied = os.path.join(os.path.dirname(source), "tied", "assets")
    if os.path.isdir(tied):
        dest = kit.path("out", "not-tied")
        done = kit.run("convert", f"{source}/ckpt", dest, "--to", "hf", "--assets", tied)
        kit.expect("the config says tied, the tensors differ", done, 2, "lm_head.weight")
        kit.check("... and nothing is written", not os.path.exists(dest))
