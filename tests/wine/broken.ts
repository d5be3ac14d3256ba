/** A release 1.2.0 that passes every check and then does not start: it only tells its version. */

const program = Deno.execPath().includes("svc-agent") ? "svc-agent" : "svc-server";
if (Deno.args.length !== 1) Deno.exit(1);
Deno.stdout.writeSync(new TextEncoder().encode(`${program} 1.2.0\n`));
