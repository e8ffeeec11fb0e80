"""Whole tensors by the names of other frameworks, restated without maps from Hugging Face's.

torchtitan: the tables of its state dict adapters (0.3.0). Megatron-Core: a GPT model with Transformer
Engine layers and grouped experts. What transformers has in memory is asked of transformers.
"""

import re

import torch
from transformers import AutoModelForCausalLM

from inference_reference import meta_rotation, padded

TITAN = {
    "self_attn.o_proj.weight": "attention.wo.weight", "self_attn.q_norm.weight": "attention.q_norm.weight",
    "self_attn.k_norm.weight": "attention.k_norm.weight", "input_layernorm.weight": "attention_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight", "mlp.gate_proj.weight": "feed_forward.w1.weight",
    "mlp.up_proj.weight": "feed_forward.w3.weight", "mlp.down_proj.weight": "feed_forward.w2.weight",
    "mlp.gate.weight": "moe.router.gate.weight", "mlp.gate.e_score_correction_bias": "moe.expert_bias_E",
    "mlp.shared_experts.gate_proj.weight": "moe.shared_experts.w1.weight",
    "mlp.shared_experts.up_proj.weight": "moe.shared_experts.w3.weight",
    "mlp.shared_experts.down_proj.weight": "moe.shared_experts.w2.weight",
    "self_attn.q_a_proj.weight": "attention.wq_a.weight", "self_attn.q_a_layernorm.weight": "attention.q_norm.weight",
    "self_attn.q_b_proj.weight": "attention.wq_b.weight", "self_attn.kv_b_proj.weight": "attention.wkv_b.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attention.wkv_a.weight",
    "self_attn.kv_a_layernorm.weight": "attention.kv_norm.weight",
}
EXPERTS = {"gate_proj": "w1_EFD", "up_proj": "w3_EFD", "down_proj": "w2_EDF"}


def torchtitan(config, hf):
    """{name: tensor} of its state dict: tied or not, both the embedding and the head are there."""
    out = {"tok_embeddings.weight": hf["model.embed_tokens.weight"], "norm.weight": hf["model.norm.weight"],
           "lm_head.weight": hf.get("lm_head.weight", hf["model.embed_tokens.weight"])}
    kind, stacks = config["model_type"], {}
    heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    for name, tensor in hf.items():
        found = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name)
        if not found:
            continue
        layer, rest = f"layers.{found[1]}.", found[2]
        plain = re.fullmatch(r"self_attn\.([qkv])_proj\.weight", rest)
        expert = re.fullmatch(r"mlp\.experts\.(\d+)\.(\w+)\.weight", rest)
        if plain and kind == "deepseek_v3":
            out[f"{layer}attention.wq.weight"] = tensor
        elif plain:
            turned = kind == "llama" and plain[1] in heads
            out[f"{layer}attention.qkv_linear.w{plain[1]}.weight"] = (
                meta_rotation(tensor, heads[plain[1]]) if turned else tensor)
        elif expert:
            place = f"{layer}moe.routed_experts.inner_experts.{EXPERTS[expert[2]]}"
            stacks.setdefault(place, {})[int(expert[1])] = tensor
        else:
            out[layer + TITAN[rest]] = tensor
            if kind == "qwen3_moe" and rest == "mlp.gate.weight":
                out[f"{layer}moe.expert_bias_E"] = torch.zeros(len(tensor))
    return out | {place: torch.stack([one[e] for e in sorted(one)]) for place, one in stacks.items()}


