/* launch_spec.c: torchrun's environment and ours, around the job's command.
 *
 * Order of the environment, later wins: the user's HOME, USER …, run.inherit_env, run.env_file,
 * run.env, then what torchrun sets, then KEEPSTEP_*. Placeholders are expanded in run.command and
 * run.output; ${VAR} is the business of a shell that the job itself may start. */
#include "agent/io/launch_spec.h"

#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/config.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

enum {
    ENV_MAX = 1024,
    TEXTS_MAX = 16384,
    TEXT_MAX = SHIM_TEXT_MAX,
    UMASK_DEFAULT = 0027,
    NSS_SIZE = 16384,
};

struct launch_spec {
    json_t *tree;
};

/* ---- reading the tree ------------------------------------------------------------------------- */

int launch_spec_parse(const char *text, size_t size, struct launch_spec **ret_spec, struct err *err)
{
    json_error_t error;
    json_t *tree = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(tree)) {
        json_decref(tree);
        return err_set(err, -EINVAL, "the job file that came with the order is not readable: %s",
                       tree == NULL ? error.text : "not a map");
    }
    struct launch_spec *spec = mem_alloc(1, sizeof(*spec));
    spec->tree = tree;
    *ret_spec = spec;
    return 0;
}

struct launch_spec *launch_spec_free(struct launch_spec *spec)
{
    if (spec != NULL) {
        json_decref(spec->tree);
    }
    return mem_free(spec);
}

static const json_t *get(const struct launch_spec *spec, const char *group, const char *key)
{
    return json_object_get(json_object_get(spec->tree, group), key);
}

static const char *get_text(const struct launch_spec *spec, const char *group, const char *key)
{
    const char *text = json_string_value(get(spec, group, key));
    return text != NULL ? text : "";
}

const char *launch_spec_env_file(const struct launch_spec *spec)
{
    return get_text(spec, "run", "env_file");
}

const char *launch_spec_checkpoint_dir(const struct launch_spec *spec)
{
    return get_text(spec, "checkpoint", "dir");
}

const char *launch_spec_checkpoint_format(const struct launch_spec *spec)
{
    const char *format = get_text(spec, "checkpoint", "format");
    return format[0] != '\0' ? format : "keepstep";
}

const char *launch_spec_checkpoint_marker(const struct launch_spec *spec)
{
    return get_text(spec, "checkpoint", "marker");
}

const char *launch_spec_checkpoint_reader(const struct launch_spec *spec)
{
    return get_text(spec, "checkpoint", "reader");
}

uint64_t launch_spec_model_parts(const struct launch_spec *spec)
{
    const json_int_t tensor = json_integer_value(get(spec, "layout", "tensor"));
    const json_int_t pipeline = json_integer_value(get(spec, "layout", "pipeline"));
    const bool known = tensor > 0 && pipeline > 0 && tensor <= UINT16_MAX && pipeline <= UINT16_MAX;
    return known ? (uint64_t)tensor * (uint64_t)pipeline : 0;
}

/* ---- the user ----------------------------------------------------------------------------------- */

static int find_user(const char *name, struct passwd *entry, char buffer[NSS_SIZE], struct err *err)
{
    struct passwd *found = NULL;
    const int code = name[0] != '\0' ? getpwnam_r(name, entry, buffer, NSS_SIZE, &found)
                                     : getpwuid_r(geteuid(), entry, buffer, NSS_SIZE, &found);
    if (code != 0 || found == NULL) {
        return err_set(err, code != 0 ? -code : -ENOENT, "run.user: no user '%s' on this node",
                       name);
    }
    return 0;
}

int launch_spec_user(const struct launch_spec *spec, struct launch_user *ret_user, struct err *err)
{
    char buffer[NSS_SIZE];
    struct passwd entry;
    const int r = find_user(get_text(spec, "run", "user"), &entry, buffer, err);
    if (r != 0) {
        return r;
    }
    if (geteuid() != 0 && entry.pw_uid != geteuid()) {
        return err_set(err, -EPERM, "run.user: this agent is not root and cannot become '%s'",
                       entry.pw_name);
    }
    if (entry.pw_uid == 0 && !json_is_true(get(spec, "run", "allow_root"))) {
        return err_set(err, -EPERM, "run.user: root is refused without run.allow_root");
    }
    struct launch_user user = {.uid = entry.pw_uid, .gid = entry.pw_gid};
    (void)text_copy(user.name, sizeof(user.name), entry.pw_name);
    (void)text_copy(user.home, sizeof(user.home), entry.pw_dir);
    (void)text_copy(user.shell, sizeof(user.shell), entry.pw_shell);
    gid_t groups[SHIM_GROUPS_MAX];
    int count = SHIM_GROUPS_MAX;
    if (getgrouplist(entry.pw_name, entry.pw_gid, groups, &count) < 0) {
        return err_set(err, -EINVAL, "run.user: '%s' is in more than %d groups", entry.pw_name,
                       SHIM_GROUPS_MAX);
    }
    for (int i = 0; i < count; i++) {
        user.groups[i] = groups[i];
    }
    user.group_count = (uint32_t)count;
    *ret_user = user;
    return 0;
}

