"""Maps and inference layouts: models of transformers to every side and every tp, and back to the bit."""

import json
import os
import shutil

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import checks_good
import inference_reference
import kinds_maps
import map_reference
import names_reference
import truth

NUMPY = {torch.bfloat16: torch.int16}  # bits stay bits; numpy has no bfloat16


def read_file(path):
    if path.endswith(".safetensors"):
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    return torch.load(path, weights_only=True)


def hf_of(folder):
    return checks_good.read_hf(os.path.join(folder, "ckpt"))[0]


def config_of(folder):
    with open(os.path.join(folder, "assets", "config.json"), encoding="utf-8") as text:
        return json.load(text)


def same(got, want):
    """Names that differ, and why."""
    wrong = [f"{n}: only one has it" for n in got.keys() ^ want.keys()]
    return wrong + [f"{n}: {tuple(got[n].shape)} {got[n].dtype}, want {tuple(want[n].shape)} {want[n].dtype}"
                    for n in got.keys() & want.keys() if not truth.same_bits(got[n], want[n].contiguous())]


def cleared(path):
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isfile(path):
        os.remove(path)
    return path


def convert(kit, source, dest, target, *options):
    cleared(dest)
    return kit.run("convert", source, dest, "--to", target, *options)


def check_model(kit, kind, folder):
    """What torch saved is of the model that its configuration describes; the names that the map gives
    to numbered parameters are those that shapes and the order of the file give."""
    source, config = os.path.join(folder, "ckpt"), os.path.join(folder, "assets")
    if not os.path.isfile(os.path.join(config, "config.json")):
        return
    kit.expect(f"{kind}: held against its model", kit.run("verify", source, "--config", config), 0,
               "tensors known")
    if not kind.startswith("torch_"):
        return
    told, mapped = kit.path("out", "order-told"), kit.path("out", "order-mapped")
    convert(kit, source, told, "dcp")
    result = convert(kit, source, mapped, "dcp", "--config", config)
    kit.expect(f"{kind}: parameters in the order of the map", result, 0)
    kit.expect(f"{kind}: the same names", kit.run("diff", told, mapped, "--state"), 0)


def reference(folder, name):
    """The map with the model's configuration, and its atoms as arrays of bits."""
    judge = map_reference.Map(map_reference.embedded(name), config_of(folder))
    tensors = {n: t.view(NUMPY.get(t.dtype, t.dtype)).numpy() for n, t in hf_of(folder).items()}
    return judge, judge.from_side("hf", tensors)


def as_torch(arrays, dtype):
    bits = NUMPY.get(dtype)
    return {n: torch.from_numpy(a.copy()).view(dtype) if bits and a.dtype != "float32"
            else torch.from_numpy(a.copy()) for n, a in arrays.items()}


def back_to_hf(kit, label, source, folder):
    """Identical tensors, and transformers gives the same logits."""
    dest = kit.path("out", "map-back")
    done = convert(kit, source, dest, "hf", "--assets", os.path.join(folder, "assets"), "--verify")
    if kit.expect(f"{label} -> hf", done, 0):
        wrong = same(checks_good.read_hf(dest)[0], hf_of(folder))
        kit.check(f"{label} -> hf: the same bytes of every tensor", not wrong, wrong[:6])
        return dest
    return None


def check_ranks(kit, kind, folder, target, want, files):
    """want: [{name: tensor}] of the ranks; files: their names."""
    tp = len(want)
    label, dest = f"{kind} -> {target}:tp={tp}", kit.path("out", f"{kind}-{target}-{tp}")
    done = convert(kit, os.path.join(folder, "ckpt"), dest, f"{target}:tp={tp}", "--verify")
    if not kit.expect(label, done, 0):
        return
    weights = sorted(n for n in os.listdir(dest) if n.endswith((".safetensors", ".pth")))
    kit.check(f"{label}: files", weights == files, weights)
    for rank, name in enumerate(files):
        wrong = same(read_file(os.path.join(dest, name)), want[rank]) if name in weights else [name]
        kit.check(f"{label}: rank {rank} is what its loader wants", not wrong, wrong[:6])
    known = kit.run("verify", dest, "--config", os.path.join(folder, "assets"))
    kit.expect(f"{label}: verify knows the model", known, 0, f"side {target}")
    returned = back_to_hf(kit, label, dest, folder)
    if returned and tp == 2:
        checks_good.load_with_transformers(kit, f"{label} -> hf", returned, folder)
    shutil.rmtree(dest)


