/* get.c: `keepstep get`: lists as tables. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/mem.h"
#include "proto/base/sort.h"
#include "proto/base/text.h"

enum { TEXT = 160, PAGES_MAX = 1000 };

static bool is_wide(const struct cli *cli)
{
    return cli->output == OUTPUT_WIDE;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void goodput_cell(struct table *table, const json_t *job)
{
    const json_t *value = json_object_get(json_object_get(job, "time"), "goodput");
    if (json_is_real(value)) {
        table_cell(table, "%.1f%%", json_real_value(value) * 100.0);
    } else {
        table_cell(table, "-");
    }
}

static void state_cell(struct table *table, const json_t *job)
{
    const char *phase = member(job, "phase");
    bool recovers = text_equal(member(job, "state"), "recovering") && phase[0] != '\0';
    table_cell(table, "%s%s%s", member(job, "state"), recovers ? ":" : "", recovers ? phase : "");
}

static void print_jobs(const struct cli *cli, const json_t *items)
{
    static const char *const heads[] = {"NAME",        "STATE",  ">STEP", ">GOODPUT", ">RECOVERIES",
                                        ">CHECKPOINT", ">NODES", ">AGE",  "USER",     "REASON"};
    char a[TEXT];
    struct table table;
    size_t index;
    json_t *job;
    table_init(&table, is_wide(cli) ? 10 : 9, heads);
    json_array_foreach(items, index, job)
    {
        table_member(&table, job, "name");
        state_cell(&table, job);
        table_member(&table, job, "step");
        goodput_cell(&table, job);
        table_member(&table, job, "recoveries");
        table_text(&table, ago_of(json_object_get(job, "checkpoint"), "time", a, sizeof a));
        table_member(&table, job, "nodes");
        table_text(&table, ago_of(job, "submitted", a, sizeof a));
        table_member(&table, job, "user");
        if (is_wide(cli)) {
            table_member(&table, job, "reason");
        }
    }
    table_print(&table);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void node_state(const json_t *node, char *target, size_t size)
{
    text_format(target, size, "%s%s", member(node, "state"), truth(node, "connected") ? "" : "*");
}

static void reason_cell(struct table *table, const json_t *node)
{
    const json_t *mark = json_array_get(json_object_get(node, "marks"), 0);
    if (mark == NULL) {
        table_member(table, node, "lost");
        return;
    }
    struct buf text;
    buf_init(&text, 4096);
    (void)!buf_printf(&text, "%s/%s: %s", member(mark, "owner"), member(mark, "code"),
                      member(mark, "text"));
    table_text(table, buf_text(&text));
    buf_done(&text);
}

static void print_node_rows(const json_t *items)
{
    static const char *const heads[] = {"NODE",  "STATE", "ROLE",   "JOB",
                                        ">SLOT", "RACK",  ">SINCE", "REASON"};
    char a[TEXT];
    struct table table;
    size_t index;
    json_t *node;
    table_init(&table, ARRAY_SIZE(heads), heads);
    json_array_foreach(items, index, node)
    {
        table_member(&table, node, "name");
        node_state(node, a, sizeof a);
        table_text(&table, a);
        table_member(&table, node, "role");
        table_member(&table, node, "job");
        table_member(&table, node, "slot");
        table_member(&table, node, "rack");
        table_text(&table, ago_of(node, "since", a, sizeof a));
        reason_cell(&table, node);
    }
    table_print(&table);
}

static void group_row(struct table *table, const json_t *first, const char **names, size_t count)
{
    char state[TEXT];
    size_t size = hostlist_fold(names, count, NULL, 0) + 1;
    char *folded = mem_alloc(size, 1);
    (void)hostlist_fold(names, count, folded, size);
    node_state(first, state, sizeof state);
    table_text(table, state);
    table_member(table, first, "role");
    count_format(count, state, sizeof state);
    table_text(table, state);
    table_text(table, folded);
    mem_free(folded);
}

static bool same_group(const json_t *a, const json_t *b)
{
    return text_equal(member(a, "state"), member(b, "state")) &&
           text_equal(member(a, "role"), member(b, "role")) &&
           truth(a, "connected") == truth(b, "connected");
}

/* One line per (state, role), nodes folded: 2,112 lines help nobody. */
static void print_node_groups(const json_t *items)
{
    static const char *const heads[] = {"STATE", "ROLE", ">COUNT", "NODES"};
    size_t total = json_array_size(items);
    const char **names = mem_alloc(total + 1, sizeof *names);
    bool *done = mem_alloc(total + 1, sizeof *done);
    struct table table;
    table_init(&table, ARRAY_SIZE(heads), heads);
    for (size_t i = 0; i < total; i++) {
        const json_t *first = json_array_get(items, i);
        size_t count = 0;
        for (size_t k = i; !done[i] && k < total; k++) {
            const json_t *node = json_array_get(items, k);
            if (k > i && (done[k] || !same_group(first, node))) {
                continue;
            }
            done[k] = k > i;
            names[count++] = member(node, "name");
        }
        if (count > 0) {
            group_row(&table, first, names, count);
        }
    }
    table_print(&table);
    mem_free(names);
    mem_free(done);
}