/* ---- texts that live as long as the plan ---------------------------------------------------------- */

static const char *keep(struct launch_plan *plan, char *text)
{
    if (plan->text_count == plan->text_capacity) {
        plan->text_capacity = plan->text_capacity > 0 ? 2 * plan->text_capacity : 128;
        CHECK(plan->text_capacity <= TEXTS_MAX);
        plan->texts = mem_grow(plan->texts, plan->text_capacity, sizeof(plan->texts[0]));
    }
    plan->texts[plan->text_count++] = text;
    return text;
}

__attribute__((format(printf, 2, 3))) static const char *keep_format(struct launch_plan *plan,
                                                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(size >= 0);
    char *text = mem_alloc((size_t)size + 1, 1);
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)size + 1, format, arguments); /* fits: just measured */
    va_end(arguments);
    return keep(plan, text);
}

static const char **keep_list(struct launch_plan *plan, size_t count)
{
    return (const char **)(uintptr_t)keep(plan, mem_alloc(count + 1, sizeof(char *)));
}

struct launch_plan *launch_plan_free(struct launch_plan *plan)
{
    if (plan != NULL) {
        for (size_t i = 0; i < plan->text_count; i++) {
            mem_free(plan->texts[i]);
        }
        mem_free(plan->texts);
    }
    return mem_free(plan);
}

/* ---- an environment under construction ------------------------------------------------------------ */

struct env {
    struct launch_plan *plan;
    uint32_t count;
    bool full;
    const char *items[ENV_MAX];
};

static bool same_key(const char *item, const char *key, size_t size)
{
    return strncmp(item, key, size) == 0 && item[size] == '=';
}

static const char *env_get(const struct env *env, const char *key)
{
    const size_t size = strlen(key);
    for (uint32_t i = 0; i < env->count; i++) {
        if (same_key(env->items[i], key, size)) {
            return env->items[i] + size + 1;
        }
    }
    return NULL;
}

static void env_set(struct env *env, const char *key, size_t key_size, const char *value)
{
    if (key_size == 0 || same_key("KEEPSTEP_COOKIE=", key, key_size)) {
        return;
    }
    const char *item = keep_format(env->plan, "%.*s=%s", (int)key_size, key, value);
    for (uint32_t i = 0; i < env->count; i++) {
        if (same_key(env->items[i], key, key_size)) {
            env->items[i] = item;
            return;
        }
    }
    if (env->count == ENV_MAX) {
        env->full = true;
        return;
    }
    env->items[env->count++] = item;
}

static void env_put(struct env *env, const char *key, const char *value)
{
    env_set(env, key, strlen(key), value);
}

static void env_number(struct env *env, const char *key, uint64_t value)
{
    char text[24];
    (void)text_format(text, sizeof(text), "%llu", (unsigned long long)value);
    env_put(env, key, text);
}

static void env_default(struct env *env, const char *key, const char *value)
{
    if (env_get(env, key) == NULL) {
        env_put(env, key, value);
    }
}

static void env_give(const struct env *env, struct shim_list *list)
{
    const char **items = keep_list(env->plan, env->count);
    memcpy(items, env->items, env->count * sizeof(items[0]));
    list->count = env->count;
    list->items = items;
}

/* ---- the common part --------------------------------------------------------------------------------- */

static void put_user(struct env *env, const struct launch_user *user)
{
    env_put(env, "PATH", "/usr/local/bin:/usr/bin:/bin");
    env_put(env, "HOME", user->home);
    env_put(env, "USER", user->name);
    env_put(env, "LOGNAME", user->name);
    env_put(env, "SHELL", user->shell);
}

