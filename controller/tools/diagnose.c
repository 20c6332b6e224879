/* diagnose.c: what the verbs of keepstep-diagnose share: their options, the catalogue, printing. */
#include "controller/tools/diagnose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/file.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

/* ---- options --------------------------------------------------------------------------------- */

static int set_output(struct diagnose_options *options, const char *value, struct err *err)
{
    static const char *const words[] = {"table", "json", "jsonl"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (text_equal(value, words[i])) {
            options->output = (enum diagnose_output)i;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "-o takes table, json or jsonl, not '%.40s'", value);
}

static int set_stream(struct diagnose_options *options, const char *value, struct err *err)
{
    static const char *const words[] = {"any", "kernel", "output", "agent"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (text_equal(value, words[i])) {
            options->stream = (enum line_stream)i;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "--stream takes any, kernel, output or agent, not '%.40s'", value);
}

static int set_value(struct diagnose_options *options, const char *key, const char *value,
                     struct err *err)
{
    if (text_equal(key, "-o") || text_equal(key, "--output")) {
        return set_output(options, value, err);
    }
    if (text_equal(key, "--stream")) {
        return set_stream(options, value, err);
    }
    if (text_equal(key, "--layout")) {
        options->layout = value;
        return 0;
    }
    options->catalog = value;
    return 0;
}

static bool takes_value(const char *key)
{
    return text_equal(key, "-o") || text_equal(key, "--output") || text_equal(key, "--stream") ||
           text_equal(key, "--catalog") || text_equal(key, "--layout");
}

/* A flag alone. */
static bool set_flag(struct diagnose_options *options, const char *word)
{
    bool *flag = NULL;
    if (text_equal(word, "-v") || text_equal(word, "--verbose")) {
        flag = &options->verbose;
    } else if (text_equal(word, "--known")) {
        flag = &options->known;
    } else if (text_equal(word, "-h") || text_equal(word, "--help")) {
        flag = &options->help;
    }
    if (flag != NULL) {
        *flag = true;
    }
    return flag != NULL;
}

static int set_file(struct diagnose_options *options, const char *word, struct err *err)
{
    if (options->file != NULL) {
        return err_set(err, -EINVAL, "one file, not '%.40s' and '%.40s'", options->file, word);
    }
    options->file = word;
    return 0;
}

/* Takes the word at *at, and the one behind it where it is its value. */
static int take_word(struct diagnose_options *options, int argc, char **argv, int *at,
                     struct err *err)
{
    const char *word = argv[*at];
    char key[32];
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const size_t size = equals != NULL ? (size_t)(equals - word) + 1 : sizeof(key);
    (void)text_copy(key, size < sizeof(key) ? size : sizeof(key), word);
    if (word[0] != '-' || text_equal(word, "-")) {
        return set_file(options, word, err);
    }
    if (set_flag(options, word)) {
        return 0;
    }
    if (!takes_value(key)) {
        return err_set(err, -EINVAL, "there is no option %.40s", word);
    }
    if (equals == NULL && *at + 1 == argc) {
        return err_set(err, -EINVAL, "%s needs a value", key);
    }
    return set_value(options, key, equals != NULL ? equals + 1 : argv[++*at], err);
}

int diagnose_parse(int argc, char **argv, struct diagnose_options *ret_options)
{
    struct err err = {0};
    *ret_options = (struct diagnose_options){0};
    for (int at = 1; at < argc; at++) {
        if (take_word(ret_options, argc, argv, &at, &err) != 0) {
            (void)fprintf(stderr,
                          "keepstep diagnose: %s\n(keepstep diagnose --help lists the options)\n",
                          err.text);
            return DIAGNOSE_USAGE;
        }
    }
    if (ret_options->file == NULL) {
        ret_options->file = "-";
    }
    return DIAGNOSE_DONE;
}

/* ---- the catalogue --------------------------------------------------------------------------- */

static int read_site_file(struct catalog *catalog, const char *path, struct err *err)
{
    struct buf bytes;
    buf_init(&bytes, CATALOG_FILE_MAX);
    int r = file_read(path, CATALOG_FILE_MAX, &bytes, err);
    r = r == 0 ? catalog_read(catalog, path, buf_text(&bytes), bytes.size, err) : r;
    buf_done(&bytes);
    return r;
}

int diagnose_catalog(const struct diagnose_options *options, struct catalog **ret_catalog,
                     struct err *err)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    catalog_limits_default(&limits);
    int r = catalog_create(&limits, &catalog);
    CHECK(r == 0);
    r = catalog_read_shipped(catalog, err);
    if (r == 0 && options->catalog != NULL) {
        r = read_site_file(catalog, options->catalog, err);
    }
    if (r != 0) {
        (void)catalog_free(catalog);
        return r;
    }
    *ret_catalog = catalog;
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

char *diagnose_mended(const char *text, size_t size)
{
    char *copy = mem_alloc(size + 1, 1);
    memcpy(copy, text, size);
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)copy[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
            copy[i] = '?';
        }
    }
    copy[size] = '\0';
    text_mend(copy);
    return copy;
}

static void set_text(json_t *object, const char *key, const char *value)
{
    if (value[0] != '\0') {
        (void)json_object_set_new(object, key, json_string(value));
    }
}

static void set_number(json_t *object, const char *key, int64_t value, int64_t none)
{
    if (value != none) {
        (void)json_object_set_new(object, key, json_integer(value));
    }
}

json_t *diagnose_signal(const struct signal *signal)
{
    json_t *object = json_object();
    set_text(object, "label", signal_label_word(signal->label));
    set_text(object, "action", signal_advice_word(signal->advice));
    set_text(object, "role", signal_role_word(signal->role));
    if (signal->name[0] == '\0') {
        return object;
    }
    set_text(object, "signal", signal->name);
    set_text(object, "explanation", signal->explain);
    set_text(object, "subject", signal->subject);
    set_text(object, "pci", signal->pci);
    set_number(object, "code", signal->code, SIGNAL_NO_CODE);
    set_number(object, "previous", signal->previous, 0);
    set_number(object, "rank", signal->rank, -1);
    set_number(object, "gpu", signal->gpu, -1);
    set_number(object, "link", signal->link, -1);
    set_number(object, "sequence", signal->sequence, -1);
    set_text(object, "operation", signal->operation);
    if (signal->from_user) {
        (void)json_object_set_new(object, "from_user", json_true());
    }
    return object;
}

int diagnose_flush(struct err *err)
{
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        return err_set(err, -EIO, "the output cannot be written: %s", strerror(errno));
    }
    return 0;
}

int diagnose_exit(int r)
{
    const bool is_file = r == -ENOENT || r == -EISDIR || r == -EACCES || r == -ENOTDIR ||
                         r == -ELOOP || r == -ENAMETOOLONG || r == -EINVAL || r == -ENOSPC ||
                         r == -EFBIG;
    return r == 0 ? DIAGNOSE_DONE : is_file ? DIAGNOSE_USAGE : DIAGNOSE_FAILED;
}
