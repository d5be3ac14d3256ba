import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Camera, CameraApi } from "../../lib/api/sensors/camera.ts";
import { type Sensor, SensorApi } from "../../lib/api/sensors/sensor.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { writePcd } from "../../lib/geometry/cloud/pcd.ts";
import { createCloud } from "../../lib/geometry/cloud/point_cloud.ts";
import { viewpointOf } from "../../lib/geometry/cloud/viewpoint.ts";
import { poseAt } from "../../lib/geometry/pose.ts";
import { DecodeContext, type JsonObject } from "../../lib/base/schema/schema.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { BaseComponent, type Call, type Resource } from "../../lib/resource/resource.ts";
import type { FrameView } from "../../lib/resource/frame_view.ts";
import type { Captured } from "../../lib/resource/uploader.ts";
import { BuiltinDataManager } from "./builtin.ts";
import { FakeHost } from "../../tests/support/fake_host.ts";
import { testManager } from "../../tests/support/data_manager.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

class Thermometer extends BaseComponent implements Sensor {
  readonly calls: (Call | undefined)[] = [];
  failure: Error | undefined;

  getReadings(call?: Call): Promise<JsonObject> {
    this.calls.push(call);
    return this.failure ? Promise.reject(this.failure) : Promise.resolve({ number: this.calls.length });
  }
}

class Gate extends BaseComponent implements Sensor {
  /** Before it is set, there is no such sensor. */
  readings: JsonObject | undefined;

  getReadings(): Promise<JsonObject> {
    return Promise.resolve(this.readings!);
  }
}

class Eye extends BaseComponent implements Camera {
  getImages() {
    const image = (sourceName: string) => ({
      sourceName,
      mimeType: "image/jpeg",
      image: new Uint8Array([1]),
    });
    return Promise.resolve({ images: [image("left"), image("right")], capturedAtMs: 0 });
  }

  cloud = new Uint8Array([2]);

  getPointCloud(): Promise<Uint8Array> {
    return Promise.resolve(this.cloud);
  }

  getProperties() {
    return Promise.resolve({ supportsPcd: true, mimeTypes: [] });
  }
}

/** A data manager among resources, with the test's own clock and disk. */
async function bench(
  attributes: JsonObject = {},
  { files = new FakeHost({ env: { SVC_HOME: "/home" } }), clock = new FakeClock(), frames }: {
    files?: FakeHost;
    clock?: FakeClock;
    frames?: FrameView;
  } = {},
) {
  const sent: Captured[] = [];
  const resources = new Map<Resource, JsonObject[]>();
  const cloud = { answer: (_data: Captured): void => {}, way: () => Promise.resolve() };
  const gate = new Gate(ResourceName.of(SensorApi.name, "gate"));
  const { manager, records } = await testManager({
    attributes,
    resources,
    find: (api, name) => {
      if (name === "gate" && gate.readings) return gate;
      throw new SvcError("unknown", `no node found with api ${api} and name ${name}`);
    },
    frames,
    clock,
    host: files,
    send: async (data) => {
      await cloud.way();
      cloud.answer(data);
      sent.push(data);
    },
  });
  const sensor = new Thermometer(ResourceName.of(SensorApi.name, "thermometer"));
  const numbers = () =>
    sent.flatMap((one) => one.kind === "readings" ? one.readings : []).map(({ payload }) =>
      (payload.readings as { number: number }).number
    );
  return { manager, sensor, resources, records, sent, cloud, clock, files, numbers, gate };
}

function methods(...all: JsonObject[]): JsonObject[] {
  return [{ capture_methods: all }];
}

const READINGS = { method: "Readings", capture_frequency_hz: 2 };

