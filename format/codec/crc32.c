#include "codec/crc32.h"

#include <zlib.h>
#ifdef SW_HAVE_ISAL
#include <isa-l/crc.h>
#endif

uint32_t swi_crc32(uint32_t crc, const void *data, size_t size)
{
    if (size == 0)
        return crc;
#ifdef SW_HAVE_ISAL
    return crc32_gzip_refl(crc, data, size);
#else
    return (uint32_t)crc32_z(crc, data, size);
#endif
}

uint32_t swi_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b)
{
    return (uint32_t)crc32_combine64(crc_a, crc_b, (z_off64_t)size_b);
}
