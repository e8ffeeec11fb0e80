/* A small model as a map tells of it, and as a folder of safetensors whose elements count up. */
#ifndef TESTS_CONVERT_SHARDED_FIXTURE_H
#define TESTS_CONVERT_SHARDED_FIXTURE_H

#include "convert/fixture.h"

/* 4 heads of 4 with 2 of keys and values; two sides that are files of ranks. */
static const char sharded_map[] =
    "map: 1\n"
    "name: small\n"
    "models: [small]\n"
    "let:\n"
    "  H: config.hidden_size\n"
    "  A: config.heads\n"
    "  K: config.kv_heads\n"
    "  D: H / A\n"
    "  F: config.width\n"
    "  V: config.vocab\n"
    "  L: config.layers\n"
    "  halves: 2\n"
    "sides:\n"
    "  hf: {config: config.json}\n"
    "  vllm:\n"
    "    config: config.json\n"
    "    layout:\n"
    "      mesh: {tp: 1}\n"
    "      rules:\n"
    "        - tensor: \"**.qkv.weight\"\n"
    "          dims: [tp]\n"
    "          parts: [A * D, K * D, K * D]\n"
    "          units: [A, K, K]\n"
    "          copies: true\n"
    "        - {tensor: \"**.gate_up.weight\", dims: [tp], parts: [F, F], split: even}\n"
    "        - {tensor: [\"**.o.weight\", \"**.down.weight\"], dims: [_, tp], split: even}\n"
    "        - {tensor: [embed.weight, head.weight], dims: [tp], split: even}\n"
    "        - {tensor: \"**\", dims: []}\n"
    "  meta:\n"
    "    config: params.json\n"
    "    let: {H: config.dim, A: config.n_heads, K: config.n_kv_heads, D: H / A, F: config.ffn,\n"
    "          V: config.vocab_size, L: config.n_layers}\n"
    "    write: {dim: H, n_heads: A, n_kv_heads: K, ffn: F, vocab_size: V, n_layers: L, ranks: "
    "tp}\n"
    "    ignore: [rope.freqs]\n"
    "    layouts:\n"
    "      - when: V >= 1000\n"
    "        mesh: {tp: 1}\n"
    "        rules:\n"
    "          - {tensor: \"**.wq.weight\", dims: [tp], units: A}\n"
    "          - {tensor: \"**.w(k|v).weight\", dims: [tp], units: K, copies: true}\n"
    "          - {tensor: \"**.w(1|3).weight\", dims: [tp], split: even}\n"
    "          - {tensor: \"**.w(o|2).weight\", dims: [_, tp], split: even}\n"
    "          - {tensor: [tok.weight, output.weight], dims: [tp], split: even}\n"
    "          - {tensor: \"**\", dims: []}\n"
    "      - mesh: {tp: 1}\n"
    "        rules:\n"
    "          - {tensor: \"**.wq.weight\", dims: [tp], units: A}\n"
    "          - {tensor: \"**.w(k|v).weight\", dims: [tp], units: K, copies: true}\n"
    "          - {tensor: \"**.w(1|3).weight\", dims: [tp], split: even}\n"
    "          - {tensor: [\"**.w(o|2).weight\", tok.weight], dims: [_, tp], split: even}\n"
    "          - {tensor: output.weight, dims: [tp], split: even}\n"
    "          - {tensor: \"**\", dims: []}\n"
    "tensors:\n"
    "  - hf: embed.weight\n"
    "    shape: [V, H]\n"
    "    vllm: {name: embed.weight, pad: [\"ceil(V, 64)\", _]}\n"
    "    meta: tok.weight\n"
    "  - repeat: {n: L}\n"
    "    tensors:\n"
    "      - hf: \"layers.{n}.{q,k,v}.weight\"\n"
    "        shape: [[A * D, H], [K * D, H], [K * D, H]]\n"
    "        vllm: {name: \"layers.{n}.qkv.weight\", join: 0}\n"
    "        meta:\n"
    "          name: \"layers.{n}.w{q,k,v}.weight\"\n"
    "          rearrange: [\"(A halves i) H -> (A i halves) H\", \"(K halves i) H -> (K i halves) "
    "H\", _]\n"
    "      - {hf: \"layers.{n}.o.weight\", shape: [H, A * D], vllm: \"layers.{n}.o.weight\",\n"
    "         meta: \"layers.{n}.wo.weight\"}\n"
    "      - hf: \"layers.{n}.{gate,up}.weight\"\n"
    "        shape: [[F, H], [F, H]]\n"
    "        vllm: {name: \"layers.{n}.gate_up.weight\", join: 0}\n"
    "        meta: \"layers.{n}.w{1,3}.weight\"\n"
    "      - {hf: \"layers.{n}.down.weight\", shape: [H, F], vllm: \"layers.{n}.down.weight\",\n"
    "         meta: \"layers.{n}.w2.weight\"}\n"
    "      - {vllm: \"layers.{n}.scale\", shape: [], fill: 1.0, dtype: float32, buffer: true}\n"
    "  - {hf: norm.weight, shape: [H], vllm: norm.weight, meta: norm.weight}\n"
    "  - hf: head.weight\n"
    "    shape: [V, H]\n"
    "    vllm: {name: head.weight, pad: [\"ceil(V, 64)\", _]}\n"
    "    meta: output.weight\n";