def check_vllm(kit, kind, folder):
    hf, config = hf_of(folder), config_of(folder)
    for tp in (1, 2, 4):
        files = [f"model-rank-{rank}-part-0.safetensors" for rank in range(tp)]
        check_ranks(kit, kind, folder, "vllm", inference_reference.vllm(config, hf, tp), files)


def check_meta(kit, kind, folder):
    hf, config = hf_of(folder), config_of(folder)
    for tp in (1, 2, 4):
        files = [f"consolidated.{rank:02d}.pth" for rank in range(tp)]
        check_ranks(kit, kind, folder, "meta", inference_reference.meta(config, hf, tp), files)


def wanted(folder, side):
    hf, config, ckpt = hf_of(folder), config_of(folder), os.path.join(folder, "ckpt")
    return {"torchtitan": lambda: names_reference.torchtitan(config, hf),
            "mcore": lambda: names_reference.mcore(config, hf),
            "hf-fused": lambda: names_reference.in_memory(ckpt),
            "hf-base": lambda: names_reference.in_memory(ckpt, base=True)}[side]()


def check_names(kit, kind, folder, name):
    """Each side that keeps whole tensors, in a file and in a DCP folder, and back."""
    judge, atoms = reference(folder, name)
    known = [a for a in atoms if a not in judge.ties and "fill" not in judge.atoms[a]]
    config = ("--config", os.path.join(folder, "assets"))
    for number, side in enumerate(s for s in judge.sides if s not in ("hf", "vllm", "meta")):
        label, dest = f"{kind} -> torch:names={side}", kit.path("out", f"{kind}-{side}.pt")
        done = convert(kit, os.path.join(folder, "ckpt"), dest, f"torch:names={side}", "--verify")
        if any(a in judge.lost[side] for a in known):
            kit.check(f"{label}: refused, what is lost is named",
                      done.code not in (0, "timeout") and not os.path.exists(dest) and
                      any(a in done.text for a in known if a in judge.lost[side]), done)
            continue
        if not kit.expect(label, done, 0):
            continue
        wrong = same(read_file(dest), wanted(folder, side))
        kit.check(f"{label}: what that framework has", not wrong, wrong[:6])
        back_to_hf(kit, label, dest, folder)
        if number:
            continue
        label, dcp = f"{kind} -> dcp:names={side}", kit.path("out", f"{kind}-{side}")
        done = convert(kit, os.path.join(folder, "ckpt"), dcp, f"dcp:ranks=2,names={side}", "--verify")
        if kit.expect(label, done, 0):
            back_to_hf(kit, label, dcp, folder)
            other = kit.path("out", "map-other.pt")
            done = convert(kit, dcp, other, f"torch:names={side}", *config)
            if kit.expect(f"{label} -> torch", done, 0):
                wrong = same(read_file(other), read_file(dest))
                kit.check(f"{label} -> torch: the same again", not wrong, wrong[:6])


def check_rotation(kit, kind, folder):
    """Rotated scores of torchtitan's and of Meta's rows, turned as pairs, are those of halves."""
    hf, config = hf_of(folder), config_of(folder)
    x = torch.randn(6, config["hidden_size"], generator=torch.Generator().manual_seed(3)).double()
    ours = {"torchtitan": "layers.1.attention.qkv_linear.w{}.weight", "meta": "layers.1.attention.w{}.weight"}

    def scores(tensors, pattern, pairs):
        q, k = (x @ tensors[pattern.format(c)].double().T for c in "qk")
        return inference_reference.scores(q, k, config["head_dim"], pairs)
    want = scores(hf, "model.layers.1.self_attn.{}_proj.weight", False)
    for side, pattern in ours.items():
        dest = kit.path("out", f"{kind}-turned.pt")
        done = convert(kit, os.path.join(folder, "ckpt"), dest, f"torch:names={side}")
        if kit.expect(f"{kind} -> {side}", done, 0):
            got = read_file(dest)
            kit.check(f"{kind} -> {side}: pairs of its rows turn as halves did",
                      torch.allclose(scores(got, pattern, True), want, atol=1e-9) and
                      not torch.allclose(scores(got, pattern, False), want, atol=1e-3))


