import { assertEquals, assertStringIncludes } from "@std/assert";
import { RobotService } from "../../proto/gen/robot_pb.ts";
import { until } from "../../tests/support/until.ts";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import type { LogRecord } from "../base/log/log.ts";
import type { JsonObject } from "../base/schema/schema.ts";
import { openPort } from "../wire/port/port.ts";
import { ServiceTable } from "../wire/rpc/service.ts";
import { ParentLink } from "./parent_link.ts";

const clock = new SystemClock();

interface Entry {
  readonly message: string;
  readonly fields: readonly JsonObject[];
}

/** A machine that takes lines, and refuses those with the word `bad`. */
async function openMachine(took: (entry: Entry) => void) {
  const table = new ServiceTable(clock);
  const log = ({ logs: [entry] }: { readonly logs: readonly [Entry] }) => {
    if (entry.message.includes("bad")) throw new SvcError("resource_exhausted", "enough");
    took(entry);
    return {};
  };
  table.add({ desc: RobotService, handlers: { log } });
  return await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
}

function line(message: string): LogRecord {
  return { timeMs: 0, level: "info", logger: "module", message, fields: {} };
}

Deno.test("ParentLink: lines wait for the machine's address, and the machine learns how many were dropped", async () => {
  const [entries, complaints]: [Entry[], string[]] = [[], []];
  const link = new ParentLink({ clock, complain: (text) => void complaints.push(text) });
  for (let number = 0; number < 1_003; number++) link.log(line(`${number}`));
  const port = await openMachine((entry) => void entries.push(entry));
  try {
    link.connect("");
    assertEquals(link.channel, undefined);
    link.connect(`127.0.0.1:${port.port}`);
    const { channel } = link;
    link.connect(`127.0.0.1:${port.port}`);
    assertEquals(link.channel === channel, true);
    await until(() => entries.length === 1_000);
    assertEquals([entries[0].message, entries.at(-1)!.message], ["3", "1002"]);
    const droppedBefore = entries.map(({ fields }) =>
      JSON.stringify(fields).includes("lines_dropped_before")
    );
    assertEquals(droppedBefore.indexOf(true), 0);
    assertEquals(droppedBefore.lastIndexOf(true), 0);
    assertStringIncludes(JSON.stringify(entries[0].fields), "3");
  } finally {
    await link.close();
    await port.close(0);
  }
  assertEquals(complaints, []);
});

Deno.test("ParentLink: a line that the machine does not take goes to standard error", async () => {
  const [entries, complaints]: [Entry[], string[]] = [[], []];
  const port = await openMachine((entry) => void entries.push(entry));
  const link = new ParentLink({ clock, complain: (text) => void complaints.push(text) });
  try {
    link.connect(`127.0.0.1:${port.port}`);
    for (const message of ["one", "bad", "two"]) link.log(line(message));
    await link.close();
    assertEquals(entries.map(({ message }) => message), ["one", "two"]);
    assertEquals(complaints.map((text) => text.split("\t").at(-1)), ["bad"]);
  } finally {
    await port.close(0);
  }
});

Deno.test("ParentLink: lines that never had a machine go to standard error at the end", async () => {
  const complaints: string[] = [];
  const link = new ParentLink({ clock, complain: (text) => void complaints.push(text) });
  link.log(line("alone"));
  await link.close();
  assertEquals(complaints.map((text) => text.split("\t").at(-1)), ["alone"]);
});