Deno.test("data manager: configured methods are captured at their frequency and sent at each sync", async () => {
  const { manager, sensor, resources, sent, clock, numbers } = await bench({
    sync_interval_mins: 0.1,
    tags: ["all"],
  });
  const eye = new Eye(ResourceName.of(CameraApi.name, "eye"));
  resources.set(sensor, methods({ ...READINGS, tags: ["warm"], additional_params: { a: 1 } }));
  resources.set(
    eye,
    methods({ method: "GetImages", capture_frequency_hz: 0.2 }, { method: "ReadImage", disabled: true }),
  );
  await manager.weakDependenciesChanged();
  await clock.advance(12 * SECOND_MS);
  // The second round comes after 10.8 to 12 s.
  const count = numbers().length;
  assert(count >= 20 && count <= 23, `${count} readings`);
  assertEquals(numbers(), Array.from({ length: count }, (_, index) => index + 1));
  const [first] = sent.filter(({ kind }) => kind === "readings");
  assertEquals(first.source, {
    componentType: "rdk:component:sensor",
    componentName: "thermometer",
    methodName: "Readings",
    parameters: { a: 1 },
    tags: ["all", "warm"],
    datasetIds: [],
  });
  assertEquals(sensor.calls[0]?.extra, { a: 1, fromDataManagement: true });
  const images = sent.filter((one) => one.kind === "file");
  assertEquals(
    images.map(({ source, mimeType }) => `${source.methodName} ${mimeType}`),
    Array(4).fill("GetImages image/jpeg"),
  );
  assertEquals(new Set(images.map(({ timeMs }) => timeMs)).size, images.length, "each has a time of its own");
  await manager.close();
});

Deno.test("data manager: a picture that fails for a reason of its own keeps no other data, and is tried again", async () => {
  const { manager, sensor, resources, cloud, sent, clock, numbers } = await bench({
    sync_interval_mins: 0.1,
  });
  const eye = new Eye(ResourceName.of(CameraApi.name, "eye"));
  resources.set(sensor, methods(READINGS));
  resources.set(eye, methods({ method: "GetImages", capture_frequency_hz: 0.5 }));
  await manager.weakDependenciesChanged();
  for (const code of ["internal", "resource_exhausted", "deadline_exceeded"] as const) {
    let tries = 0;
    cloud.answer = (data) => {
      if (data.kind !== "file") return;
      tries++;
      throw new SvcError(code, "too large for what lies between");
    };
    const before = numbers().length;
    await clock.advance(3 * MINUTE_MS);
    assert(numbers().length - before > 240, `${code}: ${numbers().length - before} readings`);
    assert(tries > 3 && tries < 200, `${code}: ${tries} tries of pictures`);
  }
  assertEquals(numbers(), Array.from({ length: numbers().length }, (_, index) => index + 1));
  assertEquals(sent.filter(({ kind }) => kind === "file"), []);
  cloud.answer = () => {};
  await clock.advance(3 * MINUTE_MS);
  assert(sent.filter(({ kind }) => kind === "file").length > 9 * 60, "all pictures have arrived");
  await manager.close();
});

Deno.test("data manager: readings have the right time, and one of their own, once a clock that was ahead is set back", async () => {
  const { manager, sensor, resources, sent, clock } = await bench();
  resources.set(sensor, methods({ ...READINGS, capture_frequency_hz: 10 }));
  const beganMs = clock.nowMs();
  clock.setOn(24 * 60 * MINUTE_MS);
  await manager.weakDependenciesChanged();
  await clock.advance(5 * SECOND_MS);
  for (const backMs of [24 * 60 * MINUTE_MS + 5 * SECOND_MS, 5 * SECOND_MS, 500]) {
    clock.setOn(-backMs);
    await clock.advance(5 * SECOND_MS);
  }
  await manager.sync();
  const times = sent.flatMap((one) => one.kind === "readings" ? one.readings : []).map(({ timeMs }) =>
    timeMs
  );
  assert(times.length >= 190, `${times.length} readings`);
  assertEquals(
    new Set(times.map((ms) => Math.round(1_000 * ms))).size,
    times.length,
    "each has its own time",
  );
  const dayMs = 24 * 60 * MINUTE_MS;
  const ahead = times.filter((ms) => ms >= beganMs + dayMs);
  assertEquals(ahead, times.slice(0, ahead.length), "only before the clock was set right");
  assert(ahead.length <= 50 && times.slice(ahead.length).every((ms) => ms < beganMs + 10 * SECOND_MS));
  await manager.close();
});

