/* test.h: what every cmocka test includes: cmocka's own header has to come after four others. */
#ifndef KEEPSTEP_TESTS_LIB_TEST_H
#define KEEPSTEP_TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
