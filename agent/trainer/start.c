/* start.c: three sources in order of their rank, one answer for all. */
#include "agent/trainer/start.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/rank/keepstep.h"

/* Reads ".../step-S.a-A". */
static bool parse_folder(const char *folder, uint64_t *ret_step, uint32_t *ret_attempt)
{
    const char *slash = strrchr(folder, '/');
    const char *name = slash == NULL ? folder : slash + 1;
    unsigned long long step = 0;
    unsigned int attempt = 0;
    char again[64];
    if (sscanf(name, "step-%llu.a-%u", &step, &attempt) != 2) {
        return false;
    }
    (void)snprintf(again, sizeof(again), "step-%llu.a-%u", step, attempt);
    *ret_step = step;
    *ret_attempt = attempt;
    return strcmp(name, again) == 0 && step > 0;
}

static int from_folder(const char *folder, struct fail *fail, struct start *start)
{
    if (!parse_folder(folder, &start->step, &start->attempt)) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "'%s' is not named like a checkpoint, step-S.a-A", folder);
    }
    if (strlen(folder) >= sizeof(start->folder)) {
        return fail_set(fail, EXIT_BAD_CONFIG, -ENAMETOOLONG, "'%s' is too long", folder);
    }
    memcpy(start->folder, folder, strlen(folder) + 1);
    return 0;
}

/* A step, and the attempt if it is known (-1 if not). */
static int from_step(const char *directory, uint64_t step, int64_t attempt, struct fail *fail,
                     struct start *start)
{
    if (directory[0] == '\0') {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "step %llu is to be restored, but there is no --checkpoint-dir",
                        (unsigned long long)step);
    }
    start->step = step;
    start->attempt = (uint32_t)attempt;
    if (attempt < 0) {
        const int code = checkpoint_find(directory, step, fail, &start->attempt);
        if (code < 0) {
            return code;
        }
    }
    if (checkpoint_path(directory, step, start->attempt, start->folder) < 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -ENAMETOOLONG, "'%s' is too long", directory);
    }
    return 0;
}

static int decide(const struct options *options, const char *directory, struct fail *fail,
                  struct start *start)
{
    struct keepstep_restore order;
    if (keepstep_restore_info(&order) == 1 && order.step > 0) {
        if (order.directory[0] != '\0') {
            return from_folder(order.directory, fail, start);
        }
        return from_step(directory, order.step, (int64_t)order.checkpoint_attempt, fail, start);
    }
    if (options->restore_step > 0) {
        return from_step(directory, options->restore_step, options->restore_attempt, fail, start);
    }
    if (options->load != NULL) {
        return from_folder(options->load, fail, start);
    }
    return 0;
}

int start_agree(struct comm *comm, const struct options *options, const char *directory,
                struct fail *fail, struct start *ret_start)
{
    struct start start = {0};
    if (comm->rank == 0) {
        start.code = decide(options, directory, fail, &start);
        start.exit_code = start.code < 0 ? fail->exit_code : 0;
    }
    const int code =
        comm_broadcast(comm_group(comm, COMM_WORLD), &start, sizeof(start), COMM_U8, 0);
    if (code < 0) {
        char text[FAIL_TEXT_SIZE];
        comm_explain(comm, text, sizeof(text));
        return fail_set(fail, EXIT_PEER, code, "%s", text);
    }
    if (start.code < 0) {
        if (comm->rank != 0) {
            (void)fail_set(fail, start.exit_code, start.code,
                           "rank 0 could not find the checkpoint to restore");
        }
        return start.code;
    }
    start.folder[sizeof(start.folder) - 1] = '\0';
    *ret_start = start;
    return 0;
}