static const char sharded_config[] =
    "{\"model_type\": \"small\", \"hidden_size\": 16, \"heads\": 4, \"kv_heads\": 2, \"width\": 12,"
    " \"vocab\": 100, \"layers\": 1}\n";

/* The tensors one behind the other: element i of one whose first is number `base` is base + i. */
typedef struct sharded_tensor {
    const char *name;
    int rows, columns; /* 0 columns: it has one dimension */
    int base;
} sharded_tensor;
#define SHARDED_EMBED 0
#define SHARDED_Q 1600
#define SHARDED_K 1856
#define SHARDED_V 1984
#define SHARDED_O 2112
#define SHARDED_GATE 2368
#define SHARDED_UP 2560
#define SHARDED_DOWN 2752
#define SHARDED_NORM 2944
#define SHARDED_HEAD 2960
#define SHARDED_END 4560
static const sharded_tensor sharded_tensors[] = {
    {"embed.weight", 100, 16, SHARDED_EMBED},   {"layers.0.q.weight", 16, 16, SHARDED_Q},
    {"layers.0.k.weight", 8, 16, SHARDED_K},    {"layers.0.v.weight", 8, 16, SHARDED_V},
    {"layers.0.o.weight", 16, 16, SHARDED_O},   {"layers.0.gate.weight", 12, 16, SHARDED_GATE},
    {"layers.0.up.weight", 12, 16, SHARDED_UP}, {"layers.0.down.weight", 16, 12, SHARDED_DOWN},
    {"norm.weight", 16, 0, SHARDED_NORM},       {"head.weight", 100, 16, SHARDED_HEAD},
};
#define SHARDED_COUNT (sizeof sharded_tensors / sizeof sharded_tensors[0])

/* The folder `dir` with the weights and config.json, and `dir`.yaml with the map. */
static inline void sharded_write(const char *dir)
{
    char header[2048] = "{";
    size_t n = 1;
    for (size_t i = 0; i < SHARDED_COUNT; i++) {
        const sharded_tensor *t = &sharded_tensors[i];
        char shape[32];
        int count = t->rows * (t->columns > 0 ? t->columns : 1);
        if (t->columns > 0)
            snprintf(shape, sizeof shape, "%d,%d", t->rows, t->columns);
        else
            snprintf(shape, sizeof shape, "%d", t->rows);
        n +=
            (size_t)snprintf(header + n, sizeof header - n,
                             "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                             i > 0 ? "," : "", t->name, shape, 4 * t->base, 4 * (t->base + count));
        assert_true(n + 2 < sizeof header);
    }
    header[n] = '}';
    write_st(harness_path(dir, "model.safetensors"), header, (size_t)4 * SHARDED_END, 0);
    harness_write_text(harness_path(dir, "config.json"), sharded_config);
    harness_write_text(harness_path(dir, "../small.yaml"), sharded_map);
}

#endif
