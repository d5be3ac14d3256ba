/**
 * The sandbox: untrusted programs (training scripts, an inference engine on a stranger's model) see nothing of this
 * computer except what they are given, and leave no process behind.
 *
 * Made with bubblewrap. It contains the system's programs and libraries (read-only), a folder if one is given, and
 * nothing else: no data folder, no other processes, no network unless allowed, no capabilities and no way to gain any.
 * If root starts it, the program runs as a separate user who owns nothing on this computer; otherwise as the current
 * user, equally confined. A process namespace ends every process in it, daemons included, with its first program. The
 * kernel enforces the limits of each process; this program watches the limits of the whole.
 *
 * `openSandbox` tests whether all of this works here. `NO_SANDBOX` runs programs unconfined: for people's own
 * programs, and for operators who request it.
 *
 * The room owns everything that opens strangers' content: sandboxes, and the processes that run models and decode
 * pictures.
 */

import { dirname, join } from "node:path";
import type { Environment, Platform } from "../../base/host.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { deadline } from "../../base/clock.ts";
import { chainOf, messageOf, SvcError } from "../../base/error.ts";
import type { ProcessCommand, RunningProcess, SpawnHost } from "../../base/process.ts";
import { seccompFilter } from "./seccomp.ts";
import { type UsageLimits, WatchedFolder, watchUsage } from "./sandbox_usage.ts";

export interface Sandbox {
  /** For people: `bubblewrap 0.8.0, as users of their own`. */
  readonly description: string;
  /** Whether programs are confined at all. */
  readonly confines: boolean;
  /** The path of a cell's folder as its programs see it. */
  inside(folder: string): string;
  /** Makes a cell for programs that share a folder and limits, one after the other or at once. */
  cell(needs: CellNeeds): Promise<Cell>;
}

export interface CellNeeds {
  /** The only writable folder. The cell's user owns everything in it. */
  readonly folder?: string;
  /**
   * Readable folders and files, at their usual paths, also below hidden ones. The system's programs are always
   * readable.
   */
  readonly readable?: readonly string[];
  /** Allows the network of this computer, its own services included. */
  readonly network?: boolean;
  readonly limits: UsageLimits;
}

export interface SandboxedProgram {
  /** A path inside the cell. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Its whole environment except `USER` and the like. Unlike arguments, it does not appear in lists of processes. */
  readonly env?: { readonly [name: string]: string };
  /** Working folder inside the cell; by default the cell's folder. */
  readonly cwd?: string;
}

export interface Cell {
  /** The command that starts a program in the cell. Killing its group ends everything that it has started. */
  command(program: SandboxedProgram): ProcessCommand;
  /**
   * Watches a started program, and kills it with its descendants if they exceed a limit together. Resolves at its end,
   * with the reason if that was the cause.
   */
  guard(process: Pick<RunningProcess, "pid" | "signal" | "exited">): Promise<SvcError | undefined>;
  /** Call it when nothing runs in the cell any more. The folder stays. */
  close(): void;
}

type SandboxHost = SpawnHost & Environment & Platform & ReadFiles & WriteFiles;

/** The path of a cell's folder inside. */
const FOLDER = "/job";
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** The parts of the system that programs need. Of `/etc` nothing that could be secret. */
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
  "/etc/pki/tls/certs",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
];
const NETWORK_SETTINGS = ["/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/services"];
/** Shows the number of processors to programs that start as many threads. */
const CPUS = "/sys/devices/system/cpu";
/** Size of `/tmp` and of `/dev/shm`, which are in memory. */
const SCRATCH_BYTES = 256 * 1024 ** 2;
/**
 * Unused user ids: part of the range from which systemd takes dynamic users. Each cell has its own, so that the kernel
 * counts its processes separately.
 */
const UIDS = { first: 64_000, count: 1_000 };
const TRY_MS = 10_000;

/** In order of preference; the first one that works is used. */
interface Variant {
  /** Whether the program runs as another user. */
  readonly otherUser: boolean;
  /** Flags of the user namespace; absent if none is made. */
  readonly userNamespace?: readonly string[];
  /** Whether to drop the capabilities of a service, such as that for low ports, which bwrap refuses. */
  readonly givesUp?: boolean;
}

