/** The files, places and streams of commands from afar, with hostile orders. */

import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { create } from "../../wire/rpc/proto.ts";
import { CommandFileSchema, type RunRequest, RunRequestSchema } from "../../../proto/gen/commands_pb.ts";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { CommandFiles } from "./command_files.ts";
import { CommandRuns } from "./command_runs.ts";
import { Joined } from "./joined.ts";
import { until } from "../../../tests/support/until.ts";
import { RequestReader } from "./request_reader.ts";

const host = new DenoHost();

function named(name: string, folder = 0, isResult = false) {
  return create(CommandFileSchema, { name, folder, isResult });
}

function readerOf(...parts: RunRequest["part"][]): RequestReader {
  async function* requests() {
    for (const part of parts) yield create(RunRequestSchema, { part });
  }
  return new RequestReader(requests(), new SystemClock(), new AbortController().signal);
}

function content(file: number, text: string): RunRequest["part"] {
  return {
    case: "content",
    value: { $typeName: "svc.cloud.v1.FileContent", file, data: new TextEncoder().encode(text) },
  };
}

const BEGIN: RunRequest["part"] = { case: "begin", value: true };

Deno.test("CommandFiles: names that lead elsewhere are refused, and nothing is left of them", async () => {
  const wrong = [
    "",
    ".",
    "..",
    "../a",
    "a/b",
    "a\\b",
    "/etc/passwd",
    ".bashrc",
    "a\0b",
    "a\nb",
    "-rf",
    "a:b",
    "x".repeat(300),
  ];
  for (const name of wrong) {
    await assertRejects(
      () => CommandFiles.open(host, [named(name)], 10),
      SvcError,
      "wanted the name of a file",
    );
  }
  await assertRejects(
    () => CommandFiles.open(host, [named("a", 1_000_000)], 10),
    SvcError,
    "wanted the name",
  );
  await assertRejects(() => CommandFiles.open(host, [named("a"), named("A")], 10), SvcError, "one name");
  const many = Array.from({ length: 17 }, (_, folder) => named("a", folder));
  await assertRejects(() => CommandFiles.open(host, many, 10), SvcError, "17 files");
});

Deno.test("CommandFiles: takes contents in their order, within the limit, into a private folder that goes", async () => {
  let folder: string;
  {
    await using files = await CommandFiles.open(
      host,
      [named("a.json"), named("b", 1, true), named("ä 2", 2)],
      20,
    );
    folder = files.folder;
    await files.receive(readerOf(content(0, "one"), content(0, "two"), content(2, "three"), BEGIN));
    assertEquals(await Deno.readTextFile(`${folder}/carried-0/a.json`), "onetwo");
    assertEquals(await Deno.readTextFile(`${folder}/carried-2/ä 2`), "three");
    assertEquals(Deno.statSync(folder).mode! & 0o777, 0o700);
    await Deno.writeTextFile(`${folder}/carried-1/b`, "result");
    const results = await Array.fromAsync(files.results());
    assertEquals(results.map(({ part }) => part?.case), ["result"]);
  }
  await assertRejects(() => Deno.stat(folder), Deno.errors.NotFound);

  const refused = async (wanted: string, ...parts: RunRequest["part"][]) => {
    await using files = await CommandFiles.open(host, [named("a"), named("b", 1)], 10);
    await assertRejects(() => files.receive(readerOf(...parts)), SvcError, wanted);
  };
  await refused("limit file_bytes_per_command", content(0, "x".repeat(6)), content(1, "x".repeat(6)), BEGIN);
  await refused("not in their order", content(1, "x"), content(0, "x"), BEGIN);
  await refused("incomplete", content(0, "x"));
  await refused("not in their order", content(0, "x"), content(7, "x"), BEGIN);
});

Deno.test("CommandRuns: each administrator has some places, and all together have more", () => {
  const runs = new CommandRuns({ commandsPerAdministrator: 2, commandsAtOnce: 3 });
  const [first] = [runs.enter("ann"), runs.enter("ann"), runs.enter("bob")];
  assertThrows(() => runs.enter("ann"), SvcError, "limit commands_per_administrator");
  assertThrows(() => runs.enter("bob"), SvcError, "limit commands_at_once");
  first[Symbol.dispose]();
  runs.enter("bob")[Symbol.dispose]();
  runs.enter("ann");
});

Deno.test("Joined: passes on what comes, waits for its reader, and lets sources end when the reader has left", async () => {
  let made = 0;
  let ended = false;
  async function* numbers() {
    try {
      for (; made < 1000; made++) yield made;
    } finally {
      ended = true;
    }
  }
  const joined = new Joined<number>();
  joined.add(numbers(), (value) => value);
  joined.add((async function* () {})(), (value) => value);
  joined.add(
    (async function* () {
      yield await Promise.reject(new Error("killed"));
    })(),
    () => -1,
  );
  const seen: number[] = [];
  for await (const value of joined.values()) {
    seen.push(value);
    assertEquals(made, value, "none is made before the last one was taken");
    if (seen.length === 3) break;
  }
  assertEquals(seen, [0, 1, 2]);
  await until(() => ended);
});
