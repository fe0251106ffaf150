/* See panels.h. */
#include "ir/tile/panels.h"

#include "ir/base/divide.h"
#include "ir/base/extremes.h"

TilePanels tile_panels(const TileProgram *p, int64_t panel)
{
    TilePanels out = {.panel = panel};
    uint32_t side = PANEL_SIDES;
    for (uint32_t d = p->dim_count; d-- > 0 && side > 0;) {
        if (p->dims[d].kind != TILE_GRID)
            continue;
        if (!tile_has_coordinate(p, d))
            break;
        out.dims[--side] = d;
    }
    for (uint32_t i = 0; i < PANEL_SIDES && side == 0; i++)
        out.tiles[i] = tile_count(&p->dims[out.dims[i]]);
    return out;
}

int64_t tile_panel_count(const TilePanels *p)
{
    return ceil_div(p->tiles[PANEL_SLOW], p->panel);
}

int64_t tile_last_panel(const TilePanels *p)
{
    return p->tiles[PANEL_SLOW] - (tile_panel_count(p) - 1) * p->panel;
}

/* Panels that are walked through backwards. */
static bool is_reversed(const TilePanels *p, int64_t number)
{
    return p->panel > 1 && number % 2 != 0;
}

static int64_t width_of(const TilePanels *p, int64_t number)
{
    return number + 1 == tile_panel_count(p) ? tile_last_panel(p) : p->panel;
}

void tile_panels_at(const TilePanels *p, int64_t number, int64_t at[PANEL_SIDES])
{
    int64_t all = p->panel * p->tiles[PANEL_FAST], of = number / all, in = number % all,
            width = width_of(p, of), column = in / width;
    at[PANEL_SLOW] = of * p->panel + in % width;
    at[PANEL_FAST] = is_reversed(p, of) ? p->tiles[PANEL_FAST] - 1 - column : column;
}

/* Of a panel what blocks [first, end) of the matrix have: columns [begin, end), and so many rows. */
typedef struct Share {
    int64_t rows, begin, end;
} Share;

static Share share_of(const TilePanels *p, int64_t number, int64_t first, int64_t end)
{
    int64_t fast = p->tiles[PANEL_FAST], start = number * p->panel * fast,
            width = width_of(p, number);
    first = larger_int(first - start, 0);
    end = smaller_int(end - start, width * fast);
    Share s = {smaller_int(end - first, width), first / width, (end - 1) / width + 1};
    if (is_reversed(p, number))
        s = (Share){s.rows, fast - s.end, fast - s.begin};
    return s;
}

void tile_panels_span(const TilePanels *p, int64_t first, int64_t count,
                      int64_t different[PANEL_SIDES])
{
    int64_t all = p->panel * p->tiles[PANEL_FAST], end = first + count,
            number = first / all, last = (end - 1) / all;
    Share a = share_of(p, number, first, end), b = share_of(p, last, first, end);
    different[PANEL_SLOW] = a.rows;
    different[PANEL_FAST] = a.end - a.begin;
    if (number == last)
        return;
    different[PANEL_SLOW] += (last - number - 1) * p->panel + b.rows;
    int64_t both = smaller_int(a.end, b.end) - larger_int(a.begin, b.begin);
    different[PANEL_FAST] += b.end - b.begin - larger_int(both, 0);
    if (last > number + 1)
        different[PANEL_FAST] = p->tiles[PANEL_FAST];
}
