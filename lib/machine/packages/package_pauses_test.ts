/**
 * Packages that are on their way: the pauses between attempts grow, follow the server's wish, and stay short while bytes
 * come; users of a package learn what it waits for.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { until } from "../../../tests/support/until.ts";
import { PackageSchema } from "../../../proto/gen/packages_pb.ts";
import { settle } from "../../base/clock.ts";
import { packed } from "../../base/files/archive.ts";
import { SvcError } from "../../base/error.ts";
import { DenoHost } from "../../base/host_deno.ts";
import { silentLogs } from "../../base/log/log.ts";
import type { Json } from "../../base/schema/schema.ts";
import { packageFolder } from "../config/placeholder.ts";
import { create } from "../../wire/rpc/proto.ts";
import { MachinePackages } from "./packages.ts";

const CONFIG = { name: "m", package: "acme:weather", version: "1.0.0", type: "module" } as const;

/** Notes each pause and takes none. */
class ImpatientClock extends FakeClock {
  readonly pauses: number[] = [];

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.pauses.push(ms);
    return super.sleep(0, signal);
  }
}

/** Fetches the package until it is there from a server that answers the requests in turn; returns the pauses. */
async function pausesOf(answers: readonly ((request: Request) => Response)[], sha256: string) {
  const home = await Deno.makeTempDir({ prefix: "svc-pauses-" });
  const clock = new ImpatientClock();
  let asked = 0;
  const server = Deno.serve(
    { port: 0, hostname: "localhost", onListen: () => {} },
    (request) => answers[Math.min(asked++, answers.length - 1)](request),
  );
  const url = `http://localhost:${server.addr.port}/weather.tar.gz`;
  const packages = new MachinePackages({
    home,
    client: {
      partId: "part",
      package: () =>
        Promise.resolve(create(PackageSchema, { url, checksum: sha256, info: { version: "1.0.0" } })),
    },
    host: new DenoHost(),
    clock,
    logger: silentLogs(clock).logger("packages"),
  });
  try {
    await packages.fetch([CONFIG]);
    const first = packages.statuses()[0].error ?? "";
    const isReady = async () => {
      await clock.advance(1);
      return packages.statuses()[0].state === "ready";
    };
    await until(isReady);
    return { pauses: clock.pauses, first };
  } finally {
    await packages.close();
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
}

async function noise(): Promise<{ readonly bytes: Uint8Array<ArrayBuffer>; readonly sha256: string }> {
  const content = crypto.getRandomValues(new Uint8Array(60_000));
  const pieces = await Array.fromAsync(packed([{ path: "what", bytes: content.length, content: [content] }]));
  const bytes = new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
  return { bytes, sha256: createHash("sha256").update(bytes).digest("hex") };
}

Deno.test("MachinePackages: waits as long as a busy server asks, and calls no busy server a refusal", async () => {
  const { bytes, sha256 } = await noise();
  const busy = (status: number, after: string) => () =>
    new Response("too many downloads", { status, headers: { "retry-after": after } });
  const { pauses, first } = await pausesOf(
    [busy(429, "300"), busy(503, "999999"), busy(503, "0"), () => new Response(bytes)],
    sha256,
  );
  assertStringIncludes(first, "refused with 429: too many downloads");
  const [asked, limited, own] = pauses;
  assertEquals([asked, limited], [300_000, 3600_000]);
  assert(own >= 5_600 && own <= 8_000, `${own}`);
});

Deno.test("MachinePackages: pauses stay short while each attempt brings a part of the package", async () => {
  const { bytes, sha256 } = await noise();
  /** The next 20 kB of the file, as an answer of all the rest that ends early. */
  const part = (request: Request) => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
    const range = { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
    let sent = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (stream) => {
        if (sent) return from + 20_000 < bytes.length ? stream.error(new Error("cut")) : stream.close();
        sent = true;
        stream.enqueue(bytes.slice(from, from + 20_000));
      },
    });
    return new Response(body, { status: from > 0 ? 206 : 200, headers: from > 0 ? range : {} });
  };
  const away = () => new Response("", { status: 503 });
  const { pauses } = await pausesOf([away, away, away, part], sha256);
  const shortest = pauses.map((ms) => ms <= 2_000);
  assertEquals(shortest, [true, false, false, ...shortest.slice(3).map(() => true)]);
  assert(pauses.length >= 6, `${pauses.length}`);
});

