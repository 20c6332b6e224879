/* manifest.c: writing is one printf with a loop; reading walks the same text, literal by literal,
 * and then writes it once more to compare: what reads back equal has no second meaning. */
#include "agent/trainer/manifest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void manifest_shard_name(uint32_t rank, char ret_name[MANIFEST_SHARD_NAME_SIZE])
{
    (void)snprintf(ret_name, MANIFEST_SHARD_NAME_SIZE, "shard-%05u.bin", rank);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void print_head(FILE *out, const struct manifest_head *head)
{
    fprintf(out, "{\n  \"format\": \"keepstep\",\n  \"version\": 1,\n");
    fprintf(out, "  \"job\": \"%s\",\n  \"attempt\": %u,\n  \"step\": %llu,\n", head->job,
            head->attempt, (unsigned long long)head->step);
    fprintf(out,
            "  \"layout\": {\"tensor\": %u, \"context\": %u, \"pipeline\": %u, \"data\": %u},\n",
            head->layout.tensor, head->layout.context, head->layout.pipeline, head->layout.data);
    fprintf(out,
            "  \"model\": {\"context\": %u, \"layers\": %u, \"width\": %u, \"weights\": %llu},\n",
            head->shape.context, head->shape.layers, head->shape.width,
            (unsigned long long)head->weights);
    fprintf(out, "  \"parts\": [\"weights\", \"optimizer\", \"data\", \"rng\"],\n");
    fprintf(out,
            "  \"data\": {\"bytes\": %llu, \"hash\": \"%016llx\", \"batch\": %u, "
            "\"next_step\": %llu},\n",
            (unsigned long long)head->text_size, (unsigned long long)head->text_hash, head->batch,
            (unsigned long long)head->step + 1);
    fprintf(out, "  \"rng\": {\"kind\": \"counter\", \"seed\": %llu},\n",
            (unsigned long long)head->seed);
}

static void print_shards(FILE *out, const struct manifest *manifest)
{
    fprintf(out, "  \"shards\": [\n");
    for (uint32_t rank = 0; rank < manifest->shard_count; rank++) {
        char name[MANIFEST_SHARD_NAME_SIZE];
        manifest_shard_name(rank, name);
        fprintf(out, "    {\"rank\": %u, \"file\": \"%s\", \"size\": %llu, \"hash\": \"%s\"}%s\n",
                rank, name, (unsigned long long)manifest->shards[rank].size,
                manifest->shards[rank].hash, rank + 1 < manifest->shard_count ? "," : "");
    }
    fprintf(out, "  ]\n}\n");
}

int manifest_format(const struct manifest *manifest, struct fail *fail, char **ret_text,
                    size_t *ret_size)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out != NULL) {
        print_head(out, &manifest->head);
        print_shards(out, manifest);
        if (fclose(out) == 0) {
            *ret_text = text;
            *ret_size = size;
            return 0;
        }
    }
    free(text);
    return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for the manifest");
}

/* ---- reading -------------------------------------------------------------------------------- */

struct scanner {
    const char *begin;
    const char *at;
    const char *end;
    bool ok; /* false from the first surprise on; `at` then stays there */
};

static void expect(struct scanner *scanner, const char *literal)
{
    const size_t size = strlen(literal);
    const size_t left = (size_t)(scanner->end - scanner->at);
    const size_t compared = left < size ? left : size;
    if (!scanner->ok || memcmp(scanner->at, literal, compared) != 0) {
        scanner->ok = false;
        return;
    }
    scanner->at += compared; /* a text that ends inside the literal leaves `at` at its end */
    scanner->ok = compared == size;
}

static uint64_t take_number(struct scanner *scanner, uint64_t max)
{
    uint64_t value = 0;
    const char *start = scanner->at;
    while (scanner->ok && scanner->at < scanner->end && *scanner->at >= '0' &&
           *scanner->at <= '9') {
        const uint64_t digit = (uint64_t)(*scanner->at - '0');
        if (value > (max - digit) / 10) {
            scanner->ok = false;
            return 0;
        }
        value = value * 10 + digit;
        scanner->at++;
    }
    scanner->ok = scanner->ok && scanner->at > start;
    return value;
}

static uint32_t take_u32(struct scanner *scanner)
{
    return (uint32_t)take_number(scanner, UINT32_MAX);
}

/* Characters of `alphabet` up to size - 1; at least one. */
static void take_word(struct scanner *scanner, const char *alphabet, char *ret_word, size_t size)
{
    size_t length = 0;
    while (scanner->ok && scanner->at < scanner->end && *scanner->at != '\0' &&
           strchr(alphabet, *scanner->at) != NULL && length + 1 < size) {
        ret_word[length++] = *scanner->at++;
    }
    ret_word[length] = '\0';
    scanner->ok = scanner->ok && length > 0;
}

