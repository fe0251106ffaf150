/* See direction.h. */
#include "ir/attribute/direction.h"

#include "ir/attribute/attribute.h"

bool direction_holds(int64_t direction, double x, double y)
{
    switch (direction) {
    case DIRECTION_EQ:
        return x == y;
    case DIRECTION_NE:
        return x != y;
    case DIRECTION_LT:
        return x < y;
    case DIRECTION_LE:
        return x <= y;
    case DIRECTION_GT:
        return x > y;
    default:
        return x >= y;
    }
}
