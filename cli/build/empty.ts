/** The smallest program that keeps running: what every executable costs, for `compile:check` to compare with. */

if (import.meta.main) {
  Deno.addSignalListener("SIGTERM", () => Deno.exit(0));
  setInterval(() => {}, 2 ** 30);
  Deno.stdout.writeSync(new TextEncoder().encode("it serves nothing at http://127.0.0.1:1 \n"));
}
