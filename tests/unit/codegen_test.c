/* Kernels written by hand on gx.*: a copy, a block sum with shared memory, a barrier and
 * shuffles, atomics of every kind, exp of libdevice; for several targets to PTX and cubin, and
 * to the emulator's object. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/backend.h"
#include "codegen/build/ptx.h"
#include "ir/base/bug.h"
#include "tests/unit/shared/hand_kernels.h"

typedef struct Fixture {
    HandKernels hand;
    Kernel *kernels[8];
    size_t count;
} Fixture;

static const uint32_t block[3] = {128, 1, 1}, grid[3] = {64, 1, 1};
enum { ELEMENTS = 128 * 64 };

static Kernel *start(Fixture *f, const char *name, uint64_t in_bytes, uint64_t out_bytes)
{
    const KernelArg args[] = {
        {.align = 256, .bytes = in_bytes, .is_read_only = true, .is_noalias = true},
        {.align = 256, .bytes = out_bytes, .is_noalias = true},
    };
    Kernel *k = kernel_create(f->hand.arena, backend_module(f->hand.backend), name, args,
                              2, block, grid);
    f->kernels[f->count++] = k;
    return k;
}

static LLVMValueRef global_id(Kernel *k)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef first = LLVMBuildNUWMul(b, gx_ctaid(k, 0), gx_i32(k, block[0]), "");
    return LLVMBuildNUWAdd(b, first, gx_tid(k, 0), "");
}

static LLVMValueRef scaled(Kernel *k, LLVMValueRef index, unsigned bytes)
{
    return LLVMBuildNUWMul(k->builder, index, gx_i32(k, bytes), "");
}

/* out[4i..] = exp(in[4i..]) + 1 */
static void make_exp(Fixture *f)
{
    Kernel *k = start(f, "exp4", ELEMENTS * 16, ELEMENTS * 16);
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef f32 = LLVMFloatTypeInContext(k->context), f32x4 = LLVMVectorType(f32, 4);
    LLVMValueRef offset = scaled(k, global_id(k), 16);
    k->at = "exponential.1";
    LLVMValueRef in = gx_load(k, 0, offset, f32x4, 16), out = LLVMGetUndef(f32x4);
    LLVMValueRef add = LLVMConstReal(f32, 1);
    for (unsigned i = 0; i < 4; i++) {
        LLVMValueRef x = LLVMBuildExtractElement(b, in, gx_i32(k, i), "");
        LLVMValueRef y = gx_float_op(k, LLVMFAdd, gx_libdevice(k, "expf", &x, 1), add);
        out = LLVMBuildInsertElement(b, out, y, gx_i32(k, i), "");
    }
    k->at = "add.2";
    gx_store(k, 1, offset, out, 16);
    kernel_finish(k);
}

static LLVMValueRef warp_sum(Kernel *k, LLVMValueRef v)
{
    for (unsigned distance = 16; distance > 0; distance /= 2)
        v = gx_float_op(k, LLVMFAdd, v,
                        gx_shfl(k, GX_SHFL_BFLY, v, gx_i32(k, distance), 32));
    return v;
}

