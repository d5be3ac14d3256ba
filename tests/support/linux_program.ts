/** Files that look like programs for Linux, for tests that publish releases and start none of them. */

/** The processors by the numbers of ELF. */
const MACHINES = { amd64: 0x3e, arm64: 0xb7 } as const;

/** The header of a program without segments, and `bytes` in all. */
export function linuxProgram(
  bytes = 64,
  processor: keyof typeof MACHINES = "amd64",
): Uint8Array<ArrayBuffer> {
  const program = new Uint8Array(bytes);
  program.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  program[18] = MACHINES[processor];
  return program;
}
