/** A file that looks like a program for Linux on amd64, for tests that publish releases and start none of them. */

/** The header of a program without segments, and `bytes` in all. */
export function linuxProgram(bytes = 64): Uint8Array<ArrayBuffer> {
  const program = new Uint8Array(bytes);
  program.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  program[18] = 0x3e;
  return program;
}