static void print_nodes(const struct cli *cli, const json_t *items)
{
    bool rows = cli->problems || is_wide(cli) || cli->count > 2 || json_array_size(items) <= 1;
    if (rows) {
        print_node_rows(items);
    } else {
        print_node_groups(items);
    }
}

/* The jobs that are to have spares, and what each has. */
static void print_keepers(const json_t *jobs)
{
    static const char *const heads[] = {"JOB", ">RESERVED", "BY", ">READY", ">WANTED", "LOW"};
    static const char *const keys[] = {"job", "reserve", "origin", "ready", "wanted", "low"};
    struct table table;
    size_t index;
    json_t *one;
    table_init(&table, ARRAY_SIZE(heads), heads);
    json_array_foreach(jobs, index, one)
    {
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
            table_member(&table, one, keys[i]);
        }
    }
    table_print(&table);
}

static void print_spares(const struct cli *cli, const json_t *items)
{
    static const char *const heads[] = {">READY", ">VALIDATING", ">DOWN", ">RESERVED", "NODES"};
    static const char *const keys[] = {"ready", "validating", "down", "reserved", "nodes"};
    const json_t *item = json_array_get(items, 0);
    (void)cli;
    struct table table;
    table_init(&table, ARRAY_SIZE(heads), heads);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        table_member(&table, item, keys[i]);
    }
    table_print(&table);
    if (json_array_size(json_object_get(item, "jobs")) > 0) {
        printf("\n");
        print_keepers(json_object_get(item, "jobs"));
    }
}

/* ---- checkpoints, recoveries, attempts ------------------------------------------------------- */

/* "newest usable; lacks scheduler; all hashes read again on gpu-0001; before lr change". */
static void checkpoint_note(struct table *table, const json_t *one)
{
    const json_t *errand = json_object_get(one, "errand");
    const char *texts[] = {truth(one, "newest_usable") ? "newest usable" : "", member(one, "note"),
                           member(one, "pinned_why")};
    struct buf text;
    size_t index;
    json_t *part;
    buf_init(&text, 4096);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (texts[i][0] != '\0') {
            (void)!buf_printf(&text, "%s%s", text.size > 0 ? "; " : "", texts[i]);
        }
    }
    json_array_foreach(json_object_get(one, "missing_parts"), index, part)
    {
        (void)!buf_printf(&text, "%s%s",
                          index > 0       ? ", "
                          : text.size > 0 ? "; lacks "
                                          : "lacks ",
                          json_string_value(part));
    }
    if (json_is_object(errand)) {
        long long total = number(errand, "bytes");
        (void)!buf_printf(
            &text, "%s%s on %s, %lld %%", text.size > 0 ? "; " : "",
            text_equal(member(errand, "task"), "verify") ? "being verified" : "being removed",
            member(errand, "node"),
            total > 0 ? (long long)((double)number(errand, "bytes_done") * 100.0 / (double)total)
                      : 0);
    }
    table_text(table, text.size > 0 ? buf_text(&text) : "-");
    buf_done(&text);
}

