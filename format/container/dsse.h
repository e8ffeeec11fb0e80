/*
 * DSSE envelopes: a payload of a type, and signatures over both (specs/signing.md, SIG-4, SIG-5).
 * What is signed is the payload's bytes as they travel, so no form of JSON matters.
 */
#ifndef SW_CONTAINER_DSSE_H
#define SW_CONTAINER_DSSE_H

#include "base/buf.h"
#include "codec/json_write.h"
#include "codec/sign.h"
#include "container/fields.h"

#define SWI_DSSE_SIGNATURES_MAX 16U

typedef struct swi_envelope {
    const char *type; /* of the payload; a constant of the caller */
    swi_buf payload;  /* decoded */
    swi_buf signatures[SWI_DSSE_SIGNATURES_MAX];
    size_t count;
} swi_envelope;

/*
 * Writes the envelope with one signature as a value of the document. `keyid` says which key it is
 * ("": nothing).
 */
SW_MUST_USE sw_status swi_dsse_write(const swi_key *key, const char *keyid, const char *type,
                                     const swi_buf *payload, swi_json_writer *w, sw_error *err);
/* The envelope that this object is; SW_ERR_UNSUPPORTED: of another payload type. */
SW_MUST_USE sw_status swi_dsse_read(const swi_fields *object, const char *type, swi_envelope *out,
                                    sw_error *err);
void swi_envelope_free(swi_envelope *envelope);
/* Whether one of its signatures is that of this key. */
SW_MUST_USE sw_status swi_dsse_check(const swi_envelope *envelope, const swi_key *key, bool *good,
                                     sw_error *err);

#endif
