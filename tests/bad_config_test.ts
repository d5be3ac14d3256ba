/**
 * Broken configurations: each gives one clear message and the right end. Either the file is refused and the program
 * ends with 1, or an entry is ignored, or a resource is unhealthy, or there is only a warning.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { MODELS } from "../drivers/mod.ts";
import { APIS } from "../lib/api/mod.ts";
import { FakeClock } from "./support/fake_clock.ts";
import { messageOf } from "../lib/base/error.ts";
import { silentLogs } from "../lib/base/log/log.ts";
import type { Problem } from "../lib/base/schema/schema.ts";
import { decodeConfig, formatProblems } from "../lib/machine/config/config.ts";
import { readConfig } from "../lib/machine/config/file.ts";
import { Machine } from "../lib/machine/graph/machine.ts";
import { Registry } from "../lib/resource/registry.ts";
import { bytesOf, type Content, ENV, FILES, type Outcome, part, RESOURCES, SETTINGS } from "./bad_configs.ts";
import { FakeHost } from "./support/fake_host.ts";

const registry = new Registry(APIS, MODELS);

/** Reads a file as the program does and builds its machine; returns the outcome and all messages. */
async function outcomeOf(content: Content): Promise<{ outcome: Outcome; logged: string[] }> {
  const host = new FakeHost({ env: ENV, files: { "f.json": bytesOf(content) } });
  const problems: Problem[] = [];
  let json;
  try {
    json = await readConfig(host, "f.json", problems);
  } catch (error) {
    return { outcome: "refused", logged: [messageOf(error)] };
  }
  const { config, problems: found, fatal } = await decodeConfig(json, registry, { env: (name) => ENV[name] });
  const logged = formatProblems([...problems, ...found], "f.json").split("\n").filter((line) => line !== "");
  if (fatal) return { outcome: "refused", logged };

  const clock = new FakeClock();
  const machine = new Machine({ registry, logs: silentLogs(clock), clock, host });
  await machine.apply(config);
  const unhealthy = [...machine.nodes].filter((node) => node.state === "unhealthy")
    .map(({ name, error }) => ({ name, error }));
  await machine.close();
  // The problem of a resource's settings is its reason; the log has it already.
  const settings = found.map((problem) => problem.message);
  const reasons = unhealthy.filter(({ error }) => !settings.some((message) => error!.includes(message)));
  for (const { name, error } of reasons) logged.push(`${name.short}: ${error}`);
  if (unhealthy.length > 0) return { outcome: "unhealthy", logged };
  const errors = found.filter((problem) => problem.severity === "error");
  const mild = logged.length > 0 ? "warned" : "fine";
  return { outcome: errors.length > 0 ? "left out" : mild, logged };
}

Deno.test("the tables of broken configurations have at least 60 entries", () => {
  assert(FILES.length + SETTINGS.length + RESOURCES.length >= 60);
});

for (const [what, content, outcome, message] of [...FILES, ...SETTINGS, ...RESOURCES]) {
  Deno.test(`configuration: ${what}`, async () => {
    const { outcome: found, logged } = await outcomeOf(content);
    assertEquals({ logged, outcome: found }, { logged: message === "" ? [] : [message], outcome });
  });
}

Deno.test("configuration: a cycle of depends_on makes only its own resources unhealthy", async () => {
  const { outcome, logged } = await outcomeOf({
    components: [
      part({ depends_on: ["b"] }),
      part({ name: "b", depends_on: ["c"] }),
      part({ name: "c", depends_on: ["a"] }),
      part({ name: "d" }),
    ],
  });
  assertEquals(outcome, "unhealthy");
  assertEquals(logged.map((line) => line.split(":")[0]), ["a", "b", "c"]);
  for (const line of logged) assertStringIncludes(line, "cycle");
});

Deno.test("configuration: all problems are reported together", async () => {
  const { outcome, logged } = await outcomeOf({
    debug: 1,
    network: { bind_address: 1, tls_cert_file: "x" },
    components: [5, part({ model: 5, frame: 5 })],
    modules: [{}],
  });
  assertEquals(outcome, "refused");
  assertEquals(logged.map((line) => line.split(": ")[1]), [
    "network.bind_address",
    "debug",
    "components.0",
    "components.1.model",
    "modules.0.name",
    "components.1.frame",
  ]);
});