Deno.test("data manager: readings of an outage of the cloud arrive once and in order afterwards", async () => {
  const { manager, sensor, resources, cloud, clock, numbers, records } = await bench();
  resources.set(sensor, methods({ ...READINGS, capture_frequency_hz: 0.5 }));
  await manager.weakDependenciesChanged();
  let tries = 0;
  cloud.answer = () => {
    tries++;
    throw new SvcError("unavailable", "nobody there");
  };
  await clock.advance(60 * MINUTE_MS);
  assertEquals(numbers(), []);
  assert(tries > 50 && tries < 100, `the pauses grow to a minute: ${tries}`);
  assertEquals(records.filter(({ level }) => level === "warn").length, 1);
  cloud.answer = () => {};
  await clock.advance(2 * MINUTE_MS);
  assert(numbers().length >= 3_600 / 2);
  assertEquals(numbers(), Array.from({ length: numbers().length }, (_, index) => index + 1));
  assertEquals((await manager.getStatus()).sync_error, null);
  await manager.close();
});

Deno.test("data manager: a busy cloud gets no readings earlier than it wants", async () => {
  const { manager, sensor, resources, cloud, clock } = await bench();
  resources.set(sensor, methods({ ...READINGS, capture_frequency_hz: 0.1 }));
  await manager.weakDependenciesChanged();
  const tries: number[] = [];
  cloud.answer = () => {
    tries.push(clock.monotonicMs());
    throw new SvcError("unavailable", "busy", { retryMs: 5 * MINUTE_MS });
  };
  await clock.advance(11 * MINUTE_MS);
  assertEquals(tries.slice(1).map((ms, index) => ms - tries[index]!), [5 * MINUTE_MS, 5 * MINUTE_MS]);
  await manager.close();
});

Deno.test("data manager: the next process sends the files that the last process left", async () => {
  const first = await bench({ sync_disabled: true });
  first.resources.set(first.sensor, methods(READINGS));
  await first.manager.weakDependenciesChanged();
  await first.clock.advance(5 * SECOND_MS);
  first.cloud.answer = () => {
    throw new SvcError("deadline_exceeded", "no answer");
  };
  await assertRejects(() => first.manager.sync(), SvcError, "no answer");
  await first.manager.close();
  assertEquals(first.sent, []);
  const second = await bench({}, { files: first.files, clock: first.clock });
  await second.clock.advance(10 * SECOND_MS);
  assertEquals(second.numbers(), Array.from({ length: 10 }, (_, index) => index + 1));
  await second.manager.close();
  assertEquals(second.files.paths, []);
});

Deno.test("data manager: a file that the cloud refuses is set aside, and later files are sent", async () => {
  const { manager, cloud, sent, clock, records, files } = await bench();
  const upload = (id: string) => {
    const content = new TextEncoder().encode(id);
    return manager.uploadBinaryDataToDatasets({
      content,
      mimeType: "image/png",
      tags: ["t"],
      datasetIds: [id],
    });
  };
  cloud.answer = ({ source }) => {
    if (source.datasetIds[0] === "none") throw new SvcError("not_found", 'there is no dataset "none"');
  };
  await upload("none");
  await upload("some");
  await clock.advance(10 * SECOND_MS);
  assertEquals(sent.map(({ source }) => source.datasetIds), [["some"]]);
  const { refused_files, waiting_files } = await manager.getStatus();
  assertEquals([refused_files, waiting_files], [1, 0]);
  assertEquals(records.filter(({ level }) => level === "error").length, 1);
  assertEquals(files.paths.length, 1);
  await manager.close();
});

Deno.test("data manager: sync() sends everything captured, or fails with the cloud's error", async () => {
  const { manager, sensor, resources, clock, numbers, cloud } = await bench({ sync_disabled: true });
  resources.set(sensor, methods(READINGS));
  await manager.weakDependenciesChanged();
  await clock.advance(3 * SECOND_MS);
  assertEquals(numbers(), []);
  await manager.sync();
  assertEquals(numbers().length, 6);
  cloud.answer = () => {
    throw new SvcError("unavailable", "nobody there");
  };
  await clock.advance(SECOND_MS);
  await assertRejects(() => manager.sync(), SvcError, "nobody there");
  await manager.close();
});

