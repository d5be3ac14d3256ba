import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeHost } from "../../../tests/support/fake_host.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { Registry } from "../../resource/registry.ts";
import { ConfigReading } from "./reading.ts";
import { openOrigin } from "./origin.ts";

const PATH = "/etc/m.json";

/** The reading of a machine whose file says `text`. */
async function readingOf(text: string) {
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk.config");
  const host = new FakeHost();
  const write = (text: string) => host.writeFile(PATH, text);
  await write(text);
  const registry = new Registry([], []);
  const parts = { path: PATH, registry, host, clock, logger, version: "1.2.3" };
  const { source, read } = await openOrigin({ ...parts, allowInsecureCredentials: false });
  const reading = new ConfigReading({ source, read, registry, env: () => undefined, logger });
  return { reading, write, logged: () => records.splice(0).map(({ message }) => message) };
}

Deno.test("ConfigReading: first decodes the file once and logs its warnings once", async () => {
  const { reading, write, logged } = await readingOf('{"revision": "a", "debg": true}');
  await write('{"revision": "b"}');
  const { config, draft } = await reading.first();
  assertEquals([config.revision, draft.json.revision], ["a", "a"]);
  assertEquals(logged(), [`${PATH}:1:27: debg: warning: unknown key, ignored; did you mean "debug"?`]);
  assertEquals((await reading.candidate(draft)).config.revision, "a");
  assertEquals(logged(), []);
});

Deno.test("ConfigReading: a warning that only moved in the file is not logged again", async () => {
  const { reading, write, logged } = await readingOf('{"debg": true}');
  await reading.first();
  assertEquals(logged().length, 1);
  await write('{\n  // above\n  "debg": true\n}');
  const moved = await reading.source.first();
  assertEquals(moved.where?.("debg"), { line: 3, column: 11 });
  await reading.candidate(moved);
  assertEquals(logged(), []);
});

Deno.test("ConfigReading: first rejects with every problem of an unusable file", async () => {
  const { reading, logged } = await readingOf('{"debug": 1, "network": {"bind_address": "x"}}');
  const error = await assertRejects(() => reading.first(), SvcError);
  assertEquals(error.message.split("\n"), [
    "the configuration cannot be used:",
    `  ${PATH}:1:42: network.bind_address: found "x", wanted host:port, for example "localhost:8080" or ":8080"`,
    `  ${PATH}:1:11: debug: found 1, wanted true or false`,
  ]);
  assertEquals(logged(), []);
});
