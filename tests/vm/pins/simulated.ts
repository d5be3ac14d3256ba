/** The simulated hardware in the virtual machine, and the tests' access to it. */

export const SHARE = "/mnt/share";
export const HELPER = `${SHARE}/helper`;

/** The files that pull simulated lines and show their levels. */
export const SIM = "/sys/devices/platform/gpio-sim.0/gpiochip0";

/** Runs a shell command and returns the output of both streams. */
export async function sh(command: string): Promise<string> {
  const { stdout, stderr } = await new Deno.Command("sh", { args: ["-c", command], stdin: "null" }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/**
 * Pulls lines, at most `hz` times a second. Simulated interrupts do not queue. The threads that serve them, named after
 * the lines' consumer, therefore run on the puller's processor, so that each edge is served before the next.
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