/* out[block] = sum of the block's 128 elements */
static void make_block_sum(Fixture *f)
{
    Kernel *k = start(f, "block_sum", ELEMENTS * 4, 64 * 4);
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef f32 = LLVMFloatTypeInContext(k->context);
    uint32_t room = gx_shared_alloc(k, 4 * 4, 4);
    LLVMValueRef t = gx_tid(k, 0);
    LLVMValueRef v = warp_sum(k, gx_load(k, 0, scaled(k, global_id(k), 4), f32, 4));
    GxIf is_first;
    LLVMValueRef lane = LLVMBuildAnd(b, t, gx_i32(k, 31), "");
    gx_if_begin(k, &is_first, LLVMBuildICmp(b, LLVMIntEQ, lane, gx_i32(k, 0), ""));
    LLVMValueRef slot = scaled(k, LLVMBuildLShr(b, t, gx_i32(k, 5), ""), 4);
    gx_store(k, GX_SHARED, LLVMBuildAdd(b, slot, gx_i32(k, room), ""), v, 4);
    gx_if_end(k, &is_first, NULL, 0, NULL);
    gx_barrier(k);
    gx_if_begin(k, &is_first, LLVMBuildICmp(b, LLVMIntEQ, t, gx_i32(k, 0), ""));
    LLVMValueRef sum = LLVMConstReal(f32, 0);
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, 4), gx_i32(k, 1), &sum, 1);
    LLVMValueRef at = LLVMBuildAdd(b, scaled(k, loop.index, 4), gx_i32(k, room), "");
    LLVMValueRef next = gx_float_op(k, LLVMFAdd, sum, gx_load(k, GX_SHARED, at, f32, 4));
    gx_loop_end(k, &loop, &next);
    gx_store(k, 1, scaled(k, gx_ctaid(k, 0), 4), sum, 4);
    gx_if_end(k, &is_first, NULL, 0, NULL);
    kernel_finish(k);
}

/* Every atomic operation on every type that has it, in global and in shared memory. */
static void make_atomics(Fixture *f)
{
    Kernel *k = start(f, "atomics", 64, 64);
    uint32_t room = gx_shared_alloc(k, 64, 8);
    LLVMTypeRef floats[] = {
        LLVMHalfTypeInContext(k->context), LLVMBFloatTypeInContext(k->context),
        LLVMFloatTypeInContext(k->context), LLVMDoubleTypeInContext(k->context)};
    for (int space = 0; space < 2; space++) {
        unsigned arg = space ? GX_SHARED : 1;
        LLVMValueRef offset = gx_i32(k, space ? room : 0);
        for (unsigned op = GX_ATOMIC_ADD; op <= GX_ATOMIC_XOR; op++)
            for (unsigned bits = 8; bits <= 64; bits *= 2)
                gx_atomic(k, (GxAtomic)op, arg, offset,
                          LLVMConstInt(gx_int_type(k, bits), 3, 0));
        for (int i = 0; i < 4; i++)
            for (unsigned op = GX_ATOMIC_ADD; op <= GX_ATOMIC_MAX; op++)
                gx_atomic(k, (GxAtomic)op, arg, offset, LLVMConstReal(floats[i], 2));
    }
    kernel_finish(k);
}

/* Accesses of every width, and shuffles of odd types. */
static void make_widths(Fixture *f)
{
    Kernel *k = start(f, "widths", 4096, 4096);
    LLVMTypeRef scalars[] = {gx_int_type(k, 8),
                             gx_int_type(k, 16),
                             gx_int_type(k, 32),
                             gx_int_type(k, 64),
                             LLVMHalfTypeInContext(k->context),
                             LLVMBFloatTypeInContext(k->context),
                             LLVMFloatTypeInContext(k->context),
                             LLVMDoubleTypeInContext(k->context)};
    LLVMValueRef zero = gx_i32(k, 0);
    for (int i = 0; i < 8; i++) {
        for (unsigned lanes = 1; lanes <= 16; lanes *= 2) {
            LLVMTypeRef type =
                lanes == 1 ? scalars[i] : LLVMVectorType(scalars[i], lanes);
            unsigned bytes = gx_type_bytes(type);
            if (bytes == 0)
                continue;
            LLVMValueRef v = gx_load(k, 0, zero, type, bytes);
            v = gx_shfl(k, GX_SHFL_BFLY, v, gx_i32(k, 1), 32);
            gx_store(k, 1, zero, gx_shfl(k, GX_SHFL_UP, v, gx_i32(k, 1), 16), bytes);
        }
    }
    kernel_finish(k);
}

static void make_kernels(Fixture *f)
{
    f->count = 0;
    make_exp(f);
    make_block_sum(f);
    make_atomics(f);
    make_widths(f);
}

