/**
 * The sandbox: programs that nobody vouches for (training scripts, an inference engine on somebody's model) see
 * nothing of this computer but what they are given, and leave nothing behind that runs.
 *
 * Made of bubblewrap. In it are the system's programs and libraries (read-only), a folder if one is given, and
 * nothing else: no data folder, no processes but its own, no network unless allowed, no capabilities, no way to get
 * any. Run by root, what is in it runs as a user of its own whom nothing on this computer belongs to; run by anybody
 * else, as that user, who is shut in all the same. A process namespace ends everything that is in it with its first
 * program, daemons included. Limits that the kernel knows hold for each process; those of the whole are watched.
 *
 * `openSandbox` tries whether all that works here. Where it does not, `NO_SANDBOX` runs programs as they are: that is
 * for people's own programs, and for who has said that they want it so.
 *
 * The room owns everything that opens what strangers made: sandboxes, and the processes in which models are run and
 * pictures decoded.
 */

import { dirname, join } from "node:path";
import type { Environment, Platform } from "../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { deadline } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import type { ProcessCommand, RunningProcess, SpawnHost } from "../../base/process.ts";
import { type Limits, WatchedFolder, watchUsage } from "./sandbox_usage.ts";

export interface Sandbox {
  /** For people: `bubblewrap 0.8.0, as users of their own`. */
  readonly description: string;
  /** Whether programs are shut in at all. */
  readonly confines: boolean;
  /** Where the folder of a cell is for what runs in it. */
  inside(folder: string): string;
  /** Makes room for programs that share a folder and their limits, one after the other or at once. */
  cell(needs: CellNeeds): Promise<Cell>;
}

export interface CellNeeds {
  /** All that can be written to. Everything in it comes to belong to the cell's user. */
  readonly folder?: string;
  /** Folders and files that can be read, at the places where they are. The system's programs always can. */
  readonly readable?: readonly string[];
  /** The network of this computer, its own services included. */
  readonly network?: boolean;
  readonly limits: Limits;
}

export interface Program {
  /** A path inside. */
  readonly command: string;
  readonly args?: readonly string[];
  /** All of its environment but `USER` and the like. It is not shown in lists of processes, as arguments are. */
  readonly env?: { readonly [name: string]: string };
  /** Inside; the cell's folder without it. */
  readonly cwd?: string;
}

export interface Cell {
  /** How to start a program in the cell. Kill its group to end all that it has started. */
  command(program: Program): ProcessCommand;
  /**
   * Watches a program that was started so, and kills it with all that it has started if they use too much together.
   * Resolves when it has ended: with the reason, if that was it.
   */
  guard(process: Pick<RunningProcess, "pid" | "signal" | "exited">): Promise<SvcError | undefined>;
  /** When nothing runs in it any more. Its folder stays. */
  close(): void;
}

type SandboxHost = SpawnHost & Environment & Platform & ReadFiles & WriteFiles;

/** Where the folder of a cell is inside. */
const FOLDER = "/job";
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** The system, as far as programs need it. Of `/etc` nothing that could be secret. */
const SYSTEM = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
const SETTINGS = [
  "/etc/alternatives",
  "/etc/ca-certificates",
  "/etc/fonts",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/localtime",
  "/etc/mime.types",
  "/etc/pip.conf",
  "/etc/pki/tls/certs",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
];
const NETWORK_SETTINGS = ["/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/services"];
/** How many processors there are, for programs that have as many threads. */
const CPUS = "/sys/devices/system/cpu";
/** Of `/tmp` and of `/dev/shm`, which are in memory. */
const SCRATCH_BYTES = 256 * 1024 ** 2;
/**
 * Users that are nobody's: part of the range that systemd takes such users from. Each cell has another, so that
 * the kernel counts the processes of each by itself.
 */
const UIDS = { first: 64_000, count: 1_000 };
const TRY_MS = 10_000;

/** In order of preference; the first one that works is taken. */
interface Variant {
  /** Really another user. */
  readonly otherUser: boolean;
  /** Flags of the user namespace; without it none is made. */
  readonly userNamespace?: readonly string[];
}

const AS_ROOT: readonly Variant[] = [
  { otherUser: true, userNamespace: ["--disable-userns"] },
  { otherUser: true, userNamespace: [] },
  // Nobody makes user namespaces here, so nobody inside will.
  { otherUser: true },
];
const AS_USER: readonly Variant[] = [
  { otherUser: false, userNamespace: ["--disable-userns"] },
  { otherUser: false, userNamespace: [] },
];

/**
 * The sandbox of this computer; the reason, for people, where there is none. `hidden` is never to be seen inside,
 * whatever else is.
 */
