#!/bin/bash
# long_functions.sh FILE...: functions have at most 70 lines, from their first line to the brace
# that ends them. long_functions.txt is a ratchet: what is in it may not grow.
set -u
here=$(dirname "$0")

ctags -x --language-force=C --kinds-C=f --_xformat='%{input} %{name} %{line} %{end}' "$@" |
    awk -v ratchet="$here/long_functions.txt" '
        BEGIN {
            while ((getline line < ratchet) > 0) {
                if (line !~ /^#/ && split(line, part, " ") == 3) {
                    allowed[part[1] " " part[2]] = part[3]
                }
            }
        }
        {
            size = $4 - $3 + 1
            most = ($1 " " $2) in allowed ? allowed[$1 " " $2] : 70
            if (size > most) {
                printf "%s:%d: %s has %d lines: at most %d\n", $1, $3, $2, size, most
                faults++
            }
        }
        END { exit faults > 0 }'
