/**
 * `deno compile`'s runtime for executables, taken out of an executable that npm's registry has.
 *
 * `deno compile` downloads the runtime from a host of its own. Where that cannot be reached, `compile:check` takes a
 * published program that was compiled with the same Deno, cuts off what it embeds, and checks the rest against the sums below.
 * A release is compiled where the official download works.
 */

import { dirname } from "node:path";
import { SvcError } from "../../lib/base/error.ts";
import { installPackages } from "./module_package.ts";
import { bytesSum } from "./sums.ts";
import { zipOf } from "./zip.ts";

/** The Deno of the recovered runtimes. */
export const RECOVERED_DENO = "2.7.11";

/** The version of the packages whose programs were compiled with it. */
const PACKAGE_VERSION = "0.22.2";

interface Source {
  readonly name: string;
  /** The program in the package. */
  readonly program: string;
  /** The runtime's name in Deno's archive. */
  readonly runtime: string;
  readonly sha256: string;
}

/** By the target's name. */
const SOURCES: { readonly [target: string]: Source } = {
  "linux-x64": {
    name: "@stdy/cli-linux-x64",
    program: "bin/steady",
    runtime: "denort",
    sha256: "f12d5d3886d5ea138304fb8d67d7396cfbedf53656676132152cb89f3fa4d8e6",
  },
  "linux-arm64": {
    name: "@stdy/cli-linux-arm64",
    program: "bin/steady",
    runtime: "denort",
    sha256: "9c888d915647ff971a497acd39ee45ea63da5f19d12d4363124942c257c055ef",
  },
  "windows-x64": {
    name: "@stdy/cli-win32-x64",
    program: "bin/steady.exe",
    runtime: "denort.exe",
    sha256: "714afa06b9aa9eae56bcb97b22e832c4325272b5fb735a8207146c2b23868d0b",
  },
};

/** What `deno compile` writes before the program that it embeds. */
const PAYLOAD_MAGIC = new TextEncoder().encode("d3n0l4nd");

/**
 * Writes the archive of the runtime for the target named `target` to `path`. Throws `unavailable` where npm's registry
 * cannot be reached, `data_loss` for a runtime with another sum.
 */
export async function recoverRuntime(target: string, path: string): Promise<void> {
  const source = SOURCES[target];
  if (!source) {
    throw new SvcError("unavailable", `no package has the runtime of Deno ${RECOVERED_DENO} for ${target}`);
  }

  const folder = await Deno.makeTempDir({ prefix: "runtime-" });
  try {
    // A package for another system is only read.
    await installPackages(folder, [`${source.name}@${PACKAGE_VERSION}`], { npm_config_force: "true" });
    const program = await Deno.readFile(`${folder}/node_modules/${source.name}/${source.program}`);
    const runtime = program[0] === 0x7f ? withoutElfPayload(program) : withoutPePayload(program);
    const sum = await bytesSum(runtime);
    if (sum !== source.sha256) {
      throw new SvcError(
        "data_loss",
        `the runtime in ${source.name} has the SHA-256 sum ${sum}, wanted ${source.sha256}`,
      );
    }

    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeFile(`${path}.part`, zipOf([{ name: source.runtime, content: runtime, mode: 0o755 }]));
    await Deno.rename(`${path}.part`, path);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** An ELF executable ends with what it embeds; the last eight bytes are the length of that. */
function withoutElfPayload(program: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const view = new DataView(program.buffer, program.byteOffset, program.byteLength);
  const start = program.length - Number(view.getBigUint64(program.length - 8, true));
  if (!isMagicAt(program, start)) throw unknownLayout("nothing is embedded at its end");
  return program.slice(0, start);
}

/** A PE executable has what it embeds as a resource in its last section: that section and its traces are removed. */
function withoutPePayload(program: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const bytes = program.slice();
  const view = new DataView(bytes.buffer);
  const header = view.getUint32(0x3c, true);
  const sections = view.getUint16(header + 6, true);
  const optional = header + 24;
  const resources = optional + 112 + 16;
  const last = optional + view.getUint16(header + 20, true) + SECTION_BYTES * (sections - 1);
  const rawBytes = view.getUint32(last + 16, true);
  const raw = view.getUint32(last + 20, true);

  const isResource = view.getUint32(resources, true) === view.getUint32(last + 12, true);
  if (!isResource || !hasMagic(bytes.subarray(raw, raw + rawBytes))) {
    throw unknownLayout("nothing is embedded in its last section");
  }

  bytes.fill(0, last, last + SECTION_BYTES);
  view.setUint16(header + 6, sections - 1, true);
  view.setBigUint64(resources, 0n, true);

  const before = last - SECTION_BYTES;
  const alignment = view.getUint32(optional + 32, true);
  const endBytes = view.getUint32(before + 8, true) + view.getUint32(before + 12, true);
  view.setUint32(optional + 56, Math.ceil(endBytes / alignment) * alignment, true);
  return bytes.slice(0, raw);
}

const SECTION_BYTES = 40;

function isMagicAt(bytes: Uint8Array, at: number): boolean {
  return at > 0 && PAYLOAD_MAGIC.every((byte, index) => bytes[at + index] === byte);
}

function hasMagic(bytes: Uint8Array): boolean {
  const [first = 0] = PAYLOAD_MAGIC;
  for (let at = bytes.indexOf(first); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (PAYLOAD_MAGIC.every((byte, index) => bytes[at + index] === byte)) return true;
  }
  return false;
}

function unknownLayout(found: string): SvcError {
  return new SvcError(
    "data_loss",
    `the executable has another layout than Deno ${RECOVERED_DENO} gives it: ${found}`,
  );
}