static void put_inherited(struct env *env, const struct launch_spec *spec,
                          const char *const *environ_list)
{
    size_t index;
    json_t *name;
    json_array_foreach(get(spec, "run", "inherit_env"), index, name)
    {
        const char *key = json_string_value(name);
        if (key == NULL) {
            continue;
        }
        for (const char *const *at = environ_list; *at != NULL; at++) {
            if (same_key(*at, key, strlen(key))) {
                env_put(env, key, *at + strlen(key) + 1);
            }
        }
    }
}

/* KEY=value lines; blank lines and those that begin with # are passed over. */
static void put_env_text(struct env *env, const char *text)
{
    while (text != NULL && *text != '\0') {
        const size_t length = strcspn(text, "\n");
        const char *equals = memchr(text, '=', length);
        if (*text != '#' && equals != NULL) {
            const size_t size = length - (size_t)(equals - text) - 1;
            const char *value = keep_format(env->plan, "%.*s", (int)size, equals + 1);
            env_set(env, text, (size_t)(equals - text), value);
        }
        text += length + (text[length] == '\n');
    }
}

static int put_run_env(struct env *env, const struct launch_spec *spec, struct err *err)
{
    const char *key;
    json_t *value;
    json_t *map = json_object_get(json_object_get(spec->tree, "run"), "env");
    json_object_foreach(map, key, value)
    {
        if (!json_is_string(value)) {
            return err_set(err, -EINVAL, "run.env.%s is not a text", key);
        }
        env_put(env, key, json_string_value(value));
    }
    return 0;
}

