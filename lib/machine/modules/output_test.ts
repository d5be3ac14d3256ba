// What a module may write: whatever it is, only so much of it is read in a second.
import { assert, assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { pause } from "../../../tests/support/until.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { linesOf, type RunningProcess } from "../../base/process.ts";
import { ModuleOutput } from "./output.ts";

const PIECE_BYTES = 16 * 1024;
/** More than a module may write in a second; without a limit this ends the test. */
const PIECES_MAX = 2_000;

const ENDLESS = {
  "lines": "a line of a module\n",
  "one line": "x",
  "empty lines": "\n",
  "lines of blanks": "  \n",
  "bytes that are not text": "\u0000\n",
};

for (const [what, text] of Object.entries(ENDLESS)) {
  Deno.test(`ModuleOutput: reads endless ${what} of a module only up to a limit per second`, async () => {
    const clock = new FakeClock();
    const records: LogRecord[] = [];
    const piece = new TextEncoder().encode(text.repeat(Math.ceil(PIECE_BYTES / text.length)));
    let read = 0, over = false;
    const endless = async function* () {
      while (!over) {
        assert(++read < PIECES_MAX, "it is read without end");
        yield await Promise.resolve(piece);
      }
    };
    const nothing = (async function* () {})();
    const { promise: exited, resolve: exit } = Promise.withResolvers<{ code: number }>();
    const process: RunningProcess = {
      pid: 7,
      stdout: linesOf(endless()),
      stderr: nothing,
      exited,
      signal: () => {},
    };
    const logger = new Logs(clock, [memorySink(records)]).logger("rdk.modmanager.m");
    const output = new ModuleOutput(process, logger, clock);
    for (let second = 1; second <= 3; second++) {
      for (let before = -1; before < read;) {
        before = read;
        await pause();
      }
      assert(read <= second * 100, `${read} pieces after ${second} s`);
      await clock.advance(1_000);
    }
    assert(records.length <= 4 * 201, `${records.length} lines`);
    over = true;
    exit({ code: 0 });
    for (let turn = 0; turn < 3; turn++) {
      await pause();
      await clock.advance(1_000);
    }
    await output.drained();
    assertEquals(clock.pending, 0);
  });
}

Deno.test("ModuleOutput: lines lose their colours and their own time, which the log has", async () => {
  const lines = [
    "2024-01-02 03:04:05,678\t\t\x1b[33;36mINFO\x1b[0m\tviam.rpc.server (server.py:99)\tServing\t",
    "2024-01-02T03:04:05.678Z\tWARN\tbattery low",
    "[2024-01-02 03:04:05] ready",
    "2024-01-02 is a day",
    "2024-01-02 03:04:05",
  ];
  const clock = new FakeClock();
  const records: LogRecord[] = [];
  const process: RunningProcess = {
    pid: 7,
    stdout: linesOf((async function* () {
      yield await Promise.resolve(new TextEncoder().encode(`${lines.join("\n")}\n`));
    })()),
    stderr: (async function* () {})(),
    exited: Promise.resolve({ code: 0 }),
    signal: () => {},
  };
  const logger = new Logs(clock, [memorySink(records)]).logger("rdk.modmanager.m");
  await new ModuleOutput(process, logger, clock).drained();
  assertEquals(records.map(({ message }) => message), [
    "INFO\tviam.rpc.server (server.py:99)\tServing",
    "WARN\tbattery low",
    "ready",
    "2024-01-02 is a day",
    "2024-01-02 03:04:05",
  ]);
});
