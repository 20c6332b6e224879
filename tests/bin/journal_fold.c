/* journal_fold.c: what the journal of a controller that has ended says its state is.
 *
 *     journal_fold DATABASE
 *
 * Folds it twice: from its first fact, and from its last snapshot, which a controller writes of the
 * state that it has when it ends. Prints `facts=N snapshot=yes|no digest=HEX`; ends with 1, saying
 * why, when the file is damaged, a record cannot be used, or the two states are not the same. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/core/core.h"
#include "db/store_internal.h"

struct fold {
    struct core *core;
    uint64_t facts;
    struct store_replayed how;
    struct err *err;
};

static int fold_one(const struct record *record, void *context)
{
    struct fold *fold = context;
    fold->facts += record->kind < RECORD_FIRST_IMAGE ? 1 : 0;
    return core_replay(fold->core, record, fold->err);
}

static int no_bad_row(const struct store_bad *bad, void *context)
{
    struct fold *fold = context;
    return err_set(fold->err, -EUCLEAN, "record %llu (%s, %s): %s",
                   (unsigned long long)bad->sequence, bad->kind, bad->subject, bad->reason);
}

static int fold_from(struct store *store, uint64_t from, struct fold *fold, struct err *err)
{
    const struct core_config config = {0};
    struct store_visitor visitor = {fold_one, no_bad_row, fold};
    *fold = (struct fold){.err = err};
    int code = core_create(&core_limits_default, &config, 1, &fold->core);
    if (code < 0) {
        return err_set(err, code, "the core cannot be made");
    }
    code = store_replay(store, from, &visitor, &fold->how, err);
    if (code == 0) {
        core_check(fold->core);
    }
    return code;
}

static int compare(struct store *store, struct err *err)
{
    struct fold whole;
    struct fold quick;
    int code = fold_from(store, 1, &whole, err);
    if (code < 0) {
        (void)core_free(whole.core);
        return code;
    }
    code = fold_from(store, 0, &quick, err);
    if (code == 0 && core_digest(whole.core) != core_digest(quick.core)) {
        code = err_set(err, -EUCLEAN,
                       "the snapshot and what followed it are another state than all facts");
    }
    if (code == 0) {
        (void)printf("facts=%llu snapshot=%s digest=%016llx\n", (unsigned long long)whole.facts,
                     quick.how.from_snapshot ? "yes" : "no",
                     (unsigned long long)core_digest(whole.core));
    }
    (void)core_free(whole.core);
    (void)core_free(quick.core);
    return code;
}

static int check_pages(struct store *store, struct err *err)
{
    int64_t damaged = 0;
    int code = sql_integer(
        store->db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        &damaged, err);
    return code == 0 && damaged > 0 ? err_set(err, -EUCLEAN, "integrity_check finds damage") : code;
}

int main(int count, char **arguments)
{
    struct err err = {0};
    struct store *store = NULL;
    if (count != 2) {
        (void)fputs("journal_fold DATABASE\n", stderr);
        return 2;
    }
    int code = store_open(arguments[1], STORE_READ_WRITE, NULL, &store, &err);
    code = code == 0 ? check_pages(store, &err) : code;
    code = code == 0 ? compare(store, &err) : code;
    (void)store_close(store, 0, NULL); /* nothing was appended */
    if (code < 0) {
        (void)fprintf(stderr, "journal_fold: %s\n", err.text);
    }
    return code < 0 ? 1 : 0;
}
