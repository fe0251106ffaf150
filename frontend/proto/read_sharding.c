/* Shardings and groups of devices of HloModuleProto as text. */
#include <string.h>

#include "frontend/proto/reader.h"
#include "ir/print/value.h"

static void put_sharding_metadata(Reader *r, Message s)
{
    bool first = true;
    for (size_t i = 0; i < s.count; i++) {
        if (s.fields[i].number != 7)
            continue;
        Metadata metadata = reader_metadata(r, message_scan(r, s.fields[i].bytes));
        text_string(&r->t, first ? " metadata={{" : ", {");
        metadata_print(&r->t, &metadata);
        text_char(&r->t, '}');
        first = false;
    }
    text_string(&r->t, first ? "" : "}");
}

static void put_named(Reader *r, Message s)
{
    const Sharding *named = reader_named_sharding(r, message_part(r, s, 14));
    if (named == NULL)
        return;
    Sharding all = *named;
    if (message_int(s, 11) != 0 && message_int(s, 13) == 0)
        all.shard_as = message_int(s, 12);
    else if (message_int(s, 11) != 0)
        all.shard_like = message_int(s, 12);
    sharding_print(&r->t, &all, true);
}

void reader_put_sharding(Reader *r, Message s)
{
    Text *t = &r->t;
    int64_t type = message_int(s, 1);
    if (message_find(s, 14) != NULL) {
        put_named(r, s);
        return;
    }
    text_char(t, '{');
    if (type == 2) {
        bool first = true;
        for (size_t i = 0; i < s.count; i++) {
            if (s.fields[i].number != 5)
                continue;
            Message element = message_scan(r, s.fields[i].bytes);
            text_string(t, first ? "" : ", ");
            first = false;
            if (message_int(element, 1) == 2)
                reader_trouble(r, "a sharding holds tuples in tuples");
            else
                reader_put_sharding(r, element);
        }
    } else if (type == 3) {
        static const char *const kinds[] = {"replicated", "maximal", "",         "",
                                            "manual",     "",        "unreduced"};
        Ints devices = message_ints(r, s, 4), reshape = message_ints(r, s, 9),
             order = message_ints(r, s, 10);
        Ints last = message_ints(r, s, 8);
        text_string(t, "devices=[");
        reader_put_list(t, message_ints(r, s, 3));
        text_string(t, reshape.count != 0 ? "]<=[" : "]");
        reader_put_list(t, reshape.count != 0 ? reshape : devices);
        if (reshape.count != 0)
            text_char(t, ']');
        if (reshape.count > 1) {
            text_string(t, "T(");
            reader_put_list(t, order);
            text_char(t, ')');
        }
        text_string(t, message_int(s, 6) != 0 ? " last_tile_dim_replicate" : "");
        for (uint32_t i = 0; i < last.count; i++) {
            bool known = last.data[i] >= 0 && last.data[i] <= 6;
            text_printf(t, "%s%s", i == 0 ? " last_tile_dims={" : ", ",
                        known ? kinds[last.data[i]] : "");
        }
        text_string(t, last.count != 0 ? "}" : "");
    } else {
        static const char *const kinds[] = {
            "replicated", "maximal device=", "", "", "manual", "unknown", "unreduced"};
        if (type < 0 || type > 6)
            reader_trouble(r, "a sharding is of an unknown kind");
        else
            text_string(t, kinds[type]);
        if (type == 1)
            reader_put_list(t, message_ints(r, s, 4));
    }
    if (message_int(s, 11) != 0)
        text_printf(t, " %s %lld", message_int(s, 13) == 0 ? "shard_as" : "shard_like",
                    (long long)message_int(s, 12));
    put_sharding_metadata(r, s);
    text_char(t, '}');
}

static void put_group_lists(Reader *r, Message m, uint32_t field)
{
    bool first = true;
    text_char(&r->t, '{');
    for (size_t i = 0; i < m.count; i++) {
        if (m.fields[i].number != field)
            continue;
        text_string(&r->t, first ? "{" : ",{");
        reader_put_list(&r->t, message_ints(r, message_scan(r, m.fields[i].bytes), 1));
        text_char(&r->t, '}');
        first = false;
    }
    text_char(&r->t, '}');
}

void reader_put_groups(Reader *r, Message inst)
{
    Message list = message_part(r, inst, 87);
    Message iota = message_find(inst, 92) != NULL ? message_part(r, inst, 92)
                                                  : message_part(r, list, 2);
    if (iota.count != 0) {
        Ints reshape = message_ints(r, iota, 3);
        text_printf(&r->t, "[%lld,%lld]<=[", (long long)message_int(iota, 1),
                    (long long)message_int(iota, 2));
        reader_put_list(&r->t, reshape);
        text_char(&r->t, ']');
        if (reshape.count > 1) {
            text_string(&r->t, "T(");
            reader_put_list(&r->t, message_ints(r, iota, 4));
            text_char(&r->t, ')');
        }
        return;
    }
    if (message_find(inst, 93) != NULL) {
        const ReplicaGroups *g = reader_mesh_groups(r, message_part(r, inst, 93));
        if (g != NULL)
            replica_groups_print(&r->t, g);
        return;
    }
    if (list.count != 0)
        put_group_lists(r, list, 1);
    else
        put_group_lists(r, inst, 49);
}
