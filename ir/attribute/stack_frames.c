/* Stack frames. See stack_frames.h. */
#include "ir/attribute/stack_frames.h"

#include "ir/print/value.h"

struct StackFrameMap {
    const StackFrames *old;
    StackFrames *new;
    uint32_t *files, *functions, *locations, *frames; /* new id by old id; 0 = not yet */
    Bytes *new_files, *new_functions;
    FileLocation *new_locations;
    StackFrame *new_frames;
    uint32_t *path; /* frames from the one asked for to the outermost */
};

static uint32_t keep_text(uint32_t *map, int64_t id, uint32_t count, const Bytes *old,
                          Bytes *new, uint32_t *new_count)
{
    if (id < 1 || id > count)
        return 0;
    if (map[id] == 0) {
        new[(*new_count)++] = old[id - 1];
        map[id] = *new_count;
    }
    return map[id];
}

static uint32_t keep_location(StackFrameMap *r, int64_t id)
{
    if (id < 1 || id > r->old->location_count)
        return 0;
    if (r->locations[id] == 0) {
        FileLocation position = r->old->locations[id - 1];
        position.file = keep_text(r->files, position.file, r->old->file_count,
                                  r->old->files, r->new_files, &r->new->file_count);
        position.function =
            keep_text(r->functions, position.function, r->old->function_count,
                      r->old->functions, r->new_functions, &r->new->function_count);
        r->new_locations[r->new->location_count++] = position;
        r->locations[id] = r->new->location_count;
    }
    return r->locations[id];
}

#define CYCLIC UINT32_MAX /* leads into a cycle: as if it had no id */

/* Callers get their ids first. */
int64_t stack_frame_keep(StackFrameMap *r, int64_t id)
{
    uint32_t count = 0;
    while (id >= 1 && id <= r->old->frame_count && r->frames[id] == 0) {
        if (count == r->old->frame_count) { /* a cycle: none of these is kept */
            while (count-- > 0)
                r->frames[r->path[count]] = CYCLIC;
            return 0;
        }
        r->path[count++] = (uint32_t)id;
        id = r->old->frames[id - 1].parent;
    }
    if (id >= 1 && id <= r->old->frame_count && r->frames[id] == CYCLIC) {
        while (count-- > 0)
            r->frames[r->path[count]] = CYCLIC;
        return 0;
    }
    if (id < 0 || id > r->old->frame_count)
        id = 0;
    uint32_t parent = id == 0 ? 0 : r->frames[id];
    while (count-- > 0) {
        const StackFrame *frame = &r->old->frames[r->path[count] - 1];
        r->new_frames[r->new->frame_count++] =
            (StackFrame){keep_location(r, frame->location), parent};
        parent = r->new->frame_count;
        r->frames[r->path[count]] = parent;
    }
    return parent;
}

StackFrameMap *stack_frame_map(Arena *a, const StackFrames *old)
{
    static const StackFrames none = {0};
    old = old != NULL ? old : &none;
    StackFrameMap *r = ARENA_NEW(a, StackFrameMap);
    StackFrames *new = ARENA_NEW(a, StackFrames);
    *r = (StackFrameMap){.old = old,
                         .new = new,
                         .files = ARENA_ARRAY(a, uint32_t, old->file_count + 1u),
                         .functions = ARENA_ARRAY(a, uint32_t, old->function_count + 1u),
                         .locations = ARENA_ARRAY(a, uint32_t, old->location_count + 1u),
                         .frames = ARENA_ARRAY(a, uint32_t, old->frame_count + 1u),
                         .new_files = ARENA_ARRAY(a, Bytes, old->file_count),
                         .new_functions = ARENA_ARRAY(a, Bytes, old->function_count),
                         .new_locations =
                             ARENA_ARRAY(a, FileLocation, old->location_count),
                         .new_frames = ARENA_ARRAY(a, StackFrame, old->frame_count),
                         .path = ARENA_ARRAY(a, uint32_t, old->frame_count + 1u)};
    new->files = r->new_files;
    new->functions = r->new_functions;
    new->locations = r->new_locations;
    new->frames = r->new_frames;
    return r;
}

const StackFrames *stack_frames_kept(const StackFrameMap *r)
{
    return r->new->frame_count != 0 ? r->new : NULL;
}

static void renumber_instruction(StackFrameMap *r, Instruction *inst, Arena *a)
{
    const Attr *attr = inst_attr(inst, ATTR_METADATA);
    if (attr == NULL || attr->metadata->stack_frame_id == 0)
        return;
    int64_t id = stack_frame_keep(r, attr->metadata->stack_frame_id);
    if (id == attr->metadata->stack_frame_id)
        return;
    Metadata *m = arena_copy(a, attr->metadata, sizeof *m);
    m->stack_frame_id = id;
    Attr changed = *attr;
    changed.metadata = m;
    inst_set(inst, changed);
}

void stack_frames_compact(Module *m)
{
    StackFrameMap *r = stack_frame_map(m->arena, m->config.stack_frames);
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            renumber_instruction(r, inst, m->arena);
        }
    }
    m->config.stack_frames = stack_frames_kept(r);
}

static void print_texts(Text *t, const char *title, const Bytes *texts, uint32_t count)
{
    text_string(t, title);
    for (uint32_t i = 0; i < count; i++) {
        text_int(t, i + 1);
        text_char(t, ' ');
        escaped_print(t, texts[i]);
        text_char(t, '\n');
    }
}

void stack_frames_print(Text *t, const StackFrames *f)
{
    print_texts(t, "FileNames\n", f->files, f->file_count);
    print_texts(t, "\nFunctionNames\n", f->functions, f->function_count);
    text_string(t, "\nFileLocations\n");
    for (uint32_t i = 0; i < f->location_count; i++) {
        const FileLocation *l = &f->locations[i];
        text_printf(t,
                    "%u {file_name_id=%lld function_name_id=%lld line=%lld end_line=%lld "
                    "column=%lld end_column=%lld}\n",
                    i + 1, (long long)l->file, (long long)l->function, (long long)l->line,
                    (long long)l->end_line, (long long)l->column,
                    (long long)l->end_column);
    }
    text_string(t, "\nStackFrames\n");
    for (uint32_t i = 0; i < f->frame_count; i++)
        text_printf(t, "%u {file_location_id=%lld parent_frame_id=%lld}\n", i + 1,
                    (long long)f->frames[i].location, (long long)f->frames[i].parent + 1);
}
