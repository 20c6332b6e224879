/* options.c: one table of flags, one reader of numbers, and the checks that need several of them.
 */
#include "agent/trainer/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char help_text[] =
    "keepstep-trainer: trains a small byte-level transformer on text files: tensor, pipeline and\n"
    "data parallel.\n"
    "\n"
    "Model and data\n"
    "  --text PATH...           files, or folders of files (required)\n"
    "  --steps N                steps in all (150)\n"
    "  --batch N                samples of one step over all ranks (16)\n"
    "  --context N              bytes of one sample (32)\n"
    "  --layers N --width N     size of the model (2, 32)\n"
    "  --lr X                   learning rate (0.005)\n"
    "  --seed N                 of weights and data order (1)\n"
    "Layout; without these flags that of the job, or 1 1 1 and what is left of the world\n"
    "  --tp N                   each linear pair is split over N ranks; divides the heads "
    "(width/16)\n"
    "  --pp N                   the layers are split over N stages; divides them\n"
    "  --dp N                   replicas of the model, which share the batch\n"
    "  --cp N                   1: this program has no context parallel\n"
    "  --micro-batches N        of one step in each replica (pp); batch is a multiple of dp x N\n"
    "Checkpoints and results\n"
    "  --checkpoint-dir DIR     where step-S.a-A folders go\n"
    "  --checkpoint-every N     save every N steps (0: only when asked)\n"
    "  --load FOLDER            begin from this checkpoint\n"
    "  --output-weights FILE    final weights, the same bytes for the same training\n"
    "  --dump-initial-weights FILE\n"
    "Running\n"
    "  --backend tcp|nccl       the CPU and connections, or a GPU for each rank and NCCL (tcp)\n"
    "  --eval-every N           look at the loss of other samples every N steps (0: never)\n"
    "  --step-min-ms N          a step takes at least so long (0)\n"
    "  --init-timeout N         seconds for the ranks to come together (120)\n"
    "  --inject FAULT           crash@K hang@K exit=C@K slow=X[@K] stall=S@K ignore-term\n"
    "                           fork-child[@K] hold-port cut=tp|pp|dp[@K], each with :rank=R and\n"
    "                           :attempt=A; may be repeated\n"
    "\n"
    "Environment: RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT as torchrun sets them;\n"
    "KEEPSTEP_JOB KEEPSTEP_ATTEMPT KEEPSTEP_RESTORE_STEP KEEPSTEP_RESTORE_ATTEMPT;\n"
    "KEEPSTEP_TP_RANK and _CP_ _PP_ _DP_, compared with rank = tp + TP x (cp + CP x (pp + PP x\n"
    "dp)). SIGUSR1 to rank 0: save.\n"
    "Equal flags, text and world give equal bits, also over restarts.\n"
    "Exit codes: 0 done, 1 a peer was lost, 3 checkpoint not usable, 4 ranks did not meet,\n"
    "5 this machine (text, memory, output), 6 this machine's GPU, 17 loss not finite,\n"
    "75 start again, 93 bad flags.\n";

const char *options_help(void)
{
    return help_text;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static int parse_number(const char *name, const char *text, uint64_t min, uint64_t max,
                        struct fail *fail, uint64_t *ret_value)
{
    uint64_t value = 0;
    bool good = *text != '\0';
    for (const char *at = text; good && *at != '\0'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        good = *at >= '0' && *at <= '9' && value <= (max - digit) / 10;
        value = good ? value * 10 + digit : value;
    }
    if (!good || value < min || value > max) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "%s '%s' must be a whole number from %llu to %llu", name, text,
                        (unsigned long long)min, (unsigned long long)max);
    }
    *ret_value = value;
    return 0;
}

static int parse_rate(const char *name, const char *text, struct fail *fail, float *ret_value)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0.0 || value > 1.0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "%s '%s' must be over 0 and at most 1",
                        name, text);
    }
    *ret_value = (float)value;
    return 0;
}

/* ---- flags ---------------------------------------------------------------------------------- */

