/* Keys and entries of --cache-dir. An entry is read with its bounds checked, though its hash was right:
 * it may be another gxc's. See kernel_cache.h. */
#include "codegen/build/kernel_cache.h"

#include <elf.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/backend.h"
#include "codegen/build/cache.h"
#include "codegen/gx/libdevice.h"
#include "ir/base/text.h"
#include "ir/kernel/kernel.h"

/* -- keys ---------------------------------------------------------------------------------------- */

static void add_hash(Text *t, const void *data, size_t bytes)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(data, bytes));
    for (size_t i = 0; i < sizeof c.digest; i++)
        text_printf(t, "%02x", c.digest[i]);
    text_char(t, '\n');
}

/* The linker's; where the file that this code is in was mapped. */
extern const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

/* The linker's hash of this build, if it wrote one: another compiler of the same version may make
 * other code. */
static void add_build_id(Text *t)
{
    const char *start = __ehdr_start;
    if (start == NULL)
        return;
    const Elf64_Ehdr *header = (const void *)start;
    const Elf64_Phdr *segments = (const void *)(start + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_NOTE)
            add_hash(t, start + segments[i].p_offset, segments[i].p_filesz);
    }
}

int kernel_cache_open(KernelCache *c, const Build *b)
{
    *c = (KernelCache){0};
    const CodegenOptions *o = b->options;
    if (o->cache_dir == NULL || b->lines != NULL) /* equal kernels have other lines */
        return 0;
    Text t;
    text_init(&t, b->arena);
    text_printf(&t, "gxc %s, LLVM %s, %s, PTX %u\n%s of %s\n", o->gxc_version,
                backend_llvm_version(), o->cuda.version, o->cuda.ptx, b->target->name,
                b->target->device->name);
    add_build_id(&t);
    c->common = t.data;
    text_init(&t, b->arena);
    size_t bytes;
    const void *functions = libdevice_bytes(b->device, &bytes);
    add_hash(&t, functions, bytes);
    text_printf(&t, "%s%s", o->contract ? "" : "no contraction\n",
                build_has_objects(b) ? "with an object\n" : "");
    c->of_kernels = t.data;
    if (b->target->has_tileir)
        c->of_tileir = arena_printf(b->arena, "%s\nCUDA Tile IR\n",
                                    cuda_tileir_version(b->arena, &o->cuda));
    int error = cache_open(o->cache_dir);
    if (error == 0)
        c->folder = o->cache_dir;
    return error;
}

/* Objects name the instructions that accesses are of. */
static void add_names(Text *t, const Computation *comp)
{
    for (const Instruction *i = inst_first(comp); i != NULL; i = inst_next(i)) {
        text_string(t, i->name);
        text_char(t, ' ');
        for (uint32_t k = 0; k < inst_called_count(i); k++)
            add_names(t, inst_called(i, k));
    }
}

static Text kernel_key(const KernelCache *c, Arena *a, const KernelRequest *r)
{
    const KernelGeometry *g = &r->design->geometry;
    Text t;
    text_init(&t, a);
    text_string(&t, c->common);
    text_string(&t, c->of_kernels);
    text_printf(&t, "kernel %s %s %ux%ux%u %ux%ux%u\n", r->name, r->fusion->name,
                g->grid[0], g->grid[1], g->grid[2], g->block[0], g->block[1],
                g->block[2]);
    text_string(&t, kernel_config_text(a, &r->design->config));
    add_names(&t, inst_called(r->fusion, 0));
    text_char(&t, '\n');
    for (uint32_t i = 0; i < r->arg_count; i++)
        text_printf(&t, "%u %llu %d %d %d\n", r->args[i].align,
                    (unsigned long long)r->args[i].bytes, r->args[i].is_read_only,
                    r->args[i].is_noalias, r->args[i].is_scalar);
    text_add(&t, r->key, r->key_length);
    return t;
}

static Text cubin_key(const KernelCache *c, Arena *a, const char *ptx, AssembleForm form)
{
    Text t;
    text_init(&t, a);
    text_string(&t, c->common);
    text_printf(&t, "form %d\n", (int)form);
    text_string(&t, ptx);
    return t;
}

static Text tileir_key(const KernelCache *c, Arena *a, const void *bytecode, size_t bytes)
{
    Text t;
    text_init(&t, a);
    text_string(&t, c->common);
    text_string(&t, c->of_tileir);
    text_add(&t, bytecode, bytes);
    return t;
}

/* -- entries ------------------------------------------------------------------------------------- */

static void write_number(Text *t, uint64_t number)
{
    text_add(t, (const char *)&number, sizeof number);
}

static void write_bytes(Text *t, const void *data, size_t bytes)
{
    write_number(t, bytes);
    text_add(t, data, bytes);
}

/* What is left of an entry. */
typedef struct Reader {
    const char *at;
    size_t left;
    bool is_wrong;
} Reader;

static const void *read_part(Reader *r, size_t bytes)
{
    if (r->is_wrong || bytes > r->left) {
        r->is_wrong = true;
        return NULL;
    }
    const char *part = r->at;
    r->at += bytes;
    r->left -= bytes;
    return part;
}

static uint64_t read_number(Reader *r)
{
    uint64_t number = 0;
    const void *part = read_part(r, sizeof number);
    if (part != NULL)
        memcpy(&number, part, sizeof number);
    return number;
}

