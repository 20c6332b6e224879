/* saves.c: a task is prepared on the pool (who is the user, which reader), carried out by a helper
 * child, and told line by line. Its last word is sent when the child has ended or is given up. */
#include "agent/io/saves.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "agent/io/child.h"
#include "agent/io/driver.h"
#include "agent/io/helper.h"
#include "agent/io/launch_spec.h"
#include "agent/io/link.h"
#include "agent/io/save_line.h"
#include "agent/io/specs.h"
#include "proto/base/check.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

struct save_task_run {
    struct save_task_run *next;
    struct agent_saves *saves;
    struct msg_save_ask ask;
    char *spec_text;
    size_t spec_size;
    struct launch_user user;
    char path[PATH_SIZE];  /* checkpoint.dir, or the checkpoint */
    char text[PATH_SIZE];  /* format, program, or hash */
    char text2[PATH_SIZE]; /* job, or marker */
    uint64_t number;
    const char *verb;
    bool program; /* a site's: its end is the exit status alone */
    uv_work_t work;
    int result;
    struct err err;
    uint32_t found;
    uint32_t bad; /* lines that are none */
    bool ended;   /* the last line came */
    bool ok;
    uint32_t seen;
    char note[TEXT_SIZE];
    char first[TEXT_SIZE]; /* the first line that is no JSON: what a child complains of */
};

struct agent_saves {
    struct agent_io *io;
    struct child_set children;
    struct save_task_run *first;
    uint32_t count;
};

static void release(struct save_task_run *task)
{
    struct save_task_run **at = &task->saves->first;
    while (*at != task) {
        at = &(*at)->next;
    }
    *at = task->next;
    task->saves->count--;
    mem_free(task->spec_text);
    mem_free(task);
}

/* ---- what is told ---------------------------------------------------------------------------------- */

static void tell(struct save_task_run *task, struct message *message)
{
    message->kind = MSG_SAVE_SAID;
    message->u.save_said.nonce = task->ask.nonce;
    message->u.save_said.job = task->ask.job;
    link_send(task->saves->io->link, message);
}

static void finish(struct save_task_run *task, int error, bool ok, const char *text)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    struct msg_save_said *said = &message->u.save_said;
    said->word = SAVE_DONE;
    said->error = error;
    said->ok = ok;
    said->files = task->seen;
    if (task->ask.task == SAVE_LIST) {
        (void)text_copy(said->directory, sizeof(said->directory), task->path);
    }
    (void)text_sentence(said->text, sizeof(said->text), "%s", text); /* a cut one will do */
    tell(task, message);
    mem_free(message);
    release(task);
}

/* ---- what the child prints ---------------------------------------------------------------------------- */

static void take_found(struct save_task_run *task, const char *line, size_t size)
{
    struct err err = {0};
    struct message *message = mem_alloc(1, sizeof(*message));
    const int r =
        task->found < SAVES_FOUND_MAX
            ? save_line_parse(line, size, agent_io_wall_ms(), &message->u.save_said, &err)
            : err_set(&err, -E2BIG, "it tells of more than %d checkpoints", SAVES_FOUND_MAX);
    if (r == 0) {
        task->found++;
        tell(task, message);
    } else if (task->bad++ == 0) {
        (void)text_copy(task->note, sizeof(task->note), err.text);
    }
    mem_free(message);
}

static void take_progress(struct save_task_run *task, const json_t *tree)
{
    struct message *message = mem_alloc(1, sizeof(*message));
    message->u.save_said.word = SAVE_PROGRESS;
    message->u.save_said.bytes = save_line_number(tree, "total");
    message->u.save_said.bytes_done = save_line_number(tree, "done");
    tell(task, message);
    mem_free(message);
}

