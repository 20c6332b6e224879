/* mutation.c: the mistakes that can be built into the world, by name, and whom each must trip. */
#include "controller/sim/sim.h"

#include "proto/base/check.h"
#include "proto/base/text.h"

static const struct {
    const char *word;
    enum sim_judge judge;
} rows[] = {{"none", SIM_JUDGE_LIVE},
#define X(upper, word, judge) {word, SIM_JUDGE_##judge},
            SIM_MUTATIONS(X)
#undef X
};

enum sim_judge sim_mutation_judge(enum sim_mutation mutation)
{
    CHECK((size_t)mutation < ARRAY_SIZE(rows));
    return rows[mutation].judge;
}

int sim_mutation_find(const char *word)
{
    for (size_t index = 0; index < ARRAY_SIZE(rows); index++) {
        if (text_equal(rows[index].word, word)) {
            return (int)index;
        }
    }
    return -1;
}
