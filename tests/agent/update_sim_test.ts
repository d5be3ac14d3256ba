/**
 * Real updates on a disk that fails in every way a disk can: random histories of releases, power cuts between any two
 * writes, full disks, errors, damaged records, servers that disconnect and clocks that jump.
 *
 * In every history, after every power cut, a working version starts; and after the last fault, the wanted version runs
 * or is refused. `SVC_SIM_SEEDS=20000` runs more, `SVC_SIM_SEED=17` repeats one.
 */

import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { Download } from "../../lib/agent/update/download.ts";
import { computeSha256 } from "../../lib/base/download/http_download.ts";
import { fileNameOf, keyOf, type Release } from "../../lib/agent/update/release.ts";
import { STARTS_MAX } from "../../lib/agent/update/boot.ts";
import { UpdateRecord } from "../../lib/agent/update/record.ts";
import type { Build } from "../../lib/agent/update/state.ts";
import { type Checker, Updater } from "../../lib/agent/update/updater.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { randomFrom } from "../../lib/geometry/random.ts";
import { FakeFiles } from "../support/fake_files.ts";

const SEEDS = Number(Deno.env.get("SVC_SIM_SEEDS") ?? 1000);
const ONE = Deno.env.get("SVC_SIM_SEED");
const STEPS = 60;
const BASE = "/opt/svc";

/** The versions and their behaviour. */
const VERSIONS = {
  "1.0.0": "good",
  "2.0.0": "good",
  "3.0.0": "crashes",
  "4.0.0": "hangs",
  "5.0.0": "wrong",
} as const;
type Version = keyof typeof VERSIONS;
const NAMES = Object.keys(VERSIONS) as Version[];

const bytesOf = (version: Version) => new TextEncoder().encode(`a program, version ${version} `.repeat(20));
const sumOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
const fileOf = (version: Version) => fileNameOf("svc-server", version, sumOf(bytesOf(version)));
const FILES = new Map(NAMES.map((version) => [fileOf(version), version]));

Deno.test("a working version starts after any fault of the disk", async () => {
  const seeds = ONE === undefined ? Array.from({ length: SEEDS }, (_, seed) => seed) : [Number(ONE)];
  let cuts = 0;
  for (const seed of seeds) {
    const run = new Run(seed);
    try {
      await run.run();
      cuts += run.cuts;
    } catch (cause) {
      const logged = run.history.slice(-25).join("\n");
      throw new Error(`seed ${seed} fails; again with SVC_SIM_SEED=${seed}. Its last steps:\n${logged}`, {
        cause,
      });
    }
    if (ONE !== undefined) console.log(run.history.join("\n"));
  }
  console.log(`${seeds.length} histories of updates, ${cuts} power cuts`);
});

/** A clock of which the time of day is anything. */
class JumpingClock extends FakeClock {
  date = 0;
  override nowMs(): number {
    return this.date;
  }
}

