/**
 * What the program needs of the machine it runs on. `host_deno.ts` is the real one; tests give their own.
 *
 * Errors are `SvcError`s that name the path: `not_found`, `permission_denied`, or `unknown` for the rest.
 */

export interface Host {
  /** The value of an environment variable. */
  env(name: string): string | undefined;
  /** Everything in the environment. */
  environment(): Record<string, string>;
  hostname(): string;
  /** `linux`, `windows`, `darwin` and `x64`, `arm64`. */
  platform(): { os: string; arch: string };
  cwd(): string;
  readFile(path: string): Promise<Uint8Array>;
  readTextFile(path: string): Promise<string>;
  /** Names of a folder's entries, sorted. */
  readFolder(path: string): Promise<string[]>;
  /** Replaces a file so that after a power loss it is whole: the old or the new. */
  writeFile(path: string, content: string | Uint8Array, options?: { mode?: number }): Promise<void>;
  /** Size in bytes, or `undefined` where there is no file. */
  fileSize(path: string): Promise<number | undefined>;
  /** Writes to standard output / standard error, for what is data rather than log. */
  write(text: string): void;
  writeError(text: string): void;
  /** Calls `run` when the process is asked to end; the returned function stops listening. */
  onTermination(run: (signal: string) => void): () => void;
  /** Resident memory and CPU time of this process. */
  usage(): { residentBytes: number };
}
