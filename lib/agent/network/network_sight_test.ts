import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { silentLogs } from "../../base/log/log.ts";
import { NetworkSight } from "./network_sight.ts";

/** A device whose scans end as `end` says. */
function sightOf(end: { fails: boolean }) {
  const clock = new FakeClock();
  const scanned: string[] = [];
  const unused = () => Promise.reject(new Error("nobody asks for this"));
  const scan = (device: string) => {
    scanned.push(device);
    return end.fails ? Promise.reject(new SvcError("unavailable", "busy")) : Promise.resolve();
  };
  const sight = new NetworkSight({
    ...{ clock, port: { look: unused, check: unused, scan } },
    ...{ logger: silentLogs(clock).logger("svc-agent"), reachesCloud: () => false, tryCloud: unused },
  });
  return { sight, scanned };
}

const { signal } = new AbortController();

Deno.test("NetworkSight: the networks are read again after each scan, also after one that failed", async () => {
  const end = { fails: false };
  const { sight, scanned } = sightOf(end);
  assertEquals(await sight.scan("wlan0", false, signal), true);
  end.fails = true;
  assertEquals([await sight.scan("wlan0", false, signal), await sight.scan("wlan0", true, signal)], [
    true,
    true,
  ]);
  assertEquals(scanned.length, 3);
  const gone = AbortSignal.abort(new SvcError("canceled", "the agent stops"));
  await assertRejects(() => sight.scan("wlan0", false, gone), SvcError, "busy");
});

Deno.test("NetworkSight: a chip that cannot scan beside its hotspot is asked three times, and again without it", async () => {
  const end = { fails: true };
  const { sight, scanned } = sightOf(end);
  const scans = async (isHotspot: boolean) => {
    scanned.length = 0;
    return [await sight.scan("wlan0", isHotspot, signal), scanned.length];
  };
  for (let time = 0; time < 3; time++) assertEquals(await scans(true), [true, 1]);
  assertEquals(await scans(true), [false, 0]);
  assertEquals(await scans(false), [true, 1]);
  assertEquals(await scans(true), [false, 0]);
  end.fails = false;
  assertEquals(await scans(false), [true, 1]);
  assertEquals(await scans(true), [true, 1]);
});
