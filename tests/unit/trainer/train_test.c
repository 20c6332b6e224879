/* train_test: one rank with an agent on the other side of its mailbox: what it reports, what it
 * does when asked to save or to stop, where it begins, and what a refused commit changes. */
#include "agent/trainer/train.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/rank/keepstep.h"
#include "agent/rank/mailbox.h"
#include "agent/trainer/checkpoint.h"
#include "tests/lib/test.h"

/* The agent of these tests: a folder of one test, a mailbox in it, and a thread that answers. */
struct agent {
    char folder[64];
    int folder_fd;
    int mailbox;
    pthread_t thread;
    atomic_bool ending;
    int32_t answer; /* to commits */
    atomic_int begun, shards, commits;
    struct mailbox_request commit; /* the last one */
};

static struct agent agent;

static int open_agent(void **state)
{
    (void)state;
    agent = (struct agent){.mailbox = -1};
    (void)snprintf(agent.folder, sizeof(agent.folder), "/tmp/keepstep-train-XXXXXX");
    if (mkdtemp(agent.folder) == NULL) {
        return -1;
    }
    agent.folder_fd = open(agent.folder, O_RDONLY | O_DIRECTORY);
    return agent.folder_fd < 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int close_agent(void **state)
{
    (void)state;
    keepstep_finish();
    (void)unsetenv("KEEPSTEP_MAILBOX");
    (void)close(agent.folder_fd);
    return nftw(agent.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void answer_all(void)
{
    struct mailbox_request request;
    uint32_t cursor = 0;
    while (mailbox_next_request(agent.mailbox, &cursor, &request) == 1) {
        const bool commit = request.kind == MAILBOX_COMMIT;
        if (commit) {
            agent.commit = request;
        }
        if (mailbox_answer_write(agent.mailbox, request.number, commit ? agent.answer : 0,
                                 "a newer attempt exists") != 0) {
            continue; /* it is still open then, and met again */
        }
        atomic_fetch_add(request.kind == MAILBOX_BEGIN   ? &agent.begun
                         : request.kind == MAILBOX_SHARD ? &agent.shards
                                                         : &agent.commits,
                         1);
    }
}

static void *agent_thread(void *unused)
{
    (void)unused;
    void *map = NULL;
    if (mailbox_map_wake(agent.mailbox, &map) != 0) {
        return NULL;
    }
    while (!atomic_load(&agent.ending)) {
        const struct timespec wait = {.tv_nsec = 2000000};
        answer_all();
        (void)mailbox_wake(agent.mailbox, map);
        (void)nanosleep(&wait, NULL);
    }
    mailbox_unmap_wake(map);
    return NULL;
}

/* Makes the mailbox of one attempt and starts answering. */
static void start_agent(const char *name, const struct mailbox_order *order)
{
    char path[128];
    assert_int_equal(
        mailbox_create(agent.folder_fd, name, getuid(), getgid(), 7, order, 0, &agent.mailbox), 0);
    (void)snprintf(path, sizeof(path), "%s/%s", agent.folder, name);
    assert_int_equal(setenv("KEEPSTEP_MAILBOX", path, 1), 0);
    atomic_store(&agent.ending, false);
    assert_int_equal(pthread_create(&agent.thread, NULL, agent_thread, NULL), 0);
}

static void stop_agent(void)
{
    atomic_store(&agent.ending, true);
    assert_int_equal(pthread_join(agent.thread, NULL), 0);
    answer_all();
    keepstep_finish();
    (void)close(agent.mailbox);
}

static struct mailbox_order order_of(uint32_t attempt)
{
    return (struct mailbox_order){
        .attempt = attempt,
        .world = 1,
        .local_world = 1,
        .slot_count = 1,
        .sizes = {1, 1, 1, 1},
        .order = "tp-cp-pp-dp",
    };
}

/* Runs the trainer for `steps` steps; its exit code. */
static int run(uint32_t attempt, const char *steps, const char *output)
{
    char text[128];
    char directory[128];
    char weights[128];
    char attempt_text[64];
    struct fail fail = {0};
    struct options options;
    int exit_code = -1;
    (void)snprintf(text, sizeof(text), "%s/text", agent.folder);
    (void)snprintf(directory, sizeof(directory), "%s/checkpoints", agent.folder);
    (void)snprintf(weights, sizeof(weights), "%s/%s", agent.folder, output);
    (void)snprintf(attempt_text, sizeof(attempt_text), "KEEPSTEP_ATTEMPT=%u", attempt);
    FILE *file = fopen(text, "w");
    assert_non_null(file);
    for (int i = 0; i < 500; i++) {
        fprintf(file, "the %d bottles of beer on the wall, ", i);
    }
    assert_int_equal(fclose(file), 0);
    const char *const arguments[] = {
        "trainer", "--text",           text,      "--steps",          steps,   "--batch",
        "2",       "--context",        "8",       "--layers",         "1",     "--width",
        "16",      "--checkpoint-dir", directory, "--output-weights", weights, NULL};
    const char *const environment[] = {"KEEPSTEP_JOB=beer", attempt_text, NULL};
    assert_int_equal(options_parse(arguments, environment, NULL, &fail, &options), 0);
    if (train_run(&options, &fail, &exit_code) < 0) {
        print_message("%s\n", fail.text);
        return fail.exit_code;
    }
    return exit_code;
}

static void read_view(struct mailbox_view *view)
{
    struct timespec now;
    *view = (struct mailbox_view){0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert_int_equal(mailbox_read(agent.mailbox, (uint64_t)now.tv_sec * 1000 + 999, view), 0);
}

static bool there(const char *name)
{
    struct stat status;
    return fstatat(agent.folder_fd, name, &status, 0) == 0;
}

static void assert_same_file(const char *a, const char *b)
{
    static char content[2][1 << 18];
    ssize_t size[2];
    const char *const names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const int fd = openat(agent.folder_fd, names[i], O_RDONLY);
        assert_true(fd >= 0);
        size[i] = read(fd, content[i], sizeof(content[i]));
        (void)close(fd);
    }
    assert_true(size[0] > 1000 && size[0] == size[1]);
    assert_memory_equal(content[0], content[1], (size_t)size[0]);
}

static float real_of(mailbox_real_bits bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void steps_and_coordinates_are_reported(void **state)
{
    (void)state;
    const struct mailbox_order order = order_of(0);
    struct mailbox_view view;
    start_agent("m", &order);
    assert_int_equal(run(0, "5", "final"), EXIT_DONE);
    read_view(&view);
    stop_agent();
    assert_true(view.valid);
    assert_int_equal(view.step, 5);
    assert_int_equal(view.steps_held, 5);
    assert_true(view.steps[4].compute_us > 0);
    assert_true(view.has_coordinates);
    assert_int_equal(view.coordinates.data, 0);
    for (uint32_t i = 0; i < view.steps_held; i++) {
        const float loss = real_of(view.steps[i].loss);
        const float norm = real_of(view.steps[i].gradient_norm);
        assert_true(loss > 1.0f && loss < 6.0f);
        assert_true(norm > 0.0f && norm < 100.0f);
    }
    assert_int_equal(view.hashes_held, 5);
    assert_int_equal(view.hashes[4].step, 5);
    assert_true(view.hashes[4].hash != view.hashes[3].hash);
    assert_int_equal(atomic_load(&agent.begun), 0);
}

static void a_save_is_made_when_asked_for(void **state)
{
    (void)state;
    const struct mailbox_order order = order_of(4);
    start_agent("m", &order);
    assert_int_equal(mailbox_flags_write(agent.mailbox, 1, false), 0);
    assert_int_equal(run(4, "3", "final"), EXIT_DONE);
    stop_agent();
    assert_int_equal(atomic_load(&agent.begun), 1);
    assert_int_equal(atomic_load(&agent.shards), 1);
    assert_int_equal(atomic_load(&agent.commits), 1);
    assert_int_equal(agent.commit.step, 1);
    assert_int_equal(agent.commit.attempt, 4);
    assert_int_equal(agent.commit.parts,
                     KEEPSTEP_WEIGHTS | KEEPSTEP_OPTIMIZER | KEEPSTEP_DATA | KEEPSTEP_RNG);
    assert_non_null(strstr(agent.commit.path, "/checkpoints/step-1.a-4"));
    assert_true(there("checkpoints/step-1.a-4/manifest.json"));
    assert_false(there("checkpoints/step-2.a-4"));
}

static void a_stop_saves_and_asks_for_a_restart(void **state)
{
    (void)state;
    const struct mailbox_order order = order_of(0);
    start_agent("m", &order);
    assert_int_equal(mailbox_flags_write(agent.mailbox, 0, true), 0);
    assert_int_equal(run(0, "50", "final"), EXIT_RESTART);
    stop_agent();
    assert_int_equal(agent.commit.step, 1);
    assert_true(there("checkpoints/step-1.a-0/manifest.json"));
    assert_false(there("final"));
}

/* Stopped after step 1, then restored by the order in the mailbox: the unbroken run's bytes. */
static void it_begins_where_the_order_says(void **state)
{
    (void)state;
    struct mailbox_order order = order_of(0);
    struct mailbox_view view;
    assert_int_equal(run(9, "6", "unbroken"), EXIT_DONE);
    start_agent("m0", &order);
    assert_int_equal(mailbox_flags_write(agent.mailbox, 0, true), 0);
    assert_int_equal(run(0, "6", "none"), EXIT_RESTART);
    stop_agent();
    order = order_of(1);
    order.restore_step = 1;
    order.restore_attempt = 0;
    (void)snprintf(order.restore_directory, sizeof(order.restore_directory),
                   "%s/checkpoints/step-1.a-0", agent.folder);
    start_agent("m1", &order);
    assert_int_equal(run(1, "6", "restored"), EXIT_DONE);
    read_view(&view);
    stop_agent();
    assert_int_equal(view.steps_held, 5); /* 2 … 6 */
    assert_int_equal(view.steps[0].step, 2);
    assert_same_file("unbroken", "restored");
}

static void a_refused_commit_stops_nothing(void **state)
{
    (void)state;
    const struct mailbox_order order = order_of(0);
    agent.answer = -ESTALE;
    start_agent("m", &order);
    assert_int_equal(mailbox_flags_write(agent.mailbox, 1, false), 0);
    assert_int_equal(run(0, "3", "final"), EXIT_DONE);
    stop_agent();
    assert_int_equal(atomic_load(&agent.commits), 1);
    assert_true(there("checkpoints/step-1.a-0/manifest.json"));
    assert_true(there("final"));
}

/* A folder of our own attempt that was used before: nothing in it changes, training goes on. */
static void a_used_folder_is_left_alone(void **state)
{
    (void)state;
    const struct mailbox_order order = order_of(0);
    for (int round = 0; round < 2; round++) {
        start_agent(round == 0 ? "m0" : "m1", &order);
        assert_int_equal(mailbox_flags_write(agent.mailbox, 1, false), 0);
        assert_int_equal(run(0, "3", "final"), EXIT_DONE);
        stop_agent();
        /* The second save fails before there is anything to report. */
        assert_int_equal(atomic_load(&agent.commits), 1);
        assert_int_equal(atomic_load(&agent.shards), 1);
        if (round == 0) {
            assert_int_equal(renameat(agent.folder_fd, "checkpoints/step-1.a-0/shard-00000.bin",
                                      agent.folder_fd, "kept"),
                             0);
            assert_int_equal(linkat(agent.folder_fd, "kept", agent.folder_fd,
                                    "checkpoints/step-1.a-0/shard-00000.bin", 0),
                             0);
        }
    }
    struct stat before;
    struct stat after;
    assert_int_equal(fstatat(agent.folder_fd, "kept", &before, 0), 0);
    assert_int_equal(fstatat(agent.folder_fd, "checkpoints/step-1.a-0/shard-00000.bin", &after, 0),
                     0);
    assert_int_equal(before.st_ino, after.st_ino);
}

int main(void)
{
#define WITH_AGENT(test) cmocka_unit_test_setup_teardown(test, open_agent, close_agent)
    const struct CMUnitTest tests[] = {
        WITH_AGENT(steps_and_coordinates_are_reported),  WITH_AGENT(a_save_is_made_when_asked_for),
        WITH_AGENT(a_stop_saves_and_asks_for_a_restart), WITH_AGENT(it_begins_where_the_order_says),
        WITH_AGENT(a_refused_commit_stops_nothing),      WITH_AGENT(a_used_folder_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
