/*
 * Names of parameters as frameworks wrap them: parts that a wrapper adds are taken off as whole
 * path parts, by a list, never inside a name. Clauses of specs/names.md.
 */
#ifndef SW_CONVERT_NAMES_H
#define SW_CONVERT_NAMES_H

#include "base/arena.h"
#include "base/buf.h"

/*
 * The name without wrapper parts (_orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module,
 * _fpw_module), appended to *out and terminated; *removed is added to. `drop_module`: a leading
 * "module." goes too (DDP's; see swi_names_all_have).
 */
SW_MUST_USE sw_status swi_clean_name(const char *name, bool drop_module, swi_buf *out,
                                     uint64_t *removed, sw_error *err);

/*
 * The same for a list of names, in place; new texts lie in the arena. `drop_module`: a leading
 * "module." goes where all of them have it.
 */
SW_MUST_USE sw_status swi_clean_names(const char **names, size_t count, bool drop_module,
                                      swi_arena *arena, uint64_t *removed, sw_error *err);

/* Whether the name, cleaned of the parts above, begins with the part "module". */
bool swi_has_module_prefix(const char *name);

/* Order of names that people expect: runs of digits compare as numbers ("layers.9" < "layers.10");
 * ties by bytes. */
int swi_name_order(const char *a, const char *b);

#endif