static const void *read_bytes(Reader *r, size_t *bytes)
{
    *bytes = read_number(r);
    return read_part(r, *bytes);
}

static const char *read_text(Reader *r)
{
    size_t bytes;
    const char *text = read_bytes(r, &bytes);
    r->is_wrong |= text == NULL || bytes == 0 || text[bytes - 1] != '\0';
    return text;
}

static bool open_entry(const KernelCache *c, Arena *a, const Text *key, Reader *out)
{
    *out = (Reader){0};
    out->at = cache_load(a, c->folder, key->data, key->length, &out->left);
    return out->at != NULL;
}

/* -- kernels ------------------------------------------------------------------------------------- */

bool kernel_cache_find(const KernelCache *c, Arena *a, const KernelRequest *r,
                       KernelCode *out)
{
    Text key = kernel_key(c, a, r);
    Reader in;
    if (!open_entry(c, a, &key, &in))
        return false;
    KernelAccess *accesses = ARENA_ARRAY(a, KernelAccess, r->arg_count + 1);
    for (uint32_t i = 0; i < r->arg_count; i++) {
        accesses[i].bytes = read_number(&in);
        accesses[i].wide = read_number(&in);
    }
    KernelCode code = {.accesses = accesses, .ptx = read_text(&in)};
    code.object = read_bytes(&in, &code.object_bytes);
    if (in.is_wrong || in.left != 0)
        return false;
    *out = code;
    return true;
}

int kernel_cache_keep(const KernelCache *c, Arena *a, const KernelRequest *r,
                      const KernelCode *code)
{
    Text key = kernel_key(c, a, r), t;
    text_init(&t, a);
    for (uint32_t i = 0; i < r->arg_count; i++) {
        write_number(&t, code->accesses[i].bytes);
        write_number(&t, code->accesses[i].wide);
    }
    write_bytes(&t, code->ptx, strlen(code->ptx) + 1);
    write_bytes(&t, code->object, code->object_bytes);
    return cache_store(a, c->folder, key.data, key.length, t.data, t.length);
}

/* -- cubins -------------------------------------------------------------------------------------- */

static bool find_cubin(const KernelCache *c, Arena *a, const Text *key, Cubin *out)
{
    Reader in;
    if (!open_entry(c, a, key, &in))
        return false;
    Cubin cubin = {0};
    cubin.data = read_bytes(&in, &cubin.bytes);
    cubin.use_count = read_number(&in);
    /* a use takes six numbers at least */
    if (in.is_wrong || cubin.use_count > in.left / (6 * sizeof(uint64_t)))
        return false;
    KernelUse *uses = ARENA_ARRAY(a, KernelUse, cubin.use_count + 1);
    for (size_t i = 0; i < cubin.use_count; i++) {
        uses[i].name = read_text(&in);
        uses[i].registers = (uint32_t)read_number(&in);
        uses[i].stack = (uint32_t)read_number(&in);
        uses[i].spill_stores = (uint32_t)read_number(&in);
        uses[i].spill_loads = (uint32_t)read_number(&in);
        const char *loss = read_text(&in);
        uses[i].loss = in.is_wrong || *loss == '\0' ? NULL : loss;
    }
    if (in.is_wrong || in.left != 0)
        return false;
    cubin.uses = uses;
    *out = cubin;
    return true;
}

static int keep_cubin(const KernelCache *c, Arena *a, const Text *key, const Cubin *cubin)
{
    Text t;
    text_init(&t, a);
    write_bytes(&t, cubin->data, cubin->bytes);
    write_number(&t, cubin->use_count);
    for (size_t i = 0; i < cubin->use_count; i++) {
        const KernelUse *u = &cubin->uses[i];
        write_bytes(&t, u->name, strlen(u->name) + 1);
        write_number(&t, u->registers);
        write_number(&t, u->stack);
        write_number(&t, u->spill_stores);
        write_number(&t, u->spill_loads);
        const char *loss = u->loss != NULL ? u->loss : "";
        write_bytes(&t, loss, strlen(loss) + 1);
    }
    return cache_store(a, c->folder, key->data, key->length, t.data, t.length);
}

bool kernel_cache_find_cubin(const KernelCache *c, Arena *a, const char *ptx,
                             AssembleForm form, Cubin *out)
{
    Text key = cubin_key(c, a, ptx, form);
    return find_cubin(c, a, &key, out);
}

bool kernel_cache_find_tileir(const KernelCache *c, Arena *a, const void *bytecode,
                              size_t bytes, Cubin *out)
{
    Text key = tileir_key(c, a, bytecode, bytes);
    return find_cubin(c, a, &key, out);
}

int kernel_cache_keep_cubin(const KernelCache *c, Arena *a, const char *ptx,
                            AssembleForm form, const Cubin *cubin)
{
    Text key = cubin_key(c, a, ptx, form);
    return keep_cubin(c, a, &key, cubin);
}

int kernel_cache_keep_tileir(const KernelCache *c, Arena *a, const void *bytecode,
                             size_t bytes, const Cubin *cubin)
{
    Text key = tileir_key(c, a, bytecode, bytes);
    return keep_cubin(c, a, &key, cubin);
}