export async function openSandbox(
  host: SandboxHost,
  clock: Clock,
  hidden: readonly string[] = [],
): Promise<Sandbox | string> {
  if (host.platform().os !== "linux") return `there is none for ${host.platform().os}`;
  try {
    const version = await firstLine(host, clock, { command: "bwrap", args: ["--version"] });
    const secret = await Promise.all(hidden.map((path) => host.realPath(path)));
    const root = await firstLine(host, clock, { command: "id", args: ["-u"] }) === "0";
    const users = await firstLine(host, clock, { command: "cat", args: ["/proc/self/uid_map"] });
    // Root of a container may be a user like others outside; then it is well shut in as itself.
    const really = root && /^\s*0\s+0\s+4294967295\s*$/.test(users);
    const variants = really ? AS_ROOT : root ? [...AS_ROOT, ...AS_USER] : AS_USER;
    const failures = new Set<string>();
    for (const variant of variants) {
      const sandbox = new Bubblewrap(version, variant, secret, clock, host);
      const failure = await sandbox.trial(host);
      if (failure === undefined) return sandbox;
      failures.add(failure);
    }
    return `bubblewrap does not work here: ${[...failures].join("; ")}`;
  } catch (error) {
    return (error as SvcError).code === "not_found"
      ? "bubblewrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)"
      : chainOf(error);
  }
}

class Bubblewrap implements Sandbox {
  readonly confines = true;
  readonly #uids = new Set<number>();

  constructor(
    private readonly version: string,
    private readonly variant: Variant,
    private readonly hidden: readonly string[],
    private readonly clock: Clock,
    private readonly files: ReadFiles & WriteFiles,
  ) {}

  get description(): string {
    const { otherUser } = this.variant;
    return `${this.version}, ${otherUser ? "each job as a user of its own" : "as the user of this program"}`;
  }

  inside(): string {
    return FOLDER;
  }

  async cell(needs: CellNeeds): Promise<Cell> {
    const readable = await Promise.all((needs.readable ?? []).map((path) => this.files.realPath(path)));
    const uid = this.#takeUid();
    try {
      if (this.variant.otherUser && needs.folder !== undefined) await give(this.files, needs.folder, uid);
    } catch (error) {
      this.#uids.delete(uid);
      throw error;
    }
    const { folder, limits } = needs;
    const watched = folder === undefined
      ? undefined
      : await WatchedFolder.open(this.files, folder, limits, this.clock);
    return {
      command: (program) => this.#command({ ...needs, readable }, uid, program),
      guard: (process) => watchUsage(process, limits, watched, this.files, this.clock),
      close: () => void this.#uids.delete(uid),
    };
  }

  /** Why it does not work here, if it does not. */
  async trial(host: SandboxHost): Promise<string | undefined> {
    const cell = await this.cell({ limits: TRIAL_LIMITS });
    const script = 'for path; do test ! -e "$path" || exit 9; done; echo inside';
    const args = ["-c", script, "sh", ...this.hidden.filter((path) => !this.#covered(path))];
    try {
      const said = await firstLine(host, this.clock, cell.command({ command: "/bin/sh", args }));
      return said === "inside" ? undefined : `it says "${said}"`;
    } catch (error) {
      return messageOf(error);
    } finally {
      cell.close();
    }
  }

  #takeUid(): number {
    const { first, count } = UIDS;
    const begin = Math.floor(Math.random() * count);
    for (let at = 0; at < count; at++) {
      const uid = first + (begin + at) % count;
      if (this.#uids.has(uid)) continue;
      this.#uids.add(uid);
      return uid;
    }
    throw new SvcError("resource_exhausted", `${count} sandboxes are in use, which are all there are`);
  }

  #command(needs: CellNeeds, uid: number, { command, args = [], env = {}, cwd }: Program): ProcessCommand {
    const { otherUser, userNamespace } = this.variant;
    const isolate = userNamespace &&
      ["--unshare-user", "--uid", `${uid}`, "--gid", `${uid}`, ...userNamespace];
    const home = needs.folder === undefined ? "/tmp" : FOLDER;
    const words = [
      // If memory runs out, the kernel ends this first.
      ...["/usr/bin/choom", "-n", "1000", "--", "/usr/bin/nice", "-n", "10"],
      ...["/usr/bin/bwrap", ...OWN, ...needs.network ? [] : ["--unshare-net"]],
      ...this.#view(needs),
      ...["--chdir", "/"],
      ...["--setenv", "PATH", env.PATH ?? PATH],
      ...otherUser ? ["--cap-drop", "ALL", ...SWITCHES] : ["--cap-drop", "ALL", ...isolate!],
      "--",
      ...otherUser ? ["/usr/bin/setpriv", "--reuid", `${uid}`, "--regid", `${uid}`, ...BARE] : [],
      ...otherUser && isolate ? ["/usr/bin/bwrap", ...isolate, ...UNCHANGED, "--"] : [],
      // Nobody but the user inside may be able to go there.
      ...["/usr/bin/env", "-C", cwd ?? home],
      ...["/usr/bin/prlimit", ...limitWords(needs.limits), "--", command, ...args],
    ];
    const names = { USER: "job", LOGNAME: "job", HOME: home };
    // The path is that of the programs above, not of what they run.
    return {
      command: words[0],
      args: words.slice(1),
      env: { ...names, ...env, PATH },
      bare: true,
      leash: true,
    };
  }

  /** What there is to be seen. */
  #view({ folder, readable = [], network }: CellNeeds): string[] {
    const scratch = ["--perms", "1777", "--size", `${SCRATCH_BYTES}`, "--tmpfs"];
    const settings = [...SETTINGS, ...network ? NETWORK_SETTINGS : []];
    return [
      ...["--ro-bind", "/usr", "/usr"],
      ...SYSTEM.flatMap((path) => ["--ro-bind-try", path, path]),
      ...foldersAbove([...settings, CPUS]).flatMap((path) => ["--perms", "0755", "--dir", path]),
      ...settings.flatMap((path) => ["--ro-bind-try", path, path]),
      ...["--proc", "/proc", "--dev", "/dev", ...scratch, "/dev/shm", ...scratch, "/tmp"],
      ...["--ro-bind-try", CPUS, CPUS],
      ...foldersAbove(readable).flatMap((path) => ["--perms", "0755", "--dir", path]),
      ...readable.flatMap((path) => ["--ro-bind", path, path]),
      ...this.hidden.filter((path) => isBelow(path, ["/usr", ...SYSTEM, ...readable])).flatMap(masked),
      ...folder === undefined ? [] : ["--bind", folder, FOLDER],
      // Else both are memory without a limit.
      ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ];
  }

