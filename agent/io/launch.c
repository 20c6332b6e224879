/* launch.c: pool, helper, pool. Each order is an object that frees itself when it has told. */
#include "agent/io/launch.h"

#include <errno.h>
#include <string.h>

#include "agent/io/driver.h"
#include "agent/io/folders.h"
#include "agent/io/helper.h"
#include "agent/io/launch_spec.h"
#include "agent/io/specs.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

extern char **environ;

enum { ENV_FILE_MAX = 65536, ENV_FILE_MS = 10000 };

struct order {
    struct order *next;
    struct launcher *launcher;
    launcher_done *done;
    void *context;
    bool on_pool;
    struct msg_desired desired;
    char cluster_id[CLUSTER_ID_SIZE];
    char *spec_text;
    size_t spec_size;
    struct launch_spec *spec;
    struct launch_user user;
    char *env_text; /* NULL: none was asked for, or it is not read yet */
    uv_work_t work;
    int result;
    struct err err;
};

struct launcher {
    struct agent_io *io;
    struct child_set *children;
    struct order *first;
    char cgroup_parent[FOLDER_PATH_SIZE];
};

static void finish(struct order *order)
{
    struct order **at = &order->launcher->first;
    while (*at != order) {
        at = &(*at)->next;
    }
    *at = order->next;
    order->done(order->context, order->result, order->err.text);
    (void)launch_spec_free(order->spec);
    mem_free(order->spec_text);
    mem_free(order->env_text);
    mem_free(order);
}

/* ---- on the pool ----------------------------------------------------------------------------------- */

static int build(struct order *order)
{
    const struct agent_options *options = order->launcher->io->options;
    char log_dir[FOLDER_PATH_SIZE];
    char mail_dir[FOLDER_PATH_SIZE];
    char cgroup[FOLDER_PATH_SIZE + 160];
    folder_log_path(options->state_dir, order->desired.job, order->desired.attempt, log_dir);
    folder_mail_path(options->run_dir, mail_dir);
    char cookie[SHIM_COOKIE_SIZE];
    cgroup[0] = '\0';
    if (folder_cookie(cookie) != 0) {
        return err_set(&order->err, -EIO, "no random numbers");
    }
    if (order->launcher->cgroup_parent[0] != '\0') {
        /* with a part of the cookie: agents of two clusters may share a machine */
        (void)text_format(cgroup, sizeof(cgroup), "%s/keepstep/%s/job-%u.attempt-%u.%.12s",
                          order->launcher->cgroup_parent, options->node, order->desired.job,
                          order->desired.attempt, cookie);
    }
    const struct launch_input input = {.desired = &order->desired,
                                       .cluster_id = order->cluster_id,
                                       .node = options->node,
                                       .log_dir = log_dir,
                                       .mail_dir = mail_dir,
                                       .cookie = cookie,
                                       .cgroup = cgroup,
                                       .env_text = order->env_text,
                                       .environ = (const char *const *)environ};
    struct launch_plan *plan = NULL;
    int r = launch_plan_build(order->spec, &order->user, &input, &plan, &order->err);
    if (r == 0) {
        r = folder_prepare(options->state_dir, options->run_dir, plan, &order->err);
        (void)launch_plan_free(plan);
    }
    return r;
}

static bool wants_env_file(const struct order *order)
{
    return launch_spec_env_file(order->spec)[0] != '\0' && order->env_text == NULL;
}

static void prepare_work(uv_work_t *work)
{
    struct order *order = work->data;
    int r = 0;
    if (order->spec == NULL) {
        r = launch_spec_parse(order->spec_text, order->spec_size, &order->spec, &order->err);
        r = r == 0 ? launch_spec_user(order->spec, &order->user, &order->err) : r;
    }
    if (r == 0 && !wants_env_file(order)) {
        r = build(order);
    }
    order->result = r;
}

/* ---- the helper -------------------------------------------------------------------------------------- */

static void prepare(struct order *order);

static void env_file_cb(void *context, const struct child_result *result)
{
    struct order *order = context;
    if (result->timed_out || result->signal != 0 || result->exit_status != 0) {
        order->result = err_set(&order->err, -EIO, "run.env_file: %s",
                                result->timed_out ? "reading it did not return" : result->output);
        finish(order);
        return;
    }
    order->env_text = mem_strdup(result->output);
    prepare(order);
}

static void prepared_cb(uv_work_t *work, int status)
{
    struct order *order = work->data;
    CHECK(status == 0); /* never cancelled */
    order->on_pool = false;
    if (order->result != 0 || !wants_env_file(order) || order->launcher->io->closing) {
        finish(order);
        return;
    }
    const struct helper_task task = {.verb = "read",
                                     .path = launch_spec_env_file(order->spec),
                                     .number = ENV_FILE_MAX,
                                     .uid = order->user.uid,
                                     .gid = order->user.gid,
                                     .group_count = order->user.group_count,
                                     .groups = order->user.groups};
    const int r = helper_start(order->launcher->io->loop, order->launcher->children, &task,
                               ENV_FILE_MS, env_file_cb, order);
    if (r != 0) {
        order->result = err_set(&order->err, r, "run.env_file cannot be read: %s", uv_strerror(r));
        finish(order);
    }
}

static void prepare(struct order *order)
{
    order->on_pool = true;
    order->work.data = order;
    const int r = uv_queue_work(order->launcher->io->loop, &order->work, prepare_work, prepared_cb);
    CHECK(r == 0);
}

static void refuse_cb(void *context)
{
    finish(context);
}

void launcher_prepare(struct launcher *launcher, const struct msg_desired *desired,
                      launcher_done *done, void *context)
{
    struct order *order = mem_alloc(1, sizeof(*order));
    struct agent_view view;
    order->launcher = launcher;
    order->done = done;
    order->context = context;
    order->desired = *desired;
    order->next = launcher->first;
    launcher->first = order;
    agent_core_view(launcher->io->core, &view);
    (void)text_copy(order->cluster_id, sizeof(order->cluster_id), view.cluster_id);
    const char *text =
        specs_get(launcher->io->specs, desired->job, desired->spec_revision, &order->spec_size);
    if (text == NULL) {
        order->result = err_set(&order->err, -ENOENT, "no job file came with the order");
        driver_defer(launcher->io->driver, refuse_cb, order);
        return;
    }
    order->spec_text = mem_alloc(order->spec_size + 1, 1);
    memcpy(order->spec_text, text, order->spec_size);
    prepare(order);
}

bool launcher_is_busy(const struct launcher *launcher, const void *context)
{
    for (const struct order *order = launcher->first; order != NULL; order = order->next) {
        if (order->context == context) {
            return order->on_pool;
        }
    }
    return false;
}

struct launcher *launcher_create(struct agent_io *io, struct child_set *children)
{
    struct launcher *launcher = mem_alloc(1, sizeof(*launcher));
    launcher->io = io;
    launcher->children = children;
    folder_cgroup_parent(io->options->cgroup, launcher->cgroup_parent);
    return launcher;
}

struct launcher *launcher_free(struct launcher *launcher)
{
    while (launcher != NULL && launcher->first != NULL) { /* a helper or a turn was cut off */
        struct order *order = launcher->first;
        launcher->first = order->next;
        (void)launch_spec_free(order->spec);
        mem_free(order->spec_text);
        mem_free(order->env_text);
        mem_free(order);
    }
    return mem_free(launcher);
}