static void put_torchrun(struct env *env, const struct launch_spec *spec,
                         const struct msg_desired *desired)
{
    const bool in_process = text_equal(get_text(spec, "recovery", "mode"), "in-process");
    env_number(env, "WORLD_SIZE", desired->world);
    env_number(env, "LOCAL_WORLD_SIZE", desired->rank_count);
    env_number(env, "GROUP_RANK", desired->slot);
    env_number(env, "GROUP_WORLD_SIZE", desired->slot_count);
    env_number(env, "ROLE_WORLD_SIZE", desired->world);
    env_put(env, "ROLE_NAME", "default");
    env_put(env, "MASTER_ADDR", desired->master_address);
    env_number(env, "MASTER_PORT", desired->master_port);
    if (desired->rank_count > 1) { /* a lone rank may use the whole node */
        env_default(env, "OMP_NUM_THREADS", "1");
    }
    env_put(env, "TORCHELASTIC_RUN_ID", desired->job_name);
    env_number(env, "TORCHELASTIC_RESTART_COUNT", desired->attempt);
    env_number(env, "TORCHELASTIC_MAX_RESTARTS", UINT16_MAX);
    env_put(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
    env_default(env, "NCCL_ASYNC_ERROR_HANDLING", in_process ? "0" : "1");
    env_default(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", in_process ? "0" : "1");
    if (in_process) {
        env_default(env, "NCCL_NVLS_ENABLE", "0");
        env_default(env, "TORCH_NCCL_RETHROW_CUDA_ERRORS", "0");
    }
}

static void put_keepstep(struct env *env, const struct launch_spec *spec,
                         const struct launch_input *input)
{
    const struct msg_desired *desired = input->desired;
    char restore[2 * PATH_SIZE];
    env_put(env, "KEEPSTEP_CLUSTER", input->cluster_id);
    env_put(env, "KEEPSTEP_JOB", desired->job_name);
    env_number(env, "KEEPSTEP_JOB_ID", desired->job);
    env_number(env, "KEEPSTEP_ATTEMPT", desired->attempt);
    env_put(env, "KEEPSTEP_NODE", input->node);
    env_number(env, "KEEPSTEP_RESTORE_STEP", desired->restore_step);
    env_number(env, "KEEPSTEP_RESTORE_ATTEMPT", desired->restore_attempt);
    launch_restore_directory(launch_spec_checkpoint_dir(spec), desired, restore, sizeof(restore));
    env_put(env, "KEEPSTEP_RESTORE_DIR", restore);
    env_put(env, "KEEPSTEP_CHECKPOINT_DIR", launch_spec_checkpoint_dir(spec));
    const json_t *log_max = get(spec, "run", "log_max");
    if (json_is_integer(log_max) && json_integer_value(log_max) > 0) {
        env_number(env, "KEEPSTEP_LOG_MAX", (uint64_t)json_integer_value(log_max));
    }
    const char *progress = get_text(spec, "hang", "progress");
    const char *pattern = get_text(spec, "hang", "log_pattern");
    const bool counts = text_equal(progress, "auto") || text_equal(progress, "log");
    if (counts && pattern[0] != '\0') { /* read back from the launch file: folders.h */
        env_put(env, "KEEPSTEP_LOG_PATTERN", pattern);
        env_put(env, "KEEPSTEP_PROGRESS", progress);
    }
}

static int build_common(const struct launch_spec *spec, const struct launch_user *user,
                        const struct launch_input *input, struct env *env, struct err *err)
{
    put_user(env, user);
    put_inherited(env, spec, input->environ);
    put_env_text(env, input->env_text);
    const int r = put_run_env(env, spec, err);
    if (r != 0) {
        return r;
    }
    put_torchrun(env, spec, input->desired);
    put_keepstep(env, spec, input);
    return env->full ? err_set(err, -E2BIG, "run.env: more than %d variables", ENV_MAX) : 0;
}

/* ---- one rank ------------------------------------------------------------------------------------------ */

static const uint32_t *dimension(const struct mailbox_coordinates *sizes, const char *word,
                                 size_t size)
{
    if (size != 2) {
        return NULL;
    }
    if (strncmp(word, "tp", 2) == 0) {
        return &sizes->tensor;
    }
    if (strncmp(word, "cp", 2) == 0) {
        return &sizes->context;
    }
    if (strncmp(word, "pp", 2) == 0) {
        return &sizes->pipeline;
    }
    return strncmp(word, "dp", 2) == 0 ? &sizes->data : NULL;
}

int launch_coordinates(const char *order, uint32_t rank, const struct mailbox_coordinates *sizes,
                       struct mailbox_coordinates *ret_coordinates)
{
    struct mailbox_coordinates at = {0};
    uint32_t seen = 0;
    uint32_t rest = rank;
    while (*order != '\0') {
        const size_t length = strcspn(order, "-");
        const uint32_t *width = dimension(sizes, order, length);
        if (width != NULL) {
            const ptrdiff_t index = width - &sizes->tensor;
            uint32_t *target = &at.tensor + index;
            if (*width == 0 || (seen & 1u << index) != 0) {
                return -EINVAL;
            }
            seen |= 1u << index;
            *target = rest % *width;
            rest /= *width;
        }
        order += length + (order[length] == '-');
    }
    if (seen != 15 || rest != 0) {
        return -EINVAL;
    }
    *ret_coordinates = at;
    return 0;
}

void launch_restore_directory(const char *checkpoint_dir, const struct msg_desired *desired,
                              char *target, size_t size)
{
    target[0] = '\0';
    if (desired->restore_step > 0 && desired->restore_directory[0] != '\0') {
        (void)text_copy(target, size, desired->restore_directory);
    } else if (checkpoint_dir[0] != '\0' && desired->restore_step > 0) {
        (void)text_format(target, size, "%s/step-%llu.a-%u", checkpoint_dir,
                          (unsigned long long)desired->restore_step, desired->restore_attempt);
    }
}

struct placeholders {
    const char *job;
    const char *node;
    const char *checkpoint_dir;
    const char *checkpoint_path;
    uint32_t attempt;
    uint32_t rank;
    uint32_t local_rank;
    uint64_t step;
};

/* The value of the placeholder at `text`, which begins with '{'; *ret_length is how much it covers,
 * 0 when it is none of ours. */
static const char *placeholder(const struct placeholders *values, const char *text, char number[24],
                               size_t *ret_length)
{
    static const char *const words[] = {"{job}",
                                        "{attempt}",
                                        "{node}",
                                        "{rank}",
                                        "{local_rank}",
                                        "{checkpoint.dir}",
                                        "{checkpoint.step}",
                                        "{checkpoint.path}"};
    const uint64_t numbers[] = {0, values->attempt, 0, values->rank, values->local_rank,
                                0, values->step,    0};
    *ret_length = 0;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strncmp(text, words[i], strlen(words[i])) != 0) {
            continue;
        }
        *ret_length = strlen(words[i]);
        if (i == 0) {
            return values->job;
        }
        if (i == 2) {
            return values->node;
        }
        if (i == 5) {
            return values->checkpoint_dir;
        }
        if (i == 7) {
            return values->checkpoint_path;
        }
        (void)text_format(number, 24, "%llu", (unsigned long long)numbers[i]);
        return number;
    }
    return "";
}

