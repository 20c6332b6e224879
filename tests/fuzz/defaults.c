/* defaults.c: for fuzz targets that bring neither an alphabet nor examples. */
#include "tests/fuzz/fuzz.h"

__attribute__((weak)) const char fuzz_alphabet[] = "abcxyz 0123456789-_.,:;/{}[]()<>\"'\\\n\t";

__attribute__((weak)) size_t fuzz_example_count(void)
{
    return 0;
}

__attribute__((weak)) size_t fuzz_example(size_t index, uint8_t *target, size_t size_max)
{
    (void)index;
    (void)target;
    (void)size_max;
    return 0;
}
