/**
 * A Windows computer simulated by Wine: switches it on, runs programs on it, and cuts its power.
 *
 * A computer is a Debian system with Wine in its own mount and process namespaces; killing its first process ends
 * everything in it. It shares this computer's network, and finds the project and the folder for temporary files at the
 * same paths as here (drive Z). Its drive C is a layer over a drive that all computers share. Needs root and the package
 * debootstrap.
 */

import { assert } from "@std/assert";
import { exists, ROOT } from "../../cli/build/compiler.ts";
import { whileLocked } from "../../cli/build/module_package.ts";
import { until } from "../support/until.ts";

/** The first Debian whose Wine runs Deno's executables. */
const SUITE = "trixie";
const PACKAGES = ["wine64", "wine", "ca-certificates"];
/** What a system was made of; one of something else is made anew. */
const INGREDIENTS = `${SUITE} ${PACKAGES.join(" ")}\n`;
const SCRIPT = `${ROOT}tests/wine/in_wine.sh`;
const SYSTEM_MS = 900_000;
const BOOT_MS = 120_000;
const RUN_MS = 120_000;

/** A Debian system with Wine, and a fresh drive C. */
export interface Disk {
  readonly system: string;
  readonly drive: string;
}

/** Returns the disk in `folder`, and makes it first if there is none: three minutes, with Debian's packages. */
export async function diskIn(folder: string, tell: (line: string) => void): Promise<Disk> {
  const disk = { system: `${folder}/root`, drive: `${folder}/root/drive` };
  const made = `${folder}/made`;
  const isMade = async () => await Deno.readTextFile(made).catch(() => "") === INGREDIENTS;
  if (await isMade()) return disk;
  assert(Deno.uid() === 0, "only root can make a Debian system with Wine");
  await Deno.mkdir(folder, { recursive: true });

  // Another checkout may want the same one.
  await whileLocked(`${folder}/.lock`, async () => {
    if (await isMade()) return;
    tell(`making a Debian system (${SUITE}) with Wine in ${folder}`);
    await Deno.remove(made).catch(() => {});
    await makeDisk(disk);
    await Deno.writeTextFile(made, INGREDIENTS);
  });
  return disk;
}

async function makeDisk({ system, drive }: Disk): Promise<void> {
  await Deno.remove(system, { recursive: true }).catch(() => {});
  await shell(`debootstrap --variant=minbase ${SUITE} "$1"`, SYSTEM_MS, system);
  await Deno.writeTextFile(`${system}/etc/hosts`, "127.0.0.1 localhost\n::1 localhost\n");
  const packages = PACKAGES.join(" ");
  const install = `apt-get update -qq && apt-get install -y -qq --no-install-recommends ${packages}`;
  await shell(
    `${MOUNTS}; DEBIAN_FRONTEND=noninteractive chroot "$1" sh -c '${install} && apt-get clean'`,
    SYSTEM_MS,
    system,
  );

  const wine =
    "env HOME=/root XDG_RUNTIME_DIR=/run WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= WINEPREFIX=/drive";
  // Wine writes the registry when its server ends.
  const boot = `${wine} /usr/lib/wine/wine64 wineboot -i && ${wine} /usr/lib/wine/wineserver64 -w`;
  await shell(`${MOUNTS}; chroot "$1" sh -c '${boot}'`, SYSTEM_MS, system);
  assert(await exists(`${drive}/system.reg`), `Wine made no registry in ${drive}`);
}

const MOUNTS = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"';

/** Runs a script in its own namespaces, so that its mounts and processes end with it. */
async function shell(script: string, withinMs: number, ...args: string[]): Promise<void> {
  const command = new Deno.Command("unshare", {
    args: ["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", script, "sh", ...args],
    stdin: "null",
    signal: AbortSignal.timeout(withinMs),
  });
  const { success, stdout, stderr } = await command.output();
  const printed = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("").trim().slice(
    -2000,
  );
  if (!success) throw new Error(`failed: ${script}\n${printed}`);
}

/**
 * The computer's first process: mounts the drive over the shared one, and the project, and then waits for the end of its
 * standard input, which also comes if the task is killed.
 */
const FIRST = `
${MOUNTS}
mkdir -p "$1/computer" "$1$3" "$2/changed" "$2/work"
mount -t overlay overlay -o "lowerdir=$1/drive,upperdir=$2/changed,workdir=$2/work" "$1/computer"
mount --bind "$3" "$1$3"
mount --rbind /tmp "$1/tmp"
ip link set lo up
exec chroot "$1" sh -c 'echo on; cat >/dev/null'
`;

/**
 * Wine ends its services with the last ordinary program, so a `cmd` that waits for its input keeps them running. The
 * services must not inherit our output: its reader would wait for their end.
 */
const BOOT =
  "exec >/dev/null 2>&1; /usr/lib/wine/wine64 wineboot && (sleep 1000000 | /usr/lib/wine/wine64 cmd /k &)";

export interface Outcome {
  readonly code: number;
  /** Standard output, then standard error. */
  readonly output: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly withinMs?: number;
}

/** A process in the computer, with its id outside of the computer. */
export interface Found {
  readonly pid: number;
  readonly command: string;
}

export class Computer {
  #unshare: Deno.ChildProcess | undefined;
  #first = 0;

  /** A computer that is off. Keeps the changes of its drive in `folder`; has no network if it `isAlone`. */
  constructor(
    private readonly disk: Disk,
    private readonly folder: string,
    private readonly isAlone = false,
  ) {}

