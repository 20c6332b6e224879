/* catalog_shipped.c: the files of agent/probe/catalog, as they were when this was built. */
#include "agent/core/catalog.h"
#include "proto/base/check.h"

static const char xid_text[] = {
#include "agent/probe/catalog/xid.tsv.inc"
    0};
static const char nvlink5_text[] = {
#include "agent/probe/catalog/nvlink5.tsv.inc"
    0};
static const char sxid_text[] = {
#include "agent/probe/catalog/sxid.tsv.inc"
    0};
static const char log_text[] = {
#include "agent/probe/catalog/log.tsv.inc"
    0};

int catalog_read_shipped(struct catalog *catalog, struct err *err)
{
    static const struct {
        const char *name;
        const char *text;
        size_t size;
    } files[] = {{"xid.tsv", xid_text, sizeof(xid_text) - 1},
                 {"nvlink5.tsv", nvlink5_text, sizeof(nvlink5_text) - 1},
                 {"sxid.tsv", sxid_text, sizeof(sxid_text) - 1},
                 {"log.tsv", log_text, sizeof(log_text) - 1}};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        const int r = catalog_read(catalog, files[i].name, files[i].text, files[i].size, err);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}
