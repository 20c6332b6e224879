/* log_test.c: what reaches stderr is one whole line, valid JSON, and keeps its secrets. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/log.h"

enum { CAPTURE_SIZE = 65536 };

struct capture {
    int file;
    int saved_stderr;
};

static void capture_begin(struct capture *capture)
{
    capture->file = memfd_create("log", MFD_CLOEXEC);
    assert_true(capture->file >= 0);
    capture->saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    assert_true(capture->saved_stderr >= 0);
    assert_true(dup2(capture->file, STDERR_FILENO) >= 0);
}

/* The text that was logged since capture_begin. */
static void capture_end(struct capture *capture, char text[CAPTURE_SIZE])
{
    assert_true(dup2(capture->saved_stderr, STDERR_FILENO) >= 0);
    ssize_t size = pread(capture->file, text, CAPTURE_SIZE - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    (void)close(capture->file);
    (void)close(capture->saved_stderr);
}

static const char *field(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text != NULL ? text : "(none)";
}

static json_t *one_line(const char *text)
{
    const char *newline = strchr(text, '\n');
    assert_non_null(newline);
    assert_string_equal(newline, "\n"); /* the only one, at the end */
    json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    return line;
}

static void a_line_has_its_fields(void **state)
{
    (void)state;
    struct capture capture;
    char text[CAPTURE_SIZE];
    log_init("keepstep-test", LOG_INFO);
    log_format_json(true);
    capture_begin(&capture);
    log_line(LOG_WARN, "commit-failed", "the journal could not be written", "path", "/srv/k.db",
             "error", "disk \"full\"\n\tagain", "nothing", NULL, NULL);
    capture_end(&capture, text);
    json_t *line = one_line(text);
    assert_string_equal(field(line, "level"), "warn");
    assert_string_equal(field(line, "program"), "keepstep-test");
    assert_string_equal(field(line, "event"), "commit-failed");
    assert_string_equal(field(line, "message"), "the journal could not be written");
    assert_string_equal(field(line, "path"), "/srv/k.db");
    assert_string_equal(field(line, "error"), "disk \"full\"\n\tagain");
    assert_string_equal(field(line, "nothing"), "");
    assert_int_equal(strlen(field(line, "time")), strlen("2026-11-29T17:29:01.250Z"));
    json_decref(line);
}

static void levels_below_are_silent(void **state)
{
    (void)state;
    struct capture capture;
    char text[CAPTURE_SIZE];
    log_init("keepstep-test", LOG_WARN);
    capture_begin(&capture);
    log_line(LOG_DEBUG, "a", "b", NULL);
    log_line(LOG_INFO, "a", "b", NULL);
    capture_end(&capture, text);
    assert_string_equal(text, "");
}

static void secrets_are_masked(void **state)
{
    (void)state;
    assert_true(log_is_secret("API_KEY"));
    assert_true(log_is_secret("wandb_api_key"));
    assert_true(log_is_secret("HF_TOKEN_FILE"));
    assert_true(log_is_secret("mySecretThing"));
    assert_true(log_is_secret("PASSWORDS"));
    assert_false(log_is_secret("PATH"));
    assert_false(log_is_secret("KE"));
    assert_false(log_is_secret(""));
    for (unsigned json = 0; json < 2; json++) {
        struct capture capture;
        char text[CAPTURE_SIZE];
        log_init("keepstep-test", LOG_INFO);
        log_format_json(json == 1);
        capture_begin(&capture);
        log_line(LOG_INFO, "started", "rank started", "WANDB_API_KEY", "abc123", NULL);
        capture_end(&capture, text);
        assert_null(strstr(text, "abc123"));
        assert_non_null(strstr(text, "\"***\""));
    }
}

static void hostile_values_stay_inside(void **state)
{
    (void)state;
    struct capture capture;
    char text[CAPTURE_SIZE];
    char giant[5000];
    memset(giant, '\x01', sizeof(giant));
    giant[sizeof(giant) - 1] = '\0';
    for (unsigned json = 0; json < 2; json++) {
        log_init("keepstep-test", LOG_INFO);
        log_format_json(json == 1);
        capture_begin(&capture);
        log_line(LOG_ERROR, "frame", giant, "raw", "\xff\xfe\x1b[2J\x7f", "giant", giant, "more",
                 giant, "last", "x", NULL);
        capture_end(&capture, text);
        assert_null(strchr(text, '\x1b'));
        assert_null(strchr(text, '\x01'));
        assert_null(strchr(text, '\xff'));
        assert_non_null(strchr(text, '\n'));
        assert_string_equal(strchr(text, '\n'), "\n");
        if (json == 1) {
            json_t *line = one_line(text);
            assert_string_equal(field(line, "level"), "error");
            json_decref(line);
        }
    }
}

static void text_lines_read_well(void **state)
{
    (void)state;
    struct capture capture;
    char text[CAPTURE_SIZE];
    log_init("keepstep-test", LOG_INFO);
    log_format_json(false);
    capture_begin(&capture);
    log_line(LOG_INFO, "node-lost", "node 'gpu-7' is \"lost\"", "job", "llama", NULL);
    capture_end(&capture, text);
    assert_non_null(
        strstr(text, "Z info  node 'gpu-7' is \"lost\" event=\"node-lost\" job=\"llama\"\n"));
}

/* As a library's abort() would be; and it still is one. */
static void an_abort_is_the_last_line(void **state)
{
    (void)state;
    struct capture capture;
    char text[CAPTURE_SIZE];
    capture_begin(&capture);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        log_init("keepstep-test", LOG_INFO);
        log_format_json(true);
        log_last_words();
        abort();
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    capture_end(&capture, text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    json_t *line = one_line(text);
    assert_string_equal(field(line, "event"), "aborted");
    assert_string_equal(field(line, "program"), "keepstep-test");
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_its_fields), cmocka_unit_test(levels_below_are_silent),
        cmocka_unit_test(secrets_are_masked),    cmocka_unit_test(hostile_values_stay_inside),
        cmocka_unit_test(text_lines_read_well),  cmocka_unit_test(an_abort_is_the_last_line),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
