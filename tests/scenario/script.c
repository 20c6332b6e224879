/* script.c: see script.h. */
#include "tests/scenario/script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/mem.h"
#include "proto/base/text.h"

static int read_whole(const char *path, struct buf *buf, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return err_set(err, -errno, "%s cannot be read", path);
    }
    char chunk[4096];
    size_t size;
    int code = 0;
    while (code == 0 && (size = fread(chunk, 1, sizeof chunk, file)) > 0) {
        code = buf_put(buf, chunk, size);
    }
    if (code < 0 || ferror(file) != 0) {
        code = err_set(err, code < 0 ? code : -EIO, "%s cannot be read whole", path);
    }
    (void)fclose(file);
    return code;
}

/* Up to and without the next line end; *at moves behind it. NULL at the end of the text. */
static const char *next_line(const char **at, size_t *ret_size)
{
    const char *line = *at;
    if (*line == '\0') {
        return NULL;
    }
    *ret_size = strcspn(line, "\n");
    *at = line + *ret_size + (line[*ret_size] == '\n' ? 1 : 0);
    return line;
}

static char *copy_of(const char *from, size_t size)
{
    char *copy = mem_alloc(size + 1, 1);
    memcpy(copy, from, size);
    return copy;
}

/* A command, its ---- and what it shows. `line` is the command's line, *at is behind it. */
static int read_block(const char *path, const char *before, const char *line, size_t size,
                      const char **at, struct script_block *block, struct err *err)
{
    block->before = copy_of(before, (size_t)(line - before));
    block->command = copy_of(line, size);
    size_t next_size = 0;
    const char *next = next_line(at, &next_size);
    if (next == NULL || next_size != 4 || memcmp(next, "----", 4) != 0) {
        return err_set(err, -EINVAL, "%s: no ---- below `%s`", path, block->command);
    }
    const char *expected = *at;
    const char *end = expected;
    while ((next = next_line(at, &next_size)) != NULL && next_size > 0) {
        end = *at;
    }
    block->expected = copy_of(expected, (size_t)(end - expected));
    return 0;
}

int script_load(const char *path, struct script *ret_script, struct err *err)
{
    struct buf buf;
    memset(ret_script, 0, sizeof *ret_script);
    buf_init(&buf, SCRIPT_SIZE_MAX);
    int code = read_whole(path, &buf, err);
    const char *at = code == 0 ? buf_text(&buf) : "";
    const char *before = at;
    const char *line;
    size_t size = 0;
    while (code == 0 && (line = next_line(&at, &size)) != NULL) {
        if (size == 0 || line[0] == '#') {
            continue;
        }
        if (ret_script->count == SCRIPT_BLOCKS_MAX) {
            code = err_set(err, -E2BIG, "%s: more than %d commands", path, SCRIPT_BLOCKS_MAX);
            break;
        }
        code = read_block(path, before, line, size, &at, &ret_script->blocks[ret_script->count++],
                          err);
        before = at;
    }
    buf_done(&buf);
    if (code < 0) {
        script_done(ret_script);
    }
    return code;
}

void script_done(struct script *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        mem_free(script->blocks[i].before);
        mem_free(script->blocks[i].command);
        mem_free(script->blocks[i].expected);
    }
    script->count = 0;
}

int script_write(const char *path, const struct script *script,
                 char *const actual[SCRIPT_BLOCKS_MAX], struct err *err)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return err_set(err, -errno, "%s cannot be written", path);
    }
    for (uint32_t i = 0; i < script->count; i++) {
        const struct script_block *block = &script->blocks[i];
        (void)fprintf(file, "%s%s\n----\n%s%s", block->before, block->command, actual[i],
                      i + 1 < script->count ? "\n" : "");
    }
    int code = ferror(file) != 0 ? err_set(err, -EIO, "%s cannot be written", path) : 0;
    return fclose(file) != 0 && code == 0 ? err_set(err, -errno, "%s: not whole", path) : code;
}

int words_split(const char *line, struct words *ret_words, struct err *err)
{
    memset(ret_words, 0, sizeof *ret_words);
    if (!text_copy(ret_words->line, sizeof ret_words->line, line)) {
        return err_set(err, -E2BIG, "`%s` is too long", line);
    }
    char *at = ret_words->line + strspn(ret_words->line, " ");
    while (*at != '\0') {
        if (ret_words->count == SCRIPT_WORDS_MAX) {
            return err_set(err, -E2BIG, "`%s` has too many words", line);
        }
        ret_words->at[ret_words->count++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') {
            *at++ = '\0';
            at += strspn(at, " ");
        }
    }
    return 0;
}