static int set_up(void **state)
{
    static Fixture f;
    *state = &f;
    if (!hand_kernels_open(&f.hand))
        return 1;
    make_kernels(&f);
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    hand_kernels_close(&f->hand);
    return 0;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void every_target_assembles(void **state)
{
    Fixture *f = *state;
    const char *names[] = {"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Cubin cubin;
        const char *ptx = hand_kernels_assemble(&f->hand, f->kernels, (uint32_t)f->count,
                                                names[i], &cubin);
        assert_int_equal(count_of(ptx, ".visible .entry"), f->count);
        assert_int_equal(count_of(ptx, "__nv_"), 0);
        assert_non_null(strstr(ptx, "ld.global.nc.v4.b32"));
        assert_memory_equal(cubin.data, ELFMAG, SELFMAG);
        assert_int_equal(cubin.use_count, f->count);
        for (size_t j = 0; j < cubin.use_count; j++) {
            assert_true(cubin.uses[j].registers > 0);
            assert_int_equal(cubin.uses[j].spill_stores, 0);
        }
    }
}

/* What a cubin's instructions do to local memory is found in them: each width once. */
static void local_memory_is_counted(void **state)
{
    static const char text[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 p, .param .u32 i)\n{\n"
        ".local .align 16 .b8 d[256];\n"
        ".reg .b64 %p, %q, %l; .reg .b32 %v, %f<4>; .reg .b16 %h;\n"
        "ld.param.u64 %p, [p]; ld.param.u32 %v, [i]; cvt.u64.u32 %q, %v;\n"
        "mov.u64 %l, d; add.s64 %l, %l, %q;\n"
        "st.local.u8 [%l+40], %v; st.local.u32 [%l], %v; st.local.u64 [%l+16], %q;\n"
        "ld.local.u16 %h, [d+18]; ld.local.v4.u32 {%f0, %f1, %f2, %f3}, [d+64];\n"
        "st.global.u16 [%p], %h; st.global.v4.u32 [%p+16], {%f0, %f1, %f2, %f3};\n"
        "ret;\n}\n";
    Fixture *f = *state;
    Target target;
    Cubin cubin;
    CubinKernel kernel;
    const char *error = NULL;
    assert_true(target_find("sm_80", &target));
    assert_true(assemble(f->hand.arena, &f->hand.cuda, &target, text, ASSEMBLE_WHOLE, 1,
                         &cubin, &error));
    assert_false(cubin_kernel(f->hand.arena, &cubin, "j", &kernel));
    assert_true(cubin_kernel(f->hand.arena, &cubin, "k", &kernel));
    assert_int_equal(kernel.use.spill_stores, 1 + 4 + 8);
    assert_int_equal(kernel.use.spill_loads, 2 + 16);
    assert_int_equal(kernel.use.stack, 256);
}

static void both_assemblers_work_and_repeat(void **state)
{
    Fixture *f = *state;
    Target target;
    assert_true(target_find("h100", &target));
    const char *ptx =
        backend_ptx(f->hand.backend, f->kernels, f->count, &target, f->hand.cuda.ptx);
    for (int kind = ASSEMBLER_NVJITLINK; kind <= ASSEMBLER_PTXAS; kind++) {
        Cuda cuda;
        Cubin first, second;
        const char *error = NULL;
        if (!cuda_find(f->hand.arena, NULL, (AssemblerKind)kind, &cuda, &error))
            continue;
        assert_true(assemble(f->hand.arena, &cuda, &target, ptx, ASSEMBLE_WHOLE, 1,
                             &first, &error));
        assert_true(assemble(f->hand.arena, &cuda, &target, ptx, ASSEMBLE_WHOLE, 4,
                             &second, &error));
        assert_int_equal(first.bytes, second.bytes);
        assert_memory_equal(first.data, second.data, first.bytes);
        assert_int_equal(first.use_count, f->count);
    }
}

/* The code of a kernel in a cubin. */
static const char *code_of(const Cubin *c, const char *kernel, size_t *out_bytes)
{
    const char *data = c->data;
    Elf64_Ehdr h;
    Elf64_Shdr names, s;
    char wanted[64];
    snprintf(wanted, sizeof wanted, ".text.%s", kernel);
    memcpy(&h, data, sizeof h);
    memcpy(&names, data + h.e_shoff + h.e_shstrndx * sizeof s, sizeof names);
    for (size_t i = 0; i < h.e_shnum; i++) {
        memcpy(&s, data + h.e_shoff + i * sizeof s, sizeof s);
        if (strcmp(data + names.sh_offset + s.sh_name, wanted) == 0) {
            *out_bytes = s.sh_size;
            return data + s.sh_offset;
        }
    }
    fail_msg("no code of %s", kernel);
    return NULL;
}

static void pieces_link_to_the_same_code(void **state)
{
    Fixture *f = *state;
    static const char *const names[] = {"sm_75", "sm_90a", "sm_100f", "sm_121a"};
    for (size_t i = 0; i < sizeof names / sizeof *names && f->hand.cuda.linker != NULL;
         i++) {
        Target target;
        Cubin whole, pieces[2], linked, again;
        const char *error = NULL;
        assert_true(target_find(names[i], &target));
        const char *ptx =
            backend_ptx(f->hand.backend, f->kernels, f->count, &target, f->hand.cuda.ptx);
        assert_true(assemble(f->hand.arena, &f->hand.cuda, &target, ptx, ASSEMBLE_WHOLE,
                             1, &whole, &error));
        for (size_t p = 0; p < 2; p++) {
            ptx = backend_ptx(f->hand.backend, f->kernels + 2 * p, 2, &target,
                              f->hand.cuda.ptx);
            assert_true(assemble(f->hand.arena, &f->hand.cuda, &target, ptx,
                                 ASSEMBLE_PIECE, 1 + (uint32_t)p, &pieces[p], &error));
        }
        assert_true(assemble_link(f->hand.arena, &f->hand.cuda, &target, pieces, 2,
                                  &linked, &error));
        assert_true(assemble_link(f->hand.arena, &f->hand.cuda, &target, pieces, 2,
                                  &again, &error));
        assert_int_equal(linked.bytes, again.bytes);
        assert_memory_equal(linked.data, again.data, linked.bytes);
        assert_int_equal(linked.use_count, f->count);
        for (size_t k = 0; k < f->count; k++) {
            size_t bytes[2];
            const char *code[] = {code_of(&whole, f->kernels[k]->name, &bytes[0]),
                                  code_of(&linked, f->kernels[k]->name, &bytes[1])};
            assert_int_equal(bytes[0], bytes[1]);
            assert_memory_equal(code[0], code[1], bytes[0]);
        }
    }
}

/* nvlink leaves out what it cannot link, without a word. */
static void what_is_no_piece_is_not_linked(void **state)
{
    Fixture *f = *state;
    Target target;
    Cubin cubins[2], linked;
    const char *error = NULL;
    if (f->hand.cuda.linker == NULL)
        skip();
    assert_true(target_find("sm_90a", &target));
    for (size_t p = 0; p < 2; p++) {
        const char *ptx = backend_ptx(f->hand.backend, f->kernels + 2 * p, 2, &target,
                                      f->hand.cuda.ptx);
        assert_true(assemble(f->hand.arena, &f->hand.cuda, &target, ptx,
                             p == 0 ? ASSEMBLE_PIECE : ASSEMBLE_WHOLE, 1, &cubins[p],
                             &error));
    }
    assert_false(
        assemble_link(f->hand.arena, &f->hand.cuda, &target, cubins, 2, &linked, &error));
    assert_non_null(strstr(error, "left out kernels"));
    cubins[1] = (Cubin){.data = "nonsense", .bytes = 8};
    assert_false(
        assemble_link(f->hand.arena, &f->hand.cuda, &target, cubins, 2, &linked, &error));
    assert_non_null(strstr(error, "nvlink"));
}

static void a_bad_program_gives_the_assemblers_words(void **state)
{
    Fixture *f = *state;
    Target target;
    Cubin cubin;
    const char *error = NULL;
    assert_true(target_find("sm_80", &target));
    assert_false(assemble(f->hand.arena, &f->hand.cuda, &target, "nonsense",
                          ASSEMBLE_WHOLE, 1, &cubin, &error));
    assert_non_null(strstr(error, "error"));
}

static void a_missing_toolkit_is_named(void **state)
{
    Fixture *f = *state;
    Cuda cuda;
    const char *error = NULL;
    assert_false(cuda_find(f->hand.arena, "/nonexistent", ASSEMBLER_ANY, &cuda, &error));
    assert_string_equal(error, "no libdevice.10.bc in /nonexistent (--cuda)");
}

static Elf64_Shdr section(const unsigned char *object, size_t i)
{
    Elf64_Ehdr header;
    Elf64_Shdr s;
    memcpy(&header, object, sizeof header);
    memcpy(&s, object + header.e_shoff + i * sizeof s, sizeof s);
    return s;
}

static size_t section_count(const unsigned char *object)
{
    Elf64_Ehdr header;
    memcpy(&header, object, sizeof header);
    return header.e_shnum;
}

/* Calls visit for every symbol until it says true. */
static bool any_symbol(const unsigned char *object,
                       bool (*visit)(const char *name, const Elf64_Sym *symbol,
                                     const void *user),
                       const void *user)
{
    for (size_t i = 0; i < section_count(object); i++) {
        Elf64_Shdr s = section(object, i);
        if (s.sh_type != SHT_SYMTAB)
            continue;
        const char *names = (const char *)object + section(object, s.sh_link).sh_offset;
        for (size_t at = sizeof(Elf64_Sym); at < s.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, object + s.sh_offset + at, sizeof symbol);
            if (visit(names + symbol.st_name, &symbol, user))
                return true;
        }
    }
    return false;
}

static bool is_defined_as(const char *name, const Elf64_Sym *symbol, const void *user)
{
    return symbol->st_shndx != SHN_UNDEF && strcmp(name, user) == 0;
}

static bool has_symbol(const unsigned char *object, const char *name)
{
    return any_symbol(object, is_defined_as, name);
}

static bool is_unknown(const char *name, const Elf64_Sym *symbol, const void *user)
{
    static const char *const known[] = {
#define EMU_FUNCTION(name, result, parameters) #name,
#define EMU_LIBRARY(name) #name,
#include "runtime/emu/abi.def"
    };
    (void)user;
    if (symbol->st_shndx != SHN_UNDEF)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return false;
    print_error("unknown function %s\n", name);
    return true;
}

/* Undefined symbols are those of abi.def; relocations are relative; no section is written. */
static void assert_relocations_are_known(const unsigned char *object)
{
    assert_false(any_symbol(object, is_unknown, NULL));
    for (size_t i = 0; i < section_count(object); i++) {
        Elf64_Shdr s = section(object, i);
        assert_false(s.sh_flags & SHF_WRITE);
        if (s.sh_type != SHT_RELA)
            continue;
        for (size_t at = 0; at < s.sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela r;
            memcpy(&r, object + s.sh_offset + at, sizeof r);
#if defined(__x86_64__)
            unsigned type = ELF64_R_TYPE(r.r_info);
            assert_true(type == R_X86_64_PC32 || type == R_X86_64_PLT32);
#endif
        }
    }
}

static void the_host_object_has_every_kernel(void **state)
{
    Fixture *f = *state;
    size_t bytes, again_bytes;
    const unsigned char *object =
        backend_host_object(f->hand.backend, f->kernels, f->count, 90, &bytes);
    make_kernels(f);
    const void *again =
        backend_host_object(f->hand.backend, f->kernels, f->count, 90, &again_bytes);
    make_kernels(f);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(object, again, bytes);
    assert_memory_equal(object, ELFMAG, SELFMAG);
    for (size_t i = 0; i < f->count; i++) {
        assert_true(has_symbol(object, f->kernels[i]->name));
        assert_true(has_symbol(
            object, arena_printf(f->hand.arena, "%s.sites", f->kernels[i]->name)));
    }
    assert_relocations_are_known(object);
}

/* The functions that emitters call: all that libdevice's code uses has a row in device.def. */
static void libdevice_runs_on_the_host(void **state)
{
    static const char *const names[] = {
        "exp",  "expm1", "log",  "log1p", "sin",   "cos",    "tan",    "tanh",
        "sinh", "cosh",  "asin", "acos",  "atan",  "asinh",  "acosh",  "atanh",
        "sqrt", "rsqrt", "cbrt", "erf",   "erfc",  "lgamma", "tgamma", "round",
        "rint", "exp2",  "log2", "log10", "erfinv"};
    static const char *const binary_names[] = {"pow",       "atan2", "fmod",
                                               "nextafter", "hypot", "remainder"};
    Fixture *f = *state;
    Backend *b = backend_create(f->hand.arena, f->hand.device);
    const KernelArg arg = {.align = 16, .bytes = 64};
    Kernel *k =
        kernel_create(f->hand.arena, backend_module(b), "math", &arg, 1, block, grid);
    LLVMTypeRef types[] = {LLVMFloatTypeInContext(k->context),
                           LLVMDoubleTypeInContext(k->context)};
    LLVMValueRef zero = gx_i32(k, 0);
    for (int is_double = 0; is_double < 2; is_double++) {
        LLVMValueRef x[2];
        x[0] = x[1] = gx_load(k, 0, zero, types[is_double], 8);
        const char *suffix = is_double ? "" : "f";
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            x[0] = gx_libdevice(k, arena_printf(f->hand.arena, "%s%s", names[i], suffix),
                                x, 1);
        for (size_t i = 0; i < sizeof binary_names / sizeof *binary_names; i++)
            x[0] = gx_libdevice(
                k, arena_printf(f->hand.arena, "%s%s", binary_names[i], suffix), x, 2);
        gx_store(k, 0, zero, x[0], 8);
    }
    kernel_finish(k);
    size_t bytes;
    assert_relocations_are_known(backend_host_object(b, &k, 1, 90, &bytes));
    backend_destroy(b);
}

/* What a kernel becomes does not depend on what other kernels need of libdevice. */
static void a_kernel_is_the_same_beside_others(void **state)
{
    Fixture *f = *state;
    const char *error = NULL, *ptx[2];
    const void *objects[2];
    size_t bytes[2];
    Target target;
    assert_true(target_find("sm_90a", &target));
    Libdevice *device = libdevice_open(f->hand.arena, f->hand.cuda.libdevice, &error);
    for (int i = 0; i < 2; i++) {
        Backend *b = backend_create(f->hand.arena, i == 0 ? device : f->hand.device);
        Fixture other = {.hand = {.arena = f->hand.arena, .backend = b}};
        make_exp(&other);
        ptx[i] = backend_ptx(b, other.kernels, 1, &target, f->hand.cuda.ptx);
        objects[i] = backend_host_object(b, other.kernels, 1, 90, &bytes[i]);
        backend_destroy(b);
    }
    libdevice_close(device);
    assert_string_equal(ptx[0], ptx[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(objects[0], objects[1], bytes[0]);
}

/* PTX of kernels of one module is that of each made alone. */
static void kernels_made_together_are_as_alone(void **state)
{
    Fixture *f = *state;
    const char *names[8], *parts[8];
    Target target;
    assert_true(target_find("sm_90a", &target));
    for (size_t i = 0; i < f->count; i++)
        names[i] = f->kernels[i]->name;
    const char *all =
        backend_ptx(f->hand.backend, f->kernels, f->count, &target, f->hand.cuda.ptx);
    assert_true(ptx_split(f->hand.arena, all, names, f->count, parts));
    for (size_t i = 0; i < f->count; i++)
        assert_string_equal(parts[i], backend_ptx(f->hand.backend, &f->kernels[i], 1,
                                                  &target, f->hand.cuda.ptx));
}

static Kernel *small_kernel(Fixture *f, Backend *b, const char *name)
{
    static const KernelArg arg = {.align = 16, .bytes = 64};
    return kernel_create(f->hand.arena, backend_module(b), name, &arg, 1, block, grid);
}

/* What others write meanwhile is read anew behind a barrier, where the argument is not is_noalias. */
static void a_barrier_ends_what_was_read(void **state)
{
    Fixture *f = *state;
    Backend *b = backend_create(f->hand.arena, f->hand.device);
    Kernel *k = small_kernel(f, b, "twice");
    Target target;
    LLVMTypeRef word = gx_int_type(k, 32);
    LLVMValueRef first = gx_load(k, 0, gx_i32(k, 0), word, 4);
    gx_barrier(k);
    LLVMValueRef again = gx_load(k, 0, gx_i32(k, 0), word, 4);
    gx_store(k, 0, gx_i32(k, 4), LLVMBuildSub(k->builder, again, first, ""), 4);
    kernel_finish(k);
    assert_true(target_find("sm_80", &target));
    const char *ptx = backend_ptx(b, &k, 1, &target, f->hand.cuda.ptx);
    assert_int_equal(count_of(ptx, "ld.global.b32"), 2);
    backend_destroy(b);
}

/* What is said of a mistake in the kernel when it becomes PTX. */
static const char *mistake_in(Fixture *f, Backend *b, Kernel *k)
{
    Target target;
    assert_true(target_find("sm_80", &target));
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        backend_ptx(b, &k, 1, &target, f->hand.cuda.ptx);
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_BUG);
    return arena_printf(f->hand.arena, "%s", e.message);
}

/* LLVM's fatal errors come back, and the next compile works. */
static void a_fatal_error_is_an_escape(void **state)
{
    Fixture *f = *state;
    Backend *b = backend_create(f->hand.arena, f->hand.device);
    Kernel *k = small_kernel(f, b, "bad");
    /* elect.sync is of sm_90: "Cannot select" on sm_80 */
    const char *name = "llvm.nvvm.elect.sync";
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef elect = LLVMGetIntrinsicDeclaration(k->module, id, NULL, 0);
    LLVMValueRef mask = gx_i32(k, UINT32_MAX);
    LLVMValueRef v =
        LLVMBuildCall2(k->builder, LLVMGlobalGetValueType(elect), elect, &mask, 1, "");
    gx_store(k, 0, gx_i32(k, 0), LLVMBuildExtractValue(k->builder, v, 0, ""), 4);
    kernel_finish(k);
    assert_non_null(strstr(mistake_in(f, b, k), "elect"));
    Target target;
    assert_true(target_find("sm_80", &target));
    assert_non_null(
        backend_ptx(f->hand.backend, f->kernels, f->count, &target, f->hand.cuda.ptx));
}

/* What breaks LLVM's rules does not reach its passes where the emulator's code is made as well. */
static void a_malformed_kernel_is_a_mistake(void **state)
{
    Fixture *f = *state;
    Backend *b = backend_create(f->hand.arena, f->hand.device);
    Kernel *k = small_kernel(f, b, "open");
    LLVMBasicBlockRef open = gx_block(k, "open"); /* it has no end */
    LLVMBuildBr(k->builder, open);
    LLVMPositionBuilderAtEnd(k->builder, gx_block(k, "end"));
    kernel_finish(k);
    assert_non_null(strstr(mistake_in(f, b, k), "kernel open: "));
    backend_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_assembles),
        cmocka_unit_test(local_memory_is_counted),
        cmocka_unit_test(both_assemblers_work_and_repeat),
        cmocka_unit_test(pieces_link_to_the_same_code),
        cmocka_unit_test(what_is_no_piece_is_not_linked),
        cmocka_unit_test(a_bad_program_gives_the_assemblers_words),
        cmocka_unit_test(a_missing_toolkit_is_named),
        cmocka_unit_test(the_host_object_has_every_kernel),
        cmocka_unit_test(libdevice_runs_on_the_host),
        cmocka_unit_test(a_kernel_is_the_same_beside_others),
        cmocka_unit_test(kernels_made_together_are_as_alone),
        cmocka_unit_test(a_barrier_ends_what_was_read),
        cmocka_unit_test(a_fatal_error_is_an_escape),
        cmocka_unit_test(a_malformed_kernel_is_a_mistake),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