static void line_cb(void *context, const char *line, size_t size)
{
    struct save_task_run *task = context;
    json_error_t error;
    json_t *tree = json_loadb(line, size, 0, &error);
    if (task->saves->io->closing) {
        json_decref(tree);
        return;
    }
    if (json_object_get(tree, "step") != NULL && task->ask.task == SAVE_LIST) {
        take_found(task, line, size);
    } else if (json_object_get(tree, "done") != NULL && !task->program) {
        take_progress(task, tree);
    } else if (json_is_boolean(json_object_get(tree, "ok")) && !task->program) {
        task->ended = true;
        task->ok = json_is_true(json_object_get(tree, "ok"));
        task->seen = (uint32_t)save_line_number(tree, "seen");
        (void)text_copy(task->note, sizeof(task->note), save_line_text(tree, "note"));
    } else if (task->first[0] == '\0') {
        (void)text_copy(task->first, sizeof(task->first), line);
        task->bad += task->program ? 1 : 0;
    }
    json_decref(tree);
}

/* A site's reader that tells half of the truth must not pass for one that tells it all. */
static void program_ended(struct save_task_run *task, const struct child_result *result)
{
    char text[TEXT_SIZE];
    if (result->signal != 0 || result->exit_status != 0) {
        (void)text_sentence(text, sizeof(text), "reader %.64s: %s %d", task->text,
                            result->signal != 0 ? "ended by signal" : "exit status",
                            result->signal != 0 ? result->signal : (int)result->exit_status);
        finish(task, -EIO, false, text);
    } else if (result->output_cut) {
        (void)text_sentence(text, sizeof(text), "reader %.64s: a line is too long", task->text);
        finish(task, -EBADMSG, false, text);
    } else if (task->bad > 0) {
        (void)text_sentence(text, sizeof(text), "reader %.64s: %.96s", task->text,
                            task->note[0] != '\0' ? task->note : "a line is no JSON object");
        finish(task, -EBADMSG, false, text);
    } else {
        task->seen = task->found;
        finish(task, 0, true, "");
    }
}

static void done_cb(void *context, const struct child_result *result)
{
    struct save_task_run *task = context;
    char text[TEXT_SIZE];
    if (result->timed_out) {
        (void)text_sentence(text, sizeof(text),
                            "checkpoint storage does not answer in %u s: %.128s",
                            task->ask.timeout_ms / 1000, task->path);
        finish(task, -ETIMEDOUT, false, text);
    } else if (task->program) {
        program_ended(task, result);
    } else if (result->signal != 0 || result->exit_status != 0 || !task->ended) {
        const int code =
            result->signal == 0 && result->exit_status > 0 ? (int)result->exit_status : EIO;
        finish(task, -code, false, task->first[0] != '\0' ? task->first : "the helper ended early");
    } else {
        finish(task, 0, task->ok, task->note);
    }
}

/* ---- the start ------------------------------------------------------------------------------------------ */

static int prepare_list(struct save_task_run *task, const struct launch_spec *spec)
{
    const struct agent_options *options = task->saves->io->options;
    const char *format = launch_spec_checkpoint_format(spec);
    const bool marker = text_equal(format, "marker");
    bool fits = text_copy(task->path, sizeof(task->path), launch_spec_checkpoint_dir(spec)) &&
                text_copy(task->text, sizeof(task->text), format) &&
                text_copy(task->text2, sizeof(task->text2),
                          marker ? launch_spec_checkpoint_marker(spec) : task->ask.job_name);
    task->verb = "list";
    task->number = launch_spec_model_parts(spec);
    if (text_equal(format, "command")) {
        const char *name = launch_spec_checkpoint_reader(spec);
        const char *program = agent_options_reader(options, name);
        if (program == NULL) {
            return err_set(&task->err, -ENOENT,
                           "checkpoint.reader: this node knows no reader '%.64s'; see "
                           "checkpoint_readers of its agent",
                           name);
        }
        fits = fits && text_copy(task->text, sizeof(task->text), program);
        task->verb = "run";
        task->program = true;
    }
    return fits && task->path[0] == '/'
               ? 0
               : err_set(&task->err, -EINVAL, "checkpoint.dir is missing or too long");
}

