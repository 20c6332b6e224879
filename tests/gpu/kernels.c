/* kernels: every CUDA kernel against the cpu backend's, on the GPU of this machine, without a test
 * library: it also runs where only a compiler is. Prints each result; 0 when all are within limits. */
#include <stdio.h>

#include "agent/trainer/kernel_cpu.h"
#include "agent/trainer/kernel_cuda.h"
#include "tests/unit/trainer/kernel_compare.h"

struct tally {
    int good;
    int bad;
};

static void note(const char *what, double difference, double limit, void *context)
{
    struct tally *tally = context;
    const int good = difference <= limit;
    tally->good += good;
    tally->bad += !good;
    if (!good) {
        printf("DIFFERS %s by %.3g, limit %.3g\n", what, difference, limit);
    }
}

int main(void)
{
    struct kernel gpu;
    struct kernel cpu;
    struct fail fail;
    struct tally tally = {0};
    if (kernel_cuda_create(0, &fail, &gpu) < 0) {
        printf("no GPU: %s\n", fail.text);
        return 1;
    }
    if (kernel_cpu_create(&cpu) < 0) {
        return 1;
    }
    const int code = kernel_compare(&gpu, &cpu, note, &tally);
    if (code < 0) {
        char text[FAIL_TEXT_SIZE];
        kernel_explain(&gpu, text, sizeof(text));
        printf("ended with %d: %s\n", code, text);
    }
    printf("%d results agree, %d differ\n", tally.good, tally.bad);
    kernel_done(&cpu);
    kernel_done(&gpu);
    return code < 0 || tally.bad > 0 || tally.good == 0 ? 1 : 0;
}
