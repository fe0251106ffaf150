/* What blocks of a product read of device memory, by the order in which they take their tiles (ir/tile/panels.h). Those
 * at work at once go through their terms side by side: what they have in common of a factor they read once; so do as many
 * blocks more as L2 keeps the bytes of. */
#include "ir/kernel/time/work_builder.h"

enum {
    WINDOWS_SAMPLED = 64, /* of a matrix */
    NEITHER = PANEL_SIDES,
};

#define PANEL_GAIN                                                                       \
    0.9 /* of the bytes: below that another order is worth its instructions */

/* Tiles of a matrix; matrices. */
static int64_t tiles_of(const WorkMatrix *m)
{
    return m->panels.tiles[PANEL_SLOW] * m->panels.tiles[PANEL_FAST];
}

static double matrices(const WorkBuilder *b)
{
    return larger(b->blocks / (double)tiles_of(&b->matrix) / b->matrix.together, 1);
}

static bool depends(const WorkAccess *a, const IndexExpr *variable)
{
    return variable->kind == IX_RUNTIME &&
           ix_depends(a->element, IX_RUNTIME, (uint32_t)variable->value);
}

/* A factor of columns that each group of rows has of its own. */
static bool is_of_groups(const WorkBuilder *b, const WorkAccess *a)
{
    return b->matrix.term != NULL && !a->is_store && depends(a, b->matrix.term) &&
           depends(a, b->matrix.origin[PANEL_FAST]);
}

/* The only side of the matrix along which the access's position differs, within a group. */
static int side_of(const WorkBuilder *b, const WorkAccess *a)
{
    bool slow = depends(a, b->matrix.origin[PANEL_SLOW]) && !is_of_groups(b, a),
         fast = depends(a, b->matrix.origin[PANEL_FAST]);
    return slow == fast ? NEITHER : slow ? PANEL_SLOW : PANEL_FAST;
}

/* Of what it is asked for, the bytes that lie side by side for all tiles of one side. */
static double side_bytes(const WorkBuilder *b, const WorkAccess *a)
{
    return is_of_groups(b, a) ? a->reach / (double)b->matrix.groups : a->reach;
}

/* How often each tile of both sides is read if so many blocks that follow one another read it once. */
static void find_times(const WorkMatrix *m, int64_t window, double times[PANEL_SIDES])
{
    int64_t all = tiles_of(m), count = (all + window - 1) / window,
            step = (count + WINDOWS_SAMPLED - 1) / WINDOWS_SAMPLED, sampled = 0;
    double sum[PANEL_SIDES] = {0};
    for (int64_t i = 0; i < count; i += step) {
        int64_t first = i * window, different[PANEL_SIDES];
        tile_panels_span(&m->panels, first, first + window < all ? window : all - first,
                         different);
        for (int side = 0; side < PANEL_SIDES; side++)
            sum[side] += (double)different[side];
        sampled++;
    }
    for (int side = 0; side < PANEL_SIDES; side++)
        times[side] = larger(sum[side] * (double)count / (double)sampled /
                                 (double)m->panels.tiles[side],
                             1);
}

/* Bytes that L2 has to keep of a window's blocks. */
static double window_bytes(const WorkBuilder *b, int64_t window, const double *times)
{
    double part = smaller((double)window / (double)tiles_of(&b->matrix), 1), bytes = 0;
    for (size_t i = 0; i < b->access_count; i++) {
        const WorkAccess *a = &b->accesses[i];
        int side = side_of(b, a);
        double each = side_bytes(b, a);
        each /= depends(a, b->matrix.batch) ? matrices(b) : 1;
        bytes += each * part * (side == NEITHER ? 1 : times[side]);
    }
    return bytes;
}

static void set_panel(WorkBuilder *b, int64_t panel, double resident)
{
    WorkMatrix *m = &b->matrix;
    int64_t all = tiles_of(m), window = (int64_t)(resident * b->device->multiprocessors);
    m->panels.panel = panel;
    window = window / m->together < 1 ? 1 : window / m->together;
    find_times(m, window, m->times);
    while (window < all) {
        double times[PANEL_SIDES];
        find_times(m, 2 * window, times);
        if (window_bytes(b, 2 * window, times) > work_l2_kept(b))
            break;
        window *= 2;
        for (int side = 0; side < PANEL_SIDES; side++)
            m->times[side] = times[side];
    }
}

/* Of all accesses for which the order matters. */
static double all_bytes(const WorkBuilder *b)
{
    double sum = 0, bytes;
    for (size_t i = 0; i < b->access_count; i++)
        sum += panels_memory(b, &b->accesses[i], &bytes) ? bytes : 0;
    return sum;
}

bool panels_memory(const WorkBuilder *b, const WorkAccess *a, double *bytes)
{
    const WorkMatrix *m = &b->matrix;
    int side = m->panels.tiles[PANEL_SLOW] == 0 ? NEITHER : side_of(b, a);
    double each = side_bytes(b, a);
    if (side == NEITHER || each <= work_l2_kept(b))
        return false;
    each *= m->times[side] * (depends(a, m->batch) ? 1 : matrices(b));
    *bytes = larger(each, a->reach);
    return true;
}

void panels_choose(WorkBuilder *b, double resident)
{
    TilePanels *p = &b->matrix.panels;
    if (p->tiles[PANEL_SLOW] == 0)
        return;
    bool is_open = p->panel == 0;
    set_panel(b, is_open ? 1 : p->panel, resident);
    double first = is_open ? all_bytes(b) : 0, least = first * PANEL_GAIN;
    int64_t best = 1, most = p->tiles[PANEL_SLOW] / b->matrix.groups;
    for (int64_t panel = 2; first > 0 && panel <= most; panel *= 2) {
        set_panel(b, panel, resident);
        double bytes = all_bytes(b);
        if (bytes < least) {
            least = bytes;
            best = panel;
        }
    }
    if (is_open)
        set_panel(b, best, resident);
}