static void print_checkpoints(const struct cli *cli, const json_t *items)
{
    (void)cli;
    static const char *const heads[] = {">STEP",  "STATE",  ">ATTEMPT", ">AGE", ">TOOK",
                                        ">STALL", ">BYTES", "PINNED",   "NOTE"};
    char a[TEXT];
    struct table table;
    size_t index;
    json_t *one;
    table_init(&table, ARRAY_SIZE(heads), heads);
    json_array_foreach(items, index, one)
    {
        table_member(&table, one, "step");
        table_member(&table, one, "state");
        table_member(&table, one, "attempt");
        table_text(&table, ago_of(one, "time", a, sizeof a));
        table_text(&table, seconds_of(one, "took_seconds", a, sizeof a));
        table_text(&table, seconds_of(one, "stall_seconds", a, sizeof a));
        table_member(&table, one, "bytes");
        table_member(&table, one, "pinned_by");
        checkpoint_note(&table, one);
    }
    table_print(&table);
}

static void phase_cell(struct table *table, const json_t *recovery, const char *name)
{
    size_t index;
    json_t *phase;
    json_array_foreach(json_object_get(recovery, "phases"), index, phase)
    {
        if (text_equal(member(phase, "name"), name)) {
            table_cell(table, "%.2fs", (double)number(phase, "ms") / 1000.0);
            return;
        }
    }
    table_cell(table, "-");
}

void print_recoveries(const struct cli *cli, const json_t *items)
{
    static const char *const phase_names[] = {"detect", "stop", "plan",    "check",
                                              "launch", "init", "restore", "first_step"};
    static const char *const heads[] = {"ID",          "CAUSE",  "BLAMED",  ">DETECT", ">STOP",
                                        ">PLAN",       ">CHECK", ">LAUNCH", ">INIT",   ">RESTORE",
                                        ">FIRST_STEP", ">TOTAL", ">LOST",   ">MOVED",  "OUTCOME"};
    (void)cli;
    struct table table;
    size_t index;
    json_t *one;
    table_init(&table, ARRAY_SIZE(heads), heads);
    json_array_foreach(items, index, one)
    {
        const char *who = json_string_value(json_array_get(json_object_get(one, "blamed"), 0));
        table_member(&table, one, "id");
        table_member(&table, one, "cause");
        table_text(&table, who != NULL ? who : "-");
        for (size_t i = 0; i < ARRAY_SIZE(phase_names); i++) {
            phase_cell(&table, one, phase_names[i]);
        }
        table_cell(&table, "%.2fs", (double)number(one, "took_ms") / 1000.0);
        table_member(&table, one, "lost_steps");
        table_member(&table, one, "moved_nodes");
        table_member(&table, one, "outcome");
    }
    table_print(&table);
}

static void print_attempts(const struct cli *cli, const json_t *items)
{
    static const char *const heads[] = {">ATTEMPT", "RECOVERY",   ">RESTORED", ">LAUNCHED",
                                        ">ENDED",   ">LAST_STEP", "REACHED",   "ADDRESS"};
    (void)cli;
    char a[TEXT];
    struct table table;
    size_t index;
    json_t *one;
    table_init(&table, ARRAY_SIZE(heads), heads);
    json_array_foreach(items, index, one)
    {
        table_member(&table, one, "attempt");
        table_member(&table, one, "recovery");
        table_member(&table, one, "restore_step");
        table_text(&table, ago_of(one, "launched", a, sizeof a));
        table_text(&table, ago_of(one, "ended", a, sizeof a));
        table_member(&table, one, "last_step");
        table_member(&table, one, "reached");
        table_member(&table, one, "address");
    }
    table_print(&table);
}