static const char *expand(struct launch_plan *plan, const struct placeholders *values,
                          const char *text)
{
    struct buf out;
    buf_init(&out, TEXT_MAX);
    int r = 0;
    while (*text != '\0' && r == 0) {
        char number[24];
        size_t length = 0;
        const char *value = *text == '{' ? placeholder(values, text, number, &length) : "";
        if (length > 0) {
            r = buf_put(&out, value, strlen(value));
            text += length;
        } else {
            r = buf_put(&out, text, 1);
            text++;
        }
    }
    const char *kept = r == 0 ? keep_format(plan, "%s", buf_text(&out)) : NULL;
    buf_done(&out);
    return kept;
}

static int build_argv(struct launch_plan *plan, const struct launch_spec *spec,
                      const struct placeholders *values, struct shim_list *ret_argv,
                      struct err *err)
{
    const json_t *command = get(spec, "run", "command");
    const size_t count = json_array_size(command);
    if (count == 0 || count > SHIM_LIST_MAX) {
        return err_set(err, -EINVAL, "run.command is empty or has more than %d words",
                       SHIM_LIST_MAX);
    }
    const char **items = keep_list(plan, count);
    for (size_t i = 0; i < count; i++) {
        const char *word = json_string_value(json_array_get(command, i));
        items[i] = word != NULL ? expand(plan, values, word) : NULL;
        if (items[i] == NULL) {
            return err_set(err, -EINVAL, "run.command: word %zu is no text, or is too long", i + 1);
        }
    }
    ret_argv->count = (uint32_t)count;
    ret_argv->items = items;
    return 0;
}

static void put_slurm(struct env *env, const struct launch_spec *spec,
                      const struct msg_desired *desired, uint32_t local_rank)
{
    size_t index;
    json_t *word;
    json_array_foreach(get(spec, "run", "compat"), index, word)
    {
        const char *text = json_string_value(word);
        if (text == NULL || !text_equal(text, "slurm")) {
            continue;
        }
        env_number(env, "SLURM_PROCID", desired->first_rank + local_rank);
        env_number(env, "SLURM_LOCALID", local_rank);
        env_number(env, "SLURM_NODEID", desired->slot);
        env_number(env, "SLURM_NTASKS", desired->world);
        env_number(env, "SLURM_RESTART_COUNT", desired->attempt);
    }
}

static void build_rank_env(struct env *env, const struct launch_spec *spec,
                           const struct launch_input *input, uint32_t local_rank)
{
    struct launch_plan *plan = env->plan;
    const struct msg_desired *desired = input->desired;
    const struct mailbox_coordinates *at = &plan->orders[local_rank].coordinates;
    const uint32_t rank = desired->first_rank + local_rank;
    env_number(env, "RANK", rank);
    env_number(env, "LOCAL_RANK", local_rank);
    env_number(env, "ROLE_RANK", rank);
    env_put(env, "TORCHELASTIC_ERROR_FILE", plan->error_files[local_rank]);
    env_number(env, "KEEPSTEP_TP_RANK", at->tensor);
    env_number(env, "KEEPSTEP_CP_RANK", at->context);
    env_number(env, "KEEPSTEP_PP_RANK", at->pipeline);
    env_number(env, "KEEPSTEP_DP_RANK", at->data);
    env_put(env, "KEEPSTEP_MAILBOX",
            keep_format(plan, "%s/%s", input->mail_dir, plan->mailboxes[local_rank]));
    put_slurm(env, spec, desired, local_rank);
}

static int build_order(struct launch_plan *plan, const struct launch_spec *spec,
                       const struct msg_desired *desired, uint32_t local_rank, struct err *err)
{
    struct mailbox_order *order = &plan->orders[local_rank];
    *order = (struct mailbox_order){
        .attempt = desired->attempt,
        .rank = desired->first_rank + local_rank,
        .world = desired->world,
        .local_rank = local_rank,
        .local_world = desired->rank_count,
        .slot = desired->slot,
        .slot_count = desired->slot_count,
        .sizes = {desired->tensor, desired->context, desired->pipeline, desired->data},
        .master_port = desired->master_port,
        .restore_attempt = desired->restore_attempt,
        .restore_step = desired->restore_step,
    };
    const char *directory = launch_spec_checkpoint_dir(spec);
    (void)text_copy(order->order, sizeof(order->order), desired->order);
    (void)text_copy(order->master_address, sizeof(order->master_address), desired->master_address);
    if (!text_copy(order->checkpoint_directory, sizeof(order->checkpoint_directory), directory)) {
        return err_set(err, -ENAMETOOLONG, "checkpoint.dir is longer than %d bytes",
                       MAILBOX_PATH_SIZE - 1);
    }
    launch_restore_directory(directory, desired, order->restore_directory,
                             sizeof(order->restore_directory));
    if (launch_coordinates(desired->order, order->rank, &order->sizes, &order->coordinates) != 0) {
        return err_set(err, -EINVAL, "rank %u has no place in the layout '%s'", order->rank,
                       desired->order);
    }
    return 0;
}