enum flag_kind {
    FLAG_U32,
    FLAG_U64,
    FLAG_RATE,
    FLAG_WORD,
    FLAG_BACKEND,
    FLAG_INJECT,
    FLAG_PATHS,
    FLAG_HELP,
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t offset; /* of the field in struct options */
    uint64_t min;
    uint64_t max;
};

#define FIELD(field) offsetof(struct options, field)
static const uint64_t exact_max = ((uint64_t)1 << 53) - 1; /* what every JSON reader keeps */
static const struct flag flags[] = {
    {"--text", FLAG_PATHS, 0, 0, 0},
    {"--steps", FLAG_U64, FIELD(steps), 1, exact_max},
    {"--batch", FLAG_U32, FIELD(batch), 1, 65536},
    {"--micro-batches", FLAG_U32, FIELD(micros), 1, 65536},
    {"--context", FLAG_U32, FIELD(shape.context), 1, MODEL_CONTEXT_MAX},
    {"--layers", FLAG_U32, FIELD(shape.layers), 1, MODEL_LAYERS_MAX},
    {"--width", FLAG_U32, FIELD(shape.width), 1, MODEL_WIDTH_MAX},
    {"--lr", FLAG_RATE, FIELD(rate), 0, 0},
    {"--seed", FLAG_U64, FIELD(seed), 0, exact_max},
    {"--tp", FLAG_U32, FIELD(layout.tensor), 1, COMM_WORLD_MAX},
    {"--cp", FLAG_U32, FIELD(layout.context), 1, COMM_WORLD_MAX},
    {"--pp", FLAG_U32, FIELD(layout.pipeline), 1, COMM_WORLD_MAX},
    {"--dp", FLAG_U32, FIELD(layout.data), 1, COMM_WORLD_MAX},
    {"--checkpoint-dir", FLAG_WORD, FIELD(checkpoint_directory), 0, 0},
    {"--checkpoint-every", FLAG_U64, FIELD(checkpoint_every), 0, exact_max},
    {"--eval-every", FLAG_U64, FIELD(eval_every), 0, exact_max},
    {"--load", FLAG_WORD, FIELD(load), 0, 0},
    {"--output-weights", FLAG_WORD, FIELD(output_weights), 0, 0},
    {"--dump-initial-weights", FLAG_WORD, FIELD(initial_weights), 0, 0},
    {"--step-min-ms", FLAG_U32, FIELD(step_min_ms), 0, 3600000},
    {"--init-timeout", FLAG_U32, FIELD(init_timeout_s), 1, 86400},
    {"--backend", FLAG_BACKEND, 0, 0, 0},
    {"--inject", FLAG_INJECT, 0, 0, 0},
    {"--help", FLAG_HELP, 0, 0, 0},
};

static const struct flag *find_flag(const char *name)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static int set_inject(struct options *options, const char *text, struct fail *fail)
{
    if (options->inject_count == INJECT_MAX) {
        return fail_set(fail, EXIT_BAD_CONFIG, -E2BIG, "--inject: more than %d", INJECT_MAX);
    }
    const int code = inject_parse(text, fail, &options->inject[options->inject_count]);
    options->inject_count += code == 0 ? 1 : 0;
    return code;
}

/* Sets the field of one flag that takes one value. */
static int set_flag(const struct flag *flag, const char *value, struct fail *fail,
                    struct options *options)
{
    char *field = (char *)options + flag->offset;
    uint64_t number = 0;
    int code = 0;
    switch (flag->kind) {
    case FLAG_U32:
        code = parse_number(flag->name, value, flag->min, flag->max, fail, &number);
        const uint32_t small = (uint32_t)number;
        memcpy(field, &small, code == 0 ? sizeof(small) : 0);
        return code;
    case FLAG_U64:
        code = parse_number(flag->name, value, flag->min, flag->max, fail, &number);
        memcpy(field, &number, code == 0 ? sizeof(number) : 0);
        return code;
    case FLAG_RATE:
        return parse_rate(flag->name, value, fail, &options->rate);
    case FLAG_WORD:
        if (*value == '\0') {
            return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "%s must not be empty", flag->name);
        }
        memcpy(field, &value, sizeof(value));
        return 0;
    case FLAG_BACKEND:
        if (!backend_parse(value, &options->backend)) {
            return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "--backend '%s' must be tcp or nccl",
                            value);
        }
        return 0;
    case FLAG_INJECT:
        return set_inject(options, value, fail);
    case FLAG_PATHS:
    case FLAG_HELP:
        break; /* take none, or several */
    }
    return 0;
}

