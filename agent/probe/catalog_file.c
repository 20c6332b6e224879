/* catalog_file.c: see catalog_file.h. */
#include "agent/probe/catalog_file.h"

#include "proto/base/buf.h"
#include "proto/base/file.h"

int catalog_file_read(struct catalog *catalog, const char *path, struct err *err)
{
    struct buf bytes;
    buf_init(&bytes, CATALOG_FILE_MAX);
    int r = file_read(path, CATALOG_FILE_MAX, &bytes, err);
    r = r == 0 ? catalog_read(catalog, path, buf_text(&bytes), bytes.size, err) : r;
    buf_done(&bytes);
    return r;
}
