#!/bin/sh
# Runs the module from the tree, with the library in it. A module of your own has a copy of the library:
# svc-server module new NAME.
here=$(dirname "$0")
exec ${DENO:-deno} run --allow-all --config "$here/../../../deno.json" "$here/main.ts" "$@"
