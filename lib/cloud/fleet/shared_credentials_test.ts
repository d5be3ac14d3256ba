import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import {
  createDeviceMark,
  DEVICE_MARK,
  headerOfMark,
  markIn,
} from "../../cloud_client/changes/device_mark.ts";
import { type LogRecord, Logs } from "../../base/log/log.ts";
import { Metadata } from "../../wire/rpc/metadata.ts";
import { SharedCredentials } from "./shared_credentials.ts";

const MINUTE_MS = 60_000;
const PART = { id: "part-1", organizationId: "org" };

function interfaces(mac: string) {
  const one = {
    address: "192.168.1.5",
    netmask: "255.255.255.0",
    family: "IPv4",
    internal: false,
    mac,
    cidr: null,
  };
  return { lo: [{ ...one, internal: true, mac: "00:00:00:00:00:00" }], eth0: [one] } as never;
}

/** A start of a program on a device, as the control plane sees its calls. */
function startOf(program: string, mac: string, remoteAddress = "192.0.2.1") {
  const mark = headerOfMark(createDeviceMark(program, "rover", interfaces(mac)));
  return {
    requestHeader: Metadata.from([[DEVICE_MARK, mark]]),
    peer: { kind: "grpc", remoteAddress } as const,
  };
}

function setUp() {
  const clock = new FakeClock();
  const [warned, logged]: [string[], string[]] = [[], []];
  const sink = ({ message }: LogRecord) => void warned.push(message);
  const devices = new SharedCredentials({
    clock,
    logger: new Logs(clock, [sink]).logger("devices"),
    logs: {
      add: (part, entries) => {
        for (const { message } of entries) logged.push(`${part.id}: ${message}`);
        return Promise.resolve();
      },
    },
  });
  return { clock, devices, warned, logged };
}

Deno.test("two devices with the same credentials are named once an hour, as long as both are there", async () => {
  const { clock, devices, warned, logged } = setUp();
  const one = startOf("svc-agent", "dc:a6:32:00:00:01");
  const two = startOf("svc-agent", "dc:a6:32:00:00:02", "192.0.2.2");
  for (let minute = 0; minute <= 4; minute++) {
    for (const device of [one, two]) devices.sawRequest(PART, device);
    await clock.advance(MINUTE_MS);
  }
  assertEquals([devices.problems(PART.id), logged], [[], []]);
  for (let minute = 5; minute <= 60; minute++) {
    for (const device of [one, two]) devices.sawRequest(PART, device);
    await clock.advance(MINUTE_MS);
  }
  const [problem = "none"] = devices.problems(PART.id);
  assertStringIncludes(
    problem,
    "rover (dc:a6:32:00:00:01) at 192.0.2.1 and rover (dc:a6:32:00:00:02) at 192.0.2.2",
  );
  assertEquals([logged, warned], [[`part-1: ${problem}`], [`part part-1: ${problem}`]]);
  assertEquals(devices.problems("part-2"), []);

  // One gets a machine of its own.
  for (let minute = 0; minute <= 4; minute++) {
    devices.sawRequest(PART, one);
    await clock.advance(MINUTE_MS);
  }
  assertEquals([devices.problems(PART.id), logged.length], [[], 1]);
});

Deno.test("starts one after another are one device, and so are its agent and its runtime", async () => {
  const { clock, devices, logged } = setUp();
  const runtime = startOf("svc-server", "dc:a6:32:00:00:01");
  for (let start = 0; start < 20; start++) {
    const agent = startOf("svc-agent", "dc:a6:32:00:00:01");
    for (let minute = 0; minute < 3 + start; minute++) {
      devices.sawRequest(PART, agent);
      devices.sawRequest(PART, runtime);
      await clock.advance(MINUTE_MS);
    }
  }
  assertEquals([devices.problems(PART.id), logged], [[], []]);
});

Deno.test("a connection without a device behind it proves nothing; devices that only listen are made to ask", async () => {
  const { clock, devices, logged } = setUp();
  const [before, after] = [1, 2].map((last) => startOf("svc-agent", `dc:a6:32:00:00:0${last}`));
  let asked = 0;
  // The proxy keeps the connection of the start before the power cut.
  for (let second = 0; second < 1800; second += 15) {
    devices.sawConnection(PART.id, before!);
    if (second > 60 && devices.sawConnection(PART.id, after!)) {
      asked++;
      devices.sawRequest(PART, after!);
    }
    await clock.advance(15_000);
  }
  assertEquals([devices.problems(PART.id), logged], [[], []]);
  assert(asked >= 8 && asked <= 15, `${asked} times in 24 minutes`);
  // Both are there.
  for (let second = 0; second < 600; second += 15) {
    for (const device of [before!, after!]) {
      if (devices.sawConnection(PART.id, device)) devices.sawRequest(PART, device);
    }
    await clock.advance(15_000);
  }
  assertEquals([devices.problems(PART.id).length, logged.length], [1, 1]);
});

Deno.test("calls without a mark, or with one that nobody wrote, count for nothing", async () => {
  const { clock, devices, logged } = setUp();
  const run = crypto.randomUUID();
  const bad = [
    "",
    "x",
    `${run} svc-agent %zz`,
    `${run} other name`,
    `${run.toUpperCase()} svc-agent a`,
    `${run}`,
  ];
  for (const text of bad.slice(0, 5)) assertEquals(markIn(text), undefined, text);
  for (let minute = 0; minute < 20; minute++) {
    for (const text of bad) {
      const header = Metadata.from([[DEVICE_MARK, text]]);
      devices.sawRequest(PART, { requestHeader: header, peer: { kind: "grpc" } });
    }
    await clock.advance(MINUTE_MS);
  }
  assertEquals([devices.problems(PART.id), logged], [[], []]);
  const hostile = markIn(`${run} svc-agent ${encodeURIComponent(`a\n\u001b[2J${"x".repeat(5000)}`)}`);
  assert(hostile && hostile.name.length < 200 && !hostile.name.includes("\n"));
});
