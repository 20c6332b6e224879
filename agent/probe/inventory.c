/* inventory.c: the machine, as the kernel tells it. */
#include "agent/probe/inventory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/text.h"

enum { INCARNATION_RANDOM_BITS = 8 };

int inventory_boot_id(char ret_boot_id[BOOT_ID_SIZE], struct err *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    }
    char text[BOOT_ID_SIZE + 1] = {0};
    const ssize_t size = read(fd, text, sizeof(text) - 1);
    (void)close(fd); /* opened for reading */
    if (size < BOOT_ID_SIZE - 1) {
        return err_set(err, -EINVAL, "%s holds no boot id", path);
    }
    text[BOOT_ID_SIZE - 1] = '\0';
    (void)text_copy(ret_boot_id, BOOT_ID_SIZE, text);
    return 0;
}

int inventory_incarnation(uint64_t *ret_incarnation, struct err *err)
{
    struct timespec now;
    uint8_t random = 0;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0 || getrandom(&random, 1, 0) != 1) {
        return err_set(err, -errno, "the time since boot cannot be read: %s", strerror(errno));
    }
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    *ret_incarnation = ms << INCARNATION_RANDOM_BITS | random;
    return 0;
}

void inventory_read(const char *node, uint32_t gpu_count, uint32_t leaf_count,
                    const char *const *leaves, struct inventory *ret_inventory)
{
    memset(ret_inventory, 0, sizeof(*ret_inventory));
    struct sysinfo info;
    if (sysinfo(&info) == 0) {
        ret_inventory->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    }
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    ret_inventory->cpu_count = cpus > 0 ? (uint32_t)cpus : 0;
    ret_inventory->gpu_count = gpu_count < GPUS_MAX ? gpu_count : GPUS_MAX;
    for (uint32_t i = 0; i < ret_inventory->gpu_count; i++) {
        (void)text_format(ret_inventory->gpu_uuid[i], UUID_SIZE, "GPU-%.32s-%u", node, i);
    }
    ret_inventory->port_count = leaf_count < PORTS_MAX ? leaf_count : PORTS_MAX;
    for (uint32_t i = 0; i < ret_inventory->port_count; i++) {
        (void)text_copy(ret_inventory->port_leaf[i], NAME_SIZE, leaves[i]);
    }
}

/* ---- the address ---------------------------------------------------------------------------- */

struct block {
    int family;
    uint8_t bytes[16];
    uint32_t bits;
};

/* "10.0.0.0/8", "fd00::/8". */
static bool parse_block(const char *text, struct block *ret_block)
{
    char address[ADDRESS_SIZE];
    (void)text_copy(address, sizeof(address), text);
    char *slash = strchr(address, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    uint64_t bits = 0;
    if (text_to_u64(slash + 1, 128, &bits) != 0) {
        return false;
    }
    ret_block->bits = (uint32_t)bits;
    ret_block->family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
    return inet_pton(ret_block->family, address, ret_block->bytes) == 1 &&
           (ret_block->family == AF_INET6 || bits <= 32);
}

static bool block_holds(const struct block *block, const uint8_t *address)
{
    for (uint32_t bit = 0; bit < block->bits; bit++) {
        const uint8_t mask = (uint8_t)(0x80u >> (bit % 8));
        if ((block->bytes[bit / 8] & mask) != (address[bit / 8] & mask)) {
            return false;
        }
    }
    return true;
}

static bool interface_fits(const uv_interface_address_t *interface, const char *rendezvous,
                           const struct block *block)
{
    const int family = interface->address.address4.sin_family;
    if (block != NULL) {
        const void *bytes = family == AF_INET6
                                ? (const void *)&interface->address.address6.sin6_addr
                                : (const void *)&interface->address.address4.sin_addr;
        return family == block->family && block_holds(block, bytes);
    }
    if (rendezvous[0] != '\0') {
        return text_equal(interface->name, rendezvous);
    }
    return family == AF_INET && !interface->is_internal;
}

int inventory_address(const char *rendezvous, char ret_address[ADDRESS_SIZE], struct err *err)
{
    struct block block;
    const bool has_block = strchr(rendezvous, '/') != NULL;
    if (has_block && !parse_block(rendezvous, &block)) {
        return err_set(err, -EINVAL, "network.rendezvous: '%s' is no CIDR block", rendezvous);
    }
    uv_interface_address_t *interfaces = NULL;
    int count = 0;
    int result = uv_interface_addresses(&interfaces, &count);
    if (result != 0) {
        return err_set(err, result, "the network interfaces cannot be listed: %s",
                       uv_strerror(result));
    }
    result = -ENODEV;
    for (int i = 0; i < count && result != 0; i++) {
        if (interface_fits(&interfaces[i], rendezvous, has_block ? &block : NULL)) {
            result = interfaces[i].address.address4.sin_family == AF_INET6
                         ? uv_ip6_name(&interfaces[i].address.address6, ret_address, ADDRESS_SIZE)
                         : uv_ip4_name(&interfaces[i].address.address4, ret_address, ADDRESS_SIZE);
        }
    }
    uv_free_interface_addresses(interfaces, count);
    if (result != 0 && rendezvous[0] == '\0') {
        (void)text_copy(ret_address, ADDRESS_SIZE, "127.0.0.1");
        return 0;
    }
    return result == 0
               ? 0
               : err_set(err, -ENODEV, "network.rendezvous: no address fits '%s'", rendezvous);
}