static int parse_flags(const char *const *arguments, struct fail *fail, struct options *options)
{
    const char *const *at = arguments[0] == NULL ? arguments : arguments + 1;
    while (*at != NULL) {
        const struct flag *flag = find_flag(*at);
        if (flag == NULL) {
            return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "'%s' is not a flag; see --help", *at);
        }
        at++;
        if (flag->kind == FLAG_HELP) {
            options->help = true;
        } else if (flag->kind == FLAG_PATHS) {
            options->text = at;
            options->text_count = 0;
            for (; *at != NULL && strncmp(*at, "--", 2) != 0; at++) {
                options->text_count++;
            }
        } else if (*at == NULL) {
            return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "%s needs a value", flag->name);
        } else {
            const int code = set_flag(flag, *at, fail, options);
            if (code < 0) {
                return code;
            }
            at++;
        }
    }
    return 0;
}

/* ---- environment ---------------------------------------------------------------------------- */

/* NULL when it is not set, or empty. */
static const char *find_variable(const char *const *environment, const char *name)
{
    const size_t size = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=' &&
            (*environment)[size + 1] != '\0') {
            return *environment + size + 1;
        }
    }
    return NULL;
}

/* The first of two names that is set, as a number; otherwise otherwise. */
static int read_variable(const char *const *environment, const char *name, const char *second,
                         uint64_t max, uint64_t otherwise, struct fail *fail, uint64_t *ret_value)
{
    const char *used = name;
    const char *text = find_variable(environment, name);
    if (text == NULL && second != NULL) {
        used = second;
        text = find_variable(environment, second);
    }
    *ret_value = otherwise;
    return text == NULL ? 0 : parse_number(used, text, 0, max, fail, ret_value);
}

static bool is_name(const char *text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return *text != '\0' && text[strspn(text, letters)] == '\0' && strlen(text) < MANIFEST_JOB_SIZE;
}

static int read_job(const char *const *environment, struct fail *fail, struct options *options)
{
    const char *job = find_variable(environment, "KEEPSTEP_JOB");
    if (job == NULL) {
        job = find_variable(environment, "TORCHELASTIC_RUN_ID");
    }
    job = job == NULL ? "standalone" : job;
    if (!is_name(job)) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "KEEPSTEP_JOB '%s' must be 1 to %d of A-Z a-z 0-9 . _ -", job,
                        MANIFEST_JOB_SIZE - 1);
    }
    (void)snprintf(options->job, sizeof(options->job), "%s", job); /* fits, as just checked */
    return 0;
}

static int read_place(const char *const *environment, struct fail *fail, struct options *options)
{
    static const char *const names[] = {"KEEPSTEP_TP_RANK", "KEEPSTEP_CP_RANK", "KEEPSTEP_PP_RANK",
                                        "KEEPSTEP_DP_RANK"};
    for (size_t i = 0; i < 4; i++) {
        uint64_t value = 0;
        const bool said = find_variable(environment, names[i]) != NULL;
        const int code =
            read_variable(environment, names[i], NULL, COMM_WORLD_MAX, 0, fail, &value);
        if (code < 0) {
            return code;
        }
        options->claimed_place[i] = said ? (int64_t)value : -1;
    }
    return 0;
}