const AS_ROOT: readonly Variant[] = [
  { otherUser: true, userNamespace: ["--disable-userns"] },
  { otherUser: true, userNamespace: [] },
  // This user cannot make user namespaces, so nobody inside can.
  { otherUser: true },
];
const AS_USER: readonly Variant[] = [false, true].flatMap((givesUp) => [
  { otherUser: false, userNamespace: ["--disable-userns"], givesUp },
  { otherUser: false, userNamespace: [], givesUp },
]);
const GIVE_UP = ["/usr/bin/setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--"];

/**
 * The sandbox of this computer, or the reason, for people, why there is none. `hidden` is never visible inside,
 * whatever else is, except what a cell names below it.
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
    // Root of a container may be an ordinary user outside; confining it as itself is then enough.
    const really = root && /^\s*0\s+0\s+4294967295\s*$/.test(users);
    const variants = [...root ? AS_ROOT : [], ...really ? [] : AS_USER];
    const filter = await writeFilter(host);
    const failures = new Set<string>();
    for (const variant of variants) {
      const sandbox = new Bubblewrap(version, { ...variant, filter }, secret, clock, host);
      const failure = await sandbox.trial(host);
      if (failure === undefined) return sandbox;
      failures.add(failure);
    }
    return `bubblewrap does not work here: ${[...failures].join("; ")}`;
  } catch (error) {
    return SvcError.from(error).code === "not_found"
      ? "bubblewrap is not installed (on Debian and Ubuntu: apt-get install bubblewrap)"
      : chainOf(error);
  }
}

class Bubblewrap implements Sandbox {
  readonly confines = true;
  readonly #uids = new Set<number>();

  constructor(
    private readonly version: string,
    private readonly variant: Variant & { filter: string },
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
    // Another program may have removed the temporary file.
    const isThere = await this.files.fileSize(this.variant.filter) !== undefined;
    if (!isThere) this.variant.filter = await writeFilter(this.files);
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

  /** The reason why it does not work here, if it does not. */
  async trial(host: SandboxHost): Promise<string | undefined> {
    const cell = await this.cell({ limits: TRIAL_LIMITS });
    const script = 'for path; do test ! -e "$path" || exit 9; done; echo inside';
    const args = ["-c", script, "sh", ...this.hidden.filter((path) => !this.#covered(path))];
    try {
      const output = await firstLine(host, this.clock, cell.command({ command: "/bin/sh", args }));
      return output === "inside" ? undefined : `it says "${output}"`;
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
    throw new SvcError("resource_exhausted", `all ${count} sandboxes are in use`);
  }

  #command(
    needs: CellNeeds,
    uid: number,
    { command, args = [], env = {}, cwd }: SandboxedProgram,
  ): ProcessCommand {
    const { otherUser, userNamespace, givesUp = false, filter } = this.variant;
    const isolate = userNamespace &&
      ["--unshare-user", "--uid", `${uid}`, "--gid", `${uid}`, ...userNamespace];
    const home = needs.folder === undefined ? "/tmp" : FOLDER;
    const [program = "", ...words] = [
      // If memory runs out, the kernel ends this process first.
      ...["/usr/bin/choom", "-n", "1000", "--", "/usr/bin/nice", "-n", "10"],
      ...givesUp ? GIVE_UP : [],
      // The innermost step applies the filter, because the earlier ones still have to create namespaces.
      ...["/bin/sh", "-c", `exec ${FILTER_FD}<"$0" && exec "$@"`, filter],
      ...[
        "/usr/bin/bwrap",
        ...OWN,
        ...otherUser && isolate ? [] : FILTERED,
        ...needs.network ? [] : ["--unshare-net"],
      ],
      ...this.#view(needs),
      ...["--chdir", "/"],
      ...["--setenv", "PATH", env.PATH ?? PATH],
      ...otherUser ? ["--cap-drop", "ALL", ...SWITCHES] : ["--cap-drop", "ALL", ...isolate!],
      "--",
      ...otherUser ? ["/usr/bin/setpriv", "--reuid", `${uid}`, "--regid", `${uid}`, ...BARE] : [],
      ...otherUser && isolate ? ["/usr/bin/bwrap", ...isolate, ...FILTERED, ...UNCHANGED, "--"] : [],
      // Only the user inside may enter it.
      ...["/usr/bin/env", "-C", cwd ?? home],
      ...["/usr/bin/prlimit", ...limitWords(needs.limits), "--", command, ...args],
    ];
    const names = { USER: "job", LOGNAME: "job", HOME: home };
    // `PATH` for the programs above, not for the program inside.
    return {
      command: program,
      args: words,
      env: { ...names, ...env, PATH },
      bare: true,
      leash: true,
    };
  }

  /** Everything visible inside. */
  #view({ folder, readable = [], network }: CellNeeds): string[] {
    const scratch = ["--perms", "1777", "--size", `${SCRATCH_BYTES}`, "--tmpfs"];
    const settings = [...SETTINGS, ...network ? NETWORK_SETTINGS : []];
    const usual = readable.filter((path) => !isBelow(path, this.hidden));
    const within = readable.filter((path) => isBelow(path, this.hidden));
    const masked = this.hidden.filter((path) => isBelow(path, ["/usr", ...SYSTEM, ...usual]));
    return [
      ...["--ro-bind", "/usr", "/usr"],
      ...SYSTEM.flatMap((path) => ["--ro-bind-try", path, path]),
      ...foldersAbove([...settings, CPUS]).flatMap((path) => ["--perms", "0755", "--dir", path]),
      ...settings.flatMap((path) => ["--ro-bind-try", path, path]),
      ...["--proc", "/proc", "--dev", "/dev", ...scratch, "/dev/shm", ...scratch, "/tmp"],
      ...["--ro-bind-try", CPUS, CPUS],
      ...shown(usual),
      ...masked.flatMap((path) => ["--perms", within.length > 0 ? "0711" : "0000", ...emptyFolder(path)]),
      ...shown(within),
      ...masked.flatMap((path) => ["--remount-ro", path]),
      ...folder === undefined ? [] : ["--bind", folder, FOLDER],
      // Without limits both would be unlimited memory.
      ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ];
  }

  #covered(path: string): boolean {
    return isBelow(path, ["/usr", ...SYSTEM]);
  }
}