/* ---- the verb -------------------------------------------------------------------------------- */

struct object {
    const char *name;
    const char *singular;
    bool needs_job;
    const char *key; /* for -o name */
    void (*print)(const struct cli *cli, const json_t *items);
    const char *flags; /* that make sense here */
};

static const struct object objects[] = {
    {"jobs", "job", false, "name", print_jobs, "state|user|all|limit"},
    {"nodes", "node", false, "name", print_nodes, "state|job|problems|limit"},
    {"spares", "spare", false, "nodes", print_spares, ""},
    {"checkpoints", "checkpoint", true, "directory", print_checkpoints, "state|limit"},
    {"recoveries", "recovery", false, "id", print_recoveries, "job|limit"},
    {"attempts", "attempt", true, "attempt", print_attempts, "limit"},
};

static const struct object *find_object(const char *word)
{
    const char *names[ARRAY_SIZE(objects)];
    for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
        names[i] = objects[i].name;
        if (text_equal(word, objects[i].name) || text_equal(word, objects[i].singular)) {
            return &objects[i];
        }
    }
    const char *closest = text_closest(word, names, ARRAY_SIZE(names));
    (void)say_usage("get %s: jobs, nodes, spares, checkpoints, recoveries or attempts%s%s%s", word,
                    closest != NULL ? "; did you mean " : "", closest != NULL ? closest : "",
                    closest != NULL ? "?" : "");
    return NULL;
}

/* The words after the object as one hostlist; "node/" and "job/" in front of a name are dropped. */
static void join_names(const struct cli *cli, struct buf *names)
{
    for (uint32_t i = 2; i < cli->count; i++) {
        const char *word = cli->words[i];
        word += strncmp(word, "node/", 5) == 0 ? 5 : strncmp(word, "job/", 4) == 0 ? 4 : 0;
        (void)!buf_printf(names, "%s%s", i > 2 ? "," : "", word);
    }
}

static void build_path(const struct cli *cli, const struct object *object, const char *names,
                       const char *cursor, struct buf *path)
{
    bool nodes = text_equal(object->name, "nodes");
    bool recoveries = text_equal(object->name, "recoveries");
    if (object->needs_job) {
        path_start(path, "/v1/jobs/", names, "/");
    } else {
        path_start(path, "/v1/", "", ""); /* names are filters here */
    }
    (void)!buf_printf(path, "%s", object->name);
    path_add(path, nodes ? "names" : recoveries ? "job" : "name", object->needs_job ? "" : names);
    path_add(path, "job", recoveries && names[0] != '\0' ? "" : cli->job);
    path_add(path, "problems", cli->problems ? "true" : "");
    path_add(path, "state", cli->state);
    path_add(path, "user", cli->user);
    path_add(path, "all", cli->all ? "true" : "");
    path_add(path, "limit", cli->limit != NULL ? cli->limit : nodes ? "1000" : "");
    path_add(path, "cursor", cursor);
}

/* Adds the items of the pages after the first, unless the first was asked for as it is. */
static int get_rest(struct cli *cli, const struct object *object, const char *names, json_t *first)
{
    char cursor[64];
    text_copy(cursor, sizeof cursor, member(first, "next"));
    for (int i = 0; i < PAGES_MAX && cursor[0] != '\0'; i++) {
        struct buf path;
        struct answer answer;
        build_path(cli, object, names, cursor, &path);
        int code = path_get(cli, &path, &answer);
        if (code != EXIT_DONE) {
            return code;
        }
        (void)json_array_extend(json_object_get(first, "items"),
                                json_object_get(answer.json, "items")); /* -1: no list */
        text_copy(cursor, sizeof cursor, member(answer.json, "next"));
        answer_done(&answer);
    }
    return EXIT_DONE;
}

