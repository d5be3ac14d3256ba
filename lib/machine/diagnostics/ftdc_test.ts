import { assertEquals, assertMatch } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { randomFrom } from "../../geometry/random.ts";
import { Ftdc, type FtdcLimits, type MetricSource } from "./ftdc.ts";
import { decodeCapture } from "./ftdc_format.ts";

const FOLDER = "/home/diagnostics.data/local-config";

/** A clock on which time can go by without any timer being run. */
class HeldUpClock extends FakeClock {
  #heldUpMs = 0;

  holdUp(ms: number): void {
    this.#heldUpMs += ms;
  }

  override monotonicMs(): number {
    return super.monotonicMs() + this.#heldUpMs;
  }
}

interface Scene {
  readonly clock: HeldUpClock;
  readonly ftdc: Ftdc;
  readonly records: LogRecord[];
}

async function start(
  files: FakeFiles,
  { sources = [], limits }: { sources?: MetricSource[]; limits?: Partial<FtdcLimits> } = {},
): Promise<Scene> {
  const clock = new HeldUpClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk.ftdc");
  const ftdc = await Ftdc.start({ folder: FOLDER, sources, host: files, clock, logger, limits });
  return { clock, ftdc, records };
}

/** The paths of the captures in the own format, and in the published one. */
function ours(files: FakeFiles): string[] {
  return files.paths.filter((path) => path.endsWith(".jsonl.gz"));
}

function published(files: FakeFiles): string[] {
  return files.paths.filter((path) => path.endsWith(".ftdc"));
}

/** The file names, and the samples of all files together. */
async function captured(files: FakeFiles) {
  const names = ours(files).map((path) => path.slice(FOLDER.length + 1));
  const captures = await Promise.all(
    ours(files).map(async (path) => decodeCapture(await files.readFile(path))),
  );
  return { names, captures, samples: captures.reduce((sum, { timesMs }) => sum + timesMs.length, 0) };
}

Deno.test("Ftdc: takes a sample every second, writes a block every ten, and writes the rest on close", async () => {
  const files = new FakeFiles();
  let count = 0;
  const { clock, ftdc, records } = await start(files, { sources: [() => ({ count: count++ })] });
  await clock.advance(9_500);
  assertEquals(files.paths, []);
  await clock.advance(15_600);
  assertEquals((await captured(files)).samples, 20);
  ftdc.close();
  ftdc.close();
  await clock.advance(60_000);
  const { names, captures: [{ timesMs, metrics }] } = await captured(files);
  assertEquals(names, ["000001-2023-11-14T22-13-30.000Z.jsonl.gz"]);
  assertEquals(
    timesMs.map((ms) => (ms - 1_700_000_000_000) / 1000),
    Array.from({ length: 25 }, (_, at) => at + 1),
  );
  assertEquals(metrics.get("count"), Array.from({ length: 25 }, (_, at) => at));
  assertEquals([files.opened, clock.pending, records], [0, 0, []]);
});

Deno.test("Ftdc: measures the delay of a blocked event loop, and does not invent samples for it", async () => {
  const files = new FakeFiles();
  const { clock, ftdc } = await start(files);
  await clock.advance(1_950);
  clock.holdUp(3_000);
  await clock.advance(4_000);
  ftdc.close();
  const { captures: [{ metrics, timesMs }] } = await captured(files);
  const lags = metrics.get("loop.lag_max_us")!.map((us) => us / 1_000);
  assertEquals(lags, [0, 3_000, 0, 0, 0]);
  assertEquals(timesMs.length, 5);
});

