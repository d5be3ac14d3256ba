/**
 * The duty of a first process: in a container a program is process 1, gets the orphans of the programs that it started,
 * and has to wait for each that ends; otherwise they fill the table of processes.
 *
 * The room owns what the system asks of a process as the parent of others.
 */

import type { Clock } from "../../clock.ts";
import { C_LIBRARY } from "../reader_worker.ts";

const FUNCTIONS = {
  waitpid: { parameters: ["i32", "pointer", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const FIRST_PROCESS = 1;
const WNOHANG = 1;
/** The runtime waits for its own children at once, so one that has ended for longer than this is nobody's. */
const EVERY_MS = 10_000;

/** Waits for ended orphans until it is disposed of, if this program is the first process. */
export class OrphanReaper {
  #ended: ReadonlySet<number> = new Set();
  #cancel = () => {};

  constructor(private readonly clock: Clock) {
    if (Deno.build.os === "linux" && Deno.pid === FIRST_PROCESS) this.#start();
  }

  [Symbol.dispose](): void {
    this.#cancel();
  }

  #start(): void {
    this.#cancel = this.clock.after(EVERY_MS, () => {
      this.#look();
      this.#start();
    });
  }

  #look(): void {
    const ended = new Set(endedChildren());
    const orphans = [...ended].filter((pid) => this.#ended.has(pid));
    this.#ended = ended;
    if (orphans.length > 0) reap(orphans);
  }
}

/** The children that have ended and for which nobody has waited. */
function endedChildren(): number[] {
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name))
    .filter((pid) => Number.isInteger(pid) && isEndedChild(pid));
}

function isEndedChild(pid: number): boolean {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    // After the name in brackets, which may contain anything: the state, and the parent.
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" && Number(parent) === FIRST_PROCESS;
  } catch {
    // Gone meanwhile, or of another user.
    return false;
  }
}

function reap(pids: readonly number[]): void {
  let library;
  try {
    library = Deno.dlopen(C_LIBRARY, FUNCTIONS);
  } catch {
    // Without the right to native code, this program starts no others, either.
    return;
  }
  for (const pid of pids) library.symbols.waitpid(pid, null, WNOHANG);
  library.close();
}
