/* goodput_evidence.c: how a failure of each category shows itself, and what of that never arrives.
 *
 * One node says what is wrong with it; some nodes that worked with it say what became of them, as
 * real logs do: channels torn down, connections closed. Each of these is lost with a chance of
 * lost_ppm; what the controller then makes of the rest is compared with the truth (goodput_watch.c).
 * Of a failure whose own sign was lost the program still dies, the fault is still there, and it
 * shows itself again once the job runs. */
#include "controller/sim/goodput_world.h"
#include "proto/base/text.h"

enum { FOLLOWERS = 3, PICK_TRIES = 20 };

struct sign {
    const char *category; /* NULL: of every other one */
    const char *name;     /* the row of the catalogue that an agent would find */
    uint8_t label;
    uint8_t advice;
    int32_t code;
    int32_t gpu;
    int32_t port;
};

static const struct sign signs[] = {
    {"gpu-or-nvlink", "xid-79", LABEL_HARDWARE, ADVICE_EVICT_REBOOT, 79, 0, -1},
    {"gpu-memory", "xid-48", LABEL_HARDWARE, ADVICE_EVICT_RESET, 48, 0, -1},
    {"gpu-sram", "xid-95", LABEL_HARDWARE, ADVICE_EVICT_RESET, 95, 0, -1},
    {"gpu-system-processor", "xid-119", LABEL_SOFTWARE, ADVICE_EVICT_RESET, 119, 0, -1},
    {"switch-or-cable", "mlx5-cable-error", LABEL_NETWORK, ADVICE_EVICT_DIAG, 0, -1, 0},
    {"nic", "mlx5-health", LABEL_HARDWARE, ADVICE_EVICT, 0, -1, 0},
    {"cpu", "mce", LABEL_HARDWARE, ADVICE_EVICT, 0, -1, -1},
    {"host-memory", "edac-ue", LABEL_HARDWARE, ADVICE_EVICT, 0, -1, -1},
    {"expansion-board", "aer-fatal", LABEL_HARDWARE, ADVICE_EVICT, 0, -1, -1},
    {NULL, "xid-79", LABEL_HARDWARE, ADVICE_EVICT_REBOOT, 79, 0, -1},
};

static const struct sign follows[] = {
    {NULL, "xid-45", LABEL_CASCADE, ADVICE_FOLLOW, 45, 0, -1},
    {NULL, "nccl-socket-closed", LABEL_CASCADE, ADVICE_FOLLOW, 0, -1, -1},
};

static const struct sign *sign_of(const char *category)
{
    size_t index = 0;
    while (signs[index].category != NULL && !text_equal(signs[index].category, category)) {
        index++;
    }
    return &signs[index];
}

/* false: it never arrived. */
static bool say(struct gp *gp, uint32_t node, const struct sign *sign, uint8_t role,
                const char *text)
{
    if (prng_chance_ppm(&gp->evidence, gp->options.lost_ppm)) {
        return false;
    }
    struct fact fact = {.source = FACT_PROBE,
                        .severity = signal_severity(sign->label, sign->advice, role),
                        .rank = -1,
                        .gpu = sign->gpu,
                        .port = sign->port,
                        .code = sign->code,
                        .label = sign->label,
                        .advice = sign->advice,
                        .role = role};
    (void)text_copy(fact.signal, sizeof(fact.signal), sign->name);
    (void)text_copy(fact.text, sizeof(fact.text), text);
    gp_node_fact(gp, node, &fact);
    return true;
}

/* Another node of the job; the node itself when none is found at once. */
static uint32_t pick_peer(struct gp *gp, uint32_t node)
{
    const struct job *job = core_job(gp->ctl.core, gp->job);
    for (uint32_t pick = 0; pick < PICK_TRIES; pick++) {
        uint32_t slot = (uint32_t)prng_below(&gp->evidence, job->slot_count);
        uint32_t id = core_slot(gp->ctl.core, job, slot)->d.node;
        uint32_t index = id != 0 ? gp_node_index(gp, id) : node;
        if (index != node && gp->nodes[index].up) {
            return index;
        }
    }
    return node;
}

static void say_follows(struct gp *gp, uint32_t node)
{
    for (uint32_t count = 0; count < FOLLOWERS; count++) {
        uint32_t peer = pick_peer(gp, node);
        for (size_t index = 0; index < ARRAY_SIZE(follows) && peer != node; index++) {
            (void)say(gp, peer, &follows[index], ROLE_CASCADE, follows[index].name);
        }
    }
}

bool gp_evidence_show(struct gp *gp, uint32_t node, const char *category, bool *ret_stops)
{
    const struct sign *sign = sign_of(category);
    /* What follows can be read first: nodes differ in how soon their agents read. */
    bool late = prng_chance_ppm(&gp->evidence, 500000);
    if (late) {
        say_follows(gp, node);
    }
    bool shown = say(gp, node, sign, ROLE_ROOT, category);
    *ret_stops = signal_severity(sign->label, sign->advice, ROLE_ROOT) >= 2;
    if (!late) {
        say_follows(gp, node);
    }
    return shown;
}
