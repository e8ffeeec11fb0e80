"""What each rank of an inference framework loads, restated from the frameworks' own loaders.

vLLM: QKVParallelLinear, MergedColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding and
FusedMoE of 0.33.0, with the names that its state dict gives after an ordinary load. Meta: fairscale's
Column- and RowParallelLinear and VocabParallelEmbedding. From the tensors of Hugging Face files, one
architecture after the other; no map is read.
"""

import torch
import torch.nn.functional as F


def cut(tensor, dim, rank, tp):
    assert tensor.shape[dim] % tp == 0, (tensor.shape, dim, tp)
    return tensor.chunk(tp, dim)[rank]


def key_heads(tensor, heads, rank, tp):
    """Rows of the key heads of a rank: at least one, copied where there are more ranks than heads."""
    width = tensor.shape[0] // heads
    count, first = max(1, heads // tp), rank // max(1, tp // heads) * max(1, heads // tp)
    return tensor[first * width:(first + count) * width]


def padded(tensor, multiple=64):
    return F.pad(tensor, (0, 0, 0, -tensor.shape[0] % multiple))


class VllmRank:
    def __init__(self, config, hf, rank, tp):
        self.config, self.hf, self.rank, self.tp, self.out = config, hf, rank, tp, {}
        self.kind = config["model_type"]
        self.heads = config.get("num_key_value_heads") or config.get("n_head")
        self.tied = config.get("tie_word_embeddings", self.kind in ("gemma2", "gpt2"))

    def whole(self, to, name):
        self.out[to] = self.hf[name]

    def column(self, to, *names):
        self.out[to] = torch.cat([cut(self.hf[n], 0, self.rank, self.tp) for n in names])

    def row(self, to, name):
        self.out[to] = cut(self.hf[name], 1, self.rank, self.tp)

    def linear(self, kind, to, *names):
        """The weight and, when it is there, the bias."""
        kind(f"{to}.weight", *(f"{n}.weight" for n in names))
        if f"{names[0]}.bias" in self.hf:
            (self.whole if kind == self.row else kind)(f"{to}.bias", *(f"{n}.bias" for n in names))

    def qkv(self, to, q, k, v):
        parts = [cut(self.hf[q], 0, self.rank, self.tp)]
        parts += [key_heads(self.hf[n], self.heads, self.rank, self.tp) for n in (k, v)]
        self.out[to] = torch.cat(parts)

    def scales(self, prefix):
        for letter in ("k", "v", "q", "prob"):
            self.out[f"{prefix}._{letter}_scale"] = torch.tensor(1.0)

    def attention(self, p):
        proj = [f"{p}.self_attn.{x}_proj" for x in "qkv"]
        self.qkv(f"{p}.self_attn.qkv_proj.weight", *(f"{n}.weight" for n in proj))
        if f"{proj[0]}.bias" in self.hf:
            self.qkv(f"{p}.self_attn.qkv_proj.bias", *(f"{n}.bias" for n in proj))
        self.linear(self.row, f"{p}.self_attn.o_proj", f"{p}.self_attn.o_proj")
        self.scales(f"{p}.self_attn.attn")

    def latent_attention(self, p):
        p = f"{p}.self_attn"
        if f"{p}.q_a_proj.weight" in self.hf:
            both = [self.hf[f"{p}.{x}.weight"] for x in ("q_a_proj", "kv_a_proj_with_mqa")]
            self.out[f"{p}.fused_qkv_a_proj.weight"] = torch.cat(both)
            self.whole(f"{p}.mla_attn.q_a_layernorm.weight", f"{p}.q_a_layernorm.weight")
            self.column(f"{p}.mla_attn.q_b_proj.weight", f"{p}.q_b_proj.weight")
        else:
            self.column(f"{p}.mla_attn.q_proj.weight", f"{p}.q_proj.weight")
            self.whole(f"{p}.kv_a_proj_with_mqa.weight", f"{p}.kv_a_proj_with_mqa.weight")
        self.whole(f"{p}.kv_a_layernorm.weight", f"{p}.kv_a_layernorm.weight")
        self.column(f"{p}.kv_b_proj.weight", f"{p}.kv_b_proj.weight")
        self.row(f"{p}.mla_attn.o_proj.weight", f"{p}.o_proj.weight")
        self.scales(f"{p}.mla_attn.mla_attn")

    def mlp(self, to, p):
        self.linear(self.column, f"{to}.gate_up_proj", f"{p}.gate_proj", f"{p}.up_proj")
        self.linear(self.row, f"{to}.down_proj", f"{p}.down_proj")

    def experts(self, to, p, gate, up, down):
        count = sum(n.startswith(f"{p}.") and n.endswith(f".{gate}.weight") for n in self.hf)
        w13, w2 = [], []
        for e in range(count):
            one = [cut(self.hf[f"{p}.{e}.{x}.weight"], 0, self.rank, self.tp) for x in (gate, up)]
            w13.append(torch.cat(one))
            w2.append(cut(self.hf[f"{p}.{e}.{down}.weight"], 1, self.rank, self.tp))
        self.out[f"{to}.w13_weight"], self.out[f"{to}.w2_weight"] = torch.stack(w13), torch.stack(w2)

    def feed_forward(self, p):
        if self.kind == "mixtral":
            m = f"{p}.block_sparse_moe"
            self.whole(f"{m}.gate.weight", f"{m}.gate.weight")
            self.experts(f"{m}.experts.routed_experts", f"{m}.experts", "w1", "w3", "w2")
        elif f"{p}.mlp.gate.weight" in self.hf:
            for name in ("weight", "e_score_correction_bias"):
                if f"{p}.mlp.gate.{name}" in self.hf:
                    self.whole(f"{p}.mlp.experts.gate.{name}", f"{p}.mlp.gate.{name}")
            self.experts(f"{p}.mlp.experts.routed_experts", f"{p}.mlp.experts", "gate_proj", "up_proj",
                         "down_proj")
            if f"{p}.mlp.shared_experts.up_proj.weight" in self.hf:
                self.mlp(f"{p}.mlp.experts._shared_experts._layer", f"{p}.mlp.shared_experts")
        else:
            self.mlp(f"{p}.mlp", f"{p}.mlp")

    def vocabulary(self, embed, head="lm_head.weight"):
        table = cut(padded(self.hf[embed]), 0, self.rank, self.tp)
        if not self.tied or self.kind == "gemma2":
            self.out[embed] = table
        if self.kind != "gemma2":
            self.out[head] = table if self.tied else cut(padded(self.hf[head]), 0, self.rank, self.tp)

    def gpt2(self):
        self.vocabulary("transformer.wte.weight")
        for name in self.hf:
            if ".ln_" in name or "wpe" in name:
                self.whole(name, name)
        for n in range(self.config["n_layer"]):
            p = f"transformer.h.{n}"
            self.scales(f"{p}.attn.attn")
            for what in ("weight", "bias"):
                name = f"{p}.attn.c_attn.{what}"
                thirds = self.hf[name].t().chunk(3) if what == "weight" else self.hf[name].chunk(3)
                self.out[name] = torch.cat([cut(t, 0, self.rank, self.tp) for t in thirds])
                name = f"{p}.mlp.c_fc.{what}"
                tensor = self.hf[name].t() if what == "weight" else self.hf[name]
                self.out[name] = cut(tensor, 0, self.rank, self.tp)
            for part in ("attn", "mlp"):
                self.out[f"{p}.{part}.c_proj.weight"] = cut(self.hf[f"{p}.{part}.c_proj.weight"].t(), 1,
                                                            self.rank, self.tp)
                self.whole(f"{p}.{part}.c_proj.bias", f"{p}.{part}.c_proj.bias")

    def build(self):
        if self.kind == "gpt2":
            self.gpt2()
            return self.out
        self.vocabulary("model.embed_tokens.weight")
        for name in self.hf:
            if name.endswith("norm.weight") and "_a_layernorm" not in name:
                self.whole(name, name)
        for n in range(self.config["num_hidden_layers"]):
            p = f"model.layers.{n}"
            (self.latent_attention if self.kind == "deepseek_v3" else self.attention)(p)
            self.feed_forward(p)
        return self.out


def vllm(config, hf, tp):
    """[{name: tensor} of each rank]."""
    return [VllmRank(config, hf, rank, tp).build() for rank in range(tp)]


def meta_rotation(tensor, heads):
    """Rows of Hugging Face's order in Meta's: pairs of neighbours are turned, not halves of a head."""
    half = tensor.shape[0] // heads // 2
    rows = [head * 2 * half + s * half + i for head in range(heads) for i in range(half) for s in (0, 1)]
    return tensor[rows]


def meta(config, hf, tp, by_vocabulary=False):
    """by_vocabulary: Llama 3 cuts the embedding along the vocabulary, Llama 1 and 2 the other way."""
    A, K = config["num_attention_heads"], config["num_key_value_heads"]
    names = {"self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1",
             "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3",
             "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}
    ranks = []
    for rank in range(tp):
        embed = hf["model.embed_tokens.weight"]
        out = {"tok_embeddings.weight": cut(embed, 0 if by_vocabulary else 1, rank, tp),
               "norm.weight": hf["model.norm.weight"],
               "output.weight": cut(hf.get("lm_head.weight", embed), 0, rank, tp)}
        for n in range(config["num_hidden_layers"]):
            p, q = f"model.layers.{n}.", f"layers.{n}."
            attn = {x: hf[f"{p}self_attn.{x}_proj.weight"] for x in "qkv"}
            out[f"{q}attention.wq.weight"] = cut(meta_rotation(attn["q"], A), 0, rank, tp)
            out[f"{q}attention.wk.weight"] = key_heads(meta_rotation(attn["k"], K), K, rank, tp)
            out[f"{q}attention.wv.weight"] = key_heads(attn["v"], K, rank, tp)
            for theirs, ours in names.items():
                tensor = hf[f"{p}{theirs}.weight"]
                dim = {"attention.wo": 1, "feed_forward.w2": 1}.get(ours, 0)
                out[f"{q}{ours}.weight"] = tensor if tensor.dim() == 1 else cut(tensor, dim, rank, tp)
        ranks.append(out)
    return ranks


def scores(q, k, head_dim, complex_pairs):
    """Attention scores of a few positions with rotated q and k: what the order of rows is good for."""
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.arange(q.shape[0], dtype=torch.float64)[:, None] * frequencies

    def turned(x):
        x = x.double().reshape(x.shape[0], -1, head_dim)
        if complex_pairs:
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
            pairs = pairs * torch.polar(torch.ones_like(angles), angles)[:, None, :]
            return torch.view_as_real(pairs).flatten(-2)
        cos, sin = (torch.cat([f(angles)] * 2, -1)[:, None, :] for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    q, k = turned(q), turned(k)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return torch.einsum("qhd,khd->hqk", q, k)
