/* line_make.c: see line_make.h. */
#include "tests/unit/agent_core/line_make.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/text.h"

enum { PIECE_SIZE = 256 };

static unsigned below(struct prng *prng, unsigned bound)
{
    return (unsigned)prng_below(prng, bound);
}

static const char *one_of(struct prng *prng, const char *const *words, size_t count)
{
    return words[prng_below(prng, count)];
}

static const char *process(struct prng *prng)
{
    static const char *const names[] = {"python3",    "pt_main_thread", "train.3",     "KMS thread",
                                        "python3.11", "megatron",       "ray::worker", "a.out"};
    return one_of(prng, names, ARRAY_SIZE(names));
}

static const char *month(struct prng *prng)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    return one_of(prng, names, ARRAY_SIZE(names));
}

static void host(struct prng *prng, char *piece)
{
    static const char *const names[] = {"node%03u", "gpu-%u", "n%u.cluster.example", "worker-%u"};
    const char *name = one_of(prng, names, ARRAY_SIZE(names));
    const char *mark = strchr(name, '%');
    const size_t tail = strcspn(mark, "u") + 1;
    (void)snprintf(piece, PIECE_SIZE, "%.*s%u%s", (int)(mark - name), name, below(prng, 2000),
                   mark + tail);
}

static void hex(struct prng *prng, char *piece)
{
    const unsigned long long value = prng_next(prng) >> below(prng, 64);
    (void)snprintf(piece, PIECE_SIZE, "0x%0*llx", (int)below(prng, 17), value);
}

/* What stands for a name between < and >. */
static void expand(struct prng *prng, const char *name, size_t size, char *piece)
{
    static const char *const systems[] = {"scratch", "home", "lfs01", "data"};
    static const char *const disks[] = {"nvme%un1p1", "nvme%un1", "md%u", "sda%u"};
#define IS(word) (size == sizeof(word) - 1 && memcmp(name, word, size) == 0)
    if (IS("pci") || IS("pcif")) {
        (void)snprintf(piece, PIECE_SIZE, "%04x:%02x:%02x%s", below(prng, 3) * below(prng, 40),
                       below(prng, 256), below(prng, 2) * below(prng, 32), IS("pcif") ? ".0" : "");
    } else if (IS("n") || IS("pid")) {
        (void)snprintf(piece, PIECE_SIZE, "%u", 1 + below(prng, 9999999));
    } else if (IS("small")) {
        (void)snprintf(piece, PIECE_SIZE, "%u", below(prng, 100));
    } else if (IS("hex8")) {
        (void)snprintf(piece, PIECE_SIZE, "%08x", (unsigned)prng_next(prng));
    } else if (IS("hex")) {
        hex(prng, piece);
    } else if (IS("proc")) {
        (void)snprintf(piece, PIECE_SIZE, "%s", process(prng));
    } else if (IS("host")) {
        host(prng, piece);
    } else if (IS("ip")) {
        (void)snprintf(piece, PIECE_SIZE, "10.%u.%u.%u", below(prng, 256), below(prng, 256),
                       below(prng, 256));
    } else if (IS("ib")) {
        (void)snprintf(piece, PIECE_SIZE, "mlx5_%u", below(prng, 12));
    } else if (IS("eth")) {
        (void)snprintf(piece, PIECE_SIZE, "ens%unp%u", below(prng, 300), below(prng, 2));
    } else if (IS("path")) {
        (void)snprintf(piece, PIECE_SIZE, "/ckpt/run%u/iter_%07u/shard-%u.pt", below(prng, 99),
                       below(prng, 999999), below(prng, 9999));
    } else if (IS("gib")) {
        (void)snprintf(piece, PIECE_SIZE, "%u.%02u GiB", 1 + below(prng, 79), below(prng, 100));
    } else if (IS("fs")) {
        (void)snprintf(piece, PIECE_SIZE, "%s", one_of(prng, systems, ARRAY_SIZE(systems)));
    } else if (IS("disk")) {
        const char *disk = one_of(prng, disks, ARRAY_SIZE(disks));
        const char *mark = strchr(disk, '%');
        (void)snprintf(piece, PIECE_SIZE, "%.*s%u%s", (int)(mark - disk), disk, below(prng, 9),
                       mark + 2);
    } else {
        (void)snprintf(piece, PIECE_SIZE, "<%.*s>", (int)size, name); /* means itself */
    }
#undef IS
}

static void append(char *target, const char *text)
{
    const size_t used = strlen(target);
    const bool whole = text_copy(target + used, LINE_MADE_SIZE - used, text);
    CHECK(whole);
}

static void append_format(struct prng *prng, const char *format, char *target)
{
    char piece[PIECE_SIZE];
    for (const char *at = format; *at != '\0';) {
        const size_t plain = strcspn(at, "<");
        (void)snprintf(piece, PIECE_SIZE, "%.*s", (int)plain, at);
        append(target, piece);
        at += plain;
        const char *end = *at == '<' ? strchr(at, '>') : NULL;
        if (end != NULL) {
            expand(prng, at + 1, (size_t)(end - at - 1), piece);
            append(target, piece);
            at = end + 1;
        } else if (*at == '<') {
            append(target, "<");
            at++;
        }
    }
}

static void clock_of(struct prng *prng, char *piece)
{
    (void)snprintf(piece, PIECE_SIZE, "%02u:%02u:%02u", below(prng, 24), below(prng, 60),
                   below(prng, 60));
}

