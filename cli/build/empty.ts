/**
 * The smallest program that keeps running, or with an argument ends at once: the base costs of an executable, for
 * comparisons.
 */

if (import.meta.main && Deno.args.length === 0) {
  Deno.addSignalListener("SIGTERM", () => Deno.exit(0));
  setInterval(() => {}, 2 ** 30);
  Deno.stdout.writeSync(new TextEncoder().encode("it serves nothing at http://127.0.0.1:1 \n"));
}