static const char hex_digits[] = "0123456789abcdef";
static const char name_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

static uint64_t take_hex64(struct scanner *scanner)
{
    char word[17];
    uint64_t value = 0;
    take_word(scanner, hex_digits, word, sizeof(word));
    for (const char *digit = word; *digit != '\0'; digit++) {
        value = value << 4 | (uint64_t)(strchr(hex_digits, *digit) - hex_digits);
    }
    return value;
}

static void take_head(struct scanner *scanner, struct manifest_head *head)
{
    expect(scanner, "{\n  \"format\": \"keepstep\",\n  \"version\": 1,\n  \"job\": \"");
    take_word(scanner, name_letters, head->job, sizeof(head->job));
    expect(scanner, "\",\n  \"attempt\": ");
    head->attempt = take_u32(scanner);
    expect(scanner, ",\n  \"step\": ");
    head->step = take_number(scanner, UINT64_MAX);
    expect(scanner, ",\n  \"layout\": {\"tensor\": ");
    head->layout.tensor = take_u32(scanner);
    expect(scanner, ", \"context\": ");
    head->layout.context = take_u32(scanner);
    expect(scanner, ", \"pipeline\": ");
    head->layout.pipeline = take_u32(scanner);
    expect(scanner, ", \"data\": ");
    head->layout.data = take_u32(scanner);
    expect(scanner, "},\n  \"model\": {\"context\": ");
    head->shape.context = take_u32(scanner);
    expect(scanner, ", \"layers\": ");
    head->shape.layers = take_u32(scanner);
    expect(scanner, ", \"width\": ");
    head->shape.width = take_u32(scanner);
    expect(scanner, ", \"weights\": ");
    head->weights = take_number(scanner, UINT64_MAX);
    expect(scanner, "},\n  \"parts\": [\"weights\", \"optimizer\", \"data\", \"rng\"],\n");
    expect(scanner, "  \"data\": {\"bytes\": ");
    head->text_size = take_number(scanner, UINT64_MAX);
    expect(scanner, ", \"hash\": \"");
    head->text_hash = take_hex64(scanner);
    expect(scanner, "\", \"batch\": ");
    head->batch = take_u32(scanner);
    expect(scanner, ", \"next_step\": ");
    (void)take_number(scanner, UINT64_MAX); /* step + 1, or the second writing finds out */
    expect(scanner, "},\n  \"rng\": {\"kind\": \"counter\", \"seed\": ");
    head->seed = take_number(scanner, UINT64_MAX);
    expect(scanner, "},\n  \"shards\": [\n");
}

static void take_shard(struct scanner *scanner, struct durable_file *shard)
{
    char name[MANIFEST_SHARD_NAME_SIZE];
    expect(scanner, "    {\"rank\": ");
    (void)take_u32(scanner); /* its place in the list, or the second writing finds out */
    expect(scanner, ", \"file\": \"");
    take_word(scanner, name_letters, name, sizeof(name)); /* same */
    expect(scanner, "\", \"size\": ");
    shard->size = take_number(scanner, UINT64_MAX);
    expect(scanner, ", \"hash\": \"");
    take_word(scanner, hex_digits, shard->hash, sizeof(shard->hash));
    expect(scanner, "\"}");
}

static bool layout_ok(const struct comm_layout *layout)
{
    uint64_t world = 1;
    const uint32_t sizes[] = {layout->tensor, layout->context, layout->pipeline, layout->data};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] == 0 || sizes[i] > COMM_WORLD_MAX) {
            return false;
        }
        world *= sizes[i];
    }
    return world <= COMM_WORLD_MAX;
}

static int refuse(const struct scanner *scanner, const char *place, const char *what,
                  struct fail *fail)
{
    size_t line = 1;
    for (const char *at = scanner->begin; at < scanner->at; at++) {
        line += *at == '\n' ? 1 : 0;
    }
    return fail_set(fail, EXIT_CHECKPOINT, -EBADMSG, "%s: line %zu: %s", place, line, what);
}

/* Writing what was read must give the same bytes. */
static int check_same(const struct manifest *manifest, const struct scanner *scanner,
                      const char *place, struct fail *fail)
{
    char *again = NULL;
    size_t size = 0;
    const int code = manifest_format(manifest, fail, &again, &size);
    if (code < 0) {
        return code;
    }
    const size_t length = (size_t)(scanner->end - scanner->begin);
    const bool same = size == length && memcmp(again, scanner->begin, size) == 0;
    free(again);
    return same ? 0 : refuse(scanner, place, "numbers that contradict each other", fail);
}

