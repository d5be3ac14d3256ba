import { assertEquals } from "@std/assert";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { SystemClock } from "../../base/clock.ts";
import { openPort } from "../../wire/port/port.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { RuntimeProbe } from "./probe.ts";

const clock = new SystemClock();
const FILE = "/state/serving.json";

/** Probes a port at which a program answers; `listens` is what the system says of who listens there. */
async function probed(
  listens: boolean | undefined,
  logged?: (url: string) => string,
): Promise<{ serving: boolean; asked: number }> {
  const port = await openPort({
    table: new ServiceTable(clock),
    bind: { host: "127.0.0.1", port: 0 },
    clock,
  });
  const files = new FakeFiles();
  if (logged) await files.writeFile(FILE, logged(`http://127.0.0.1:${port.port}`));
  let asked = 0;
  const probe = new RuntimeProbe(files, clock, FILE, () => {
    asked++;
    return Promise.resolve(listens);
  }, port.port);
  try {
    return { serving: await probe.serving() !== undefined, asked };
  } finally {
    await port.close(0);
  }
}

Deno.test("RuntimeProbe: without a stored address asks the default port if the runtime listens there", async () => {
  assertEquals(await probed(true), { serving: true, asked: 1 });
  assertEquals(await probed(false), { serving: false, asked: 1 });
});

Deno.test("RuntimeProbe: trusts the default port where the system does not reveal listeners", async () => {
  assertEquals(await probed(undefined), { serving: true, asked: 1 });
});

Deno.test("RuntimeProbe: asks the address that the runtime stored, and no other", async () => {
  assertEquals(await probed(false, (url) => JSON.stringify({ url })), { serving: true, asked: 0 });
  assertEquals(await probed(false, () => "{"), { serving: false, asked: 1 });
});
