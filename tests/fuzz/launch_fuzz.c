/* launch_fuzz.c: any bytes as a launch file, once as they are and once with the head put right so
 * that the rest is reached. What decodes encodes again to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "agent/shim/record.h"
#include "agent/shim/shim.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD = 24, SIZE_FIELD = 12, SUM_FIELD = 16 };

const char fuzz_alphabet[] = "/=A0f\001\002\020";

static const char *const texts[] = {"/bin/true", "A=1", "PATH=/bin", "B="};

size_t fuzz_example_count(void)
{
    return 3;
}

size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)
{
    struct shim_launch launch = {
        .job = 1,
        .cookie = "00112233445566778899aabbccddeeff",
        .uid = 5,
        .group_count = (uint32_t)index,
        .workdir = "/",
        .cgroup = index == 1 ? "/sys/fs/cgroup/a" : "",
        .env = {(uint32_t)index, texts + 1},
        .rank_count = (uint32_t)index + 1,
    };
    for (uint32_t i = 0; i < launch.rank_count; i++) {
        launch.ranks[i].rank = i;
        launch.ranks[i].argv = (struct shim_list){i + 1, texts};
        launch.ranks[i].output = i == 0 ? "" : "out";
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    int result = shim_launch_encode(&launch, &bytes, &size);
    CHECK(result == 0);
    CHECK(size <= size_max);
    memcpy(target, bytes, size);
    free(bytes);
    return size;
}

static void decode(const uint8_t *bytes, size_t size)
{
    struct shim_launch launch;
    void *memory = NULL;
    uint8_t *again = NULL;
    size_t again_size = 0;
    if (shim_launch_decode(bytes, size, &launch, &memory) != 0) {
        return;
    }
    int result = shim_launch_encode(&launch, &again, &again_size);
    CHECK(result == 0);
    CHECK(again_size == size);
    free(again);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    if (size < HEAD || size > SHIM_LAUNCH_MAX) {
        return 0;
    }
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    memcpy(bytes, data, size);
    uint8_t example[4096];
    (void)fuzz_example(0, example, sizeof(example));
    uint32_t size_field = (uint32_t)size;
    uint64_t sum = shim_record_checksum(bytes + HEAD, size - HEAD);
    memcpy(bytes, example, SIZE_FIELD);
    memcpy(bytes + SIZE_FIELD, &size_field, sizeof(size_field));
    memcpy(bytes + SUM_FIELD, &sum, sizeof(sum));
    decode(bytes, size);
    free(bytes);
    return 0;
}
