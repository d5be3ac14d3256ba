import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { computeSha256 } from "../../base/download/http_download.ts";
import { fileNameOf, keyOf, type Release } from "./release.ts";
import { noteLasting, noteLateEnd } from "./late_ends.ts";
import { UpdateRecord } from "./record.ts";
import type { Build } from "./state.ts";
import { type Now, ownFile, Updater } from "./updater.ts";
import { race } from "../../base/clock.ts";
import { SystemFiles } from "../../base/files/system_files.ts";
import type { Fetcher } from "./fetcher.ts";

const NAME = "svc-server";
const never = new AbortController().signal;

class Bench {
  readonly clock = new FakeClock();
  readonly records: LogRecord[] = [];
  /** The error of a download or a check, if it fails. */
  failure?: { fetch?: SvcError; check?: SvcError };
  fetched = 0;
  updater!: Updater;

  constructor(readonly base: string) {}

  /** The next process. */
  async begin(manages = true): Promise<void> {
    const files = new SystemFiles();
    const sumOf = (path: string) => computeSha256(files, path);
    const record = new UpdateRecord({ name: NAME, base: this.base, run: `${this.base}/run`, files, sumOf });
    const fetcher: Fetcher = {
      withheld: () => Promise.resolve(undefined),
      fetch: async ({ version, key }, progress, signal) => {
        this.fetched++;
        progress({ doneBytes: 1000 });
        progress({ doneBytes: 1000 + this.broughtBytes });
        if (this.hangs) await race(new Promise(() => {}), signal);
        if (this.failure?.fetch) throw this.failure.fetch;
        return { ...await this.put(this.sameBytes ? "same" : version), version, key };
      },
      stamp: () => this.away ? new Promise(() => {}) : Promise.resolve(this.stamp),
      clean: () => Promise.resolve([]),
    };
    const check = () => this.failure?.check ? Promise.reject(this.failure.check) : Promise.resolve();
    const logger = new Logs(this.clock, [memorySink(this.records)]).logger("updates");
    const parts = {
      name: NAME,
      record,
      files,
      fetcher,
      checker: { check },
      clock: this.clock,
      logger,
    } as const;
    this.updater = new Updater({ ...parts, manages, random: () => 0.5 });
    await this.updater.open();
  }
  stamp?: string;
  /** What each attempt brings. */
  broughtBytes = 0;
  /** The server of downloads accepts connections and sends nothing. */
  hangs = false;
  /** Every release has these. */
  sameBytes = false;
  /** Who is asked over the network never answers. */
  away = false;

  /** Puts a version into the cache. */
  async put(version: string): Promise<Build> {
    const files = new SystemFiles();
    await Deno.mkdir(`${this.base}/cache`, { recursive: true });
    await Deno.writeTextFile(
      `${this.base}/new`,
      `version ${version} ${this.sameBytes ? "" : this.stamp ?? ""}`,
    );
    const sha256 = await computeSha256(files, `${this.base}/new`);
    const file = fileNameOf(NAME, version, sha256);
    const { size: sizeBytes } = await Deno.stat(`${this.base}/new`);
    await Deno.rename(`${this.base}/new`, `${this.base}/cache/${file}`);
    return { key: keyOf(version, sha256), version, file, sha256, sizeBytes };
  }

  async install(version: string): Promise<Build> {
    const build = await this.put(version);
    await this.updater.install(build.file, version);
    return build;
  }

  /** Passes until nothing more is done; whether a restart is wanted. */
  async settle(now: Now): Promise<boolean> {
    for (let before = "";;) {
      const { restart } = await this.updater.pass(now, never);
      await this.updater.idle();
      const after = JSON.stringify(this.updater.status());
      if (restart || after === before) return restart;
      before = after;
    }
  }

  /** The version crashes a while after it was healthy. */
  async endsLate(file: string): Promise<void> {
    const how = "ended by itself, with exit code 1";
    await this.updater.note((slot, seen) => noteLateEnd(slot, file, how, seen));
  }

