/**
 * `deno task vm:pins`: checks the board `linux` and the bus drivers on simulated hardware, through the real kernel of a
 * Debian in a virtual machine.
 *
 * Promises: one line a check, `ok …` or `FAILED …`, and their count at the end; exit code 0 only if none failed.
 * With `--bench` it prints figures instead. The emulated processor makes them slow, so compare them only with those of
 * libgpiod's tools beside them.
 */

import { chainOf } from "../../lib/base/error.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { compile, exists, ROOT, TARGETS } from "../../cli/build/compiler.ts";
import { begin } from "../../cli/program.ts";
import { image } from "./image.ts";
import { Machine } from "./machine.ts";
import { PINS_DEVICE } from "./pins/system.ts";

const PROGRAM = {
  name: "deno task vm:pins",
  summary: "Tries pins, PWM and buses on simulated hardware in a virtual machine.",
  style: "gnu",
  usage: "[flags]",
  flags: [
    { name: "bench", type: "bool", default: false, help: "Print figures instead of checks." },
    { name: "only", type: "string", default: "", value: "WORD", help: "Only checks with this word." },
    { name: "reuse", type: "bool", default: false, help: "Take the program of an earlier run." },
  ],
} as const;

const FOLDER = "dist/vm/pins";
const INSIDE = { name: "inside", entry: "tests/vm/pins/inside.ts" };
const SETUP_MS = 120_000;
const RUN_MS = 900_000;

async function main(args: readonly string[], host: DenoHost): Promise<number> {
  const begun = begin(PROGRAM, args, host);
  if (begun.exitCode !== undefined) return begun.exitCode;
  const { bench, only, reuse } = begun.values;
  let machine: Machine | undefined;
  try {
    const system = await image(PINS_DEVICE);
    const share = `${ROOT}${FOLDER}/share`;
    await prepare(share, reuse);
    machine = await Machine.make(system, `${ROOT}${FOLDER}/run`, { share });
    await machine.on();
    await machine.run("mkdir -p /mnt/share && mount -t 9p -o trans=virtio,ro,msize=262144 share /mnt/share");
    await machine.run("sh /mnt/share/setup.sh", SETUP_MS);
    await machine.run("cp /mnt/share/inside /usr/local/bin/inside", SETUP_MS);
    const work = bench ? "bench" : `checks '${only}'`;
    const { code, output } = await machine.try(`inside ${work}`, RUN_MS);
    host.write(`${output}\n`);
    return code;
  } catch (error) {
    host.writeError(`${PROGRAM.name}: ${chainOf(error)}\n`);
    return 1;
  } finally {
    await machine?.cut();
  }
}

/** Fills the folder that the machine mounts: the program, its helper in C, and their files. */
async function prepare(share: string, reuse: boolean): Promise<void> {
  await Deno.mkdir(share, { recursive: true });
  for (const name of ["setup.sh", "gps.nmea"]) {
    await Deno.copyFile(`${ROOT}tests/vm/pins/${name}`, `${share}/${name}`);
  }
  const args = ["-static", "-O1", "-Wall", "-o", `${share}/helper`, `${ROOT}tests/vm/pins/helper.c`];
  const { success, stderr } = await new Deno.Command("cc", { args }).output();
  if (!success) throw new Error(`cc: ${new TextDecoder().decode(stderr)}`);
  if (reuse && await exists(`${share}/inside`)) return;
  const [target] = TARGETS;
  await compile(await checkCompiler(target), INSIDE, target, `${FOLDER}/share`);
}

if (import.meta.main) Deno.exit(await main(Deno.args, new DenoHost()));
