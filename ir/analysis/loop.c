/* See loop.h. */
#include "ir/analysis/loop.h"

#include <stdio.h>
#include <string.h>

#include "ir/arena.h"

int64_t loop_known_trip_count(const Instruction *loop)
{
    static const char key[] = "\"known_trip_count\"";
    Bytes config = inst_bytes(loop, ATTR_BACKEND_CONFIG);
    const char *at = config.length != 0 ? strstr(config.data, key) : NULL;
    if (at == NULL)
        return -1;
    at = strstr(at + sizeof key - 1, "\"n\"");
    if (at == NULL)
        return -1;
    at += 3;
    while (*at == ' ' || *at == ':' || *at == '"')
        at++;
    int64_t n = 0;
    if (*at < '0' || *at > '9')
        return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (n > (INT64_MAX - 9) / 10)
            return -1;
        n = n * 10 + (*at - '0');
    }
    return n;
}

void loop_set_known_trip_count(Instruction *loop, int64_t count)
{
    char text[80];
    int n = snprintf(text, sizeof text, "{\"known_trip_count\":{\"n\":\"%lld\"}}",
                     (long long)count);
    inst_set_bytes(loop, ATTR_BACKEND_CONFIG, text, (size_t)n);
}