const TRIAL_LIMITS: UsageLimits = {
  memoryBytes: 1024 ** 3,
  cpuSeconds: 10,
  processes: 20,
  openFiles: 100,
  fileBytes: 0,
  folderBytes: 0,
  folderFiles: 0,
};

/** Separate namespaces; it ends with us, and cannot write to our terminal. */
const OWN = [
  ...["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
  ...["--hostname", "sandbox", "--die-with-parent", "--new-session"],
];
/** The file of the filter of system calls is open at this number. */
const FILTER_FD = 9;
const FILTERED = ["--seccomp", `${FILTER_FD}`];
/** The capabilities that changing the user needs. */
const SWITCHES = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"].flatMap((name) => ["--cap-add", name]);
const BARE = [
  ...["--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"],
  "--",
];
/** The unchanged file system, for the step that only makes a user namespace. */
const UNCHANGED = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"];

function limitWords({ memoryBytes, cpuSeconds, processes, openFiles, fileBytes }: UsageLimits): string[] {
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

/** Writes the filter of system calls to a file of its own, which is no secret; returns its path. */
async function writeFilter(files: WriteFiles): Promise<string> {
  const path = `${await files.temporaryFolder("svc-sandbox-")}/filter`;
  await files.writeFile(path, seccompFilter(), { mode: 0o644 });
  return path;
}

/** Folders and files at their usual paths. */
function shown(paths: readonly string[]): string[] {
  return [
    ...foldersAbove(paths).flatMap((path) => ["--perms", "0755", "--dir", path]),
    ...paths.flatMap((path) => ["--ro-bind", path, path]),
  ];
}

function emptyFolder(path: string): string[] {
  return ["--size", "65536", "--tmpfs", path];
}

/** All parent folders, from the top; bubblewrap would make them for root alone. */
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

/** Changes the owner of a folder, to which no stranger has written yet, and of everything in it. */
async function give(files: ReadFiles & WriteFiles, folder: string, uid: number): Promise<void> {
  for (const { name, kind } of await files.entries(folder)) {
    const path = join(folder, name);
    if (kind === "folder") await give(files, path, uid);
    else await files.setOwner(path, uid, uid);
  }
  await files.setOwner(folder, uid, uid);
}

/** The output of a program. Throws with its error text if it fails. */
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
    const [output, complaint, { code }] = await Promise.all([
      first(process.stdout),
      first(process.stderr),
      process.exited,
    ]);
    late.signal.throwIfAborted();
    if (code === 0) return output;
    // The shell's code for a missing program.
    const kind = code === 127 ? "not_found" : "failed_precondition";
    throw new SvcError(kind, complaint || `it ends with exit code ${code}`);
  } finally {
    late.done();
  }
}

/** Runs programs unconfined, with all rights of our user. */
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