class Run {
  readonly history: string[] = [];
  cuts = 0;
  readonly #random: () => number;
  readonly #files: FakeFiles;
  readonly #clock = new JumpingClock();
  readonly #alone: boolean;
  #updater!: Updater;
  #target: Version = "1.0.0";
  #running?: string;
  #healthy = false;
  #failed = false;
  #flaky = true;
  #cutAt = Infinity;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
    this.#files = new FakeFiles(undefined, this.#random);
    // Whether the updater updates itself, and is gone while its program does not run.
    this.#alone = this.#random() < 0.5;
    this.#files.fault = (operation) => {
      if (operation >= this.#cutAt) return { kind: "cut" };
      return this.#flaky && this.#random() < 0.005 ? { kind: "error" } : undefined;
    };
  }

  async run(): Promise<void> {
    await this.#install();
    for (let step = 0; step < STEPS; step++) {
      await this.#happen();
      await this.#step();
    }
    this.#flaky = false;
    this.#files.full = false;
    this.#cutAt = Infinity;
    this.#tell("nothing goes wrong any more");
    let calm = "";
    let same = 0;
    for (let step = 0; same < 5; step++) {
      assert(step < 200, "it does not come to rest");
      await this.#clock.advance(3600_000);
      await this.#step();
      const { good, trial, refused } = this.#updater.status();
      const now = JSON.stringify([this.#running, this.#healthy, good, trial, refused]);
      same = now === calm && this.#healthy ? same + 1 : 0;
      calm = now;
    }
    const runs = FILES.get(this.#running!)!;
    const { refused, good } = this.#updater.status();
    assertEquals(VERSIONS[runs], "good");
    assertEquals(good?.file, this.#running);
    if (refused?.key !== keyOf(this.#target, sumOf(bytesOf(this.#target)))) assertEquals(runs, this.#target);
  }

  async #install(): Promise<void> {
    this.#flaky = false;
    this.#files.put(`${BASE}/cache/${fileOf("1.0.0")}`, bytesOf("1.0.0"));
    await this.#begin();
    await this.#updater.install(fileOf("1.0.0"), "1.0.0");
    this.#flaky = true;
  }

  /** A new process. */
  async #begin(): Promise<void> {
    const { files, clock } = { files: this.#files, clock: this.#clock };
    const logger = new Logs(clock, [(record) => this.#tell(`  ${record.message}`)]).logger("updates");
    const record = recordOn(files);
    const fetcher = new Download({
      base: BASE,
      files,
      clock,
      logger,
      platform: "linux/amd64",
      fetch: (url, init) => this.#serve(url, init),
    });
    const checker: Checker = { check: (path, build) => check(files, path, build) };
    const parts = {
      name: "svc-server",
      record,
      files,
      fetcher,
      checker,
      clock,
      logger,
      manages: true,
    } as const;
    this.#updater = new Updater({ ...parts, random: this.#random });
    await this.#updater.open();
    this.#updater.setTarget(release(this.#target));
  }

  /** Perhaps one unwelcome event. */
  async #happen(): Promise<void> {
    const dice = this.#random();
    if (dice < 0.15) {
      this.#target = NAMES[Math.floor(this.#random() * NAMES.length)];
      this.#tell(`wanted: ${this.#target}`);
      this.#updater.setTarget(release(this.#target));
    } else if (dice < 0.22) {
      this.#files.full = !this.#files.full;
      this.#tell(this.#files.full ? "the disk is full" : "there is space");
    } else if (dice < 0.4) this.#cutAt = this.#files.operations + Math.floor(this.#random() * 20);
    else if (dice < 0.45) {
      this.#clock.date = this.#random() < 0.5 ? 0 : 4e12 * this.#random();
      this.#tell(`the clock says ${new Date(this.#clock.date).toISOString()}`);
    } else if (dice < 0.47) {
      // One copy of it: both at once is a matter of the model.
      const copy = this.#random() < 0.5 ? "" : ".previous";
      this.#files.spoil(`${BASE}/state/versions_svc-server${copy}.json`);
      this.#tell(`the record${copy} is damaged`);
    } else if (dice < 0.5) {
      this.#tell("what runs dies");
      this.#running = undefined;
    } else if (dice < 0.53) {
      await this.#updater.goBack("asked for").then(() => this.#tell("back"), () => {});
    } else if (dice < 0.56) await this.#updater.clean(0).catch(() => {});
  }

  async #step(): Promise<void> {
    try {
      await this.#live();
    } catch (error) {
      if (!this.#files.dead && !this.#flaky) throw error;
      this.#tell(`  ${SvcError.from(error).message}`);
    }
    if (!this.#files.dead) return;
    this.#tell("power cut");
    this.cuts++;
    this.#cutAt = Infinity;
    this.#files.cut();
    this.#running = undefined;
    await this.#startsWell();
    await this.#restart();
  }

  async #live(): Promise<void> {
    if (this.#running === undefined) {
      const booted = await this.#updater.boot();
      if (booted) this.#start(booted.file);
      if (this.#running === undefined) return;
      // A new process remembers nothing.
      if (this.#alone) await this.#begin();
    }
    const nature = VERSIONS[FILES.get(this.#running)!];
    if (nature === "good") this.#healthy = this.#random() < 0.7 || this.#healthy;
    if (nature === "hangs") this.#failed = this.#random() < 0.5;
    if (nature === "crashes" && this.#random() < 0.5) return this.#end("it crashes");
    if (nature === "wrong") throw new Error("a file that was refused runs");
    const sick = this.#failed ? "failed" : "starting";
    const health = this.#healthy ? "healthy" : sick;
    const maySwitch = !this.#flaky || this.#random() < 0.8;
    const mayUpdate = maySwitch && (!this.#flaky || this.#random() < 0.5);
    const now = { running: this.#running, health, maySwitch, mayUpdate } as const;
    const { restart } = await this.#updater.pass(now, new AbortController().signal);
    await this.#updater.idle();
    await this.#clock.advance(5_000);
    if (restart) this.#end("restart");
    else if (nature === "hangs" && this.#failed) this.#end("the watchdog ends it");
    else if (nature === "crashes") this.#end("it crashes");
  }

  #start(file: string): void {
    this.#tell(`starts ${FILES.get(file)}`);
    this.#running = file;
    this.#healthy = this.#failed = false;
  }

  #end(why: string): void {
    this.#tell(why);
    this.#running = undefined;
  }

  /** The next process, which may find the disk failing already. */
  async #restart(): Promise<void> {
    const flaky = this.#flaky;
    this.#flaky = false;
    await this.#begin();
    this.#flaky = flaky;
  }

  /** From here on, starts alone come to something that works. */
  async #startsWell(): Promise<void> {
    const files = this.#files.copy();
    const tried: string[] = [];
    for (let boots = 0; boots <= 3 * STARTS_MAX; boots++) {
      const logger = new Logs(this.#clock, []).logger("boot");
      const nothing = {
        withheld: () => Promise.resolve(undefined),
        fetch: never,
        stamp: never,
        clean: never,
      };
      const parts = {
        name: "svc-server",
        record: recordOn(files),
        files,
        clock: this.#clock,
        logger,
      } as const;
      const updater = new Updater({ ...parts, fetcher: nothing, checker: { check: never }, manages: true });
      const booted = await updater.boot();
      assert(booted, "nothing can be started");
      const version = FILES.get(booted.file)!;
      tried.push(version);
      assertEquals(await computeSha256(files, booted.path), sumOf(bytesOf(version)), `${version} is damaged`);
      if (VERSIONS[version] === "good") return;
    }
    throw new Error(`nothing that works is started: ${tried.join(", ")}`);
  }

  /** A server that is away, cuts off, sends other bytes, and gives ranges. */
  #serve(url: string | URL | Request, init?: RequestInit): Promise<Response> {
    const version = String(url).split("/").at(-1) as Version;
    const whole = bytesOf(version);
    const dice = this.#flaky ? this.#random() : 1;
    if (dice < 0.1) return Promise.reject(new TypeError("connection refused"));
    if (dice < 0.15) return Promise.resolve(new Response("away", { status: 503 }));
    const from = Number(/bytes=(\d+)-/.exec(new Headers(init?.headers).get("range") ?? "")?.[1] ?? 0);
    const rest = whole.slice(from);
    if (dice < 0.2) rest[0] ^= 1;
    const sent = dice < 0.4 ? rest.slice(0, Math.floor(rest.length * this.#random())) : rest;
    const headers = { etag: `"${version}"`, "content-length": String(rest.length) };
    if (from === 0) return Promise.resolve(new Response(sent, { status: 200, headers }));
    const range = { "content-range": `bytes ${from}-${whole.length - 1}/${whole.length}` };
    return Promise.resolve(new Response(sent, { status: 206, headers: { ...headers, ...range } }));
  }

  #tell(what: string): void {
    this.history.push(what);
  }
}

function recordOn(files: FakeFiles): UpdateRecord {
  const sumOf = (path: string) => computeSha256(files, path);
  return new UpdateRecord({ name: "svc-server", base: BASE, run: "/run/svc", files, sumOf });
}

function release(version: Version): Release {
  const sha256 = sumOf(bytesOf(version));
  const url = `http://cloud/${version}`;
  return { name: "svc-server", version, url, sha256, custom: false, key: keyOf(version, sha256) };
}

async function check(files: FakeFiles, path: string, { sha256, version }: Build): Promise<void> {
  if (await computeSha256(files, path) !== sha256) throw new SvcError("data_loss", "it is damaged");
  if (VERSIONS[version as Version] === "wrong") throw new SvcError("failed_precondition", "it is no program");
}

function never(): Promise<never> {
  return Promise.reject(new Error("not here"));
}