Deno.test("MachinePackages.require: names the package that is still to come, and passes once it is there", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-required-" });
  const { bytes, sha256 } = await noise();
  const clock = new FakeClock();
  const [asked, sent] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const server = Deno.serve({ port: 0, hostname: "localhost", onListen: () => {} }, async () => {
    asked.resolve();
    await sent.promise;
    return new Response(bytes);
  });
  const url = `http://localhost:${server.addr.port}/weather.tar.gz`;
  const info = { version: "1.0.0" };
  const packages = new MachinePackages({
    home,
    client: {
      partId: "p",
      package: () => Promise.resolve(create(PackageSchema, { url, checksum: sha256, info })),
    },
    host: new DenoHost(),
    clock,
    logger: silentLogs(clock).logger("packages"),
  });
  const problemOf = (value: Json) =>
    packages.require(value).then(() => undefined, (error) => SvcError.from(error).message);
  const folder = packageFolder(home, CONFIG);
  try {
    const fetched = packages.fetch([{ ...CONFIG, name: "first" }, CONFIG]);
    await asked.promise;
    const waits = 'package "first" (acme:weather 1.0.0) is still being downloaded';
    const users: Json[] = [folder, { models: [{ path: `${folder}/a.onnx` }] }, { any: `--map=${folder}/x` }];
    for (const value of users) {
      assertEquals(await problemOf(value), waits, JSON.stringify(value));
    }
    // Files of others, and of a package whose name begins like this one.
    const others: Json[] = ["/maps/a", `${folder}1/a.onnx`, { size: 1, on: true, none: null }, []];
    for (const value of others) {
      assertEquals(await problemOf(value), undefined, JSON.stringify(value));
    }

    sent.resolve();
    assertEquals([await fetched, await problemOf(folder)], [true, undefined]);
  } finally {
    sent.resolve();
    await packages.close();
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("MachinePackages.fetch: a newer call replaces one that waits", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-replaced-" });
  const clock = new FakeClock();
  const [asked, sent] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const server = Deno.serve({ port: 0, hostname: "localhost", onListen: () => {} }, async () => {
    asked.resolve();
    await sent.promise;
    return new Response();
  });
  const [url, checksum] = [`http://localhost:${server.addr.port}/weather.tar.gz`, "00".repeat(32)];
  const info = { version: "1.0.0" };
  const packages = new MachinePackages({
    home,
    client: { partId: "p", package: () => Promise.resolve(create(PackageSchema, { url, checksum, info })) },
    host: new DenoHost(),
    clock,
    logger: silentLogs(clock).logger("packages"),
  });
  try {
    const first = packages.fetch([CONFIG]);
    await asked.promise;
    assertEquals(await Promise.all([first, packages.fetch([CONFIG]), packages.fetch([])]), [
      false,
      false,
      true,
    ]);
    assertEquals(packages.statuses(), []);
  } finally {
    sent.resolve();
    await packages.close();
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("MachinePackages: packages of the same content download it once", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-twins-" });
  const { bytes, sha256 } = await noise();
  const clock = new FakeClock();
  const answers: number[] = [];
  const server = Deno.serve({ port: 0, hostname: "localhost", onListen: () => {} }, (request) => {
    const from = Number(/bytes=(\d+)-/.exec(request.headers.get("range") ?? "")?.[1] ?? 0);
    const status = from < bytes.length ? 200 : 416;
    answers.push(status);
    return new Response(status === 200 ? bytes : null, { status, headers: { etag: `"${sha256}"` } });
  });
  const url = `http://localhost:${server.addr.port}/weather.tar.gz`;
  const packages = new MachinePackages({
    home,
    client: {
      partId: "p",
      package: () =>
        Promise.resolve(create(PackageSchema, { url, checksum: sha256, info: { version: "1.0.0" } })),
    },
    host: new DenoHost(),
    clock,
    logger: silentLogs(clock).logger("packages"),
  });
  const twins = ["north", "south", "west"].map((id) => ({ ...CONFIG, name: id, package: `acme:${id}` }));
  try {
    await packages.fetch(twins);
    await until(() => packages.statuses().every(({ state }) => state === "ready"));
    await packages.clean(twins);
    assertEquals(answers, [200, 416, 416]);
    assertEquals(await Array.fromAsync(Deno.readDir(`${home}/packages/downloads`)).catch(() => []), []);
  } finally {
    await packages.close();
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("MachinePackages.follow: tells of what comes after the preparation, and whether it replaces something", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-follow-" });
  const { bytes, sha256 } = await noise();
  const server = Deno.serve(
    { port: 0, hostname: "localhost", onListen: () => {} },
    () => new Response(bytes),
  );
  const url = `http://localhost:${server.addr.port}/weather.tar.gz`;
  const far = (version: string) => create(PackageSchema, { url, checksum: sha256, info: { version } });
  /** What a new start of the machine is reported while it fetches the latest version. */
  const reportsOf = async (version: string, isInTime = false) => {
    const late = Promise.withResolvers<void>();
    if (isInTime) late.resolve();
    const clock = new FakeClock(), reported: string[] = [];
    const packages = new MachinePackages({
      home,
      client: { partId: "p", package: () => late.promise.then(() => far(version)) },
      host: new DenoHost(),
      clock,
      logger: silentLogs(clock).logger("packages"),
    });
    packages.follow({ moved: () => reported.push("moved"), arrived: () => reported.push("arrived") });
    const latest = { ...CONFIG, version: "latest" };
    let isOver = false;
    const fetched = packages.fetch([latest]).finally(() => isOver = true);
    // Whoever is in time is waited for.
    await until(() => isOver, { meanwhile: () => isInTime ? settle() : clock.advance(500) });
    assertEquals(
      [await fetched, [...reported]],
      [true, []],
      "nothing is reported before the preparation is over",
    );
    late.resolve();
    const isReady = () => packages.versionOf(latest) === version && packages.statuses()[0]?.state === "ready";
    await until(() => isReady() && (reported.length > 0 || isInTime), {
      meanwhile: () => clock.advance(500),
    });
    await packages.clean([latest]);
    await packages.close();
    return reported;
  };
  try {
    assertEquals(await reportsOf("1.0.0"), ["arrived"], "there was none");
    assertEquals(await reportsOf("1.1.0"), ["moved"], "it replaces one");
    assertEquals(await reportsOf("1.1.0"), ["arrived"], "it is the same one");
    assertEquals(await reportsOf("1.2.0", true), [], "it was in time");
  } finally {
    await server.shutdown();
    await Deno.remove(home, { recursive: true });
  }
});