  async links(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for await (const { name, isSymlink } of Deno.readDir(`${this.base}/bin`)) {
      if (isSymlink) found[name] = (await Deno.readLink(`${this.base}/bin/${name}`)).replace("../cache/", "");
    }
    return found;
  }
}

function target(version: string, more: Partial<Release> = {}): Release {
  const sha256 = more.custom ? undefined : "0".repeat(64);
  return {
    name: NAME,
    version,
    url: "http://x/y",
    sha256,
    custom: false,
    key: keyOf(version, sha256),
    ...more,
  };
}

async function withBench(test: (bench: Bench) => Promise<void>): Promise<void> {
  const base = await Deno.makeTempDir({ prefix: "svc-" });
  try {
    const bench = new Bench(base);
    await bench.begin();
    await test(bench);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

const well = (running: string): Now => ({ running, health: "healthy", maySwitch: true, mayUpdate: true });
const starting = (running: string): Now => ({ ...well(running), health: "starting" });

Deno.test("an update from the request to the commit, with a new process at every step", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const next = async () => {
      await bench.begin();
      bench.updater.setTarget(target("2.0.0"));
    };
    await next();
    assertEquals(await bench.settle({ ...well(one.file), maySwitch: false }), false);
    assertEquals(bench.updater.status().trial?.stage, "verified");
    assertEquals(bench.updater.status().waiting, "the running process may not be stopped now");
    await next();
    assertEquals(await bench.settle(well(one.file)), true);
    await next();
    const booted = await bench.updater.boot();
    assertMatch(booted!.file, /^svc-server-2\.0\.0-/);
    await next();
    assertEquals(await bench.settle(starting(booted!.file)), false);
    assertEquals(bench.updater.status().trial?.stage, "probation");
    await next();
    await bench.settle(well(booted!.file));
    const { good, previous, trial } = bench.updater.status();
    assertEquals([good?.version, previous?.version, trial], ["2.0.0", "1.0.0", undefined]);
    assertEquals(await bench.links(), { "svc-server": booted!.file, "svc-server.previous": one.file });
    assertEquals(bench.fetched, 1);
  }));

Deno.test("Updater: a release waits for a start or a window, and a chosen version only for a stop", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const now = { ...well(one.file), mayUpdate: false };
    const ready = "2.0.0 is ready for the next start, or a maintenance window";
    bench.updater.setTarget(target("2.0.0"));
    assertEquals(await bench.settle(now), false);
    assertEquals([bench.updater.status().trial?.stage, bench.updater.status().waiting], ["verified", ready]);
    await bench.begin();
    assertEquals(await bench.settle(now), false, "nor where the agent alone was started again");

    // The operator does not want to wait for it.
    bench.updater.setTarget(target("2.0.0", { pinned: true }));
    assertEquals(await bench.settle({ ...now, maySwitch: false }), false);
    assertEquals(bench.updater.status().waiting, "the running process may not be stopped now");
    assertEquals(await bench.settle(now), true);
    const { file } = (await bench.updater.boot())!;
    await bench.settle(starting(file));
    await bench.settle(well(file));
    assertEquals(bench.updater.status().good?.version, "2.0.0");

    // New bytes of the same version are no choice of an operator.
    bench.stamp = "other bytes";
    bench.updater.setTarget(target("2.0.0", { pinned: true, key: "2.0.0:other" }));
    assertEquals(await bench.settle({ ...now, running: file }), false);
    bench.updater.setTarget(target("3.0.0"));
    assertEquals(await bench.settle({ ...now, running: file }), false);
    assertEquals(await bench.settle({ ...now, running: file, mayUpdate: true }), true, "in a window");
  }));