static int read_master(const char *const *environment, struct fail *fail, struct options *options)
{
    uint64_t port = 0;
    options->master_address = find_variable(environment, "MASTER_ADDR");
    int code = read_variable(environment, "MASTER_PORT", NULL, 65535, 0, fail, &port);
    if (code == 0 && options->world > 1 && (options->master_address == NULL || port == 0)) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "MASTER_ADDR and MASTER_PORT must be set when WORLD_SIZE is over 1");
    }
    options->master_port = (uint16_t)port;
    return code;
}

static int parse_environment(const char *const *environment, struct fail *fail,
                             struct options *options)
{
    uint64_t rank = 0;
    uint64_t local_rank = 0;
    uint64_t world = 0;
    uint64_t attempt = 0;
    uint64_t restore_attempt = 0;
    int code = read_variable(environment, "WORLD_SIZE", NULL, COMM_WORLD_MAX, 1, fail, &world);
    if (code == 0) {
        code = read_variable(environment, "RANK", NULL, UINT32_MAX, 0, fail, &rank);
    }
    if (code == 0) {
        code = read_variable(environment, "LOCAL_RANK", NULL, UINT32_MAX, rank, fail, &local_rank);
    }
    if (code == 0 && rank >= world) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "RANK %llu is not under WORLD_SIZE %llu",
                        (unsigned long long)rank, (unsigned long long)world);
    }
    if (code == 0) {
        code = read_variable(environment, "KEEPSTEP_ATTEMPT", "TORCHELASTIC_RESTART_COUNT",
                             UINT32_MAX, 0, fail, &attempt);
    }
    if (code == 0) {
        code = read_variable(environment, "KEEPSTEP_RESTORE_STEP", NULL, exact_max, 0, fail,
                             &options->restore_step);
    }
    if (code == 0) {
        code = read_variable(environment, "KEEPSTEP_RESTORE_ATTEMPT", NULL, UINT32_MAX, 0, fail,
                             &restore_attempt);
    }
    options->rank = (uint32_t)rank;
    options->world = (uint32_t)world;
    options->local_rank = (uint32_t)local_rank;
    options->attempt = (uint32_t)attempt;
    options->restore_attempt = find_variable(environment, "KEEPSTEP_RESTORE_ATTEMPT") != NULL
                                   ? (int64_t)restore_attempt
                                   : -1;
    code = code == 0 ? read_job(environment, fail, options) : code;
    code = code == 0 ? read_place(environment, fail, options) : code;
    return code == 0 ? read_master(environment, fail, options) : code;
}

/* ---- what must fit together ----------------------------------------------------------------- */

/* One size: what the flag says, what the order says, or what is used without either. */
static int settle_size(const char *name, uint32_t ordered, uint32_t otherwise, struct fail *fail,
                       uint32_t *size)
{
    if (*size == 0) {
        *size = ordered != 0 ? ordered : otherwise;
    }
    if (*size > COMM_WORLD_MAX) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "the job's layout says %s %u; at most %d",
                        name, *size, COMM_WORLD_MAX);
    }
    if (ordered != 0 && *size != ordered) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "--%s %u, but the job's layout says %s %u; make them equal, or leave the "
                        "flag out",
                        name, *size, name, ordered);
    }
    return 0;
}

static int settle_layout(const struct comm_layout *ordered, struct options *options,
                         struct fail *fail)
{
    const struct comm_layout none = {0, 0, 0, 0};
    const struct comm_layout *order = ordered != NULL ? ordered : &none;
    struct comm_layout *layout = &options->layout;
    int code = settle_size("tp", order->tensor, 1, fail, &layout->tensor);
    code = code == 0 ? settle_size("cp", order->context, 1, fail, &layout->context) : code;
    code = code == 0 ? settle_size("pp", order->pipeline, 1, fail, &layout->pipeline) : code;
    if (code < 0) {
        return code;
    }
    const uint64_t fixed = (uint64_t)layout->tensor * layout->context * layout->pipeline;
    const uint64_t left = options->world % fixed == 0 ? options->world / fixed : 1;
    code = settle_size("dp", order->data, (uint32_t)left, fail, &layout->data);
    if (code == 0 && fixed * layout->data != options->world) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "tp %u x cp %u x pp %u x dp %u is not WORLD_SIZE %u", layout->tensor,
                        layout->context, layout->pipeline, layout->data, options->world);
    }
    return code;
}

