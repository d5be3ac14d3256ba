/**
 * The smallest program that keeps running: the base costs of an executable, for the comparison in `compile:check`.
 */

if (import.meta.main) {
  Deno.addSignalListener("SIGTERM", () => Deno.exit(0));
  setInterval(() => {}, 2 ** 30);
  Deno.stdout.writeSync(new TextEncoder().encode("it serves nothing at http://127.0.0.1:1 \n"));
}
