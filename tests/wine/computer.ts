/**
 * A computer with Windows, as far as Wine is one: switched on, worked with, and cut off from its power.
 *
 * A computer is a mount and a process namespace of its own over a Debian system with Wine: when its first process is
 * killed, everything in it has ended. It shares the network with this computer, and sees the project and the folder for
 * temporary files at the paths that they have here (drive Z). Its drive C is a layer over the one that all have in
 * common. Needs root and the package debootstrap.
 */

import { assert } from "@std/assert";
import { exists, ROOT } from "../../cli/build/compiler.ts";
import { until } from "../support/until.ts";

/** The first Debian whose Wine runs Deno's executables. */
const SUITE = "trixie";
const SCRIPT = `${ROOT}tests/wine/in_wine.sh`;
const SYSTEM_MS = 900_000;
const BOOT_MS = 120_000;
const RUN_MS = 120_000;

/** Debian with Wine, and a drive C as Wine makes it. */
export interface Disk {
  readonly system: string;
  readonly drive: string;
}

/** Takes the disk in `folder`, or makes it there: that takes three minutes and needs Debian's packages. */
export async function diskIn(folder: string, tell: (line: string) => void): Promise<Disk> {
  const disk = { system: `${folder}/root`, drive: `${folder}/root/drive` };
  if (await exists(`${folder}/made`)) return disk;
  assert(Deno.uid() === 0, "only root can make a Debian system with Wine");
  await Deno.mkdir(folder, { recursive: true });
  await Deno.remove(disk.system, { recursive: true }).catch(() => {});
  tell(`making a Debian system (${SUITE}) with Wine in ${folder}`);
  await shell(`debootstrap --variant=minbase ${SUITE} "$1"`, SYSTEM_MS, disk.system);
  await Deno.writeTextFile(`${disk.system}/etc/hosts`, "127.0.0.1 localhost\n::1 localhost\n");
  const packages = "wine64 wine ca-certificates";
  const install = `apt-get update -qq && apt-get install -y -qq --no-install-recommends ${packages}`;
  await shell(
    `${MOUNTS}; DEBIAN_FRONTEND=noninteractive chroot "$1" sh -c '${install} && apt-get clean'`,
    SYSTEM_MS,
    disk.system,
  );
  const wine =
    "env HOME=/root XDG_RUNTIME_DIR=/run WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= WINEPREFIX=/drive";
  // It writes the registry when it ends.
  const boot = `${wine} /usr/lib/wine/wine64 wineboot -i && ${wine} /usr/lib/wine/wineserver64 -w`;
  await shell(`${MOUNTS}; chroot "$1" sh -c '${boot}'`, SYSTEM_MS, disk.system);
  assert(await exists(`${disk.drive}/system.reg`), `Wine made no registry in ${disk.drive}`);
  await Deno.writeTextFile(`${folder}/made`, `${SUITE}\n`);
  return disk;
}

const MOUNTS = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"';

/** In namespaces of its own, so that mounts and processes end with it. */
async function shell(script: string, withinMs: number, ...args: string[]): Promise<void> {
  const command = new Deno.Command("unshare", {
    args: ["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", script, "sh", ...args],
    stdin: "null",
    signal: AbortSignal.timeout(withinMs),
  });
  const { success, stdout, stderr } = await command.output();
  const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("").trim().slice(-2000);
  if (!success) throw new Error(`failed: ${script}\n${said}`);
}

/**
 * Lays the computer's drive over the common one, shows it the project, and stays as its first process, until its
 * standard input ends: also where the task that switched it on is killed.
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
 * Wine's services end with the last program that is none; so one stays that waits for its input. Nothing of this has
 * our output: who reads it would wait for the end of the services.
 */
const BOOT =
  "exec >/dev/null 2>&1; /usr/lib/wine/wine64 wineboot && (sleep 1000000 | /usr/lib/wine/wine64 cmd /k &)";

export interface Outcome {
  readonly code: number;
  /** What it wrote to both of its streams. */
  readonly output: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly withinMs?: number;
}

/** A process in the computer, by its number outside of it. */
export interface Found {
  readonly pid: number;
  readonly command: string;
}

export class Computer {
  #unshare: Deno.ChildProcess | undefined;
  #first = 0;

  /** A computer that is off; what it changes on its drive is kept in `folder`. One that `isAlone` has no network. */
  constructor(
    private readonly disk: Disk,
    private readonly folder: string,
    private readonly isAlone = false,
  ) {}

  /** Switches it on; Windows starts its automatic services then. */
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

  /** Cuts the power: every process in it is killed. What Wine had not written of its registry is lost. */
  async off(): Promise<void> {
    const child = this.#unshare;
    this.#unshare = undefined;
    if (!child) return;
    child.kill("SIGKILL");
    await child.stdin.abort().catch(() => {});
    await child.status;
    await until(async () => !await exists(`/proc/${this.#first}/root/usr`));
  }

  /** Shuts Windows down in order, with its registry written, and switches it off. */
  async shutDown(): Promise<void> {
    await this.run("wineboot", ["--shutdown"]).catch(() => {});
    await this.enter(["/usr/lib/wine/wineserver64", "-k"]);
    await this.enter(["/usr/lib/wine/wineserver64", "-w"]);
    await this.off();
  }

  /** What stands before a program of Linux, to run it in this computer's network. */
  get network(): string[] {
    return ["nsenter", "--target", String(this.#first), "--net"];
  }

  /** What stands before the path of a program, to run it here. */
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

  /** Runs a program to its end, which must come in time. */
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

  /** The same; it must end with `code`. Gives what it wrote. */
  async succeed(
    program: string,
    args: readonly string[],
    { code: wanted = 0, ...options }: RunOptions & { readonly code?: number } = {},
  ): Promise<string> {
    const { code, output } = await this.run(program, args, options);
    assert(code === wanted, `${program} ${args.join(" ")} ended with ${code}, wanted ${wanted}: ${output}`);
    return output;
  }

  /** Where a file of the computer is found from here: `C:\opt\svc` or `/tmp/file`. */
  path(path: string): string {
    const slashed = path.replaceAll("\\", "/");
    const inside = /^C:/i.test(slashed) ? `/computer/drive_c${slashed.slice(2)}` : slashed;
    return `/proc/${this.#first}/root${inside}`;
  }

  /** The processes in it whose command line has the word. */
  processes(word: string): Found[] {
    const own = Deno.readLinkSync(`/proc/${this.#first}/ns/pid`);
    return processesWhere((pid) => Deno.readLinkSync(`/proc/${pid}/ns/pid`) === own)
      .filter(({ command }) => command.includes(word));
  }

  /** Kills the processes whose command line has the word, as a crash would; gives how many. */
  kill(word: string): number {
    const found = this.processes(word);
    for (const { pid } of found) kill(pid);
    return found.length;
  }

  /** Runs a program of the Debian system; tells whether that went well. */
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

/** A process and all that it has started, by their parents. */
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
      // One that only waits for its parent has no command line.
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