Deno.test("Updater.goBack: does not wait for the next start", () =>
  withBench(async (bench) => {
    await bench.install("1.0.0");
    const two = await bench.install("2.0.0");
    await bench.updater.goBack("I do not like it");
    await bench.begin();
    assertEquals(await bench.settle({ ...well(two.file), mayUpdate: false }), true);
  }));

Deno.test("Updater: a start takes a verified release without the network", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.stamp = "1000";
    bench.updater.setTarget(target("customURL+http://x/y", { custom: true }));
    await bench.settle({ ...well(one.file), mayUpdate: false, maySwitch: false });
    assertEquals(bench.updater.status().trial?.stage, "verified");
    await bench.clock.advance(3600_000);
    bench.away = true;
    const start: Now = { health: "starting", maySwitch: true, mayUpdate: true, atStart: true };
    await bench.updater.pass(start, never);
    assertEquals(bench.updater.status().trial?.stage, "switched");
    assertMatch((await bench.updater.boot())!.file, /^svc-server-custom-/);
    bench.updater.setTarget(target("3.0.0"));
    await bench.updater.settled();
    assertEquals([(await bench.updater.pass(start, never)).began, bench.fetched], [undefined, 1]);
  }));

Deno.test("Updater: leaves a version that fails to start three times, and refuses it until another is wanted", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.updater.setTarget(target("2.0.0"));
    await bench.settle(well(one.file));
    const started: string[] = [];
    const delays: number[] = [];
    for (let time = 0; time < 4; time++) {
      const { file, delayMs } = (await bench.updater.boot())!;
      started.push(file.split("-")[2]);
      delays.push(delayMs);
    }
    assertEquals(started, ["2.0.0", "2.0.0", "2.0.0", "1.0.0"]);
    assertEquals(delays, [0, 1000, 2000, 4000]);
    assertEquals(await bench.settle(well(one.file)), false);
    const { refused, waiting } = bench.updater.status();
    assertEquals([refused?.version, refused?.reason], ["2.0.0", "it did not start 3 times in a row"]);
    assertEquals(waiting, "2.0.0 was refused: it did not start 3 times in a row");
    assertEquals(await bench.links(), { "svc-server": one.file, "svc-server.previous": one.file });
    bench.updater.setTarget(target("3.0.0"));
    assertEquals(await bench.settle(well(one.file)), true);
    assertEquals(bench.updater.status().trial?.build.version, "3.0.0");
  }));

Deno.test("Updater: leaves a version that does not become healthy, with the reason", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.updater.setTarget(target("2.0.0"));
    await bench.settle(well(one.file));
    const { file } = (await bench.updater.boot())!;
    await bench.settle(starting(file));
    const failed: Now = {
      running: file,
      health: "failed",
      reason: "no answer in 15 minutes",
      maySwitch: false,
      mayUpdate: false,
    };
    assertEquals(await bench.settle(failed), true);
    assertEquals((await bench.updater.boot())!.file, one.file);
    assertEquals(bench.updater.status().refused?.reason, "no answer in 15 minutes");

    await bench.settle(well(one.file));
    await bench.updater.forgive("it did not start", "this one does not start, either");
    assertEquals(bench.updater.status().refused?.version, "2.0.0", "it was refused for another reason");
    await bench.updater.forgive("no answer", "this one gets no answer, either");
    assertEquals(bench.updater.status().refused, undefined);
    await bench.settle(well(one.file));
    assertEquals(bench.updater.status().trial?.build.version, "2.0.0", "it gets another trial");
  }));