class Megatron:
    """decoder.layers of Megatron-Core, a layer at a time."""

    def __init__(self, config, hf):
        self.config, self.hf, self.out = config, hf, {}
        self.kind = config["model_type"]

    def take(self, to, name):
        if name in self.hf:
            self.out[to] = self.hf[name]

    def linear(self, to, *names):
        """Weights (and biases) one behind the other."""
        for what in ("weight", "bias"):
            if f"{names[0]}.{what}" in self.hf:
                self.out[f"{to}.{what}"] = torch.cat([self.hf[f"{n}.{what}"] for n in names])

    def grouped(self, q, k, v):
        """The query heads of a key head, the key, the value; then the next."""
        groups = self.config["num_key_value_heads"]
        return torch.cat([part for g in range(groups) for t in (q, k, v) for part in [t.chunk(groups)[g]]])

    def attention(self, p, d):
        d += "self_attention."
        for what in ("weight", "bias"):
            names = [f"{p}self_attn.{x}_proj.{what}" for x in "qkv"]
            if names[0] in self.hf:
                self.out[f"{d}linear_qkv.{what}"] = self.grouped(*(self.hf[n] for n in names))
        self.linear(f"{d}linear_proj", f"{p}self_attn.o_proj")
        for x in "qk":
            self.take(f"{d}{x}_layernorm.weight", f"{p}self_attn.{x}_norm.weight")
        self.take(f"{d}linear_qkv.layer_norm_weight", f"{p}input_layernorm.weight")

    def latent_attention(self, p, d):
        self.take(f"{d}input_layernorm.weight", f"{p}input_layernorm.weight")
        for ours, theirs in (("q_proj", "linear_q_proj.weight"), ("q_a_proj", "linear_q_down_proj.weight"),
                             ("q_a_layernorm", "linear_q_up_proj.layer_norm_weight"),
                             ("q_b_proj", "linear_q_up_proj.weight"),
                             ("kv_a_proj_with_mqa", "linear_kv_down_proj.weight"),
                             ("kv_a_layernorm", "linear_kv_up_proj.layer_norm_weight"),
                             ("kv_b_proj", "linear_kv_up_proj.weight"), ("o_proj", "linear_proj.weight")):
            self.take(f"{d}self_attention.{theirs}", f"{p}self_attn.{ours}.weight")

    def experts(self, p, d):
        gate, up, down = ("w1", "w3", "w2") if self.kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        p += "block_sparse_moe." if self.kind == "mixtral" else "mlp."
        self.take(f"{d}mlp.router.weight", f"{p}gate.weight")
        self.take(f"{d}mlp.router.expert_bias", f"{p}gate.e_score_correction_bias")
        e = 0
        while (one := f"{p}experts.{e}.") + f"{gate}.weight" in self.hf:
            both = [self.hf[f"{one}{x}.weight"] for x in (gate, up)]
            self.out[f"{d}mlp.experts.linear_fc1.weight{e}"] = torch.cat(both)
            self.take(f"{d}mlp.experts.linear_fc2.weight{e}", f"{one}{down}.weight")
            e += 1
        if f"{p}shared_experts.gate_proj.weight" in self.hf:
            self.mlp(f"{d}mlp.shared_experts", f"{p}shared_experts")

    def mlp(self, to, p):
        self.linear(f"{to}.linear_fc1", f"{p}.gate_proj", f"{p}.up_proj")
        self.linear(f"{to}.linear_fc2", f"{p}.down_proj")

    def feed_forward(self, p, d):
        after = f"{p}post_attention_layernorm.weight"
        if self.kind == "gemma2":  # Its norm of that name follows the attention.
            self.take(f"{d}self_attention.linear_proj.post_layernorm.weight", after)
            self.take(f"{d}mlp.linear_fc2.post_layernorm.weight", f"{p}post_feedforward_layernorm.weight")
            after = f"{p}pre_feedforward_layernorm.weight"
        if f"{p}mlp.gate_proj.weight" in self.hf:
            self.mlp(f"{d}mlp", f"{p}mlp")
            self.take(f"{d}mlp.linear_fc1.layer_norm_weight", after)
        else:
            self.experts(p, d)
            self.take(f"{d}pre_mlp_layernorm.weight", after)

    def ends(self, embed, head, norm):
        self.out["embedding.word_embeddings.weight"] = padded(self.hf[embed], 128)
        if head in self.hf:
            self.out["output_layer.weight"] = padded(self.hf[head], 128)
        for what in ("weight", "bias"):
            self.take(f"decoder.final_layernorm.{what}", f"{norm}.{what}")

    def gpt2(self):
        self.ends("transformer.wte.weight", "lm_head.weight", "transformer.ln_f")
        self.take("embedding.position_embeddings.weight", "transformer.wpe.weight")
        heads = self.config["n_head"]
        for n in range(self.config["n_layer"]):
            p, d = f"transformer.h.{n}.", f"decoder.layers.{n}."
            for what in ("weight", "bias"):
                joined = self.hf[f"{p}attn.c_attn.{what}"].T
                each = [t.chunk(heads) for t in joined.chunk(3)]
                self.out[f"{d}self_attention.linear_qkv.{what}"] = torch.cat(
                    [each[x][h] for h in range(heads) for x in range(3)])
                for theirs, ours in (("attn.c_proj", "self_attention.linear_proj"),
                                     ("mlp.c_fc", "mlp.linear_fc1"), ("mlp.c_proj", "mlp.linear_fc2")):
                    self.out[f"{d}{ours}.{what}"] = self.hf[f"{p}{theirs}.{what}"].T
                self.take(f"{d}self_attention.linear_qkv.layer_norm_{what}", f"{p}ln_1.{what}")
                self.take(f"{d}mlp.linear_fc1.layer_norm_{what}", f"{p}ln_2.{what}")
        return self.out

    def build(self):
        if self.kind == "gpt2":
            return self.gpt2()
        self.ends("model.embed_tokens.weight", "lm_head.weight", "model.norm")
        for n in range(self.config["num_hidden_layers"]):
            p, d = f"model.layers.{n}.", f"decoder.layers.{n}."
            (self.latent_attention if self.kind == "deepseek_v3" else self.attention)(p, d)
            self.feed_forward(p, d)
        return self.out


def mcore(config, hf):
    return Megatron(config, hf).build()


def in_memory(folder, base=False):
    """What transformers itself has of the files: its model, or the model without the head."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    tied = set(model.all_tied_weights_keys) if hasattr(model, "all_tied_weights_keys") else {"lm_head.weight"}
    state = (model.base_model if base else model).state_dict()
    return {n: t for n, t in state.items() if n not in tied or not model.config.tie_word_embeddings}
