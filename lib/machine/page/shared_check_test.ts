import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import type { CheckNetwork } from "../diagnostics/network_check.ts";
import { SharedCheck } from "./shared_check.ts";

function countingNetwork() {
  const refuse = () => Promise.reject(new SvcError("unavailable", "there is none"));
  let looked = 0;
  const network: CheckNetwork = {
    resolve: (host) => {
      if (host.includes("twilio")) looked++;
      return refuse();
    },
    tcp: refuse,
    udp: refuse,
    gateway: refuse,
    ping: refuse,
  };
  return { network, looked: () => looked };
}

Deno.test("SharedCheck: callers of about the same time share one check, later ones get another", async () => {
  const clock = new FakeClock();
  const { network, looked } = countingNetwork();
  const check = new SharedCheck(clock, { network });
  const [one, other] = await Promise.all([check.findings(), check.findings()]);
  assertEquals(one, other);
  await check.findings();
  assertEquals(looked(), 1);
  await clock.advance(10_000);
  await check.findings();
  assertEquals(looked(), 2);
  await check.close();
});

Deno.test("SharedCheck: a program without a network says so", async () => {
  const check = new SharedCheck(new FakeClock(), undefined);
  assertEquals((await assertRejects(() => check.findings(), SvcError)).code, "unimplemented");
  await check.close();
});

Deno.test("SharedCheck: the end of the program ends a check that hangs", async () => {
  const { network } = countingNetwork();
  const hanging = { ...network, resolve: () => new Promise<never>(() => {}) };
  const check = new SharedCheck(new FakeClock(), { network: hanging });
  const found = check.findings();
  await check.close();
  assertEquals((await found).findings.some(({ outcome }) => outcome === "failed"), true);
});
