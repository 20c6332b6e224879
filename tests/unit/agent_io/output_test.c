/* output_test.c: an output that outgrows its limit: what is kept of it, what its writer notices, and
 * what a reader gets. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/output.h"
#include "proto/base/text.h"

enum { KIB = 1024, LIMIT = 512 * KIB, LINE = 16 };

struct fixture {
    char dir[64];
    char path[96];
    int writer; /* as a rank holds it */
    int fd;     /* as the helper does */
    uint64_t lines;
};

static void open_in(struct fixture *f)
{
    assert_true(text_format(f->path, sizeof(f->path), "%s/rank-0.log", f->dir));
    f->writer = open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    f->fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_true(f->writer >= 0 && f->fd >= 0);
    f->lines = 0;
}

static int setup(void **state)
{
    static struct fixture fixture;
    memcpy(fixture.dir, "/tmp/output-test-XXXXXX", sizeof("/tmp/output-test-XXXXXX"));
    if (mkdtemp(fixture.dir) == NULL) {
        return -1;
    }
    open_in(&fixture);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)close(f->writer);
    (void)close(f->fd);
    (void)unlink(f->path);
    return rmdir(f->dir);
}

/* Line n is its own number, so that any piece of the file says where it is from. */
static void line_of(uint64_t number, char line[LINE + 1])
{
    assert_true(text_format(line, LINE + 1, "%015llu\n", (unsigned long long)number));
}

static void append(struct fixture *f, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += LINE) {
        char line[LINE + 1];
        line_of(f->lines, line);
        assert_int_equal(write(f->writer, line, LINE), LINE);
        f->lines++;
    }
}

static void assert_lines(const struct fixture *f, uint64_t offset, uint64_t size)
{
    char line[LINE + 1] = "";
    char expected[LINE + 1];
    assert_int_equal(offset % LINE, 0);
    for (uint64_t at = offset; at + LINE <= offset + size; at += LINE) {
        assert_int_equal(pread(f->fd, line, LINE, (off_t)at), LINE);
        line_of(at / LINE, expected);
        assert_string_equal(line, expected);
    }
}

