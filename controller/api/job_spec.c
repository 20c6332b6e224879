/* job_spec.c: see job_spec.h. After the table has checked each key, what hangs together is checked
 * here: the layout must multiply out, paths must be absolute, lists must not contradict. A check
 * whose keys were found faulty already is left out: its values would be defaults. */
#include "controller/api/job_spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/core/layout.h"
#include "proto/base/check.h"
#include "proto/base/hostlist.h"
#include "proto/base/log.h"
#include "proto/base/step_pattern.h"
#include "proto/base/text.h"

enum { MARKER_SIZE = 128 };

/* What all checks work on. */
struct draft {
    json_t *tree; /* owned by the caller */
    struct job_spec spec;
    struct config_report *report;
};

static void complain(const struct draft *draft, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(const struct draft *draft, const char *path, const char *format, ...)
{
    char text[sizeof(((struct config_problem *)NULL)->text)];
    va_list arguments;
    va_start(arguments, format);
    (void)text_sentence_list(text, sizeof text, format, arguments);
    va_end(arguments);
    config_problem_add(draft->report, config_line(draft->tree, path),
                       config_column(draft->tree, path), path, "", "%s", text);
}

static bool is_sound(const struct draft *draft, const char *path)
{
    return !config_has_problem(draft->report, path);
}

/* False when the whole group is missing, or is no group. */
static bool is_there(const struct draft *draft, const char *group)
{
    for (size_t i = 0; i < draft->report->count; i++) {
        if (text_equal(draft->report->problems[i].path, group)) {
            return false;
        }
    }
    return true;
}

static uint32_t small(const struct draft *draft, const char *path)
{
    return (uint32_t)config_int(draft->tree, path); /* the table's maxima are far below 2^32 */
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* The numbers are the file's own: the group is there, and no value of it was refused. */
static bool layout_is_given(const struct draft *draft)
{
    static const char *const paths[] = {"layout.tensor", "layout.context", "layout.pipeline",
                                        "layout.data",   "layout.order",   "layout.ranks_per_node"};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        if (!is_sound(draft, paths[i])) {
            return false;
        }
    }
    return is_there(draft, "layout");
}

static void check_layout(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    spec->tensor = small(draft, "layout.tensor");
    spec->context = small(draft, "layout.context");
    spec->pipeline = small(draft, "layout.pipeline");
    spec->data = small(draft, "layout.data");
    spec->ranks_per_node = small(draft, "layout.ranks_per_node");
    text_copy(spec->order, sizeof spec->order, config_text(draft->tree, "layout.order"));
    struct layout_shape shape = {.tensor = spec->tensor,
                                 .context = spec->context,
                                 .pipeline = spec->pipeline,
                                 .data = spec->data,
                                 .ranks_per_node = spec->ranks_per_node};
    uint32_t world;
    uint32_t slots;
    struct err err = {0};
    text_copy(shape.order, sizeof shape.order, spec->order);
    if (layout_is_given(draft) && layout_check_shape(&shape, &world, &slots, &err) < 0) {
        complain(draft, "layout", "%s", err.text);
    }
}

/* ---- what runs ------------------------------------------------------------------------------- */

static void check_absolute(const struct draft *draft, const char *path)
{
    const char *text = config_text(draft->tree, path);
    if (text[0] != '\0' && text[0] != '/') {
        complain(draft, path, "must be an absolute path, not '%.64s'", text);
    }
}

static void check_variable(const struct draft *draft, const char *path, const char *name)
{
    if (name[0] == '\0' || strchr(name, '=') != NULL) {
        complain(draft, path, "'%.64s' is not the name of a variable", name);
    }
}

static void check_environment(const struct draft *draft)
{
    const char *name;
    json_t *value;
    size_t index;
    json_object_foreach((json_t *)(uintptr_t)config_get(draft->tree, "run.env"), name, value)
    {
        check_variable(draft, "run.env", name);
    }
    json_array_foreach(config_get(draft->tree, "run.inherit_env"), index, value)
    {
        check_variable(draft, "run.inherit_env", json_string_value(value));
    }
    json_array_foreach(config_get(draft->tree, "run.compat"), index, value)
    {
        if (!text_equal(json_string_value(value), "slurm")) {
            complain(draft, "run.compat", "'%.64s' is not known: slurm is",
                     json_string_value(value));
        }
    }
}

static void check_command(struct draft *draft)
{
    const json_t *command = config_get(draft->tree, "run.command");
    const char *program = json_string_value(json_array_get(command, 0));
    if (program != NULL && program[0] == '\0') {
        complain(draft, "run.command", "the program's name is empty");
    }
    const char *umask = config_text(draft->tree, "run.umask");
    size_t digits = strspn(umask, "01234567");
    if (umask[digits] != '\0' || digits == 0 || digits > 4 || (digits == 4 && umask[0] != '0')) {
        complain(draft, "run.umask", "'%.16s' is not an octal umask; write \"0027\"", umask);
    }
    if (config_text(draft->tree, "run.workdir")[0] == '\0') {
        complain(draft, "run.workdir", "must be an absolute path");
    }
    check_absolute(draft, "run.workdir");
    check_absolute(draft, "run.env_file");
    check_absolute(draft, "run.output");
    check_environment(draft);
}

/* Agents do not know who submitted, so the user is always in the tree. */
static void check_user(struct draft *draft, const char *submitter)
{
    const char *user = config_text(draft->tree, "run.user");
    bool given = user[0] != '\0';
    if (!is_there(draft, "run") || !is_sound(draft, "run.user") ||
        !is_sound(draft, "run.allow_root")) {
        return;
    }
    user = given ? user : submitter;
    text_copy(draft->spec.user, sizeof draft->spec.user, user);
    if (user[0] == '\0') {
        complain(draft, "run.user", "is missing: the user that ranks run as");
        return;
    }
    if (text_equal(user, "root") && !config_bool(draft->tree, "run.allow_root")) {
        complain(draft, "run.user",
                 given ? "root needs run.allow_root: true"
                       : "you are root: name the user that ranks run as, or run.allow_root: true");
    }
    if (!given) {
        json_object_set_new(json_object_get(draft->tree, "run"), "user", json_string(user));
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int visit_nothing(const char *name, void *context)
{
    (void)name;
    (void)context;
    return 0;
}

static void check_placement(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    struct err err = {0};
    const char *exclude = config_text(draft->tree, "placement.exclude");
    text_copy(spec->pool, sizeof spec->pool, config_text(draft->tree, "placement.pool"));
    if (!text_copy(spec->exclude, sizeof spec->exclude, exclude)) {
        complain(draft, "placement.exclude", "at most %zu characters; fold it: gpu-[0001-0016]",
                 sizeof spec->exclude - 1);
    } else if (exclude[0] != '\0' && hostlist_each(exclude, visit_nothing, NULL, &err) < 0) {
        complain(draft, "placement.exclude", "%s", err.text);
    }
}

static void check_restore(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const char *restore = config_text(draft->tree, "checkpoint.restore");
    if (text_equal(restore, "latest-complete")) {
        spec->restore_policy = RESTORE_LATEST_COMPLETE;
    } else if (text_equal(restore, "latest-verified")) {
        spec->restore_policy = RESTORE_LATEST_VERIFIED;
    } else if (text_to_u64(restore, INT64_MAX, &spec->restore_fixed_step) == 0) {
        spec->restore_policy = RESTORE_FIXED_STEP;
    } else {
        complain(draft, "checkpoint.restore",
                 "'%.32s': write latest-complete, latest-verified or a step number", restore);
    }
    check_absolute(draft, "checkpoint.dir");
}

/* A plain file name: it is looked for in folders that others write. */
static void check_marker(const struct draft *draft, bool wanted)
{
    const char *marker = config_text(draft->tree, "checkpoint.marker");
    if (wanted && marker[0] == '\0') {
        complain(draft, "checkpoint.marker", "is missing: format marker needs the file's name");
    } else if (!wanted && marker[0] != '\0') {
        complain(draft, "checkpoint.marker", "is for format marker alone");
    } else if (strchr(marker, '/') != NULL || text_equal(marker, ".") || text_equal(marker, "..") ||
               strlen(marker) >= MARKER_SIZE) {
        complain(draft, "checkpoint.marker", "'%.64s' is not the name of a file", marker);
    }
}

static void check_format(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const char *format = config_text(draft->tree, "checkpoint.format");
    bool has_folder = config_text(draft->tree, "checkpoint.dir")[0] != '\0';
    bool has_reader = config_text(draft->tree, "checkpoint.reader")[0] != '\0';
    bool command = text_equal(format, "command");
    if (!is_sound(draft, "checkpoint.format") || !is_sound(draft, "checkpoint.dir")) {
        return;
    }
    for (uint8_t i = 0; has_folder && i < save_reader_count; i++) {
        spec->reader = text_equal(format, save_reader_words[i]) ? i : spec->reader;
    }
    if (!has_folder && !text_equal(format, "keepstep")) {
        complain(draft, "checkpoint.dir", "is missing: format %s is found by looking there",
                 format);
    }
    if (command != has_reader) {
        complain(draft, "checkpoint.reader",
                 command ? "is missing: format command needs its name"
                         : "is for format command alone");
    }
    check_marker(draft, text_equal(format, "marker"));
    spec->keep_last = small(draft, "checkpoint.keep_last");
    const json_t *every = config_get(draft->tree, "checkpoint.keep_every");
    spec->keep_every_ms = json_is_integer(every) ? (uint64_t)json_integer_value(every) : 0;
    if (spec->keep_last > 0 && !text_equal(format, "keepstep")) {
        complain(draft, "checkpoint.keep_last",
                 "needs format keepstep: other formats do not say whose a folder is");
    }
    if (spec->keep_every_ms > 0 && spec->keep_last == 0) {
        complain(draft, "checkpoint.keep_every", "needs keep_last: without it nothing is removed");
    }
}

static void fill_codes(const struct draft *draft, const char *path, int32_t codes[EXIT_CODES_MAX])
{
    const json_t *list = config_get(draft->tree, path);
    for (size_t i = 0; i < json_array_size(list) && i < EXIT_CODES_MAX; i++) {
        json_int_t code = json_integer_value(json_array_get(list, i));
        if (code < 1 || code > 255) {
            complain(draft, path, "%lld is not an exit code: 1 to 255", (long long)code);
            return;
        }
        codes[i] = (int32_t)code;
    }
}

static void check_codes(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    fill_codes(draft, "recovery.restart_exit_codes", spec->restart_codes);
    fill_codes(draft, "recovery.no_restart_exit_codes", spec->final_codes);
    for (size_t i = 0; i < EXIT_CODES_MAX && spec->restart_codes[i] != 0; i++) {
        for (size_t k = 0; k < EXIT_CODES_MAX; k++) {
            if (spec->final_codes[k] == spec->restart_codes[i]) {
                complain(draft, "recovery.no_restart_exit_codes",
                         "%d is in restart_exit_codes too: it is one or the other",
                         spec->final_codes[k]);
            }
        }
    }
}

/* Where steps come from. The agents compile the pattern as it is done here. */
static void check_progress(struct draft *draft)
{
    const char *progress = config_text(draft->tree, "hang.progress");
    const char *text = config_text(draft->tree, "hang.log_pattern");
    const bool alone = text_equal(progress, "log");
    struct step_pattern *pattern = NULL;
    struct err err = {0};
    draft->spec.watch_progress = !text_equal(progress, "none");
    if (!is_sound(draft, "hang.progress") || !is_sound(draft, "hang.log_pattern")) {
        return;
    }
    if (text[0] == '\0') {
        if (alone) {
            complain(
                draft, "hang.log_pattern",
                "is missing: progress log needs it; write 'step (\\d+)', as the program prints");
        }
        return;
    }
    if (step_pattern_compile(text, &pattern, &err) != 0) {
        complain(draft, "hang.log_pattern", "'%.64s': %s", text, err.text);
        return;
    }
    (void)step_pattern_free(pattern);
    if (alone || text_equal(progress, "auto")) {
        draft->spec.log_steps = alone ? LOG_STEPS_ALONE : LOG_STEPS_ELSE;
    }
}

static void fill_interval(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const json_t *interval = config_get(draft->tree, "checkpoint.interval");
    spec->save_auto = json_is_string(interval);
    spec->save_interval_ms = json_is_integer(interval) ? (uint64_t)json_integer_value(interval) : 0;
}

static void fill_spares(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const json_t *reserve = config_get(draft->tree, "spares.reserve");
    spec->reserve_auto = json_is_string(reserve);
    spec->reserve = json_is_integer(reserve) ? small(draft, "spares.reserve") : 0;
    spec->min_ready = small(draft, "spares.min_ready");
}

static void fill_times(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const json_t *timeout = config_get(draft->tree, "hang.step_timeout");
    spec->drain_wait_ms = (uint64_t)config_int(draft->tree, "checkpoint.drain_wait");
    spec->stop_grace_ms = small(draft, "signals.stop_grace");
    spec->recovery_grace_ms = small(draft, "signals.recovery_grace");
    spec->start_timeout_ms = (uint64_t)config_int(draft->tree, "recovery.start_timeout");
    spec->init_timeout_ms = (uint64_t)config_int(draft->tree, "recovery.init_timeout");
    spec->first_step_ms = (uint64_t)config_int(draft->tree, "hang.first_step");
    spec->step_timeout_ms = json_is_integer(timeout) ? (uint64_t)json_integer_value(timeout) : 0;
}

static void fill_rest(struct draft *draft)
{
    struct job_spec *spec = &draft->spec;
    const json_t *tree = draft->tree;
    spec->revision = 1;
    text_copy(spec->name, sizeof spec->name, config_text(tree, "name"));
    spec->priority = small(draft, "priority");
    spec->on_exhausted = text_equal(config_text(tree, "spares.on_exhausted"), "fail")
                             ? EXHAUSTED_FAIL
                             : EXHAUSTED_WAIT;
    spec->save_on_drain = text_equal(config_text(tree, "checkpoint.on_drain"), "request");
    spec->max_lost = (uint64_t)config_int(tree, "checkpoint.max_lost");
    spec->retries_user = small(draft, "recovery.retries.user");
    spec->retries_unknown = small(draft, "recovery.retries.unknown");
    spec->no_progress_limit = small(draft, "recovery.no_progress_limit");
    spec->same_node_limit = small(draft, "recovery.same_node_limit");
    spec->warmup_steps = small(draft, "hang.warmup_steps");
}

static void check_size(const struct draft *draft)
{
    size_t size = json_dumpb(draft->tree, NULL, 0, JOB_SPEC_DUMP);
    if (size >= SPEC_TEXT_MAX) {
        config_problem_add(draft->report, 1, 1, "", "",
                           "the job file is %zu bytes with its defaults, at most %d fit; move "
                           "environment into run.env_file",
                           size, SPEC_TEXT_MAX - 1);
    }
}

/* tree is taken; NULL when the document could not be read. */
static int finish(json_t *tree, const char *submitter, json_t **ret_tree, struct job_spec *ret_spec,
                  struct config_report *report)
{
    if (tree == NULL) {
        return -EINVAL;
    }
    struct draft draft = {.tree = tree, .report = report};
    check_layout(&draft);
    check_command(&draft);
    check_user(&draft, submitter);
    check_placement(&draft);
    check_restore(&draft);
    check_format(&draft);
    check_codes(&draft);
    check_progress(&draft);
    fill_interval(&draft);
    fill_spares(&draft);
    fill_times(&draft);
    fill_rest(&draft);
    config_lines_drop(tree);
    check_size(&draft);
    if (report->total > 0) {
        json_decref(tree);
        return -EINVAL;
    }
    *ret_tree = tree;
    *ret_spec = draft.spec;
    return 0;
}

int job_spec_from_yaml(const char *text, size_t size, const char *submitter, json_t **ret_tree,
                       struct job_spec *ret_spec, struct config_report *report)
{
    size_t count;
    const struct config_key *keys = job_spec_keys(&count);
    json_t *tree = NULL;
    (void)!config_read_yaml(text, size, keys, count, &tree, report); /* the report says it too */
    return finish(tree, submitter, ret_tree, ret_spec, report);
}

int job_spec_from_json(const json_t *json, const char *submitter, json_t **ret_tree,
                       struct job_spec *ret_spec, struct config_report *report)
{
    size_t count;
    const struct config_key *keys = job_spec_keys(&count);
    json_t *tree = NULL;
    (void)!config_read_json(json, keys, count, &tree, report); /* the report says it too */
    return finish(tree, submitter, ret_tree, ret_spec, report);
}

json_t *job_spec_masked(const json_t *tree)
{
    json_t *copy = json_deep_copy(tree);
    json_t *env = json_object_get(json_object_get(copy, "run"), "env");
    const char *key;
    json_t *value;
    json_object_foreach(env, key, value)
    {
        if (log_is_secret(key)) {
            json_string_set(value, "***");
        }
    }
    return copy;
}