Deno.test("Ftdc: starts a new file when the current file is full, and keeps only the newest files", async () => {
  const files = new FakeFiles();
  const random = randomFrom(1);
  const noise: MetricSource = () => ({ a: random() * 1e15, b: random() * 1e15 });
  const limits = { blockSamples: 5, fileBytes: 700, files: 3 };
  const { clock, ftdc } = await start(files, { sources: [noise], limits });
  for (let path = 0; path < 40; path++) {
    await clock.advance(5_000);
    for (const path of files.paths) assertEquals((await files.fileSize(path))! <= limits.fileBytes, true);
    assertEquals([ours, published].every((which) => which(files).length <= limits.files), true);
  }
  ftdc.close();
  const { names, captures } = await captured(files);
  assertEquals(names.length, 3);
  assertEquals(captures.map(({ damaged }) => damaged), [0, 0, 0]);
  const again = await start(files, { limits });
  await again.clock.advance(5_000);
  again.ftdc.close();
  const next = ours(files).map((path) => Number.parseInt(path.slice(FOLDER.length + 1)));
  const last = Number.parseInt(names[2]);
  assertEquals(next, [last - 1, last, last + 1]);
});

Deno.test("Ftdc: logs a full disk once, continues afterwards, and keeps the captures from before", async () => {
  let full = false;
  const files = new FakeFiles(() => full ? { kind: "error", share: 0.5 } : undefined);
  const { clock, ftdc, records } = await start(files, { limits: { files: 2 } });
  await clock.advance(10_000);
  const good = ours(files);
  full = true;
  await clock.advance(50_000);
  assertEquals(records.map(({ level }) => level), ["warn"]);
  assertMatch(
    records[0].message,
    /^everything works, but no diagnostics are kept: cannot append to ".*jsonl\.gz": input\/output error/,
  );
  full = false;
  await clock.advance(10_000);
  assertEquals(records.map(({ level }) => level), ["warn", "info"]);
  assertMatch(records[1].message, /kept again in "\/home\/diagnostics\.data\/local-config"/);
  ftdc.close();
  assertEquals(files.paths.includes(good[0]), true);
  assertEquals((await captured(files)).samples, 20);
  assertEquals(files.opened, 0);
});

Deno.test("Ftdc: after a kill at any write, the earlier blocks are readable", async () => {
  for (let at = 0; at < 8; at++) {
    for (const share of [0, 0.3, 1]) {
      const files = new FakeFiles((operation) => operation === at ? { kind: "kill", share } : undefined);
      const limits = { fileBytes: 300, blockSamples: 2, files: 2 };
      const { clock, ftdc } = await start(files, { limits });
      await clock.advance(20_000);
      ftdc.close();
      const survivors = files.restart();
      const again = await start(survivors, { limits });
      await again.clock.advance(4_000);
      again.ftdc.close();
      const { captures, samples } = await captured(survivors);
      const torn = captures.reduce((sum, { damaged }) => sum + damaged, 0);
      assertEquals(
        [torn <= 1, samples >= 4, [ours, published].every((which) => which(survivors).length <= 2)],
        [true, true, true],
        `${at} ${share}`,
      );
    }
  }
});

Deno.test("Ftdc: the published captures start anew when they are full or the clock was set", async () => {
  const files = new FakeFiles();
  let count = 0;
  const limits = { fileBytes: 400, files: 50 };
  const { clock, ftdc } = await start(files, { sources: [() => ({ "a.count": count++ })], limits });
  await clock.advance(60_000);
  const full = published(files);
  assertEquals(full.length > 1, true);
  clock.setOn(-3_600_000);
  await clock.advance(10_000);
  ftdc.close();
  assertEquals(published(files).length > full.length, true);
  for (const path of published(files)) {
    const bytes = await files.readFile(path);
    assertEquals([bytes[0], bytes.length <= limits.fileBytes], [1, true], "each begins with a schema");
  }
});

Deno.test("Ftdc: logs a failing metric source once and keeps sampling the others", async () => {
  const files = new FakeFiles();
  const sources: MetricSource[] = [() => ({ good: 1 }), () => {
    throw new Error("no such thing");
  }, () => ({ other: 2, odd: NaN })];
  const { clock, ftdc, records } = await start(files, { sources });
  await clock.advance(10_000);
  ftdc.close();
  assertEquals(records.map(({ message }) => message), ["cannot take a sample: no such thing"]);
  const { captures: [{ metrics }] } = await captured(files);
  assertEquals(metrics.get("good")?.length, 10);
  assertEquals(metrics.get("other"), Array(10).fill(2));
  assertEquals(metrics.get("odd"), Array(10).fill(NaN));
});