int manifest_parse(const char *text, size_t size, const char *place, struct fail *fail,
                   struct manifest *ret_manifest)
{
    struct manifest manifest = {0};
    struct scanner scanner = {.begin = text, .at = text, .end = text + size, .ok = true};
    take_head(&scanner, &manifest.head);
    if (!scanner.ok) {
        const bool cut = scanner.at == scanner.end;
        return refuse(&scanner, place, cut ? "it is cut off" : "not a manifest of this trainer",
                      fail);
    }
    if (!layout_ok(&manifest.head.layout)) {
        return refuse(&scanner, place, "its layout is not possible", fail);
    }
    manifest.shard_count = comm_layout_world(&manifest.head.layout);
    manifest.shards = calloc(manifest.shard_count, sizeof(*manifest.shards));
    if (manifest.shards == NULL) {
        return fail_set(fail, EXIT_LOCAL, -ENOMEM, "no memory for %u shards", manifest.shard_count);
    }
    for (uint32_t rank = 0; rank < manifest.shard_count; rank++) {
        take_shard(&scanner, &manifest.shards[rank]);
        expect(&scanner, rank + 1 < manifest.shard_count ? ",\n" : "\n");
    }
    expect(&scanner, "  ]\n}\n");
    int code = 0;
    if (!scanner.ok || scanner.at != scanner.end) {
        code = refuse(&scanner, place, "its list of shards is cut off or not one of this trainer",
                      fail);
    } else {
        code = check_same(&manifest, &scanner, place, fail);
    }
    if (code < 0) {
        manifest_done(&manifest);
        return code;
    }
    *ret_manifest = manifest;
    return 0;
}

void manifest_done(struct manifest *manifest)
{
    free(manifest->shards);
    *manifest = (struct manifest){0};
}

/* ---- comparing ------------------------------------------------------------------------------ */

struct comparison {
    const char *name;
    uint64_t expected;
    uint64_t found;
};

/* A shard fits one place of one layout, so the layout is a reason of its own. */
static int compare_layout(const struct comm_layout *expected, const struct comm_layout *found,
                          const char *place, struct fail *fail)
{
    const struct comparison list[] = {
        {"tensor", expected->tensor, found->tensor},
        {"context", expected->context, found->context},
        {"pipeline", expected->pipeline, found->pipeline},
        {"data", expected->data, found->data},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        if (list[i].expected != list[i].found) {
            return fail_set(
                fail, EXIT_CHECKPOINT, -EXDEV,
                "%s: layout.%s is %llu, expected %llu: it was saved with tp %u cp %u pp "
                "%u dp %u and fits no other layout",
                place, list[i].name, (unsigned long long)list[i].found,
                (unsigned long long)list[i].expected, found->tensor, found->context,
                found->pipeline, found->data);
        }
    }
    return 0;
}

int manifest_compare(const struct manifest_head *expected, const struct manifest_head *found,
                     const char *place, struct fail *fail)
{
    if (strcmp(expected->job, found->job) != 0) {
        return fail_set(fail, EXIT_CHECKPOINT, -EXDEV, "%s: job is '%s', expected '%s'", place,
                        found->job, expected->job);
    }
    const int layout = compare_layout(&expected->layout, &found->layout, place, fail);
    if (layout < 0) {
        return layout;
    }
    const struct comparison list[] = {
        {"attempt", expected->attempt, found->attempt},
        {"step", expected->step, found->step},
        {"model.context", expected->shape.context, found->shape.context},
        {"model.layers", expected->shape.layers, found->shape.layers},
        {"model.width", expected->shape.width, found->shape.width},
        {"model.weights", expected->weights, found->weights},
        {"data.bytes", expected->text_size, found->text_size},
        {"data.hash", expected->text_hash, found->text_hash},
        {"data.batch", expected->batch, found->batch},
        {"rng.seed", expected->seed, found->seed},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        const bool hash = strcmp(list[i].name, "data.hash") == 0;
        if (list[i].expected != list[i].found) {
            return fail_set(fail, EXIT_CHECKPOINT, -EXDEV,
                            hash ? "%s: %s is %016llx, expected %016llx"
                                 : "%s: %s is %llu, expected %llu",
                            place, list[i].name, (unsigned long long)list[i].found,
                            (unsigned long long)list[i].expected);
        }
    }
    return 0;
}
