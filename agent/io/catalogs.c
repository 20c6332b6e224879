/* catalogs.c: see catalogs.h. */
#include "agent/io/catalogs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/probe/catalog_file.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/file.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static struct catalog *create(void)
{
    struct catalog_limits limits;
    struct catalog *catalog = NULL;
    catalog_limits_default(&limits);
    const int r = catalog_create(&limits, &catalog);
    CHECK(r == 0);
    return catalog;
}

int catalogs_load(const char *path, struct catalog **ret_catalog, struct err *err)
{
    struct catalog *catalog = create();
    int r = catalog_read_shipped(catalog, err);
    if (r == 0 && path[0] != '\0') {
        r = catalog_file_read(catalog, path, err);
    }
    if (r != 0) {
        (void)catalog_free(catalog);
        return r;
    }
    *ret_catalog = catalog;
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int usage(void)
{
    (void)fputs("usage: keepstep-agent catalog check FILE    its rows, or what is wrong with them\n"
                "       keepstep-agent catalog show [FILE]   all rows, with those of FILE\n"
                "exit codes: 0 good, 2 FILE cannot be read or a line of it is wrong\n",
                stderr);
    return EXIT_USAGE;
}

static void print_rows(const struct catalog *catalog)
{
    for (uint32_t i = 0; i < catalog_count(catalog); i++) {
        struct catalog_row row;
        catalog_row(catalog, i, &row);
        (void)printf("%s\t%s\t%s\t%s\t%s\t%s\n", row.name, signal_label_word(row.label),
                     signal_advice_word(row.advice), signal_role_word(row.role), row.match,
                     row.explain);
    }
}

static void print_problem(void *context, const char *text)
{
    (void)context;
    (void)fprintf(stderr, "%s\n", text);
}

/* Against the shipped rows, since it must fit behind them; its rows are printed without those. */
static int check_bytes(const char *path, const struct buf *bytes)
{
    struct err err = {0};
    struct catalog *whole = NULL;
    const char *text = (const char *)bytes->data;
    int r = catalogs_load("", &whole, &err);
    CHECK(r == 0);
    const uint32_t problems = catalog_check(whole, path, text, bytes->size, print_problem, NULL);
    (void)catalog_free(whole);
    if (problems > 0) {
        (void)fprintf(stderr, "%s: %u %s wrong\n", path, problems,
                      problems == 1 ? "line is" : "lines are");
        return EXIT_USAGE;
    }
    struct catalog *own = create();
    r = catalog_read(own, path, text, bytes->size, &err);
    CHECK(r == 0);
    print_rows(own);
    (void)catalog_free(own);
    return EXIT_DONE;
}

static int check_file(const char *path)
{
    struct buf bytes;
    struct err err = {0};
    buf_init(&bytes, CATALOG_FILE_MAX);
    int result = EXIT_USAGE;
    if (file_read(path, CATALOG_FILE_MAX, &bytes, &err) == 0) {
        (void)buf_text(&bytes); /* also of an empty file there are bytes then */
        result = check_bytes(path, &bytes);
    } else {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    buf_done(&bytes);
    return result;
}

static int show(const char *path)
{
    struct err err = {0};
    struct catalog *catalog = NULL;
    if (catalogs_load(path, &catalog, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return EXIT_USAGE;
    }
    print_rows(catalog);
    (void)catalog_free(catalog);
    return EXIT_DONE;
}

int catalogs_main(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[2] : "";
    int result = EXIT_USAGE;
    if (strcmp(verb, "check") == 0 && argc == 4) {
        result = check_file(argv[3]);
    } else if (strcmp(verb, "show") == 0 && argc <= 4) {
        result = show(argc == 4 ? argv[3] : "");
    } else {
        return usage();
    }
    if (fflush(stdout) != 0) {
        (void)fprintf(stderr, "the output cannot be written: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    return result;
}
