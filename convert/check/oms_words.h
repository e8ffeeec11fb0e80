/* Words of an OMS statement, for its reader and its writer. */
#ifndef SW_CONVERT_OMS_WORDS_H
#define SW_CONVERT_OMS_WORDS_H

#define SWI_OMS_TYPE "https://in-toto.io/Statement/v1"
#define SWI_OMS_PREDICATE "https://model_signing/signature/v1.0"
#define SWI_OMS_FILES "files"
#define SWI_OMS_SHARDS "shards"
#define SWI_OMS_HASH "sha256"

#endif