static void iso_time(struct prng *prng, char between, char *piece)
{
    char clock[PIECE_SIZE];
    clock_of(prng, clock);
    (void)snprintf(piece, PIECE_SIZE, "20%02u-%02u-%02u%c%.8s", below(prng, 40),
                   1 + below(prng, 12), 1 + below(prng, 28), between, clock);
}

static void uptime(struct prng *prng, char *piece)
{
    (void)snprintf(piece, PIECE_SIZE, "[%5u.%06u] ", 1000 + below(prng, 9000000),
                   below(prng, 1000000));
}

static void kernel_carrier(struct prng *prng, char *target)
{
    char time[PIECE_SIZE];
    char name[PIECE_SIZE];
    char since[PIECE_SIZE];
    char all[LINE_MADE_SIZE] = "";
    static const char *const days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
    host(prng, name);
    uptime(prng, since);
    clock_of(prng, time);
    switch (below(prng, 11)) {
    case 0:
        break;
    case 1:
        append(all, since);
        break;
    case 2:
        (void)snprintf(all, sizeof(all), "<%u>%s", below(prng, 8), since);
        break;
    case 3:
        (void)snprintf(all, sizeof(all), "%u,%u,%u,-;", below(prng, 8), below(prng, 999999),
                       1000000000 + below(prng, 1000000000));
        break;
    case 4:
        (void)snprintf(all, sizeof(all), "[%s %s %2u %s 20%02u] ", days[below(prng, 7)],
                       month(prng), 1 + below(prng, 28), time, below(prng, 40));
        break;
    case 5:
        iso_time(prng, 'T', time);
        (void)snprintf(all, sizeof(all), "kern  :%-6s: %s,%06u+00:00 ",
                       below(prng, 2) == 0 ? "warn" : "err", time, below(prng, 1000000));
        break;
    case 6:
        (void)snprintf(all, sizeof(all), "%s %2u %s %s kernel: ", month(prng), 1 + below(prng, 28),
                       time, name);
        break;
    case 7:
        (void)snprintf(all, sizeof(all), "%s %2u %s %s kernel: %s", month(prng),
                       1 + below(prng, 28), time, name, since);
        break;
    case 8:
        iso_time(prng, 'T', time);
        (void)snprintf(all, sizeof(all), "%s.%06u+02:00 %s kernel: ", time, below(prng, 1000000),
                       name);
        break;
    case 9:
        append(all, "kernel: ");
        break;
    default:
        (void)snprintf(all, sizeof(all), "kernel: %s", since);
        break;
    }
    append(target, all);
}

static void output_carrier(struct prng *prng, char *target)
{
    char time[PIECE_SIZE];
    char all[LINE_MADE_SIZE] = "";
    const unsigned rank = below(prng, 16384);
    clock_of(prng, time);
    switch (below(prng, 9)) {
    case 0:
    case 1:
        break;
    case 2:
        (void)snprintf(all, sizeof(all), "[rank%u]: ", rank);
        break;
    case 3:
        (void)snprintf(all, sizeof(all), "%u: ", rank);
        break;
    case 4:
        (void)snprintf(all, sizeof(all), "[default%u]:", rank % 8);
        break;
    case 5:
        (void)snprintf(all, sizeof(all), "[1,%u]<stderr>:", rank);
        break;
    case 6:
        (void)snprintf(all, sizeof(all), "[rank%u]:[E%u %s.%09u ProcessGroupNCCL.cpp:%u] ", rank,
                       101 + below(prng, 1100), time, below(prng, 1000000000), below(prng, 3000));
        break;
    case 7:
        iso_time(prng, 'T', time);
        (void)snprintf(all, sizeof(all), "%s.%03uZ stderr F ", time, below(prng, 1000));
        break;
    default:
        iso_time(prng, ' ', time);
        (void)snprintf(all, sizeof(all), "%u: [%s] ", rank, time);
        break;
    }
    append(target, all);
}

static void nccl_carrier(struct prng *prng, char *target)
{
    char name[PIECE_SIZE];
    char all[LINE_MADE_SIZE] = "";
    static const char *const files[] = {"transport/net_ib.cc", "misc/socket.cc", "proxy.cc",
                                        "transport/net_ib/p2p.cc", "enqueue.cc"};
    host(prng, name);
    const char *file = one_of(prng, files, ARRAY_SIZE(files));
    if (below(prng, 3) == 0) {
        (void)snprintf(all, sizeof(all), "%s:%u ", file, below(prng, 3000));
    } else {
        output_carrier(prng, target);
        (void)snprintf(all, sizeof(all), "%s:%u:%u [%u] %s:%u ", name, below(prng, 99999),
                       below(prng, 99999), below(prng, 8), file, below(prng, 3000));
    }
    append(target, all);
}

size_t line_make(struct prng *prng, enum line_carrier carrier, const char *format, char *target)
{
    target[0] = '\0';
    switch (carrier) {
    case CARRIER_NONE:
        break;
    case CARRIER_KERNEL:
        kernel_carrier(prng, target);
        break;
    case CARRIER_OUTPUT:
        output_carrier(prng, target);
        break;
    case CARRIER_NCCL:
        nccl_carrier(prng, target);
        break;
    }
    append_format(prng, format, target);
    return strlen(target);
}