  /** Switches the computer on; Windows starts its automatic services. */
  async on(): Promise<void> {
    await Deno.mkdir(this.folder, { recursive: true });
    const own = ["--mount", "--pid", ...this.isAlone ? ["--net"] : []];
    const args = [...own, "--fork", "--kill-child", "sh", "-euc", FIRST, "sh"];
    const child = new Deno.Command("unshare", {
      args: [...args, this.disk.system, this.folder, ROOT.replace(/\/$/, "")],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#unshare = child;
    const reader = child.stdout.getReader();
    const { value } = await reader.read();
    reader.releaseLock();
    await child.stdout.cancel();
    assert(value, "the computer cannot be switched on: it needs root and overlay file systems");
    this.#first = Number(await Deno.readTextFile(`/proc/${child.pid}/task/${child.pid}/children`));
    const booted = await this.enter(["sh", "-c", BOOT], BOOT_MS);
    assert(booted, "Windows did not start");
  }

  /** Cuts the power: kills every process in it. Wine loses the unwritten part of its registry. */
  async off(): Promise<void> {
    const child = this.#unshare;
    this.#unshare = undefined;
    if (!child) return;
    child.kill("SIGKILL");
    await child.stdin.abort().catch(() => {});
    await child.status;
    await until(async () => !await exists(`/proc/${this.#first}/root/usr`));
  }

  /** Shuts Windows down in order, which writes the registry, and switches the computer off. */
  async shutDown(): Promise<void> {
    await this.run("wineboot", ["--shutdown"]).catch(() => {});
    await this.enter(["/usr/lib/wine/wineserver64", "-k"]);
    await this.enter(["/usr/lib/wine/wineserver64", "-w"]);
    await this.off();
  }

  /** The prefix of a command line that runs a Linux program in this computer's network. */
  get network(): string[] {
    return ["nsenter", "--target", String(this.#first), "--net"];
  }

  /** The prefix of a command line that runs a program on this computer. */
  get runner(): string[] {
    return [SCRIPT, String(this.#first)];
  }

  command(program: string, args: readonly string[], { env, cwd = "/tmp" }: RunOptions = {}): Deno.Command {
    const [script, ...rest] = this.runner;
    return new Deno.Command(script, {
      args: [...rest, program, ...args],
      cwd,
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }

  /** Runs a program to its end; kills it and throws if that takes too long. */
  async run(program: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const { withinMs = RUN_MS } = options;
    const child = this.command(program, args, options).spawn();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      for (const { pid } of familyOf(child.pid)) kill(pid);
    }, withinMs);
    const { code, stdout, stderr } = await child.output();
    clearTimeout(timer);
    const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
    if (late) throw new Error(`${program} ${args.join(" ")} did not end within ${withinMs} ms: ${output}`);
    return { code, output };
  }

  /** The same; throws unless it exits with `code`. Returns its output. */
  async succeed(
    program: string,
    args: readonly string[],
    { code: wanted = 0, ...options }: RunOptions & { readonly code?: number } = {},
  ): Promise<string> {
    const { code, output } = await this.run(program, args, options);
    assert(code === wanted, `${program} ${args.join(" ")} ended with ${code}, wanted ${wanted}: ${output}`);
    return output;
  }

  /** The path on this computer of a file in the simulated one, such as `C:\opt\svc` or `/tmp/file`. */
  path(path: string): string {
    const slashed = path.replaceAll("\\", "/");
    const inside = /^C:/i.test(slashed) ? `/computer/drive_c${slashed.slice(2)}` : slashed;
    return `/proc/${this.#first}/root${inside}`;
  }

  /** The processes whose command line contains the word. */
  processes(word: string): Found[] {
    const own = Deno.readLinkSync(`/proc/${this.#first}/ns/pid`);
    return processesWhere((pid) => Deno.readLinkSync(`/proc/${pid}/ns/pid`) === own)
      .filter(({ command }) => command.includes(word));
  }

  /** Kills the processes whose command line contains the word; returns their number. */
  kill(word: string): number {
    const found = this.processes(word);
    for (const { pid } of found) kill(pid);
    return found.length;
  }

  /** Runs a program of the Debian system; returns whether it succeeded. */
  private async enter(words: readonly string[], withinMs = RUN_MS): Promise<boolean> {
    const args = ["--target", String(this.#first), "--mount", "--pid", "--net", "--root", "/usr/bin/env"];
    const variables = ["HOME=/root", "PATH=/usr/bin:/bin", "WINEPREFIX=/computer", "WINEDEBUG=-all"];
    const { success } = await new Deno.Command("nsenter", {
      args: [...args, ...variables, "WINEDLLOVERRIDES=mscoree,mshtml=", "XDG_RUNTIME_DIR=/run", ...words],
      signal: AbortSignal.timeout(withinMs),
    }).output();
    return success;
  }
}

/** A process and its descendants. */
function familyOf(pid: number): Found[] {
  const family = new Set([pid]);
  for (const one of family) {
    try {
      const children = Deno.readTextFileSync(`/proc/${one}/task/${one}/children`).trim();
      if (children !== "") { for (const child of children.split(" ")) family.add(Number(child)); }
    } catch {
      // It has ended.
    }
  }
  return processesWhere((one) => family.has(one));
}

function processesWhere(wanted: (pid: number) => boolean): Found[] {
  const found: Found[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const pid = Number(name);
    try {
      if (!Number.isInteger(pid) || !wanted(pid)) continue;
      const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
      // A process that waits for its parent to take its exit code has no command line.
      if (command !== "") found.push({ pid, command });
    } catch {
      // It has ended.
    }
  }
  return found;
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
