/* layout.c: `keepstep layout table` and `where`: which node holds what. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/cli.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

enum { TEXT = 160 };

static void column_cell(struct table *table, const json_t *layout, const char *column, size_t row)
{
    const char *text = json_string_value(json_array_get(json_object_get(layout, column), row));
    table_text(table, text != NULL && text[0] != '\0' ? text : "-");
}

static void print_layout(const json_t *layout)
{
    static const char *const heads[] = {">SLOT", "NODE", "STATE", "RACK"};
    struct table table;
    size_t rows = json_array_size(json_object_get(layout, "node"));
    table_init(&table, ARRAY_SIZE(heads), heads);
    for (size_t i = 0; i < rows; i++) {
        table_cell(&table, "%zu", i);
        column_cell(&table, layout, "node", i);
        column_cell(&table, layout, "state", i);
        column_cell(&table, layout, "rack", i);
    }
    table_print(&table);
}

int verb_layout(struct cli *cli)
{
    struct answer answer;
    struct buf path;
    if (cli->count != 3 || !text_equal(cli->words[1], "table")) {
        return say_usage("keepstep layout table JOB");
    }
    path_start(&path, "/v1/jobs/", cli->words[2], "/layout");
    int code = path_get(cli, &path, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        print_layout(answer.json);
    }
    answer_done(&answer);
    return EXIT_DONE;
}

static int where_one(struct cli *cli, const char *job, const char *rank)
{
    struct answer answer;
    struct buf path;
    char node[TEXT];
    path_start(&path, "/v1/jobs/", job, "/ranks/");
    path_part(&path, rank);
    int code = path_get(cli, &path, &answer);
    if (code != EXIT_DONE) {
        return code;
    }
    if (!say_json(cli, &answer)) {
        const json_t *j = answer.json;
        printf("rank %lld = tensor %lld, stage %lld, replica %lld, on %s GPU %lld (slot %lld)\n",
               number(j, "rank"), number(j, "tensor"), number(j, "pipeline"), number(j, "data"),
               text_of(j, "node", node, sizeof node), number(j, "gpu"), number(j, "slot"));
    }
    answer_done(&answer);
    return EXIT_DONE;
}

int verb_where(struct cli *cli)
{
    int code = EXIT_DONE;
    if (cli->count < 3) {
        return say_usage("keepstep where JOB RANK...");
    }
    for (uint32_t i = 2; i < cli->count && code == EXIT_DONE; i++) {
        code = where_one(cli, cli->words[1], cli->words[i]);
    }
    return code;
}
