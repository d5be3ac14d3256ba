/** Where the simulated hardware is in the virtual machine, and how the tests reach it. */

export const SHARE = "/mnt/share";
export const HELPER = `${SHARE}/helper`;

/** The files by which simulated lines are pulled and looked at. */
export const SIM = "/sys/devices/platform/gpio-sim.0/gpiochip0";

/** What a shell command writes, both of its streams. */
export async function sh(command: string): Promise<string> {
  const { stdout, stderr } = await new Deno.Command("sh", { args: ["-c", command], stdin: "null" }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/**
 * Pulls lines, at most so often a second. The threads that serve their interrupts, which bear the name of the user of
 * the lines, run on the processor of the one that pulls: so each edge is served before the next, as simulated
 * interrupts do not wait in a queue.
 */
export async function edges(
  hz: number,
  count: number,
  lines: readonly number[],
  user = "svc",
): Promise<void> {
  await sh(`for p in $(pgrep '^irq/.*${user}'); do taskset -pc 0 $p; done`);
  await sh(`${HELPER} edges ${hz} ${count} ${lines.map((line) => `${SIM}/sim_gpio${line}/pull`).join(" ")}`);
}
