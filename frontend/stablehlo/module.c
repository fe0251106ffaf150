/* The whole: functions, the entry's arguments and results, what the attributes of the module say. */
#include <stdlib.h>
#include <string.h>

#include "frontend/hlo/parse.h"
#include "frontend/stablehlo/functions.h"
#include "ir/dtype.h"

/* -- functions ------------------------------------------------------------------------------ */

static int function_order(const void *a, const void *b)
{
    return strcmp(((const Function *)a)->name, ((const Function *)b)->name);
}

static const MlirType *function_type(Converter *c, const MlirOp *op)
{
    const MlirAttr *a = ask(c, op, NULL, "function_type");
    return a != NULL && a->kind == MLIR_TYPE ? a->type : NULL;
}

static void gather_functions(Converter *c, const MlirRegion *body)
{
    c->functions = ARENA_ARRAY(c->scratch, Function, body->op_count + 1u);
    c->meshes = ARENA_ARRAY(c->scratch, NamedMesh, body->op_count + 1u);
    for (uint32_t i = 0; i < body->op_count; i++) {
        const MlirOp *op = body->ops[i];
        c->op = op;
        if (strcmp(op->name, "sdy.mesh") == 0) {
            add_mesh(c, op);
        } else if (strcmp(op->name, "func.func") == 0 || strcmp(op->name, "func") == 0) {
            const char *name = ask_symbol(c, op, "sym_name");
            if (name != NULL)
                c->functions[c->function_count++] =
                    (Function){.name = name, .op = op, .type = function_type(c, op)};
        } else {
            convert_unsupported(c, "%s in a module", op->name);
        }
    }
    c->op = NULL;
    qsort(c->functions, c->function_count, sizeof *c->functions, function_order);
    for (uint32_t i = 1; i < c->function_count; i++) {
        if (strcmp(c->functions[i - 1].name, c->functions[i].name) != 0)
            continue;
        c->op = c->functions[i].op;
        convert_error(c, "redefinition of function @%s", c->functions[i].name);
        c->op = NULL;
    }
}

static bool is_private(const MlirOp *op)
{
    return mlir_is_text(mlir_find(op->attrs, "sym_visibility"), "private");
}

/* main; else the only function that others see. */
static Function *find_entry(Converter *c)
{
    Function *only = NULL;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < c->function_count; i++) {
        Function *f = &c->functions[i];
        if (strcmp(f->name, "main") == 0)
            return f;
        if (!is_private(f->op)) {
            only = f;
            seen++;
        }
    }
    if (seen == 1)
        return only;
    return convert_error(c, "the module has no function @main, and %u public functions",
                         seen);
}

/* -- arguments and results of the entry ------------------------------------------------------ */

/* The dictionary of argument (result) i; NULL: none. */
static const MlirAttr *dict_of(Converter *c, const MlirOp *op, const char *name,
                               uint32_t i)
{
    const MlirAttr *list = ask(c, op, NULL, name);
    if (list == NULL || list->kind != MLIR_LIST || i >= list->list.count)
        return NULL;
    const MlirAttr *dict = mlir_resolve(c->file, list->list.items[i]);
    return dict != NULL && dict->kind == MLIR_DICT ? dict : NULL;
}