static void print_names(const json_t *items, const char *key)
{
    char text[1024];
    size_t index;
    json_t *one;
    json_array_foreach(items, index, one)
    {
        printf("%s\n", text_of(one, key, text, sizeof text));
    }
}

/* A job that is asked for by name must be there; the controller knows what it may have meant. */
static int say_missing(struct cli *cli, const char *name)
{
    struct buf path;
    struct answer answer;
    path_start(&path, "/v1/jobs/", name, "");
    int code = path_get(cli, &path, &answer);
    if (code == EXIT_DONE) {
        answer_done(&answer);
        (void)say_usage("%s is not in that state, or of another user", name);
        return EXIT_NO_SUCH;
    }
    return code;
}

static int by_name(const void *a, const void *b, const void *context)
{
    (void)context;
    const json_t *const *one = a;
    const json_t *const *other = b;
    return text_order(member(*one, "name"), member(*other, "name"));
}

/* Nodes come in the order in which they joined; people look for names. New. */
static json_t *sorted(const json_t *items)
{
    size_t count = json_array_size(items);
    json_t **list = mem_alloc(count + 1, sizeof *list);
    json_t *result = json_array();
    for (size_t i = 0; i < count; i++) {
        list[i] = json_array_get(items, i);
    }
    sort_any(list, count, sizeof *list, by_name, NULL);
    for (size_t i = 0; i < count; i++) {
        json_array_append(result, list[i]);
    }
    mem_free(list);
    return result;
}

static void print_items(struct cli *cli, const struct object *object, const struct answer *answer)
{
    json_t *all = json_object_get(answer->json, "items");
    json_t *items = text_equal(object->name, "nodes") ? sorted(all) : json_incref(all);
    if (cli->output == OUTPUT_NAME) {
        print_names(items, object->key);
    } else {
        object->print(cli, items);
    }
    json_decref(items);
}

static int show(struct cli *cli, const struct object *object, const char *names,
                const struct answer *answer)
{
    const json_t *items = json_object_get(answer->json, "items");
    bool none = json_array_size(items) == 0;
    if (!say_json(cli, answer)) {
        print_items(cli, object, answer);
    }
    if (none && text_equal(object->name, "jobs") && names[0] != '\0') {
        return say_missing(cli, names);
    }
    if (none && !cli->quiet) {
        fprintf(stderr, "no %s\n", object->name);
    }
    return EXIT_DONE;
}

static int get(struct cli *cli, const struct object *object, const char *names)
{
    struct buf path;
    struct answer answer;
    build_path(cli, object, names, "", &path);
    int code = path_get(cli, &path, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (cli->output != OUTPUT_JSON && cli->limit == NULL) {
        code = get_rest(cli, object, names, answer.json);
    }
    code = code == EXIT_DONE ? show(cli, object, names, &answer) : code;
    answer_done(&answer);
    return code;
}

int verb_get(struct cli *cli)
{
    struct buf names;
    if (cli->count < 2) {
        return say_usage("get what? jobs, nodes, spares, checkpoints, recoveries, attempts");
    }
    const struct object *object = find_object(cli->words[1]);
    if (object == NULL || flags_check(cli, "get", object->flags) != EXIT_DONE) {
        return EXIT_USAGE;
    }
    bool nodes = text_equal(object->name, "nodes");
    if (object->needs_job && cli->count < 3) {
        return say_usage("get %s JOB: of which job?", object->name);
    }
    if (!nodes && cli->count > 3) {
        return say_usage("get %s takes one name", object->name);
    }
    buf_init(&names, CLI_PATH_MAX / 4);
    join_names(cli, &names);
    int code = names.overflow ? say_usage("the names are too long; fold them: gpu-[0001-0099]")
                              : get(cli, object, buf_text(&names));
    buf_done(&names);
    return code;
}