static int build_rank(struct launch_plan *plan, const struct launch_spec *spec,
                      const struct launch_input *input, uint32_t local_rank, struct env *env,
                      struct err *err)
{
    const struct msg_desired *desired = input->desired;
    struct shim_launch_rank *rank = &plan->launch.ranks[local_rank];
    rank->rank = desired->first_rank + local_rank;
    const struct placeholders values = {.job = desired->job_name,
                                        .node = input->node,
                                        .checkpoint_dir = launch_spec_checkpoint_dir(spec),
                                        .checkpoint_path =
                                            plan->orders[local_rank].restore_directory,
                                        .attempt = desired->attempt,
                                        .rank = rank->rank,
                                        .local_rank = local_rank,
                                        .step = desired->restore_step};
    int r = build_order(plan, spec, desired, local_rank, err);
    r = r == 0 ? build_argv(plan, spec, &values, &rank->argv, err) : r;
    if (r != 0) {
        return r;
    }
    plan->mailboxes[local_rank] =
        keep_format(plan, "job-%u.attempt-%u.rank-%u", desired->job, desired->attempt, rank->rank);
    plan->error_files[local_rank] =
        keep_format(plan, "%s/rank-%u.error.json", input->log_dir, rank->rank);
    const char *output = get_text(spec, "run", "output");
    plan->own_output = output[0] == '\0';
    rank->output = plan->own_output
                       ? keep_format(plan, "%s/rank-%u.log", input->log_dir, rank->rank)
                       : expand(plan, &values, output);
    if (rank->output == NULL) {
        return err_set(err, -EINVAL, "run.output is too long");
    }
    env->count = 0;
    build_rank_env(env, spec, input, local_rank);
    env_give(env, &rank->env);
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static int parse_umask(const char *text, uint32_t *ret_umask)
{
    uint32_t value = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '7' || value > 077) {
            return -EINVAL;
        }
        value = value * 8 + (uint32_t)(*text - '0');
    }
    *ret_umask = value;
    return 0;
}

static int build_process(struct launch_plan *plan, const struct launch_spec *spec,
                         const struct launch_user *user, const struct launch_input *input,
                         struct err *err)
{
    struct shim_launch *launch = &plan->launch;
    launch->job = input->desired->job;
    launch->attempt = input->desired->attempt;
    launch->uid = user->uid;
    launch->gid = user->gid;
    launch->group_count = user->group_count;
    memcpy(launch->groups, user->groups, sizeof(launch->groups));
    launch->allow_root = json_is_true(get(spec, "run", "allow_root"));
    launch->umask = UMASK_DEFAULT;
    const char *mask = get_text(spec, "run", "umask");
    if (mask[0] != '\0' && parse_umask(mask, &launch->umask) != 0) {
        return err_set(err, -EINVAL, "run.umask: '%s' is no octal number up to 0777", mask);
    }
    launch->core_bytes = json_is_true(get(spec, "run", "core")) ? UINT64_MAX : 0;
    const char *workdir = get_text(spec, "run", "workdir");
    launch->workdir = keep_format(plan, "%s", workdir[0] != '\0' ? workdir : user->home);
    launch->cgroup = keep_format(plan, "%s", input->cgroup);
    (void)text_copy(launch->cookie, sizeof(launch->cookie), input->cookie);
    launch->rank_count = input->desired->rank_count;
    return 0;
}

int launch_plan_build(const struct launch_spec *spec, const struct launch_user *user,
                      const struct launch_input *input, struct launch_plan **ret_plan,
                      struct err *err)
{
    struct launch_plan *plan = mem_alloc(1, sizeof(*plan));
    struct env *env = mem_alloc(1, sizeof(*env));
    env->plan = plan;
    int r = build_process(plan, spec, user, input, err);
    r = r == 0 ? build_common(spec, user, input, env, err) : r;
    if (r == 0) {
        env_give(env, &plan->launch.env);
    }
    for (uint32_t i = 0; r == 0 && i < plan->launch.rank_count; i++) {
        r = build_rank(plan, spec, input, i, env, err);
    }
    mem_free(env);
    if (r != 0) {
        (void)launch_plan_free(plan);
        return r;
    }
    *ret_plan = plan;
    return 0;
}
