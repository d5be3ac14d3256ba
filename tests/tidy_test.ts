/**
 * The house rules, held as a test. Each rule says why it is there.
 */

import { assertEquals } from "@std/assert";

const ROOT = new URL("../", import.meta.url);

/** A file imports only from folders before its own in this order, and from its own. */
const ORDER = [
  "proto/gen",
  "lib/base",
  "lib/device",
  "lib/wire",
  "lib/geometry",
  "lib/learn",
  "lib/resource",
  "lib/api",
  "drivers",
  "lib/cloud_client",
  "lib/machine",
  "lib/agent",
  "lib/cloud",
  "cli",
];

const FILE_LINES_MAX = 700;

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
  /** Modules that it starts by their address: workers and processes. */
  readonly starts: readonly string[];
}

const sources = await readSources();
const product = sources.filter(({ path }) => !path.endsWith("_test.ts") && folderOf(path) !== undefined);

Deno.test("imports point one way: what is general never knows what is particular", () => {
  const wrong: string[] = [];
  for (const { path, imports } of product) {
    const own = folderOf(path)!;
    for (const target of imports.filter((one) => one.startsWith("."))) {
      const resolved = new URL(target, new URL(path, ROOT)).href.slice(ROOT.href.length);
      const folder = folderOf(resolved);
      if (folder !== undefined && ORDER.indexOf(folder) > ORDER.indexOf(own)) {
        wrong.push(`${path} -> ${resolved}`);
      }
    }
  }
  assertEquals(wrong, []);
});

Deno.test("every module is part of a program: what only tests use is in tests/support", () => {
  const programs = product.map(({ path }) => path).filter((path) =>
    /^cli\/(\w+\/main|build\/\w+)\.ts$/.test(path)
  );
  const reached = reachedFrom(programs, ({ imports, starts }) => [...imports, ...starts]);
  assertEquals(product.map(({ path }) => path).filter((path) => !reached.has(path)), []);
  assertEquals([...reached].filter((path) => path.startsWith("tests/")), []);
});

Deno.test("svc-agent and svc-ml reach no drivers, no slam and no machine, whatever they import", () => {
  for (const program of ["cli/agent/main.ts", "cli/ml/main.ts"]) {
    const wrong = [...reachedFrom([program], ({ imports }) => imports)].filter((path) =>
      /^(drivers|lib\/slam|lib\/machine)\//.test(path)
    );
    assertEquals(wrong, [], program);
  }
});

Deno.test("a driver never imports a driver of another type: what it needs it asks for by name", () => {
  const wrong: string[] = [];
  for (const { path, imports } of product.filter(({ path }) => /^drivers\/\w+\//.test(path))) {
    const type = path.split("/")[1];
    for (const target of imports.filter((one) => one.startsWith("../") && !one.startsWith("../../"))) {
      if (!target.startsWith(`../${type}/`)) wrong.push(`${path} -> ${target}`);
    }
  }
  assertEquals(wrong, []);
});

Deno.test("an outside package enters through one file, so that it can be changed in one place", () => {
  const doors = new Map<string, Set<string>>();
  for (const { path, imports } of product.filter(({ path }) => !path.startsWith("cli/build/"))) {
    for (const target of imports.filter((one) => !one.startsWith(".") && !one.startsWith("node:"))) {
      const name = target.startsWith("@") ? target.split("/").slice(0, 2).join("/") : target.split("/")[0];
      doors.set(name, (doors.get(name) ?? new Set()).add(path));
    }
  }
  const many = [...doors].filter(([, paths]) => paths.size > 1).map((
    [name, paths],
  ) => [name, [...paths].sort()]);
  assertEquals(many, []);
});

Deno.test("only the ports of base and cli touch Deno, so that everything else runs on any host", () => {
  const ports = /^(lib\/base\/((host|device|process)_deno|files\/(system_files|watch))\.ts|cli\/)/;
  assertEquals(having(/(?<!["'])\bDeno\./, ports), []);
});

Deno.test("only clock.ts has timers and the date, so that every wait can be tested", () => {
  assertEquals(
    having(/\b(setTimeout|setInterval|Date\.now|new Date\(\)|performance\.now)\b/, /clock\.ts$|^cli\//),
    [],
  );
});

Deno.test("only log/log.ts writes to the console, so that every line has a level and a logger", () => {
  assertEquals(having(/\bconsole\./, /^lib\/base\/log\/log\.ts$|^cli\/build\//), []);
});

Deno.test("only the host prints, and draws for those who show progress: so that control characters are written out", () => {
  // cli/cloud/content.ts answers the process that has started it, in bytes.
  assertEquals(
    having(/\bstd(out|err)\.write/, /^lib\/base\/host_deno\.ts$|^cli\/build\/|^cli\/cloud\/content\.ts$/),
    [],
  );
  assertEquals(having(/\.draw\(/, /^cli\/ml\/(follow|models|datasets)\.ts$/), []);
});

Deno.test(`no file is longer than ${FILE_LINES_MAX} lines: past that it is two things`, () => {
  const long = sources.filter(({ text }) => text.split("\n").length > FILE_LINES_MAX).map(({ path }) => path);
  assertEquals(long, []);
});

Deno.test("every file opens with what it is", () => {
  const bare = product.filter(({ text }) => !text.startsWith("/**")).map(({ path }) => path);
  assertEquals(bare, []);
});

Deno.test("nothing is left open", () => {
  const marks = new RegExp(["TO" + "DO", "FIX" + "ME", "XX" + "X"].join("|"));
  assertEquals(sources.filter(({ text }) => marks.test(text)).map(({ path }) => path), []);
});

/** Modules and what they lead to by `targetsOf`, step by step. */
function reachedFrom(
  paths: readonly string[],
  targetsOf: (source: Source) => readonly string[],
): ReadonlySet<string> {
  const targets = new Map(sources.map((source) => [source.path, targetsOf(source)]));
  const reached = new Set(paths);
  for (const path of reached) {
    for (const target of (targets.get(path) ?? []).filter((one) => one.startsWith("."))) {
      reached.add(new URL(target, new URL(path, ROOT)).href.slice(ROOT.href.length));
    }
  }
  return reached;
}

/** Paths whose code (comments left out) has the pattern, but for the allowed ones. */
function having(pattern: RegExp, allowed: RegExp): string[] {
  const code = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
  return product.filter(({ path, text }) => !allowed.test(path) && pattern.test(code(text))).map(({ path }) =>
    path
  );
}

function folderOf(path: string): string | undefined {
  return ORDER.find((folder) => path.startsWith(`${folder}/`));
}

async function readSources(): Promise<Source[]> {
  const found: Source[] = [];
  const visit = async (folder: string) => {
    for await (const entry of Deno.readDir(new URL(folder, ROOT))) {
      const path = `${folder}${entry.name}`;
      if (entry.isDirectory) await visit(`${path}/`);
      else if (path.endsWith(".ts") && !path.endsWith(".d.ts")) {
        const text = await Deno.readTextFile(new URL(path, ROOT));
        const imports = [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1]);
        const starts = [...text.matchAll(/new URL\(\s*"([^"]+)"/g)].map((match) => match[1]);
        found.push({ path, text, imports, starts });
      }
    }
  };
  for (const folder of ["cli/", "lib/", "drivers/", "tests/"]) await visit(folder);
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}
