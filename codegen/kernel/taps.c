#include "codegen/kernel/taps.h"

LLVMValueRef split(Kernel *k, LLVMValueRef *quotient, int64_t n)
{
    LLVMValueRef by = number(k, n), part = LLVMBuildURem(k->builder, *quotient, by, "");
    *quotient = LLVMBuildUDiv(k->builder, *quotient, by, "");
    return part;
}

/* -- turning ------------------------------------------------------------------------------------- */

LLVMTypeRef piece_type(Kernel *k)
{
    return LLVMVectorType(gx_int_type(k, 32), PIECE_WORDS);
}

/* Two channels of a position. */
static LLVMValueRef turned_word(Kernel *k, const LLVMValueRef *channels,
                                uint32_t position)
{
    LLVMTypeRef pair = LLVMVectorType(gx_int_type(k, 16), 2);
    LLVMValueRef halves[2],
        which[2] = {number(k, position % 2), number(k, 2 + position % 2)};
    for (uint32_t i = 0; i < 2; i++) {
        LLVMValueRef x =
            LLVMBuildExtractElement(k->builder, channels[i], number(k, position / 2), "");
        halves[i] = LLVMBuildBitCast(k->builder, x, pair, "");
    }
    LLVMValueRef both = LLVMBuildShuffleVector(k->builder, halves[0], halves[1],
                                               LLVMConstVector(which, 2), "");
    return LLVMBuildBitCast(k->builder, both, gx_int_type(k, 32), "");
}

LLVMValueRef turned_piece(Kernel *k, const LLVMValueRef *channels, uint32_t position)
{
    LLVMValueRef piece = LLVMGetUndef(piece_type(k));
    for (uint32_t i = 0; i < PIECE_WORDS; i++)
        piece = LLVMBuildInsertElement(k->builder, piece,
                                       turned_word(k, &channels[2 * i], position),
                                       number(k, i), "");
    return piece;
}

/* -- loops --------------------------------------------------------------------------------------- */

/* What the loops carry behind the sums: stages. */
enum { READ, FILLED, CARRIED };

static LLVMValueRef next_stage(const TapLoops *t, LLVMValueRef stage)
{
    Kernel *k = t->k;
    LLVMValueRef next = add(k, stage, number(k, t->stage_bytes)),
                 end = number(k, t->filters + t->stages * t->stage_bytes),
                 is_over = LLVMBuildICmp(k->builder, LLVMIntEQ, next, end, "");
    return LLVMBuildSelect(k->builder, is_over, number(k, t->filters), next, "");
}

/* Stages that are filled before they are read: of the others one is read, and one by products that go on. */
static uint32_t stages_ahead(const TapLoops *t)
{
    return t->stages - (t->wait != NULL ? 2 : 1);
}

static void emit_tap(const TapLoops *t, LLVMValueRef step, LLVMValueRef tap,
                     LLVMValueRef *carried)
{
    Kernel *k = t->k;
    LLVMValueRef *stages = &carried[t->sum_count];
    uint32_t ahead = stages_ahead(t);
    gx_copy_wait(k, ahead - 1);
    if (t->is_asynchronous)
        gx_proxy_fence(k);
    gx_barrier(k);
    LLVMValueRef now = add(k, times(k, step, t->taps), tap),
                 later = add(k, now, number(k, ahead));
    GxIf more;
    if (t->issue != NULL) {
        t->issue(t->of, tap, now, stages[READ]);
        t->finish(t->of, add(k, now, number(k, -1)));
    }
    gx_if_begin(k, &more, is_below(k, later, (int64_t)t->taps * t->steps));
    t->ask(t->of, later, stages[FILLED]);
    gx_if_end(k, &more, NULL, 0, NULL);
    gx_copy_commit(k);
    if (t->issue == NULL)
        t->multiply(t->of, tap, stages[READ], carried);
    if (t->wait != NULL)
        t->wait(t->of, 1, carried);
    for (uint32_t i = 0; i < CARRIED; i++)
        stages[i] = next_stage(t, stages[i]);
}

static void emit_step(const TapLoops *t, LLVMValueRef step, LLVMValueRef *carried)
{
    GxLoop taps;
    Kernel *k = t->k;
    uint32_t count = t->sum_count + CARRIED;
    if (t->finish != NULL)
        t->finish(t->of, add(k, times(k, step, t->taps), number(k, -1)));
    t->fill(t->of, step);
    gx_loop_begin(k, &taps, number(k, 0), number(k, t->taps), number(k, 1), carried,
                  count);
    LLVMValueRef *next = arena_copy(k->arena, carried, count * sizeof *carried);
    emit_tap(t, step, taps.index, next);
    gx_loop_end(k, &taps, next);
    if (t->wait != NULL)
        t->wait(t->of, 0, carried);
}

LLVMValueRef *tap_loops_emit(const TapLoops *t)
{
    GxLoop steps;
    Kernel *k = t->k;
    uint32_t count = t->sum_count + CARRIED;
    LLVMValueRef *carried = ARENA_ARRAY(k->arena, LLVMValueRef, count),
                 stage = number(k, t->filters);
    for (uint32_t i = 0; i < t->sum_count; i++)
        carried[i] = LLVMConstNull(emit_type(k, DT_F32));
    carried[t->sum_count + READ] = stage;
    for (uint32_t i = 0; i < stages_ahead(t); i++) {
        if (i < (uint64_t)t->taps * t->steps)
            t->ask(t->of, number(k, i), stage);
        gx_copy_commit(k);
        stage = next_stage(t, stage);
    }
    carried[t->sum_count + FILLED] = stage;
    if (t->steps == 1) { /* no loop holds the sums while its first step is filled */
        emit_step(t, number(k, 0), carried);
    } else {
        gx_loop_begin(k, &steps, number(k, 0), number(k, t->steps), number(k, 1), carried,
                      count);
        LLVMValueRef *next = arena_copy(k->arena, carried, count * sizeof *carried);
        emit_step(t, steps.index, next);
        gx_loop_end(k, &steps, next);
    }
    if (t->finish != NULL)
        t->finish(t->of, number(k, (int64_t)t->taps * t->steps - 1));
    gx_copy_wait(k, 0);
    return carried;
}