def check_optimizer(kit, folder, side):
    """Moments of a training checkpoint go where their parameters go."""
    source, config = os.path.join(folder, "ckpt"), ("--config", os.path.join(folder, "assets"))
    middle, back, state = (kit.path("out", f"moments-{x}") for x in ("there", "back", "file.pt"))
    label = f"moments -> names={side}"
    if not kit.expect(label, convert(kit, source, middle, f"dcp:ranks=2,names={side}", *config), 0):
        return
    done = convert(kit, middle, back, "dcp:ranks=2,names=hf", *config)
    if kit.expect(f"{label} -> names=hf", done, 0):
        kit.expect(f"{label} -> names=hf: nothing differs", kit.run("diff", source, back), 0)
    done = convert(kit, source, state, f"torch:optimizer=nested,names={side}", *config)
    if not kit.expect(f"{label}, as a file", done, 0):
        return
    judge = map_reference.Map(map_reference.embedded("llama"), config_of(folder))
    _, tensors = truth.load_truth(folder)
    got = torch.load(state, weights_only=False)["optimizer"]["state"]
    for moment in ("exp_avg", "exp_avg_sq"):
        theirs = {n: tensors[f"optimizer.state.{n}.{moment}"].numpy() for n in judge.tensors["hf"]}
        want = as_torch(judge.to_side(side, judge.from_side("hf", theirs)), torch.float32)
        wrong = same({n: s[moment] for n, s in got.items()}, want)
        kit.check(f"{label}: {moment} moved with its parameters", not wrong, wrong[:6])


def check_training(kit, kind, folder):
    """Weights of a checkpoint of a training mesh, straight to the ranks of an inference one."""
    listing, tensors = truth.load_truth(folder)
    hf = {name: tensors[key] for key, name in listing["model_keys"].items()}
    config, dest = config_of(folder), kit.path("out", "map-training")
    for target, want in (("vllm", inference_reference.vllm(config, hf, 2)),
                         ("meta", inference_reference.meta(config, hf, 2))):
        label = f"{kind} -> {target}:tp=2"
        done = checks_good.convert(kit, folder, dest, "--verify", target=f"{target}:tp=2")
        name = "model-rank-{}-part-0.safetensors" if target == "vllm" else "consolidated.{:02d}.pth"
        if kit.expect(label, done, 0):
            wrong = [w for r in (0, 1) for w in same(read_file(os.path.join(dest, name.format(r))), want[r])]
            kit.check(f"{label}: what its loader wants", not wrong, wrong[:6])


# ---- worked examples: tensors of their own coordinates ------------------------------------------------

BASE = dict(vocab_size=100, hidden_size=8, num_hidden_layers=1, num_attention_heads=4, head_dim=4,
            num_key_value_heads=2, intermediate_size=12, tie_word_embeddings=False)
LATENT = dict(model_type="deepseek_v3", q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=6,
              qk_rope_head_dim=4, v_head_dim=5, first_k_dense_replace=1, n_routed_experts=2,
              n_shared_experts=1, moe_intermediate_size=4)