Deno.test("data manager: capture follows changes of resources and of their service configs", async () => {
  const { manager, sensor, resources, clock, records } = await bench();
  const other = new Thermometer(ResourceName.of(SensorApi.name, "other"));
  resources.set(sensor, methods(READINGS)).set(other, methods({ ...READINGS, method: "Reading" }));
  await manager.weakDependenciesChanged();
  const errors = records.filter(({ level }) => level === "error").map(({ message }) => message);
  assertEquals(errors.length, 1);
  assert(errors[0].includes('found method "Reading"') && errors[0].includes("Readings, DoCommand"));
  await clock.advance(SECOND_MS);
  assertEquals(sensor.calls.length, 2);
  resources.set(sensor, methods({ ...READINGS, capture_frequency_hz: 10 })).delete(other);
  await manager.weakDependenciesChanged();
  await clock.advance(SECOND_MS);
  assertEquals(sensor.calls.length, 12);
  resources.clear();
  await manager.weakDependenciesChanged();
  await clock.advance(SECOND_MS);
  assertEquals(sensor.calls.length, 12);
  await manager.close();
});

Deno.test("data manager: a resource that is rebuilt is captured when it would have been without that", async () => {
  const { manager, resources, clock } = await bench();
  const every10Minutes = methods({ method: "Readings", capture_frequency_hz: 1 / 600 });
  const built: Thermometer[] = [];
  const build = async () => {
    built.push(new Thermometer(ResourceName.of(SensorApi.name, "thermometer")));
    resources.clear();
    resources.set(built.at(-1)!, every10Minutes);
    await manager.weakDependenciesChanged();
  };
  const remove = async () => {
    resources.clear();
    await manager.weakDependenciesChanged();
  };
  const captured = () => built.reduce((sum, { calls }) => sum + calls.length, 0);

  // Its configuration changes more often than it is captured.
  for (let minutes = 0; minutes < 60; minutes += 4) {
    await build();
    await clock.advance(4 * MINUTE_MS);
  }
  assertEquals(captured(), 6);
  // It is away when it is due, and back before it is due again.
  await clock.advance(9 * MINUTE_MS);
  await remove();
  await clock.advance(5 * MINUTE_MS);
  await build();
  await clock.advance(SECOND_MS);
  assertEquals(captured(), 7);
  // It is away for longer: then it is a new one.
  await remove();
  await clock.advance(25 * MINUTE_MS);
  await build();
  await clock.advance(9 * MINUTE_MS);
  assertEquals(captured(), 7);
  await clock.advance(MINUTE_MS);
  assertEquals(captured(), 8);
  await manager.close();
});

Deno.test("data manager: a remote's resources are captured if capture_methods names them", async () => {
  const { manager, resources, clock, sent } = await bench({ sync_interval_mins: 0.1 });
  const [near, far] = ["kitchen:near", "kitchen:far"].map((name) =>
    new Thermometer(ResourceName.of(SensorApi.name, name, name.slice("kitchen:".length)))
  );
  const config = methods({ ...READINGS, name: "rdk:component:sensor/near" }, READINGS);
  resources.set(near, config).set(far, config);
  await manager.weakDependenciesChanged();
  await clock.advance(SECOND_MS);
  assertEquals([near.calls.length, far.calls.length], [2, 0]);
  await clock.advance(MINUTE_MS);
  assertEquals(new Set(sent.map(({ source }) => source.componentName)), new Set(["near"]));
  await manager.close();
});

Deno.test("data manager: a failing resource is logged once, and a filtered capture is no failure", async () => {
  const { manager, sensor, resources, clock, records, numbers } = await bench();
  resources.set(sensor, methods(READINGS));
  await manager.weakDependenciesChanged();
  sensor.failure = new Error("no capture from filter module");
  await clock.advance(SECOND_MS);
  assertEquals(records, []);
  sensor.failure = new Error("it is broken");
  await clock.advance(5 * SECOND_MS);
  assertEquals(records.map(({ message }) => message), [
    "cannot capture rdk:component:sensor/thermometer Readings: it is broken",
  ]);
  assertEquals((await manager.getStatus()).capture_errors, [
    "rdk:component:sensor/thermometer: it is broken",
  ]);
  sensor.failure = undefined;
  await clock.advance(10 * SECOND_MS);
  assertEquals(records.length, 2);
  assert(numbers().length > 0);
  await manager.close();
});