static int check_batch(struct options *options, struct fail *fail)
{
    const uint32_t replicas = options->layout.data;
    if (options->micros == 0) {
        options->micros = options->layout.pipeline;
    }
    if (options->batch % ((uint64_t)replicas * options->micros) != 0) {
        return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                        "--batch %u is not a multiple of dp %u x %u micro-batches", options->batch,
                        replicas, options->micros);
    }
    return 0;
}

static int check_place(const struct options *options, struct fail *fail)
{
    const struct comm_layout place = comm_layout_place(&options->layout, options->rank);
    const uint32_t own[] = {place.tensor, place.context, place.pipeline, place.data};
    static const char *const names[] = {"tp", "cp", "pp", "dp"};
    for (size_t i = 0; i < 4; i++) {
        if (options->claimed_place[i] >= 0 && options->claimed_place[i] != (int64_t)own[i]) {
            return fail_set(fail, EXIT_BAD_CONFIG, -EINVAL,
                            "rank %u has the %s coordinate %u in the order tp-cp-pp-dp, but the "
                            "environment gives it %lld; this program knows no other order",
                            options->rank, names[i], own[i], (long long)options->claimed_place[i]);
        }
    }
    return 0;
}

static int check_together(const struct comm_layout *ordered, struct options *options,
                          struct fail *fail)
{
    int code = shape_check(&options->shape, fail);
    if (code == 0 && options->text_count == 0) {
        code = fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "--text needs at least one path");
    }
    if (code == 0) {
        code = settle_layout(ordered, options, fail);
    }
    if (code == 0) {
        code = shape_check_layout(&options->shape, &options->layout, fail);
    }
    if (code == 0) {
        code = check_batch(options, fail);
    }
    if (code == 0) {
        code = check_place(options, fail);
    }
    if (code == 0 && options->checkpoint_every > 0 && options->checkpoint_directory == NULL) {
        code =
            fail_set(fail, EXIT_BAD_CONFIG, -EINVAL, "--checkpoint-every needs --checkpoint-dir");
    }
    return code;
}

int options_parse(const char *const *arguments, const char *const *environment,
                  const struct comm_layout *ordered, struct fail *fail, struct options *ret_options)
{
    struct options options = {
        .shape = {.context = 32, .layers = 2, .width = 32},
        .steps = 150,
        .batch = 16,
        .rate = 0.005f,
        .seed = 1,
        .init_timeout_s = 120,
    };
    int code = parse_flags(arguments, fail, &options);
    if (code == 0 && !options.help) {
        code = parse_environment(environment, fail, &options);
        code = code == 0 ? check_together(ordered, &options, fail) : code;
    }
    if (code == 0) {
        *ret_options = options;
    }
    return code;
}

uint64_t options_digest(const struct options *options)
{
    char text[512];
    const int size = snprintf(
        text, sizeof(text),
        "%u %u %u %u / %u %u %u / %s %llu %u %u %.9g %llu / %d %d %d %llu %llu / %llu %lld",
        options->layout.tensor, options->layout.context, options->layout.pipeline,
        options->layout.data, options->shape.context, options->shape.layers, options->shape.width,
        backend_name(options->backend), (unsigned long long)options->steps, options->batch,
        options->micros, (double)options->rate, (unsigned long long)options->seed,
        options->checkpoint_directory != NULL ? 1 : 0, options->output_weights != NULL ? 1 : 0,
        options->initial_weights != NULL ? 1 : 0, (unsigned long long)options->checkpoint_every,
        (unsigned long long)options->eval_every, (unsigned long long)options->restore_step,
        (long long)options->restore_attempt);
    return XXH3_64bits(text, size > 0 ? (size_t)size : 0);
}