/* "{1,0}" sets it; "default" and "auto" do not. */
static const Shape *layout_mode(Converter *c, const MlirAttr *dict, const Shape *s)
{
    const MlirAttr *mode = dict != NULL ? field(c, dict, "mhlo.layout_mode") : NULL;
    if (mode == NULL || mode->kind != MLIR_STRING || mode->text.data[0] != '{' ||
        !shape_is_array(s))
        return s;
    const char *at = mode->text.data + 1;
    int64_t *order = ARENA_ARRAY(c->arena, int64_t, s->rank + 1u);
    uint32_t count = 0;
    while (*at >= '0' && *at <= '9' && count < s->rank) {
        char *end;
        order[count++] = strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    MlirAttr *list = ARENA_NEW(c->scratch, MlirAttr);
    const MlirAttr **items = ARENA_ARRAY(c->scratch, const MlirAttr *, count + 1u);
    for (uint32_t i = 0; i < count; i++) {
        MlirAttr *item = ARENA_NEW(c->scratch, MlirAttr);
        *item = (MlirAttr){.kind = MLIR_INT, .i = order[i]};
        items[i] = item;
    }
    *list = (MlirAttr){.kind = MLIR_LIST, .list = {count, items}};
    const Shape *laid = shape_of_layout(c, s, list);
    return laid != NULL ? laid : s;
}

typedef struct Interface {
    STACK(AliasEntry) aliases;
    STACK(DonorEntry) donors;
} Interface;

static Ints output_path(Converter *c, uint32_t results, int64_t i)
{
    if (results == 1)
        return (Ints){0};
    return (Ints){arena_copy(c->arena, &i, sizeof i), 1};
}

static void set_argument(Converter *c, const Function *f, uint32_t i, Interface *out)
{
    const MlirAttr *dict = dict_of(c, f->op, "arg_attrs", i);
    Instruction *parameter = f->comp->parameters[i];
    if (dict == NULL)
        return;
    if (!c->is_manual) /* else it is a part already */
        set_dict_notes(c, dict->dict, parameter);
    int64_t output;
    const MlirAttr *alias = field(c, dict, "tf.aliasing_output");
    if (alias != NULL && ask_int(c, alias, &output)) {
        if (output < 0 || output >= f->type->result_count)
            convert_error(c, "argument %u: tf.aliasing_output = %lld names no result", i,
                          (long long)output);
        else
            STACK_PUSH(
                c, out->aliases,
                ((AliasEntry){.output = output_path(c, f->type->result_count, output),
                              .operand = i}));
    }
    const MlirAttr *donor = field(c, dict, "jax.buffer_donor");
    if (donor != NULL && alias == NULL && donor->kind == MLIR_BOOL && donor->i != 0)
        STACK_PUSH(c, out->donors, ((DonorEntry){.parameter = i}));
}

/* {alias = {parameter_index = array<i64>, parameter_number = 0, kind = may_alias}, output_index = array<i64: 0>} */
static void module_aliases(Converter *c, MlirDict attrs, uint32_t parameters,
                           Interface *out)
{
    const MlirAttr *list =
        mlir_resolve(c->file, mlir_find(attrs, "mhlo.input_output_alias"));
    if (list == NULL || list->kind != MLIR_LIST)
        return;
    for (uint32_t i = 0; i < list->list.count; i++) {
        const MlirAttr *alias = field(c, list->list.items[i], "alias");
        AliasEntry e = {.must = mlir_is_text(field(c, alias, "kind"), "must_alias")};
        if (!ask_ints(c, field(c, list->list.items[i], "output_index"), &e.output) ||
            !ask_ints(c, field(c, alias, "parameter_index"), &e.input) ||
            !ask_int(c, field(c, alias, "parameter_number"), &e.operand) ||
            e.operand < 0 || e.operand >= parameters) {
            convert_error(
                c, "entry %u of mhlo.input_output_alias names no output and parameter",
                i);
            return;
        }
        STACK_PUSH(c, out->aliases, e);
    }
}

static int paths_order(Ints a, Ints b)
{
    for (uint32_t i = 0; i < a.count && i < b.count; i++)
        if (a.data[i] != b.data[i])
            return a.data[i] < b.data[i] ? -1 : 1;
    return (a.count > b.count) - (a.count < b.count);
}

static int alias_order(const void *a, const void *b)
{
    return paths_order(((const AliasEntry *)a)->output, ((const AliasEntry *)b)->output);
}

static void set_aliases(Converter *c, Interface *found)
{
    ModuleConfig *config = &c->m->config;
    size_t count = found->aliases.count;
    if (count != 0)
        qsort(found->aliases.data, count, sizeof(AliasEntry), alias_order);
    for (size_t i = 0; i < count; i++) {
        const AliasEntry *e = &found->aliases.data[i];
        if (shape_part(c->m->entry->root->shape, e->output) == NULL)
            convert_error(c,
                          "an alias names an output that the result, %s, does not have",
                          shape_text(c->scratch, c->m->entry->root->shape, false));
        else if (i != 0 && paths_order(e->output, e[-1].output) == 0)
            convert_error(c, "two arguments are aliases of one result");
    }
    config->input_output_alias.count = (uint32_t)count;
    config->input_output_alias.entries = STACK_KEEP(c, found->aliases);
    config->donor_count = (uint32_t)found->donors.count;
    config->donors = STACK_KEEP(c, found->donors);
}

static const Shape *entry_shape(Converter *c, MlirDict attrs, const char *name,
                                uint32_t i, const Shape *s)
{
    const MlirAttr *list = mlir_resolve(c->file, mlir_find(attrs, name));
    if (list == NULL || list->kind != MLIR_LIST || i >= list->list.count)
        return s;
    const MlirAttr *layout = mlir_resolve(c->file, list->list.items[i]);
    if (layout == NULL || (layout->kind == MLIR_LIST && layout->list.count != s->rank))
        return s;
    const Shape *laid = shape_of_layout(c, s, layout);
    return laid != NULL ? laid : s;
}

/* Layouts of arguments and results as the module or they themselves say. */
static void set_layouts(Converter *c, const Function *f, MlirDict attrs)
{
    static const char parameters[] = "mhlo.xla_entry_computation_parameter_layouts";
    static const char results[] = "mhlo.xla_entry_computation_result_layout";
    ModuleConfig *config = &c->m->config;
    uint32_t count = f->comp->parameter_count, n = f->type->result_count;
    const Shape **in = ARENA_ARRAY(c->arena, const Shape *, count + 1u);
    const Shape **out = ARENA_ARRAY(c->arena, const Shape *, n + 1u);
    for (uint32_t i = 0; i < count; i++)
        in[i] = entry_shape(c, attrs, parameters, i,
                            layout_mode(c, dict_of(c, f->op, "arg_attrs", i),
                                        f->comp->parameters[i]->shape));
    const Shape *root = f->comp->root->shape;
    bool whole = n == 1 || !shape_is_tuple(root) || root->rank != n;
    for (uint32_t i = 0; i < n && (!whole || n == 1); i++)
        out[i] = entry_shape(c, attrs, results, i,
                             layout_mode(c, dict_of(c, f->op, "res_attrs", i),
                                         whole ? root : root->elements[i]));
    config->entry_parameter_count = count;
    config->entry_parameters = in;
    config->entry_result =
        whole ? (n == 1 ? out[0] : root) : shape_tuple(c->intern, n, out);
}

/* -- the module ----------------------------------------------------------------------------- */

/* Attributes of a module belong to a dialect, but for its name. */
static void check_names(Converter *c, MlirDict attrs)
{
    for (uint32_t i = 0; i < attrs.count; i++) {
        const char *name = attrs.entries[i].name;
        if (strchr(name, '.') == NULL && strncmp(name, "sym_", 4) != 0)
            convert_error(c, "a module has no attribute %s", name);
    }
}

static bool set_counts(Converter *c, MlirDict attrs)
{
    ModuleConfig *config = &c->m->config;
    const MlirAttr *replicas = mlir_find(attrs, "mhlo.num_replicas");
    const MlirAttr *partitions = mlir_find(attrs, "mhlo.num_partitions");
    int64_t r = 1, p = 1;
    if ((replicas != NULL && !ask_int(c, replicas, &r)) ||
        (partitions != NULL && !ask_int(c, partitions, &p)))
        return false;
    if (r < 1 || p < 1 || r > MODULE_DEVICES_MOST || p > MODULE_DEVICES_MOST)
        return convert_error(
                   c,
                   "mhlo.num_replicas = %lld, mhlo.num_partitions = %lld: they are from "
                   "1 to %d",
                   (long long)r, (long long)p, MODULE_DEVICES_MOST) != NULL;
    config->replica_count = r;
    config->num_partitions = p;
    return true;
}

static bool is_name_char(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
           (ch >= '0' && ch <= '9') || ch == '_' || ch == '.' || ch == '-';
}

/* A name of HLO's: `$` and the like become `_`, names of types and those with `__` get another character. */
static const char *legal_name(Converter *c, const char *name)
{
    DType t;
    size_t length = strlen(name);
    bool right = length != 0 && !(name[0] >= '0' && name[0] <= '9') && name[0] != '.' &&
                 name[0] != '-' && !(name[0] == '_' && name[1] == '_') &&
                 !dtype_from_name(name, length, &t);
    for (size_t i = 0; right && i < length; i++)
        right = is_name_char(name[i]);
    if (right)
        return name;
    char *made = arena_printf(c->arena, "v_%s", name);
    for (char *s = made; *s != '\0'; s++)
        if (!is_name_char(*s))
            *s = '_';
    return made;
}

static void make_names_legal(Converter *c)
{
    for (size_t i = 0; i < c->finished.count; i++) {
        Computation *comp = c->finished.data[i];
        comp->name = legal_name(c, comp->name);
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst))
            inst->name = legal_name(c, inst->name);
    }
}