static uint64_t on_disk(const struct fixture *f)
{
    struct stat status;
    assert_int_equal(fstat(f->fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* false: the test cannot be made here. */
static bool holes_here(const struct fixture *f)
{
    if (output_can_punch(f->dir) == 1) {
        return true;
    }
    print_message("skipped: no holes can be punched in /tmp\n");
    return false;
}

static void test_a_short_output_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct output_state after;
    append(f, LIMIT);
    assert_int_equal(output_trim(f->fd, LIMIT, &after), 0);
    assert_int_equal(after.kept, LIMIT);
    assert_int_equal(after.dropped, 0);
    assert_lines(f, 0, LIMIT);
}

static void test_the_middle_goes(void **state)
{
    struct fixture *f = *state;
    struct output_state after;
    if (!holes_here(f)) {
        skip();
    }
    append(f, 2 * LIMIT);
    assert_int_equal(output_trim(f->fd, LIMIT, &after), 0);
    assert_false(after.cut);
    assert_in_range(after.kept, LIMIT / 8 * 6, LIMIT);
    assert_int_equal(after.kept + after.dropped, 2 * LIMIT);
    assert_in_range(on_disk(f), 1, LIMIT);
    append(f, LINE); /* the writer has noticed nothing */
    struct output_end end;
    assert_int_equal(output_end_find(f->fd, 4 * LIMIT, &end), 0);
    assert_int_equal(end.dropped, after.dropped);
    assert_int_equal(end.head_offset, 0);
    assert_in_range(end.head_size, LIMIT / 4, LIMIT / 4 + 64 * KIB);
    assert_int_equal(end.tail_offset + end.tail_size, 2 * LIMIT + LINE);
    assert_in_range(end.tail_size, LIMIT / 8 * 5, LIMIT / 8 * 6);
    assert_lines(f, end.head_offset, end.head_size);
    assert_lines(f, end.tail_offset, end.tail_size);
}

static void test_it_never_holds_more_than_the_limit(void **state)
{
    struct fixture *f = *state;
    struct output_state after;
    if (!holes_here(f)) {
        skip();
    }
    for (int round = 0; round < 40; round++) {
        append(f, LIMIT / 4);
        assert_int_equal(output_trim(f->fd, LIMIT, &after), 0);
        assert_in_range(after.kept, 0, LIMIT);
        assert_in_range(on_disk(f), 0, LIMIT + 64 * KIB);
    }
    assert_int_equal(after.kept + after.dropped, 10 * LIMIT);
    struct output_state looked;
    assert_int_equal(output_look(f->fd, &looked), 0);
    assert_int_equal(looked.dropped, after.dropped);
    assert_lines(f, 0, LIMIT / 4);
    assert_lines(f, 10 * LIMIT - LIMIT / 2, LIMIT / 2);
}

static void test_the_end_that_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct output_state after;
    struct output_end end;
    assert_int_equal(output_end_find(f->fd, 100, &end), 0); /* nothing is there */
    assert_int_equal(end.tail_size, 0);
    append(f, 100 * LINE);
    assert_int_equal(output_end_find(f->fd, LINE, &end), 0);
    assert_int_equal(end.tail_offset, 99 * LINE);
    assert_int_equal(end.tail_size, LINE);
    assert_int_equal(output_end_find(f->fd, 1 << 20, &end), 0);
    assert_int_equal(end.tail_size, 100 * LINE);
    if (!holes_here(f)) {
        skip();
    }
    append(f, 2 * LIMIT);
    assert_int_equal(output_trim(f->fd, LIMIT, &after), 0);
    assert_int_equal(output_end_find(f->fd, LIMIT / 2, &end), 0); /* does not reach the hole */
    assert_int_equal(end.dropped, 0);
    assert_int_equal(end.head_size, 0);
    assert_int_equal(end.tail_size, LIMIT / 2);
    assert_int_equal(output_end_find(f->fd, LIMIT / 4 * 3 + 4096, &end),
                     0); /* a part of the head */
    assert_int_equal(end.dropped, after.dropped);
    assert_int_equal(end.head_size + end.tail_size + OUTPUT_NOTE_SIZE, LIMIT / 4 * 3 + 4096);
    assert_in_range(end.head_offset, 1, LIMIT / 4 + 64 * KIB);
    char note[OUTPUT_NOTE_SIZE];
    output_note(UINT64_MAX, note);
    assert_string_equal(note, "\n… 18446744073709551615 bytes dropped …\n");
}

/* In a child, whose mounts nobody else sees. Exit status 77: no such file system can be had. */
static int without_holes(struct fixture *f)
{
    struct output_state after;
    struct output_end end;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", f->dir, "ramfs", 0, NULL) != 0) {
        return 77;
    }
    struct fixture here = {0};
    memcpy(here.dir, f->dir, sizeof(here.dir));
    open_in(&here);
    assert_int_equal(output_can_punch(here.dir), 0);
    append(&here, 2 * LIMIT);
    assert_int_equal(output_trim(here.fd, LIMIT, &after), 0);
    assert_true(after.cut);
    assert_int_equal(after.dropped, 0);
    assert_in_range(after.kept, LIMIT / 4, LIMIT / 4 + 64 * KIB + OUTPUT_NOTE_SIZE);
    append(&here, LINE);
    assert_int_equal(output_end_find(here.fd, 1 << 20, &end), 0);
    assert_int_equal(end.tail_size, after.kept + LINE); /* the writer goes on behind the note */
    assert_lines(&here, 0, LIMIT / 4);
    char text[OUTPUT_NOTE_SIZE + LINE + 1] = "";
    char note[OUTPUT_NOTE_SIZE];
    output_note(2 * LIMIT - LIMIT / 4, note);
    const size_t size = strlen(note) + LINE;
    assert_int_equal(pread(here.fd, text, size, LIMIT / 4), size);
    assert_memory_equal(text, note, strlen(note));
    return 0;
}

static void test_without_holes_the_head_is_kept(void **state)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(without_holes(*state));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: no file system without holes can be mounted here\n");
        skip();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    struct output_state after;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(output_trim(pipe_fds[1], LIMIT, &after), -EINVAL);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_short_output_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_middle_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_never_holds_more_than_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_end_that_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_holes_the_head_is_kept, setup, teardown),
        cmocka_unit_test(test_what_is_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
