import { assert, assertEquals, assertRejects } from "@std/assert";
import { type FilePart, type Shell, ShellApi, type ShellInput } from "../../lib/api/services/shell.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<Shell> = {
  api: ShellApi,
  cases: {
    "shell runs the typed command and ends with exit": async (shell) => {
      assert((await outputOf(shell, typed("echo $((6 * 7))x; exit\n"))).includes("42x"));
    },
    "shell ends when its input ends": async (shell) => {
      await outputOf(shell, typed());
    },
    "shell has the window size of window-change messages": async (shell) => {
      const size = (cols: number, rows: number) => ({ message: "window-change", cols, rows });
      const input = async function* () {
        yield { message: size(101, 37) };
        yield { text: "stty size; exit\n" };
      };
      const first = await outputOf(shell, typed("stty size; exit\n"), { messages: [size(99, 31)] });
      assert(first.includes("31 99"), first);
      const later = await outputOf(shell, input());
      assert(later.includes("37 101"), later);
    },
    "shell ends when its call is aborted": async (shell) => {
      const caller = new AbortController();
      const endless = async function* (): AsyncGenerator<ShellInput> {
        yield { text: "echo $((40 + 2))\n" };
        await new Promise<void>((resolve) => caller.signal.addEventListener("abort", () => resolve()));
      };
      const reading = assertRejects(async () => {
        let all = "";
        for await (const { text } of shell.shell(endless(), { signal: caller.signal })) {
          all += text;
          if (all.includes("42")) caller.abort(new SvcError("canceled", "gone"));
        }
        throw new Error("it ended by itself");
      }, SvcError);
      assertEquals((await reading).code, "canceled");
    },
    "a folder copied to the machine and back is unchanged": (shell) =>
      withFolder(async (folder) => {
        await Deno.mkdir(`${folder}/to`);
        const large = new Uint8Array(200_000).map((_, at) => at % 251);
        const sent: FilePart[] = [
          { file: header("tree/large", 200_000), data: large.subarray(0, 150_000), isLast: false },
          { data: large.subarray(150_000), isLast: true },
          { file: header("tree/deep/empty", 0), data: new Uint8Array(0), isLast: true },
          { file: { ...header("tree", 0), isFolder: true }, data: new Uint8Array(0), isLast: true },
        ];
        const to = { source: "folder", destination: `${folder}/to`, preserve: true } as const;
        const taken = await Array.fromAsync(shell.copyToMachine(to, stream(sent)));
        assertEquals(taken.length, 3);
        assertEquals(await Deno.readFile(`${folder}/to/tree/large`), large);
        assertEquals((await Deno.stat(`${folder}/to/tree/large`)).mtime?.getTime(), MODIFIED_MS);
        const back = await copied(shell, [`${folder}/to/tree`], { preserve: true });
        assertEquals(back.source, "folder");
        assertEquals([...back.files.keys()], ["tree/deep/empty", "tree/deep", "tree/large", "tree"]);
        assertEquals(back.files.get("tree/large"), { ...header("tree/large", 200_000), data: large });
      }),
    "copyToMachine gives a single file the destination's name": (shell) =>
      withFolder(async (folder) => {
        const to = { source: "file", destination: `${folder}/renamed`, preserve: false } as const;
        const data = new TextEncoder().encode("hello");
        const part = { file: header("original", 5), data, isLast: true };
        await Array.fromAsync(shell.copyToMachine(to, stream([part])));
        assertEquals(await Deno.readTextFile(`${folder}/renamed`), "hello");
        const back = await copied(shell, [`${folder}/renamed`], { recursive: false });
        assertEquals([back.source, back.files.get("renamed")?.data], ["file", data]);
      }),
    "copies outside of the destination, to or from missing folders are refused": (shell) =>
      withFolder(async (folder) => {
        const copy = (name: string, destination = folder, source: "file" | "files" = "file") => {
          const part = { file: header(name, 1), data: new Uint8Array(1), isLast: true };
          return Array.fromAsync(
            shell.copyToMachine({ source, destination, preserve: false }, stream([part])),
          );
        };
        const refused = async (copy: () => Promise<unknown>) => (await assertRejects(copy, SvcError)).code;
        for (const name of ["../out", "a/../../out", "/etc/out", "a//b", "a\0b"]) {
          assertEquals(await refused(() => copy(name)), "invalid_argument", name);
        }
        assertEquals(await refused(() => copy("a", `${folder}/nowhere/b`)), "not_found");
        assertEquals(await refused(() => copy("a", `${folder}/nowhere`, "files")), "not_found");
        assertEquals(await refused(() => copied(shell, [`${folder}/nowhere`])), "not_found");
        assertEquals(await refused(() => copied(shell, [])), "invalid_argument");
        assertEquals(
          await refused(() => copied(shell, [folder], { recursive: false })),
          "invalid_argument",
        );
        assertEquals([...Deno.readDirSync(folder)], []);
      }),
  },
};

const MODIFIED_MS = 1_600_000_000_000;

function header(name: string, sizeBytes: number) {
  return { name, sizeBytes, isFolder: false, modifiedMs: MODIFIED_MS, mode: 0o640 };
}

async function outputOf(shell: Shell, input: AsyncIterable<ShellInput>, extra = {}): Promise<string> {
  return (await Array.fromAsync(shell.shell(input, { extra }))).map(({ text }) => text).join("");
}

async function* typed(text?: string): AsyncGenerator<ShellInput> {
  if (text !== undefined) yield { text };
}

async function* stream<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

/** Copies from the machine; acknowledges each file when it is whole. */
async function copied(
  shell: Shell,
  paths: readonly string[],
  { recursive = true, preserve = false } = {},
) {
  const whole = new TransformStream<void, void>();
  const acknowledge = whole.writable.getWriter();
  const { source, parts } = await shell.copyFromMachine(
    { paths, recursive, preserve },
    whole.readable.values(),
  );
  const files = new Map<string, NonNullable<FilePart["file"]> & { data: Uint8Array }>();
  let [file, data] = [undefined as FilePart["file"], [] as Uint8Array[]];
  for await (const part of parts) {
    file ??= part.file;
    data.push(part.data);
    if (!part.isLast) continue;
    const content = new Uint8Array(await new Blob(data as BlobPart[]).arrayBuffer());
    files.set(file!.name, { ...file!, data: content });
    [file, data] = [undefined, []];
    void acknowledge.write().catch(() => {});
  }
  return { source, files };
}

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-shell-" });
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
