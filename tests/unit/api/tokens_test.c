/* tokens_test.c: the token file, and who a token is. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/api/http.h"
#include "controller/api/tokens.h"

/* printf %s ks_view | sha256sum, and so on */
#define VIEW_HASH    "fa2d4c727f59faf26aee700574e8c2ecc03803bd30677a603362b00d45966693"
#define SUBMIT_HASH  "4bbd9ca9f9679a74922026fb9c5f16292aad540eedae0ab12b0aabf92540fc37"
#define OPERATE_HASH "bfdb33eaaa0658fffef51c0c8cbebd9f1bc40a82db33dc59424eca237e2ffb18"

static char folder[] = "/tmp/keepstep-tokens-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static int load(const char *text, mode_t mode, struct tokens **ret_tokens, struct err *err)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
    return tokens_load(path, ret_tokens, err);
}

static int result_of(const char *text, mode_t mode)
{
    struct tokens *tokens = NULL;
    struct err err = {0};
    int code = load(text, mode, &tokens, &err);
    assert_true((code == 0) == (tokens != NULL));
    assert_true(code == 0 || err.text[0] != '\0');
    (void)tokens_free(tokens);
    return code;
}

static void a_token_has_its_role_and_name(void **state)
{
    (void)state;
    struct tokens *tokens = NULL;
    struct err err = {0};
    const char *name = "untouched";
    int code = load("# who may what\n"
                    "\n"
                    "viewer   dashboard " VIEW_HASH "\n"
                    "submitter\ttrain-a\t" SUBMIT_HASH "\r\n"
                    "  operator night-shift " OPERATE_HASH,
                    0600, &tokens, &err);
    if (code != 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(tokens_role(tokens, "ks_nobody", &name), ROLE_NONE);
    assert_int_equal(tokens_role(tokens, "", &name), ROLE_NONE);
    assert_int_equal(tokens_role(tokens, VIEW_HASH, &name), ROLE_NONE);
    assert_string_equal(name, "untouched");
    assert_int_equal(tokens_role(tokens, "ks_view", &name), ROLE_VIEWER);
    assert_string_equal(name, "dashboard");
    assert_int_equal(tokens_role(tokens, "ks_submit", &name), ROLE_SUBMITTER);
    assert_string_equal(name, "train-a");
    assert_int_equal(tokens_role(tokens, "ks_operate", &name), ROLE_OPERATOR);
    assert_string_equal(name, "night-shift");
    assert_int_equal(tokens_role(NULL, "ks_view", &name), ROLE_NONE);
    assert_null(tokens_free(tokens));
}

static void bad_lines_are_refused(void **state)
{
    (void)state;
    assert_int_equal(result_of("", 0600), 0);
    assert_int_equal(result_of("viewer a " VIEW_HASH "\n", 0400), 0);
    assert_int_equal(result_of("king a " VIEW_HASH "\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a ks_view\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a " VIEW_HASH "0\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a " VIEW_HASH " more\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a/b " VIEW_HASH "\n", 0600), -EINVAL);
    assert_int_equal(result_of("viewer a " VIEW_HASH "\noperator b " VIEW_HASH "\n", 0600),
                     -EINVAL);
}

static void a_file_that_others_can_change_is_refused(void **state)
{
    (void)state;
    static const char line[] = "viewer a " VIEW_HASH "\n";
    assert_int_equal(result_of(line, 0640), -EACCES);
    assert_int_equal(result_of(line, 0604), -EACCES);
    struct tokens *tokens = NULL;
    struct err err = {0};
    assert_int_equal(tokens_load(folder, &tokens, &err), -EINVAL); /* no file */
    assert_int_equal(tokens_load("/nonexistent/tokens", &tokens, &err), -ENOENT);
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tokens_load(path, &tokens, &err), -EINVAL); /* and nobody waits for it */
    (void)unlink(path);
    if (geteuid() == 0) {
        assert_int_equal(load(line, 0600, &tokens, &err), 0);
        (void)tokens_free(tokens);
        assert_int_equal(chown(path, 12345, 0), 0);
        assert_int_equal(tokens_load(path, &tokens, &err), -EACCES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_has_its_role_and_name),
        cmocka_unit_test(bad_lines_are_refused),
        cmocka_unit_test(a_file_that_others_can_change_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
