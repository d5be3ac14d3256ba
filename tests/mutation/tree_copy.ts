/**
 * The second and third stage: tests run in a copy of the tree, in a room of their own: they read the computer's files
 * and write only the copy, a folder for temporary files and the runtime's cache, and reach no network. A mutant may
 * remove what it finds.
 */

import { run } from "../interop/programs.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const MEMORY = "--v8-flags=--max-old-space-size=2000";

export type TestEnd = "passed" | "failed" | "late";

export class TreeCopy {
  private constructor(readonly root: string, private readonly cacheFolder: string) {}

  /** Copies what git knows and what it does not ignore. Throws if this system gives no room to run it in. */
  static async create(): Promise<TreeCopy> {
    const { code } = await run(["bwrap", "--ro-bind", "/", "/", "true"]).catch(() => ({ code: 1 }));
    if (code !== 0) throw new Error("mutants run in bubblewrap alone: install the package bubblewrap");
    const root = await Deno.makeTempDir({ prefix: "svc-mutants-" });
    const listed = await run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"]);
    for (const path of listed.stdout.split("\0").filter((one) => one !== "")) {
      await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
      // A file may be removed in the tree and known to git.
      await Deno.copyFile(`${ROOT}${path}`, `${root}/${path}`).catch(() => {});
    }
    await Deno.mkdir(`${root}/dist`, { recursive: true });
    const info = await run([Deno.execPath(), "info", "--json"]);
    return new TreeCopy(root, JSON.parse(info.stdout).denoDir);
  }

  async write(path: string, text: string): Promise<void> {
    await Deno.writeTextFile(`${this.root}/${path}`, text);
  }

  /** Runs a test file until its first failure, no longer than `ms`; with `coverage`, writes it into that folder of the copy. */
  async test(path: string, ms: number, coverage?: string): Promise<TestEnd> {
    const wanted = coverage === undefined ? ["--fail-fast"] : [`--coverage=${this.root}/${coverage}`];
    const { code } = await this.#inRoom(["test", "-A", "--no-check", MEMORY, ...wanted, path], ms);
    if (code === 0) return "passed";
    return code === TIMED_OUT || code === KILLED ? "late" : "failed";
  }

  /** Whether the runtime's own type check refuses a file, which takes seconds. */
  async check(path: string): Promise<boolean> {
    return (await this.#inRoom(["check", path], CHECK_MS)).code === 1;
  }

  /** The lines that a coverage folder tells of, as LCOV. */
  async lcov(coverage: string): Promise<string> {
    return (await this.#inRoom(["coverage", "--lcov", `${this.root}/${coverage}`], LCOV_MS)).stdout;
  }

  async remove(): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }

  #inRoom(args: readonly string[], ms: number) {
    const room = [
      ...["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"],
      ...["--bind", this.root, this.root, "--bind", this.cacheFolder, this.cacheFolder],
      ...["--unshare-pid", "--unshare-net", "--die-with-parent", "--chdir", this.root],
      ...["--setenv", "HOME", "/tmp", "--setenv", "NO_COLOR", "1"],
      ...["--setenv", "DENO_DIR", this.cacheFolder],
    ];
    const limit = ["timeout", "--kill-after=5", String(Math.ceil(ms / 1000))];
    return run([...limit, ...room, Deno.execPath(), ...args]);
  }
}

const TIMED_OUT = 124;
const KILLED = 137;
const CHECK_MS = 120_000;
const LCOV_MS = 120_000;
