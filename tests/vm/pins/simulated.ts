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
