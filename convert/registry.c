#include <string.h>

#include "framework.h"
#include "frameworks.h"

static const swi_framework *const frameworks[] = {
    &swi_framework_dcp,        &swi_framework_hf,      &swi_framework_torch,
    &swi_framework_rank_files, &swi_framework_fsdp1,   &swi_framework_vllm,
    &swi_framework_meta,       &swi_framework_trainer, &swi_framework_native,
};

size_t swi_framework_count(void)
{
    return sizeof frameworks / sizeof frameworks[0];
}

const swi_framework *swi_framework_at(size_t i)
{
    return i < swi_framework_count() ? frameworks[i] : NULL;
}

static bool is_called(const char *own, const char *name, size_t size)
{
    return own != NULL && strlen(own) == size && memcmp(own, name, size) == 0;
}

const swi_framework *swi_framework_find(const char *name, size_t size)
{
    for (size_t i = 0; i < swi_framework_count(); i++) {
        const swi_framework *f = frameworks[i];
        if (is_called(f->name, name, size) || is_called(f->alias, name, size))
            return f;
    }
    return NULL;
}

bool swi_framework_is_alias(const swi_framework *framework, const char *name, size_t size)
{
    return is_called(framework->alias, name, size);
}

size_t sw_framework_count(void)
{
    return swi_framework_count();
}

bool sw_framework_at(size_t i, sw_framework_info *out)
{
    const swi_framework *f = swi_framework_at(i);
    if (f == NULL)
        return false;
    *out = (sw_framework_info){
        .name = f->name,
        .title = f->title,
        .reads = f->open != NULL,
        .writes = f->layout != NULL,
        .one_file = f->one_file,
        .reader = f->reader != NULL ? f->reader->name : f->name,
    };
    return true;
}
