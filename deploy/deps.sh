#!/bin/sh
# deps.sh build|test|all: installs what is missing, through apt, on Debian 12 and Ubuntu 24.04.
#
# Nothing is asked of the network, and no rights are needed, when everything is there. Packages are
# looked up in dpkg's own list; as root apt-get is called, else through sudo.
set -eu

set_of=${1:-build}

build_packages='gcc libc6-dev binutils make python3
libuv1-dev libsqlite3-dev libcurl4-gnutls-dev libprotobuf-c-dev protobuf-c-compiler
libmicrohttpd-dev libgnutls28-dev libjansson-dev libyaml-dev libxxhash-dev libcmocka-dev
pkg-config'

# Those whose tests are skipped without them: a system that has none of them is no failure.
optional_packages='python3-torch python3-protobuf protobuf-compiler'

# libclang-rt is named after clang's own release where there is no package without a number.
test_packages='g++ clang clang-format clang-tidy cppcheck shellcheck universal-ctags git
sqlite3 procps iproute2 iptables curl'

have() {
    # "ii" or "hi"; a package that provides the name (a newer pkgconf for pkg-config) counts too.
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q ' ok installed$'
}

# Some names are only one of several that will do.
satisfied() {
    case $1 in
    pkg-config) have pkg-config || have pkgconf ;;
    libcurl4-gnutls-dev) have libcurl4-gnutls-dev || have libcurl4-openssl-dev ;;
    universal-ctags) have universal-ctags || command -v ctags >/dev/null 2>&1 ;;
    make | git | python3 | curl | sqlite3 | gcc | g++ | clang | shellcheck | cppcheck | clang-format | \
        clang-tidy) have "$1" || command -v "$1" >/dev/null 2>&1 ;;
    *) have "$1" ;;
    esac
}

# clang's sanitizer library: libclang-rt-14-dev on Debian 12, libclang-rt-18-dev on Ubuntu 24.04.
clang_runtime() {
    if command -v clang >/dev/null 2>&1; then
        major=$(clang -dumpversion | cut -d. -f1)
    else
        major=$(apt-cache depends clang 2>/dev/null |
            sed -n 's/.*Depends: clang-\([0-9][0-9]*\).*/\1/p' | head -n 1)
    fi
    if [ -n "$major" ]; then
        echo "libclang-rt-$major-dev"
    else
        echo libclang-rt-dev
    fi
}

case $set_of in
build) wanted=$build_packages ;;
test | all) wanted="$build_packages $test_packages" ;;
*)
    echo "usage: deps.sh build|test|all" >&2
    exit 2
    ;;
esac

# nvcc compiles with g++; without the toolkit only a test is C++.
if [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || command -v nvcc >/dev/null 2>&1; then
    wanted="$wanted g++"
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps: no dpkg here: install these, or what your system calls them:" >&2
    echo "$wanted" >&2
    exit 0
fi

missing=
need() {
    satisfied "$1" || missing="$missing $1"
}
for package in $wanted; do
    need "$package"
done
# Without clang its release is not known before apt's lists are there: see below.
if [ "$set_of" != build ] && command -v clang >/dev/null 2>&1; then
    need "$(clang_runtime)"
fi
optional=
if [ "$set_of" != build ]; then
    for package in $optional_packages; do
        have "$package" || optional="$optional $package"
    done
fi
if [ -z "$missing$optional" ]; then
    exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1; then
    as_root=sudo
elif [ -z "$missing" ]; then
    echo "deps: not installed:$optional; the tests that need them are skipped" >&2
    exit 0
else
    echo "deps: missing:$missing" >&2
    echo "deps: run 'make deps' as root, or install sudo" >&2
    exit 1
fi

run_apt() {
    # shellcheck disable=SC2086 # as_root is one word or none
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}

if [ -n "$missing" ]; then
    echo "deps: installing:$missing"
    run_apt update
    if [ "$set_of" != build ] && ! command -v clang >/dev/null 2>&1; then
        need "$(clang_runtime)"
    fi
    # shellcheck disable=SC2086 # a list of words
    run_apt install -y --no-install-recommends $missing
fi
if [ -n "$optional" ]; then
    echo "deps: installing:$optional"
    # shellcheck disable=SC2086 # a list of words
    run_apt update && run_apt install -y --no-install-recommends $optional ||
        echo "deps: not installed:$optional; the tests that need them are skipped" >&2
fi
