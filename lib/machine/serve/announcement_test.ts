import { assertEquals, assertMatch } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { fakeInterface, FakeLan, FakeMdnsNetwork } from "../../../tests/support/fake_mdns.ts";
import { Logs } from "../../base/log/log.ts";
import { browse } from "../../wire/mdns/browser.ts";
import type { MdnsNetwork } from "../../wire/mdns/links.ts";
import { PortAnnouncement } from "./announcement.ts";

function bench() {
  const clock = new FakeClock();
  const logger = new Logs(clock, []).logger("mdns");
  const lan = new FakeLan();
  const computer = (address: string) => new FakeMdnsNetwork(new Map([[fakeInterface(address), lan]]));
  const announcement = (network: MdnsNetwork) =>
    new PortAnnouncement({ serves: ["grpc"], clock, logger, network });
  const found = () => passing(clock, 5_000, browse({ network: computer("10.0.0.2"), clock, logger }, 1_500));
  return { clock, computer, announcement, found };
}

Deno.test("PortAnnouncement: announces the names of the configuration over mDNS until close", async () => {
  const { clock, computer, announcement, found } = bench();
  const machine = announcement(computer("10.0.0.1"));
  machine.tell({ names: ["m.example.com"], address: "0.0.0.0", port: 8080 });
  const [one] = await found();
  assertEquals([one.names, one.port, one.serves], [["m.example.com", "m-example-com"], 8080, ["grpc"]]);
  // Another place takes its place; the same one changes nothing.
  for (const port of [8081, 8081]) machine.tell({ names: ["m.example.com"], address: "0.0.0.0", port });
  assertEquals((await found()).map(({ port }) => port), [8081]);
  await machine.close();
  machine.tell({ names: ["late"], address: "0.0.0.0", port: 1 });
  assertEquals(await found(), []);
  assertEquals(clock.pending, 0);
});

Deno.test("PortAnnouncement: a machine without a name announces a random name that stays the same", async () => {
  const { computer, announcement, found } = bench();
  const machine = announcement(computer("10.0.0.1"));
  machine.tell({ names: [], address: "::", port: 8080 });
  const [{ names: [name] }] = await found();
  assertMatch(name, /^[0-9a-f-]{36}$/);
  machine.tell({ names: [], address: "::", port: 8081 });
  const [again] = await found();
  assertEquals([again.names, again.port], [[name], 8081]);
  await machine.close();
});

Deno.test("PortAnnouncement: a failing network does not throw", async () => {
  const { announcement, found } = bench();
  const broken: MdnsNetwork = {
    interfaces: () => {
      throw new Error("no such call");
    },
    join: () => Promise.reject(new Error("never")),
  };
  const machine = announcement(broken);
  machine.tell({ names: ["m"], address: "::", port: 8080 });
  assertEquals(await found(), []);
  await machine.close();
});