Deno.test("data manager: files in additional_sync_paths are sent once they stop growing, then removed", async () => {
  const { manager, sent, clock, files } = await bench({ additional_sync_paths: ["/films"], tags: ["film"] });
  const write = (text: string) => files.writeFile("/films/a.mp4", new TextEncoder().encode(text));
  await write("one");
  await clock.advance(7 * SECOND_MS);
  await write("one two");
  await clock.advance(12 * SECOND_MS);
  assertEquals(sent, []);
  await clock.advance(12 * SECOND_MS);
  assertEquals(
    sent.map((one) =>
      one.kind === "file" && [one.fileName, one.source.tags, new TextDecoder().decode(one.content)]
    ),
    [
      ["a.mp4", ["film"], "one two"],
    ],
  );
  assertEquals(files.paths, []);
  await manager.close();
});

Deno.test("a file whose name is not UTF-8 is told of, and the others are sent", async () => {
  const { manager, sent, clock, files, records } = await bench({ additional_sync_paths: ["/films"] });
  await files.writeFile("/films/a.mp4", new TextEncoder().encode("a"));
  await files.writeFile("/films/b\ufffd.mp4", new TextEncoder().encode("b"));
  // It is listed, and nothing is found under the name.
  const stat = files.stat.bind(files);
  files.stat = (path, how) => path.includes("\ufffd") ? Promise.resolve(undefined) : stat(path, how);
  for (let at = 0; at < 20; at++) await clock.advance(3 * SECOND_MS);
  assertEquals(sent.map((one) => one.kind === "file" && one.fileName), ["a.mp4"]);
  assertEquals(records.map(({ message }) => message), [
    "/films/b\ufffd.mp4 is not taken to the cloud: it does not exist, or its name is not UTF-8 text: then rename it",
  ]);
  await manager.close();
});

Deno.test("files of subfolders are sent too; empty, changing and linked ones stay, and what was captured", async () => {
  const { manager, sent, clock, files, records } = await bench({
    additional_sync_paths: ["/films", "/nowhere", "/home"],
  });
  const bytes = (text: string) => new TextEncoder().encode(text);
  await files.writeFile("/films/2026/may/a.mp4", bytes("a"));
  await files.writeFile("/films/next.mp4", bytes(""));
  await files.writeFile("/films/ring.bin", bytes("0123"));
  await files.writeFile("/elsewhere/c", bytes("c"));
  await files.turnLink("/films/link", "/elsewhere");
  await files.turnLink("/films/passwd", "/elsewhere/c");
  await files.writeFile("/films/b.mp4", bytes("b"));
  await files.writeFile("/home/capture/stranger", bytes("s"));
  for (let minute = 1; minute <= 3; minute++) {
    for (let at = 0; at < 20; at++) {
      await files.setModified("/films/ring.bin", clock.nowMs());
      await clock.advance(3 * SECOND_MS);
    }
  }
  assertEquals(sent.map((one) => one.kind === "file" && one.fileName), ["2026/may/a.mp4", "b.mp4"]);
  assertEquals(files.paths, [
    "/elsewhere/c",
    "/films/link",
    "/films/next.mp4",
    "/films/passwd",
    "/films/ring.bin",
    "/home/capture/stranger",
  ]);
  assertEquals(records.map(({ message }) => message), [
    "/films/link is not taken to the cloud: it is a link, wanted a file",
    "/films/passwd is not taken to the cloud: it is a link, wanted a file",
    '/nowhere is not taken to the cloud: cannot list "/nowhere": it does not exist',
    "/films/next.mp4 is not taken to the cloud: it is empty",
  ]);
  await files.writeFile("/films/next.mp4", bytes("n"));
  await clock.advance(60 * SECOND_MS);
  assertEquals(sent.filter((one) => one.kind === "file" && one.fileName === "next.mp4").length, 1);
  await manager.close();
});