static bool convert_entry(Converter *c, MlirDict attrs)
{
    Function *f = find_entry(c);
    if (f == NULL)
        return false;
    c->op = f->op;
    if (f->op->region_count == 1)
        c->is_manual = is_manual(f->op->regions[0]);
    Computation *entry = function_computation(c, f->name);
    if (entry == NULL)
        return false;
    c->m->entry = entry;
    Interface found = {0};
    STACK_OPEN(c, found.aliases);
    STACK_OPEN(c, found.donors);
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        set_argument(c, f, i, &found);
    module_aliases(c, attrs, entry->parameter_count, &found);
    set_aliases(c, &found);
    set_layouts(c, f, attrs);
    for (uint32_t i = 0; i < c->function_count; i++)
        if (c->functions[i].state == FUNCTION_NEW)
            check_function(c, &c->functions[i]);
    const Dict *dict = frontend_attributes(c, attrs);
    if (dict != NULL)
        c->m->config.frontend_attributes = dict;
    return true;
}

/* The one module of the file; its functions may stand there without one. */
static const MlirRegion *module_body(Converter *c, const MlirOp **out)
{
    const MlirRegion *top = c->file->top;
    const MlirOp *found = NULL;
    for (uint32_t i = 0; i < top->op_count; i++) {
        const char *name = top->ops[i]->name;
        if (strcmp(name, "builtin.module") != 0 && strcmp(name, "module") != 0)
            continue;
        if (found != NULL) {
            c->op = top->ops[i];
            return convert_error(c, "a second module in the file: gxc compiles one");
        }
        found = top->ops[i];
    }
    *out = found;
    if (found == NULL)
        return top;
    if (top->op_count == 1 && found->region_count == 1)
        return found->regions[0];
    c->op = top->ops[top->ops[0] == found && top->op_count > 1];
    return convert_error(c, "unexpected beside the module");
}

