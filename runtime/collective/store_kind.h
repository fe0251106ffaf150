/* What the kinds of store have in common. */
#ifndef GXC_RUNTIME_COLLECTIVE_STORE_KIND_H
#define GXC_RUNTIME_COLLECTIVE_STORE_KIND_H

#include "runtime/collective/store.h"

typedef struct StoreKind {
    gxrt_status (*put)(Store *s, const char *key, const void *bytes, size_t size,
                       double seconds);
    gxrt_status (*get)(Store *s, const char *key, void *bytes, size_t size,
                       double seconds);
    void (*close)(Store *s);
} StoreKind;

/* The start of every store. */
struct Store {
    const StoreKind *kind;
    uint32_t rank, ranks;
};

/* `where` without its scheme. */
gxrt_status store_file_open(const char *folder, uint32_t rank, uint32_t ranks,
                            Store **out);
gxrt_status store_tcp_open(const char *address, uint32_t rank, uint32_t ranks,
                           Store **out);

#endif
