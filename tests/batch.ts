/**
 * `deno test -A --no-check tests/batch.ts -- FILE…`: the tests of several files in one isolate.
 *
 * `deno test FILE…` gives each file an isolate, which parses and compiles all modules of the file again: for most files
 * that takes longer than the tests do.
 */

const ROOT = new URL("../", import.meta.url);

for (const path of Deno.args) await import(new URL(path, ROOT).href);