Module *convert_module(const MlirFile *file, Arena *a, Diag *d, Module *m)
{
    Arena *scratch = arena_scratch();
    Converter *c = ARENA_NEW(scratch, Converter);
    *c = (Converter){.file = file,
                     .arena = a,
                     .scratch = scratch,
                     .diag = d,
                     .intern = m->intern,
                     .m = m};
    STACK_OPEN(c, c->finished);
    size_t errors = d->error_count;
    const MlirOp *module = NULL;
    const MlirRegion *body = module_body(c, &module);
    MlirDict attrs = module != NULL ? module->attrs : (MlirDict){0};
    const MlirAttr *name = mlir_find(attrs, "sym_name");
    if (body != NULL && d->error_count == errors) {
        c->op = module;
        if (name != NULL && name->kind == MLIR_STRING)
            m->name = intern_string(m->intern, legal_name(c, name->text.data));
        check_names(c, attrs);
        if (set_counts(c, attrs))
            gather_functions(c, body);
        c->op = module;
        if (d->error_count == errors && convert_entry(c, attrs)) {
            make_names_legal(c);
            import_module(m, c->finished.data, c->finished.count, true);
        }
    }
    bool right = d->error_count == errors;
    if (right && m->entry == NULL)
        right = convert_error(c, "the module could not be made") != NULL;
    arena_destroy(scratch);
    return right ? m : NULL;
}