Deno.test("Updater: a first version that was slow is good once it is healthy, and a bad one returns to it", () =>
  withBench(async (bench) => {
    bench.updater.setTarget(target("1.0.0"));
    await bench.settle({ health: "starting", maySwitch: true, mayUpdate: true });
    const first = bench.updater.status().trial!.build;
    const file = first.file;
    assertEquals((await bench.updater.boot())?.file, file);
    const now = { running: file, maySwitch: true, mayUpdate: true } as const;
    await bench.settle({ ...now, health: "starting" });
    const reason = "it was not healthy for a minute within 15 minutes";
    await bench.settle({ ...now, health: "failed", reason });
    assertEquals(bench.updater.status().refused?.reason, reason);

    // Nothing else is there, so it starts again; the computer has time for it now.
    await bench.begin();
    bench.updater.setTarget(target("1.0.0"));
    assertEquals((await bench.updater.boot())?.file, file);
    await bench.settle({ ...now, health: "starting" });
    assertEquals(bench.updater.status().good, undefined);
    await bench.settle({ ...now, health: "healthy" });
    const { good, refused } = bench.updater.status();
    assertEquals([good, refused], [first, undefined]);
    assertEquals(await bench.links(), { [NAME]: file });

    bench.updater.setTarget(target("2.0.0"));
    await bench.settle({ ...now, health: "healthy" });
    const second = bench.updater.status().trial!.build.file;
    assertEquals((await bench.updater.boot())?.file, second);
    await bench.settle({ ...now, running: second, health: "starting" });
    await bench.settle({ ...now, running: second, health: "failed", reason });
    assertEquals((await bench.updater.boot())?.file, file);
  }));

Deno.test("Updater: a first version that was slow is good also while another version is wanted", () =>
  withBench(async (bench) => {
    bench.updater.setTarget(target("1.0.0"));
    await bench.settle({ health: "starting", maySwitch: true, mayUpdate: true });
    const { file } = bench.updater.status().trial!.build;
    await bench.updater.boot();
    const now = { running: file, maySwitch: true, mayUpdate: true } as const;
    await bench.settle({ ...now, health: "starting" });
    await bench.settle({ ...now, health: "failed" });
    await bench.updater.boot();
    await bench.settle({ ...now, health: "starting" });
    bench.updater.setTarget(target("2.0.0"));
    await bench.settle({ ...now, health: "starting" });
    assertEquals(bench.updater.status().trial?.stage, "verified");

    await bench.settle({ ...now, health: "healthy" });
    assertEquals(bench.updater.status().good?.file, file);
    assertEquals(bench.updater.status().trial?.build.version, "2.0.0");
  }));

Deno.test("Updater: retries failed downloads after growing pauses, and refuses a release that cannot pass", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.updater.setTarget(target("2.0.0"));
    bench.failure = { fetch: new SvcError("unavailable", "the server is away") };
    const attempts: number[] = [];
    for (let second = 0; attempts.length < 5; second++) {
      const before = bench.fetched;
      await bench.updater.pass(well(one.file), never);
      await bench.updater.idle();
      if (bench.fetched > before) attempts.push(second);
      await bench.clock.advance(1000);
    }
    assertEquals(attempts, [0, 5, 15, 35, 75]);
    assertEquals(bench.updater.status().problem, "cannot get 2.0.0: the server is away");
    bench.failure = { check: new SvcError("failed_precondition", "found a web page") };
    await bench.clock.advance(3600_000);
    await bench.settle(well(one.file));
    assertEquals(bench.updater.status().refused?.reason, "found a web page");
  }));

Deno.test("Updater.goBack: is a trial too, and holds until another version is wanted", () =>
  withBench(async (bench) => {
    await assertRejects(() => bench.updater.goBack("x"), SvcError, "none is installed");
    const one = await bench.install("1.0.0");
    await assertRejects(() => bench.updater.goBack("x"), SvcError, "only 1.0.0 is there");
    const two = await bench.install("2.0.0");
    bench.updater.setTarget({ ...target("2.0.0"), key: keyOf("2.0.0", two.sha256) });
    await bench.updater.goBack("I do not like it");
    assertEquals(await bench.settle(well(two.file)), true);
    assertEquals((await bench.updater.boot())!.file, one.file);
    await bench.settle(well(one.file));
    const { good, previous, refused } = bench.updater.status();
    assertEquals([good?.version, previous?.version, refused?.version], ["1.0.0", "2.0.0", "2.0.0"]);
    assertEquals(await bench.settle(well(one.file)), false);
  }));