  #covered(path: string): boolean {
    return isBelow(path, ["/usr", ...SYSTEM]);
  }
}

const TRIAL_LIMITS: Limits = {
  memoryBytes: 1024 ** 3,
  cpuSeconds: 10,
  processes: 20,
  openFiles: 100,
  fileBytes: 0,
  folderBytes: 0,
  folderFiles: 0,
};

/** Namespaces of its own; it ends with us, and cannot write to our terminal. */
const OWN = [
  ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--hostname", "sandbox", "--die-with-parent", "--new-session"],
];
/** What it takes to become another user. */
const SWITCHES = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"].flatMap((name) => ["--cap-add", name]);
const BARE = [
  ...["--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"],
  "--",
];
/** Everything where it is, for who only makes a user namespace. */
const UNCHANGED = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"];

function limitWords({ memoryBytes, cpuSeconds, processes, openFiles, fileBytes }: Limits): string[] {
  return [
    `--data=${memoryBytes}`,
    `--cpu=${cpuSeconds}`,
    `--nproc=${processes}`,
    `--nofile=${openFiles}`,
    `--fsize=${fileBytes}`,
    "--core=0",
    "--memlock=0",
    "--msgqueue=0",
  ];
}

/** An empty place that nothing can be written to. */
function masked(path: string): string[] {
  return ["--perms", "0000", "--size", "4096", "--tmpfs", path, "--remount-ro", path];
}

/** All folders above these, the upper ones first; else bubblewrap makes them for root alone. */
function foldersAbove(paths: readonly string[]): string[] {
  const found = new Set<string>();
  for (const path of paths) {
    for (let above = dirname(path); above !== "/"; above = dirname(above)) found.add(above);
  }
  return [...found].filter((path) => !isBelow(path, ["/usr", ...SYSTEM])).sort();
}

function isBelow(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** Makes a folder, which nobody else has written to so far, and all that is in it somebody's. */
async function give(files: ReadFiles & WriteFiles, folder: string, uid: number): Promise<void> {
  for (const { name, kind } of await files.entries(folder)) {
    const path = join(folder, name);
    if (kind === "folder") await give(files, path, uid);
    else await files.setOwner(path, uid, uid);
  }
  await files.setOwner(folder, uid, uid);
}

/** What a program says. Throws with its complaint where it fails. */
async function firstLine(host: SandboxHost, clock: Clock, command: ProcessCommand): Promise<string> {
  const late = deadline(clock, TRY_MS, () => new SvcError("deadline_exceeded", "it does not end"));
  const process = host.spawn({ ...command, leash: true });
  const kill = () => process.signal("SIGKILL", { group: true });
  late.signal.addEventListener("abort", kill, { once: true });
  const first = async (lines: AsyncIterable<string>) => {
    let found = "";
    for await (const line of lines) found ||= line;
    return found;
  };
  try {
    const [said, complaint, { code }] = await Promise.all([
      first(process.stdout),
      first(process.stderr),
      process.exited,
    ]);
    late.signal.throwIfAborted();
    if (code === 0) return said;
    // What the shell says of a program that is not there.
    const kind = code === 127 ? "not_found" : "failed_precondition";
    throw new SvcError(kind, complaint || `it ends with exit code ${code}`);
  } finally {
    late.done();
  }
}

/** Programs as they are: they can do what our user can. */
export const NO_SANDBOX: Sandbox = {
  description: "no sandbox",
  confines: false,
  inside: (folder) => folder,
  cell({ folder }) {
    return Promise.resolve({
      command: ({ command, args, env = {}, cwd = folder }) => {
        return { command, args, env, cwd, bare: true, leash: true };
      },
      async guard({ exited }) {
        await exited;
        return undefined;
      },
      close() {},
    });
  },
};