static int prepare(struct save_task_run *task)
{
    struct launch_spec *spec = NULL;
    int r = launch_spec_parse(task->spec_text, task->spec_size, &spec, &task->err);
    if (r != 0) {
        return r;
    }
    r = launch_spec_user(spec, &task->user, &task->err);
    if (r == 0 && task->ask.task == SAVE_LIST) {
        r = prepare_list(task, spec);
    } else if (r == 0) {
        task->verb = task->ask.task == SAVE_VERIFY ? "verify" : "remove";
        task->number = task->ask.step;
        (void)text_copy(task->path, sizeof(task->path), task->ask.directory);
        (void)text_copy(task->text, sizeof(task->text), task->ask.hash);
        (void)text_copy(task->text2, sizeof(task->text2), task->ask.job_name);
    }
    (void)launch_spec_free(spec);
    return r;
}

static void prepare_work(uv_work_t *work)
{
    struct save_task_run *task = work->data;
    task->result = prepare(task);
}

static void prepared_cb(uv_work_t *work, int status)
{
    struct save_task_run *task = work->data;
    CHECK(status == 0); /* never cancelled */
    if (task->saves->io->closing) {
        release(task);
        return;
    }
    int r = task->result;
    if (r == 0) {
        const struct helper_task order = {.verb = task->verb,
                                          .path = task->path,
                                          .number = task->number,
                                          .number2 = task->ask.attempt,
                                          .text = task->text,
                                          .text2 = task->text2,
                                          .quiet = task->ask.task == SAVE_VERIFY,
                                          .line = line_cb,
                                          .uid = task->user.uid,
                                          .gid = task->user.gid,
                                          .group_count = task->user.group_count,
                                          .groups = task->user.groups};
        r = helper_start(task->saves->io->loop, &task->saves->children, &order,
                         task->ask.timeout_ms, done_cb, task);
        if (r != 0) {
            (void)err_set(&task->err, r, "the helper could not be started: %s", uv_strerror(r));
        }
    }
    if (r != 0) {
        finish(task, r, false, task->err.text);
    }
}

static void refused_cb(void *context)
{
    struct save_task_run *task = context;
    finish(task, task->result, false, task->err.text);
}

void saves_ask(struct agent_saves *saves, const struct msg_save_ask *ask)
{
    if (saves->count >= SAVES_MAX || saves->io->closing) {
        return; /* the controller asks again */
    }
    struct save_task_run *task = mem_alloc(1, sizeof(*task));
    task->saves = saves;
    task->ask = *ask;
    task->next = saves->first;
    saves->first = task;
    saves->count++;
    const char *text = specs_get(saves->io->specs, ask->job, 0, &task->spec_size);
    if (text == NULL) {
        task->result = err_set(&task->err, -EINVAL, "no job file came with the question");
    } else if (saves->children.count >= saves->count - 1 + SAVES_HANGING_MAX) {
        task->result =
            err_set(&task->err, -EBUSY, "checkpoint storage: %d earlier looks have not come back",
                    SAVES_HANGING_MAX);
    }
    if (task->result != 0) {
        driver_defer(saves->io->driver, refused_cb, task);
        return;
    }
    task->spec_text = mem_alloc(task->spec_size + 1, 1);
    memcpy(task->spec_text, text, task->spec_size);
    task->work.data = task;
    const int r = uv_queue_work(saves->io->loop, &task->work, prepare_work, prepared_cb);
    CHECK(r == 0);
}

/* ---- life ------------------------------------------------------------------------------------------------ */

struct agent_saves *saves_create(struct agent_io *io)
{
    struct agent_saves *saves = mem_alloc(1, sizeof(*saves));
    saves->io = io;
    return saves;
}

void saves_close(struct agent_saves *saves)
{
    children_close(&saves->children);
}

struct agent_saves *saves_free(struct agent_saves *saves)
{
    while (saves != NULL && saves->first != NULL) { /* its helper was cut off */
        release(saves->first);
    }
    return mem_free(saves);
}
