/** Orders: every command has its row, and what a hostile order may not name. */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../../lib/base/error.ts";
import type { CommandRun } from "../../../lib/cloud/services/operations/command_service.ts";
import { HOST_FLAGS, REMOTE_ROWS, type RemoteKind, wordNames } from "./rows.ts";
import { RemoteOutput } from "./output.ts";
import { argumentsOf } from "./worker.ts";
import { CLOUD_PROGRAM } from "../program.ts";
import { CLOUD_FLAGS } from "../cloud_flags.ts";

const PLACE = { data: "/data", database: "", keys: "/keys", files: "", limits: "/limits.json" };
const NONE: Omit<CommandRun, "command"> = {
  words: [],
  flags: [],
  columns: 0,
  coloured: false,
  files: [],
  who: "ann",
};
/** The word in a usage line, or the value of a flag, is a file or folder. */
const FILE = /FILE|FOLDER|PATH|PLACE/;

Deno.test("every command has a row, and every place for a file in it is declared", () => {
  assertEquals(CLOUD_PROGRAM.commands.map(({ words }) => words).sort(), Object.keys(REMOTE_ROWS).sort());
  for (const { words, takes, flags } of CLOUD_PROGRAM.commands) {
    const row: RemoteKind = REMOTE_ROWS[words];
    if (row === "edit" || "onHost" in row) continue;
    const declared = [...row.reads ?? [], ...row.packs ?? [], ...row.writes ?? []];
    const places = [
      ...wordNames(takes, takes.length).filter((one) => FILE.test(one)),
      ...flags.filter((flag) => FILE.test(flag.value ?? "") && !HOST_FLAGS.has(flag.name))
        .map(({ name }) => `--${name}`),
    ];
    assertEquals(places.sort(), declared.toSorted(), words);
  }
});

Deno.test("places: words take the places that the usage line gives them", () => {
  assertEquals(wordNames(["[NAME]", "VERSION", "PATH"], 2), ["VERSION", "PATH"]);
  assertEquals(wordNames(["[NAME]", "VERSION", "PATH"], 3), ["NAME", "VERSION", "PATH"]);
  assertEquals(wordNames(["[PART...]"], 2), ["PART", "PART"]);
  assertEquals(wordNames(["MACHINE", "TAG..."], 3), ["MACHINE", "TAG", "TAG"]);
});

Deno.test("an order names neither the host's files nor the control plane's places", () => {
  const args = (command: string, run: Partial<CommandRun>) =>
    argumentsOf({ ...NONE, command, ...run }, PLACE);
  const words = (...texts: string[]) => texts.map((text) => ({ name: "", text }));
  const refused = (command: string, run: Partial<CommandRun> = {}) =>
    assertThrows(() => args(command, run), SvcError);

  assertEquals(args("machine rename", { words: words("--data=/etc", "b") }), [
    "machine",
    "rename",
    "--data=/data",
    "--database=",
    "--keys=/keys",
    "--files=",
    "--",
    "--data=/etc",
    "b",
  ]);
  const files = [{ path: "carried-0/a.json", isResult: false }, { path: "carried-1/b.json", isResult: true }];
  const [part] = words("part");
  const set = (file: number) => ({ files, words: [part, { name: "", file }] });
  assertEquals(args("config set", set(0)).slice(-2), ["part", "carried-0/a.json"]);
  for (const file of [1, 2, -1, 0.5]) refused("config set", set(file));
  for (const path of ["/etc/shadow", "carried-0/a.json", ""]) {
    refused("config set", { files, words: words("part", path) });
    refused("data export", { files, words: words(path) });
    refused("rollout start", { files, flags: [{ name: "config", text: path }] });
  }
  refused("data export", { files, words: [{ name: "", file: 0 }] });
  refused("machine list", { files, words: [{ name: "", file: 0 }] });
  for (const { name } of [...CLOUD_FLAGS, { name: "limits" }, { name: "help" }, { name: "x=1 --data" }]) {
    refused("package upload", { files, flags: [{ name, text: "/tmp" }] });
  }
  const onHost = Object.entries(REMOTE_ROWS).filter(([_, row]) => row === "edit" || "onHost" in row);
  assert(onHost.length > 10);
  for (const [command] of onHost) refused(command);
  for (const command of ["completion", "man", "command-worker", "toString", "__proto__", ""]) {
    refused(command);
  }
  assert(
    args("package upload", { files, words: [...words("1.0.0"), { name: "", file: 0 }] }).includes(
      "--limits=/limits.json",
    ),
  );
});

Deno.test("the output of a control plane moves no cursor, and names files as the caller does", () => {
  const [written, shown]: [string[], string[]] = [[], []];
  const host = {
    write: (text: string) => void written.push(text),
    writeError: (text: string) => void written.push(`! ${text}`),
    show: (text: string) => void shown.push(text),
    draw: () => {},
    columns: () => undefined,
    drawnColumns: () => undefined,
    coloured: () => true,
  };
  const files = [{ path: "carried-0/a+b.json", given: '../my "a+b".json' }];
  const bytes = (text: string) => new TextEncoder().encode(text);
  const plain = new RemoteOutput(host, files, false);
  plain.output(bytes("saved carried-0/a"));
  plain.output(bytes("+b.json\n\x1b[31mred\x1b[0m \x1b[2J\n"));
  plain.remarks("/tmp/svc-command-x/carried-0/a+b.json: wrong\n");
  plain.end();
  assertEquals(written.join(""), 'saved ../my "a+b".json\nred \x1b[2J\n! ../my "a+b".json: wrong\n');
  assertEquals(shown, ["\x1b[31m", "\x1b[0m"], "the host escapes what is written, and nothing else is shown");

  written.length = 0;
  const json = new RemoteOutput(host, files, true);
  json.output(bytes('{"file":"carried-0/a+b.json"}'));
  json.end();
  assertEquals(JSON.parse(written.join("")), { file: '../my "a+b".json' });
});