Deno.test("Updater: a version that crashes late again and again is left, unless the one before does so, too", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const two = await bench.install("2.0.0");
    /** Each time in a new process of the agent. */
    const ends = async (file: string, times: number) => {
      for (let time = 0; time < times; time++) {
        await bench.begin();
        bench.updater.setTarget({ ...target("2.0.0"), key: two.key });
        await bench.endsLate(file);
      }
    };
    const runs = async (file: string) => {
      await bench.settle({ health: "starting", maySwitch: true, mayUpdate: true });
      assertEquals((await bench.updater.boot())!.file, file);
      await bench.settle(starting(file));
      await bench.settle(well(file));
      assertEquals(bench.updater.status().good?.file, file);
    };
    await ends(two.file, 4);
    await bench.updater.note((slot) => noteLasting(slot, two.file));
    await ends(two.file, 4);
    assertEquals(bench.updater.status().refused, undefined);
    await ends(two.file, 1);
    const { refused } = bench.updater.status();
    assertEquals(
      refused?.reason,
      "it ended by itself 5 times, each time soon after it had been healthy; " +
        "the last time it ended by itself, with exit code 1",
    );
    await runs(one.file);
    assertEquals(await bench.settle(well(one.file)), false, "the refused version stays away");

    await ends(one.file, 5);
    assertEquals(bench.updater.status().refused, undefined);
    await runs(two.file);
    await ends(two.file, 12);
    assertEquals([bench.updater.status().trial, bench.updater.status().refused], [undefined, undefined]);
    await runs(two.file);
    assertEquals(bench.fetched, 1);
  }));

Deno.test("Updater: the only version, one on trial, and one before an update are not left for late ends", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const endsOften = async (file: string) => {
      for (let time = 0; time < 7; time++) await bench.endsLate(file);
    };
    await endsOften(one.file);
    assertEquals([bench.updater.status().trial, bench.updater.status().refused], [undefined, undefined]);
    bench.updater.setTarget(target("2.0.0"));
    await bench.settle({ ...well(one.file), mayUpdate: false });
    await endsOften(one.file);
    assertEquals(bench.updater.status().trial?.build.version, "2.0.0");
    await bench.settle(well(one.file));
    const { file } = (await bench.updater.boot())!;
    await bench.settle(starting(file));
    await endsOften(file);
    assertEquals(bench.updater.status().trial?.stage, "probation");
    await bench.settle(well(file));
    assertEquals(bench.updater.status().good?.version, "2.0.0");
  }));

Deno.test("Updater: fetches a custom URL again only when its stamp is newer", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.stamp = "1000";
    bench.updater.setTarget(target("customURL+http://x/y", { custom: true }));
    await bench.settle(well(one.file));
    const { file } = (await bench.updater.boot())!;
    await bench.settle(well(file));
    assertEquals(bench.updater.status().good?.key, "customURL+http://x/y:1000");
    for (const [stamp, fetched] of [["900", 1], ["1000", 1], [undefined, 1], ["2000", 2]] as const) {
      bench.stamp = stamp;
      await bench.clock.advance(120_000);
      await bench.settle({ ...well(file), maySwitch: false });
      assertEquals(bench.fetched, fetched, stamp);
    }
    // Asked beforehand, nothing of a pass waits for the network, nor does a return at somebody's request.
    await bench.clock.advance(120_000);
    await bench.updater.refresh(new AbortController().signal);
    bench.away = true;
    await bench.settle({ ...well(file), maySwitch: false });
    await bench.clock.advance(120_000);
    await bench.updater.goBack("somebody asked for it");
  }));