Deno.test("a file that somebody removes while it is taken is no problem to tell", async () => {
  const { manager, sent, clock, files, records } = await bench({ additional_sync_paths: ["/films"] });
  await files.makeFolder("/films");
  for (const name of ["listed", "read", "moved", "stays"]) {
    await files.writeFile(`/films/${name}`, new TextEncoder().encode(name));
  }
  const { openUnlinked, moveFile } = files;
  files.openUnlinked = async (path) => {
    if (path.endsWith("listed")) files.removeFile(path);
    const held = await openUnlinked.call(files, path);
    if (path.endsWith("read")) files.removeFile(path);
    return held;
  };
  files.moveFile = (from, to) => {
    moveFile.call(files, from, to);
    if (from.endsWith("moved")) files.removeFile(to);
  };
  await clock.advance(120 * SECOND_MS);
  const names = sent.map((one) => one.kind === "file" && one.fileName);
  assertEquals([names, files.paths, records.map(({ message }) => message)], [["moved", "stays"], [], []]);
  await manager.close();
});

Deno.test("what is written to a file while it is taken arrives, too", async () => {
  const { manager, sent, clock, files } = await bench({ additional_sync_paths: ["/logs"] });
  const write = (path: string, text: string) => files.writeFile(path, new TextEncoder().encode(text));
  await write("/logs/read", "a");
  await write("/logs/kept", "b");
  await write("/logs/busy/drive", "c");
  const { openUnlinked, moveFile } = files;
  const more: Promise<void>[] = [];
  let isRead = false;
  files.openUnlinked = async (path) => {
    const held = await openUnlinked.call(files, path);
    if (path !== "/logs/read" || isRead) return held;
    isRead = true;
    return {
      ...held,
      pieces: async function* () {
        yield* held.pieces();
        await write(path, "a, more");
      },
    };
  };
  const taken: string[] = [];
  files.moveFile = (from, to) => {
    moveFile.call(files, from, to);
    if (from === "/logs/kept") more.push(write(to, "b, more"));
    if (from === "/logs/busy/drive") {
      taken.push(to);
      more.push(write(to, "c, more"));
    }
  };
  for (let at = 0; at < 40 && taken.length === 0; at++) await clock.advance(SECOND_MS);
  // The program that has it open goes on for a while, and nothing more of it is sent meanwhile.
  await clock.advance(SECOND_MS);
  const before = sent.length;
  for (let at = 0; at < 20; at++) {
    await files.setModified(taken[0], clock.nowMs());
    await clock.advance(3 * SECOND_MS);
  }
  assert(!sent.slice(before).some((one) => one.kind === "file" && one.fileName === "busy/drive"));
  await write(taken[0], "c, more, end");
  await clock.advance(60 * SECOND_MS);
  await Promise.all(more);
  const contents = new Map<string, string[]>();
  for (const one of sent) {
    if (one.kind !== "file") continue;
    const text = new TextDecoder().decode(one.content);
    contents.set(one.fileName, [...contents.get(one.fileName) ?? [], text]);
  }
  assertEquals(contents.get("read"), ["a, more"]);
  assertEquals(contents.get("kept"), ["b", "b, more"]);
  assertEquals(contents.get("busy/drive"), ["c", "c, more, end"]);
  assertEquals(files.paths, []);
  await manager.close();
});

Deno.test("0 stands for the default, as published configurations have it, and an interval of 0 for none", async () => {
  const zeros = {
    capture_dir: "",
    sync_interval_mins: 0,
    file_last_modified_millis: 0,
    maximum_capture_file_size_bytes: 0,
    delete_every_nth_when_disk_full: 0,
    selective_syncer_name: "",
  };
  const { manager, sensor, resources, sent, clock, files } = await bench(zeros);
  resources.set(sensor, methods({ ...READINGS, cache_size_kb: 0, name: "rdk:component:sensor/before" }));
  await manager.weakDependenciesChanged();
  await clock.advance(10 * SECOND_MS);
  assertEquals(files.paths, ["/home/capture/0000000000000001.part"]);
  assertEquals(sent, []);
  await manager.sync();
  assertEquals(sent.map((one) => one.kind === "readings" && one.readings.length), [20]);
  await manager.close();
  const place = new DecodeContext();
  BuiltinDataManager.attributes.decode(
    { sync_interval_mins: 0.0001, delete_every_nth_when_disk_full: -1 },
    place,
  );
  assertEquals(place.problems.map(({ message }) => message), [
    "found 0.0001, wanted 0 or a number of at least 0.001",
    "found -1, wanted an integer of at least 0",
  ]);
});