def probe(kit, name, config):
    """A folder whose tensors hold 1000 * row + column, and 100000 * what stands in PLACES."""
    folder = kit.path("out", f"probe-{name}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    judge = map_reference.Map(map_reference.embedded(name), config)
    tensors = {}
    for atom, facts in judge.atoms.items():
        if atom in judge.tensors["hf"]:
            rows = torch.arange(float(facts["shape"][0]))
            tensors[atom] = (rows[:, None] * 1000 + torch.arange(float(facts["shape"][1]))
                             if len(facts["shape"]) == 2 else rows * 1000)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as text:
        json.dump(config, text)
    return folder


def rows(tensor):
    return (tensor.reshape(tensor.shape[0], -1)[:, 0] // 1000).int().tolist()


def columns(tensor):
    return (tensor[0] % 1000).int().tolist()


def span(*pairs):
    return [i for first, last in pairs for i in range(first, last + 1)]


def ranks_of(kit, source, target, tp):
    dest = kit.path("out", "probe-ranks")
    done = convert(kit, source, dest, f"{target}:tp={tp}")
    if not kit.expect(f"{os.path.basename(source)} -> {target}:tp={tp}", done, 0):
        return None
    name = "model-rank-{}-part-0.safetensors" if target == "vllm" else "consolidated.{:02d}.pth"
    return [read_file(os.path.join(dest, name.format(r))) for r in range(tp)]


def example(kit, source, target, tp, wanted):
    """wanted: {name: [what of each rank: rows, or -> columns]}."""
    ranks = ranks_of(kit, source, target, tp)
    for (name, how), want in wanted.items() if ranks else ():
        got = [how(rank[name]) for rank in ranks]
        kit.check(f"{os.path.basename(source)} -> {target}:tp={tp}: {name}", got == want, f"    {got}")


def check_llama_examples(kit):
    attn, mlp = "model.layers.0.self_attn.", "model.layers.0.mlp."
    source = probe(kit, "llama", {**BASE, "model_type": "llama", "attention_bias": True})
    one = span((0, 15), (0, 7), (0, 7))
    two = [span((0, 7), (0, 3), (0, 3)), span((8, 15), (4, 7), (4, 7))]
    four = [span((4 * r, 4 * r + 3), *[(r // 2 * 4, r // 2 * 4 + 3)] * 2) for r in range(4)]
    for tp, want in ((1, [one]), (2, two), (4, four)):
        example(kit, source, "vllm", tp, {(attn + "qkv_proj.weight", rows): want,
                                          (attn + "qkv_proj.bias", rows): want})
    example(kit, source, "vllm", 2, {
        (attn + "o_proj.weight", columns): [span((0, 7)), span((8, 15))],
        (attn + "o_proj.bias", rows): [span((0, 7))] * 2,
        (mlp + "gate_up_proj.weight", rows): [span((0, 5), (0, 5)), span((6, 11), (6, 11))],
        (mlp + "down_proj.weight", columns): [span((0, 5)), span((6, 11))],
        ("lm_head.weight", rows): [span((0, 63)), span((64, 99)) + [0] * 28]})
    meta = {**BASE, "model_type": "llama", "hidden_size": 16}
    source = probe(kit, "llama", meta)
    turned = [0, 2, 1, 3, 4, 6, 5, 7]
    layer = "layers.0.attention."
    example(kit, source, "meta", 2, {
        (layer + "wq.weight", rows): [turned, [8 + i for i in turned]],
        (layer + "wk.weight", rows): [turned[:4], turned[4:]],
        (layer + "wv.weight", rows): [span((0, 3)), span((4, 7))],
        (layer + "wo.weight", columns): [span((0, 7)), span((8, 15))],
        ("layers.0.feed_forward.w2.weight", columns): [span((0, 5)), span((6, 11))],
        ("tok_embeddings.weight", columns): [span((0, 7)), span((8, 15))],
        ("output.weight", rows): [span((0, 49)), span((50, 99))]})
    example(kit, source, "meta", 4, {(layer + "wv.weight", rows): [span((0, 3)), span((0, 3)),
                                                                    span((4, 7)), span((4, 7))]})
    source = probe(kit, "llama", {**meta, "head_dim": 8, "num_attention_heads": 2})
    example(kit, source, "meta", 1, {(layer + "wq.weight", rows): [
        [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]]})
    source = probe(kit, "llama", {**BASE, "model_type": "llama", "hidden_size": 16, "head_dim": 4,
                                  "num_attention_heads": 8, "intermediate_size": 16})
    example(kit, source, "vllm", 8, {("model.embed_tokens.weight", rows): [
        *(span((16 * r, 16 * r + 15)) for r in range(6)), span((96, 99)) + [0] * 12, [0] * 16]})


def check_other_examples(kit):
    source = probe(kit, "mixtral", {**BASE, "model_type": "mixtral", "num_local_experts": 3})
    moe = "model.layers.0.block_sparse_moe.experts.routed_experts."
    example(kit, source, "vllm", 2, {
        (moe + "w13_weight", lambda t: [rows(e) for e in t]): [
            [span((0, 5), (0, 5))] * 3, [span((6, 11), (6, 11))] * 3],
        (moe + "w2_weight", lambda t: [columns(e) for e in t]): [
            [span((0, 5))] * 3, [span((6, 11))] * 3]})
    source = probe(kit, "gpt2", dict(model_type="gpt2", vocab_size=100, n_embd=8, n_head=2, n_layer=1,
                                     n_positions=4))
    h = "transformer.h.0."
    turned = lambda t: (t[:, 0] % 1000).int().tolist()  # noqa: E731: rows there are columns here
    thirds = [span((0, 3), (8, 11), (16, 19)), span((4, 7), (12, 15), (20, 23))]
    example(kit, source, "vllm", 2, {
        (h + "attn.c_attn.weight", turned): thirds, (h + "attn.c_attn.bias", rows): thirds,
        (h + "attn.c_proj.weight", lambda t: rows(t.T)): [span((0, 3)), span((4, 7))],
        (h + "mlp.c_fc.weight", turned): [span((0, 15)), span((16, 31))],
        (h + "mlp.c_proj.bias", rows): [span((0, 7))] * 2})
    source = probe(kit, "deepseek-v3", {**BASE, **LATENT})
    attn = "model.layers.0.self_attn."
    example(kit, source, "vllm", 2, {
        (attn + "kv_b_proj.weight", rows): [span((0, 21)), span((22, 43))],
        (attn + "mla_attn.q_b_proj.weight", rows): [span((0, 19)), span((20, 39))],
        (attn + "fused_qkv_a_proj.weight", rows): [span((0, 11), (0, 11))] * 2,
        (attn + "mla_attn.o_proj.weight", columns): [span((0, 9)), span((10, 19))]})


# ---- what is refused ------------------------------------------------------------------------------------

def refused(kit, label, done, dest, *words):
    lacking = [w for w in words if w not in done.text]
    kit.check(f"{label}: refused, nothing written", done.code in (1, 2, 3, 5) and not lacking and
              not os.path.exists(dest), f"    lacking {lacking}\n{done}")


def changed(kit, folder, edit, config=None):
    """A copy of the model with its tensors and configuration changed."""
    copy = kit.path("out", "map-changed")
    shutil.rmtree(copy, ignore_errors=True)
    os.makedirs(copy)
    tensors = hf_of(folder)
    edit(tensors)
    save_file(tensors, os.path.join(copy, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(copy, "config.json"), "w", encoding="utf-8") as text:
        json.dump({**config_of(folder), **(config or {})}, text)
    return copy


def check_models_refused(kit, folders):
    dest = kit.path("out", "refused")
    llama, mixtral = folders["map_llama"], folders["map_mixtral"]
    gate = "model.layers.0.mlp.gate_proj.weight"
    expert = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    cases = [
        ("a width that the configuration does not say", llama, lambda t: t.update({gate: t[gate][1:].clone()}),
         {}, "2", (gate, "23", "24")),
        ("another hidden size", llama, lambda t: None, {"hidden_size": 64}, "2", ("64",)),
        ("heads that three ranks cannot share", llama, lambda t: None, {}, "3", ("tp", "3")),
        ("an expert is missing", mixtral, lambda t: t.pop(expert), {}, "2", (expert,)),
        ("a layer is missing", llama, lambda t: t.pop(gate), {}, "2", (gate,)),
        ("an unknown tensor", llama, lambda t: t.update({"model.layers.0.mlp.gate_prj.weight": t[gate].clone()}),
         {}, "2", ("gate_prj", "hf")),
    ]
    for label, folder, edit, config, tp, words in cases:
        other = changed(kit, folder, edit, config)
        done = convert(kit, other, dest, f"vllm:tp={tp}")
        refused(kit, label, done, dest, *words)
        if tp == "2":
            said = kit.run("verify", other, "--config", other)
            kit.expect(f"{label}: verify says so", said, 1, *words[:1])
    other = changed(kit, llama, lambda t: t.update({"model.layers.0.mlp.gate_prj.weight": t.pop(gate)}))
    done = convert(kit, other, dest, "vllm:tp=2", "--from-names", "hf")
    refused(kit, "a misspelled tensor of a side that is told", done, dest, "gate_prj", gate)


def check_maps_refused(kit, folder):
    """Changed copies of a map: what it loses is listed, faults have line and column."""
    with open(map_reference.embedded("llama"), encoding="utf-8") as text:
        good = text.read()
    path, dest = kit.path("out", "own.yaml"), kit.path("out", "refused")

    def tried(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return convert(kit, os.path.join(folder, "ckpt"), dest, "vllm:tp=2", "--map", path)
    kit.expect("a map from a file", tried(good), 0)
    rule = '        vllm: "model.layers.{n}.self_attn.o_proj.weight"\n'
    assert good.count(rule) == 1
    refused(kit, "a rule lacks a side", tried(good.replace(rule, "")), dest,
            "model.layers.0.self_attn.o_proj.weight")
    kit.expect("a rule drops a tensor: what is lost is said", tried(good.replace(rule, "        vllm: drop\n")), (0, 3),
               *(f"model.layers.{n}.self_attn.o_proj.weight" for n in (0, 1)), "1024 elements")
    cleared(dest)
    line = good[:good.index(rule)].count("\n") + 1
    faults = [
        ("an unknown key", good.replace(rule, rule + "        vlm: x\n"), f":{line + 1}:9", "vlm"),
        ("a key twice", good.replace(rule, rule + rule), f":{line + 1}:9", "vllm"),
        ("an anchor", good.replace(rule, "        vllm: &x name\n"), f":{line}:", "anchor"),
        ("an alias", good.replace(rule, "        vllm: *x\n"), f":{line}:", "alias"),
        ("a tag", good.replace(rule, "        vllm: !!str x\n"), f":{line}:", "tag"),
        ("a variable that nothing binds", good.replace(rule, rule.replace("{n}", "{k}")), f":{line}:", "k"),
        ("an expression that does not parse", good.replace("H / A", "H / / A", 1), ":", "own.yaml"),
        ("a name that nothing defines", good.replace("F: config.intermediate_size", "F: confg.x", 1), ":", "confg"),
        ("a bomb of lists", "map: " + "[" * 100000, "own.yaml", "own.yaml"),
        ("more than a map can be", "map: 1 #" + "x" * (2 << 20), "own.yaml", "own.yaml"),
        ("aliases that unfold", "a: &a [x, x]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)), ":1:4", "anchor"),
    ]
    for label, text, place, word in faults:
        assert text != good, label
        done = tried(text)
        kit.check(f"a map with {label}: refused with its place", done.code in (2, 5) and word in done.err and
                  "own.yaml" in done.err and place in done.err and not os.path.exists(dest), done)


def check_lost(kit, folder):
    """Biases that torchtitan has no place for."""
    dest = kit.path("out", "refused.pt")
    done = convert(kit, os.path.join(folder, "ckpt"), dest, "torch:names=torchtitan")
    refused(kit, "biases to torchtitan", done, dest, "model.layers.0.self_attn.q_proj.bias")


def check_trained(kit, folders):
    """What the kit's other kinds give: trained, on meshes, with optimizer state."""
    for kind in ("fsdp2_w3", "fsdp_tp_2x2", "strided_2x2", "fsdp2_bf16"):
        if kind in folders and os.path.isdir(os.path.join(folders[kind], "assets")):
            kit.guarded(f"{kind}: inference", check_training, kind, folders[kind])
    if "fsdp2_w4_nested" in folders:
        for side in ("torchtitan", "mcore"):
            kit.guarded(f"moments to {side}", check_optimizer, folders["fsdp2_w4_nested"], side)


def check_maps(kit, root, only=None):
    folders = {}
    for kind in only or kinds_maps.KINDS:
        folders[kind] = kinds_maps.make(root, kind)
    for kind, folder in folders.items():
        name = kinds_maps.KINDS[kind][0]
        kit.guarded(f"{kind}: vllm", check_vllm, kind, folder)
        kit.guarded(f"{kind}: names", check_names, kind, folder, name)
        if kind in ("map_llama", "map_llama_tied"):
            kit.guarded(f"{kind}: meta", check_meta, kind, folder)
            kit.guarded(f"{kind}: rotation", check_rotation, kind, folder)
    if not only:
        kit.guarded("examples: llama", check_llama_examples)
        kit.guarded("examples: others", check_other_examples)
        kit.guarded("models refused", check_models_refused, folders)
        kit.guarded("maps refused", check_maps_refused, folders["map_llama"])
        kit.guarded("lost", check_lost, folders["map_llama_biases"])
    return folders