Deno.test("the same bytes with another date, or at another URL, are fetched once and interrupt nothing", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    bench.stamp = "1000";
    bench.updater.setTarget(target("customURL+http://x/y", { custom: true }));
    bench.sameBytes = true;
    await bench.settle(well(one.file));
    const { file } = (await bench.updater.boot())!;
    await bench.settle(well(file));
    bench.stamp = "2000";
    await bench.clock.advance(120_000);
    for (const _ of [1, 2, 3]) assertEquals(await bench.settle(well(file)), false);
    assertEquals(bench.fetched, 2);
    bench.updater.setTarget(target("customURL+http://mirror/y", { custom: true }));
    for (const _ of [1, 2, 3]) assertEquals(await bench.settle(well(file)), false);
    const { good, previous, trial } = bench.updater.status();
    assertEquals([bench.fetched, good?.key, good?.file], [3, "customURL+http://mirror/y:2000", file]);
    assertEquals([previous?.version, trial], ["1.0.0", undefined]);
  }));

Deno.test("a program that somebody has put in place of a link does not keep the good version from starting", () =>
  withBench(async (bench) => {
    const { file } = await bench.install("1.0.0");
    const link = `${bench.base}/bin/${NAME}`;
    await Deno.remove(link);
    await Deno.writeTextFile(link, "a program of one's own");
    await bench.begin();
    await bench.settle({ health: "starting", maySwitch: true, mayUpdate: true, atStart: true });
    assertEquals((await bench.updater.boot())?.file, file);
    assertEquals(await bench.links(), { [NAME]: file, [`${NAME}.starts`]: `1 1 ${file}` });
  }));

Deno.test("Updater: an agent outside its own folder downloads and checks, but does not switch", () =>
  withBench(async (bench) => {
    await bench.begin(false);
    bench.updater.setTarget(target("2.0.0"));
    assertEquals(await bench.settle({ health: "healthy", maySwitch: true, mayUpdate: true }), false);
    assertEquals(bench.updater.status().trial?.stage, "verified");
    assertEquals(await bench.links(), {});
  }));

Deno.test("Updater.clean: keeps every file that is in use", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const two = await bench.install("2.0.0");
    const old = await bench.put("0.9.0");
    await Deno.writeTextFile(`${bench.base}/cache/svc-agent-1.0.0-0`, "not ours");
    assertEquals(await bench.updater.clean(0), [old.file]);
    await bench.put("0.9.0");
    bench.updater.setTarget(target("3.0.0"));
    await bench.settle({ ...well(two.file), maySwitch: false });
    const trial = bench.updater.status().trial!.build;
    // Before a download, so that it finds the space.
    assertEquals(await bench.updater.clean(0), []);
    const left = (await Array.fromAsync(Deno.readDir(`${bench.base}/cache`))).map(({ name }) => name).sort();
    assertEquals(left, ["part", "svc-agent-1.0.0-0", one.file, two.file, trial.file]);
  }));

Deno.test("Updater: what a committed version has replaced goes at once", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const cached = async () =>
      (await Array.fromAsync(Deno.readDir(`${bench.base}/cache`))).map(({ name }) => name).filter((name) =>
        name.startsWith(NAME)
      ).sort();
    for (const [version, before] of [["2.0.0", one.file], ["3.0.0"], ["4.0.0"]]) {
      const from = before ?? bench.updater.status().good!.file;
      bench.updater.setTarget(target(version));
      await bench.settle(well(from));
      await bench.settle(well((await bench.updater.boot())!.file));
      const { good, previous } = bench.updater.status();
      assertEquals(await cached(), [good!.file, previous!.file].sort());
    }
  }));

