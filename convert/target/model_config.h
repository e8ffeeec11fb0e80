/*
 * The model's configuration and the other small files that go beside weights (tokenizer,
 * generation settings): read from the assets folder, copied, and adjusted where the weights say
 * otherwise. No architecture is known here: only keys that all share.
 */
#ifndef SW_CONVERT_MODEL_CONFIG_H
#define SW_CONVERT_MODEL_CONFIG_H

#include "base/buf.h"
#include "framework.h"

typedef struct swi_asset {
    char *path;
    uint8_t *data;
    size_t size;
} swi_asset;

typedef struct swi_assets swi_assets;
struct swi_assets {
    swi_asset *items;
    size_t count, capacity;
    bool has_config;
    bool tied;          /* "tie_word_embeddings": true */
    int64_t vocabulary; /* "vocab_size", 0: not said */
};

/* All regular files of the folder that are not weights or indexes; each at most 256 MiB. */
SW_MUST_USE sw_status swi_assets_read(const char *folder, const sw_limits *limits, swi_assets *out,
                                      sw_error *err);
void swi_assets_free(swi_assets *assets);

/*
 * Sets "dtype" / "torch_dtype" of config.json to the given name where it says another;
 * *changed tells. `untie`: "tie_word_embeddings" becomes false too. `dequantised`:
 * "quantization_config" is taken out.
 */
SW_MUST_USE sw_status swi_assets_adjust(swi_assets *assets, const char *dtype, bool untie,
                                        bool dequantised, const sw_limits *limits, bool *changed,
                                        sw_error *err);

#endif