Deno.test("where a sensor allows the rounds, they wait for it; a request does not", async () => {
  const { manager, sensor, resources, clock, numbers, records, gate } = await bench({
    selective_syncer_name: "gate",
  });
  resources.set(sensor, methods(READINGS));
  await manager.weakDependenciesChanged();
  await clock.advance(MINUTE_MS);
  assertEquals(numbers(), [], "there is no such sensor");
  gate.readings = { should_sync: false };
  await clock.advance(MINUTE_MS);
  gate.readings = { should_sync: "yes" };
  await clock.advance(MINUTE_MS);
  assertEquals(numbers(), []);
  assertEquals(records.map(({ message }) => message), [
    'captured data is not sent: sensor "gate" cannot be read: no node found with api rdk:component:sensor and name gate',
    'captured data is not sent: sensor "gate" gives "yes" for "should_sync", wanted true or false',
  ]);
  await manager.sync();
  const before = numbers().length;
  assertEquals(before, 3 * 120);
  gate.readings = { should_sync: true };
  await clock.advance(MINUTE_MS);
  assert(numbers().length > before);
  await manager.close();
});

Deno.test("over a long way files go together, pictures in any order, and others of one source in theirs", async () => {
  const { manager, resources, sent, cloud, clock } = await bench();
  const eye = new Eye(ResourceName.of(CameraApi.name, "eye"));
  const pictures = { method: "GetImages", capture_frequency_hz: 5 };
  resources.set(eye, methods(pictures, { method: "NextPointCloud", capture_frequency_hz: 4 }));
  let under = 0, most = 0;
  cloud.way = async () => {
    most = Math.max(most, ++under);
    // The later one is there first.
    await clock.sleep(under % 2 === 1 ? 190 : 150);
    under--;
  };
  await manager.weakDependenciesChanged();
  await clock.advance(2 * MINUTE_MS);
  const waiting = (await manager.getStatus()).waiting_files as number;
  assert(waiting < 3 * 7 * (5 + 5 + 4), `the way delays them, and does not hold them up: ${waiting}`);
  assertEquals(most, 8);
  const clouds = sent.filter(({ source }) => source.methodName === "NextPointCloud");
  const times = clouds.map((one) => one.kind === "file" ? one.timeMs : 0);
  assert(times.length > 400);
  assertEquals(times, times.toSorted((one, other) => one - other));
  await manager.close();
});

Deno.test("captured clouds say where their camera is, and come without if nobody knows", async () => {
  const asked: string[] = [];
  const frames: FrameView = {
    frameOf: ({ short }) => short,
    scene: () => Promise.reject(new SvcError("internal", "not asked for")),
    transformPose: ({ referenceFrame }) => {
      asked.push(referenceFrame);
      if (asked.length === 2) return Promise.reject(new SvcError("unknown", "no such frame"));
      // What carries it does not answer.
      if (asked.length === 3) return new Promise(() => {});
      return Promise.resolve({ referenceFrame: "world", pose: poseAt(220, 0, 300) });
    },
  };
  const { manager, resources, sent, clock } = await bench({ sync_interval_mins: 0.1 }, { frames });
  const eye = new Eye(ResourceName.of(CameraApi.name, "eye"));
  const [x, y, z] = [0, 1, 2].map((n) => Float32Array.of(n));
  eye.cloud = writePcd(createCloud({ x, y, z }));
  resources.set(eye, methods({ method: "NextPointCloud", capture_frequency_hz: 0.1 }));
  await manager.weakDependenciesChanged();
  await clock.advance(MINUTE_MS);
  const places = sent.map((one) => one.kind === "file" ? viewpointOf(one.content)?.translation : "none");
  assertEquals(places.slice(0, 4), [{ x: 220, y: 0, z: 300 }, undefined, undefined, {
    x: 220,
    y: 0,
    z: 300,
  }]);
  assertEquals(asked[0], "eye");
  await manager.close();
});