Deno.test("Updater: another wish, or none, ends the download of the old one at once", () =>
  withBench(async (bench) => {
    const { file } = await bench.install("1.0.0");
    bench.hangs = true;
    bench.updater.setTarget(target("2.0.0"));
    const { began } = await bench.updater.pass(well(file), never);
    bench.updater.setTarget(target("3.0.0"));
    await began;
    const second = await bench.updater.pass(well(file), never);
    bench.updater.setTarget(undefined);
    await second.began;
    assertEquals([bench.fetched, (await bench.updater.pass(well(file), never)).began], [2, undefined]);
    bench.hangs = false;
    bench.updater.setTarget(target("3.0.0"));
    await bench.settle({ ...well(file), maySwitch: false });
    assertEquals(bench.updater.status().trial?.build.version, "3.0.0");
    assertEquals(bench.records.filter(({ level }) => level === "error").length, 0);
  }));

Deno.test("Updater: a server that says nothing of a URL holds up no pass", () =>
  withBench(async (bench) => {
    const { file } = await bench.install("1.0.0");
    bench.away = true;
    bench.updater.setTarget(target("customURL+http://x/y", { custom: true }));
    for (const _ of [1, 2, 3]) assertEquals(await bench.updater.pass(well(file), never), { restart: false });
    assertEquals(bench.fetched, 0);
  }));

Deno.test("Updater: an attempt with progress makes the next pause short; Retry-After makes it longer", () =>
  withBench(async (bench) => {
    const { file } = await bench.install("1.0.0");
    const pauses = async (count: number) => {
      const found: number[] = [];
      for (let n = 0; n < count; n++) {
        const { fetched } = bench;
        let pausedMs = 0;
        for (;;) {
          await (await bench.updater.pass(well(file), never)).began;
          if (bench.fetched > fetched) break;
          await bench.clock.advance(1000);
          pausedMs += 1000;
        }
        found.push(pausedMs / 1000);
      }
      return found;
    };
    bench.failure = { fetch: new SvcError("unavailable", "the connection broke") };
    bench.updater.setTarget(target("2.0.0"));
    assertEquals(await pauses(4), [0, 5, 10, 20]);
    bench.broughtBytes = 100_000;
    assertEquals(await pauses(3), [40, 5, 5]);
    bench.broughtBytes = 0;
    bench.failure = { fetch: new SvcError("unavailable", "503", { retryMs: 90_000 }) };
    assertEquals(await pauses(3), [5, 90, 90]);
    bench.failure = { fetch: new SvcError("unavailable", "503", { retryMs: 1 }) };
    assertEquals(await pauses(2), [90, 80]);
  }));

Deno.test("UpdateRecord: a broken record falls back to its copy, then to the disk, with a log line", () =>
  withBench(async (bench) => {
    const one = await bench.install("1.0.0");
    const two = await bench.install("2.0.0");
    await Deno.writeTextFile(`${bench.base}/state/versions_svc-server.json`, '{"good": {}');
    await bench.begin();
    assertEquals(bench.updater.status().good?.version, "1.0.0");
    assertMatch(
      bench.records.map(({ message }) => message).join("\n"),
      /versions_svc-server\.json is not JSON/,
    );
    await Deno.writeTextFile(`${bench.base}/state/versions_svc-server.previous.json`, '{"good": 5}');
    await bench.begin();
    const { good, trial } = bench.updater.status();
    assertEquals([good?.file, trial?.build.file, trial?.stage], [one.file, two.file, "switched"]);
    await bench.settle(well(two.file));
    assertEquals(bench.updater.status().good?.version, "2.0.0");
  }));

Deno.test("ownFile: recognizes the agent's file by its folder", () => {
  assertEquals(ownFile("/opt/svc/cache", "/opt/svc/cache/svc-agent-1"), "svc-agent-1");
  assertEquals(
    ownFile("/mnt/data/programs", "/mnt/data/programs/svc-agent-1"),
    "svc-agent-1",
    "led by a link",
  );
  for (const other of ["/usr/bin/svc-agent", "/opt/svc/cached/svc-agent-1"]) {
    assertEquals(ownFile("/opt/svc/cache", other), undefined);
  }
  assertEquals(ownFile("C:\\opt\\svc\\cache", "C:\\opt\\svc\\cache\\svc-agent-1"), "svc-agent-1");
});
