"""One tiny model of transformers for each map: random weights, saved by save_pretrained.

Sizes are awkward on purpose: two key heads, a head dimension that is not hidden / heads, a vocabulary
that needs padding, expert layers among dense ones, tied and untied heads.
"""

import os
import shutil

import torch
from transformers import (AutoModelForCausalLM, DeepseekV3Config, Gemma2Config, GPT2Config, LlamaConfig,
                          MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig)

IDS = torch.arange(2 * 7).reshape(2, 7) * 13 % 97
SIZES = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=24, max_position_embeddings=64,
             bos_token_id=1, eos_token_id=2, pad_token_id=None)
LATENT = dict(kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, q_lora_rank=12,
              n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2, n_group=2, topk_group=1,
              moe_intermediate_size=12)

# kind -> (map, configuration, dtype)
KINDS = {
    "map_llama": ("llama", lambda: LlamaConfig(**SIZES), torch.float32),
    "map_llama_biases": ("llama", lambda: LlamaConfig(**SIZES, head_dim=16, attention_bias=True,
                                                      mlp_bias=True), torch.bfloat16),
    "map_llama_tied": ("llama", lambda: LlamaConfig(**SIZES, tie_word_embeddings=True), torch.bfloat16),
    "map_mistral": ("mistral", lambda: MistralConfig(**SIZES, head_dim=16), torch.bfloat16),
    "map_qwen2": ("qwen2", lambda: Qwen2Config(**SIZES, tie_word_embeddings=True), torch.float32),
    "map_qwen3": ("qwen3", lambda: Qwen3Config(**SIZES, head_dim=16), torch.float32),
    "map_mixtral": ("mixtral", lambda: MixtralConfig(**SIZES, num_local_experts=3,
                                                     num_experts_per_tok=2), torch.float32),
    "map_qwen3_moe": ("qwen3-moe", lambda: Qwen3MoeConfig(
        **{**SIZES, "num_hidden_layers": 3}, head_dim=16, num_experts=3, num_experts_per_tok=2,
        moe_intermediate_size=12, mlp_only_layers=[1]), torch.float32),
    "map_gemma2": ("gemma2", lambda: Gemma2Config(**SIZES, head_dim=16), torch.float32),
    "map_gpt2": ("gpt2", lambda: GPT2Config(vocab_size=100, n_embd=32, n_head=4, n_layer=2,
                                            n_positions=16, bos_token_id=1, eos_token_id=2), torch.float32),
    "map_deepseek_v3": ("deepseek-v3", lambda: DeepseekV3Config(
        **{**SIZES, "num_key_value_heads": 4}, **LATENT, first_k_dense_replace=1), torch.float32),
    "map_deepseek_v3_plain": ("deepseek-v3", lambda: DeepseekV3Config(
        **{**SIZES, "num_key_value_heads": 4}, **{**LATENT, "q_lora_rank": None},
        first_k_dense_replace=0), torch.float32),
}


def make(root, kind):
    """Writes KIND/{ckpt,assets,logits.pt} unless it is there; returns the folder."""
    folder = os.path.join(root, kind)
    if os.path.exists(os.path.join(folder, "done")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    _, make_config, dtype = KINDS[kind]
    torch.manual_seed(len(kind))
    model = AutoModelForCausalLM.from_config(make_config(), dtype=dtype).eval()
    with torch.no_grad():  # ones and zeros look alike everywhere and would hide a wrong order
        for value in model.state_dict().values():
            value.add_(torch.randn_like(value) * 0.1)
        logits = model(input_ids=IDS).logits
    model.save_pretrained(os.path.join(folder, "ckpt"))
    os.makedirs(os.path.join(folder, "assets"))
    shutil.copy(os.path.join(folder, "ckpt", "config.json"), os.path.join(folder, "assets"))
    torch.save({"input_ids": IDS, "logits": logits}, os.path.join(folder, "logits.pt"))
    with open(os.path.join(folder, "done"), "w", encoding="utf-8"):
        pass
    return folder
