import { assertEquals } from "@std/assert";
import { LINE_CHARS_MAX } from "../../base/process.ts";
import { settle } from "../../base/clock.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { FakeProcesses } from "../../../tests/support/fake_processes.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { tellLastEnd } from "./last_end.ts";
import { LogForwarding, readEntry, wanted } from "./log_forwarding.ts";
import { decideSettings } from "../settings/settings.ts";
import { SystemFiles } from "../../base/files/system_files.ts";

Deno.test("wanted: filters identifiers by names, exclusions and all, and drops the agent's own", () => {
  const names = ["sshd", "kernel", "svc-agent"];
  const chosen = (filter: string) => names.filter(wanted(filter, ["svc-agent"]));
  assertEquals(chosen("all"), ["sshd", "kernel"]);
  assertEquals(chosen("all, -kernel"), ["sshd"]);
  assertEquals(chosen("-kernel,all"), ["sshd"]);
  assertEquals(chosen("all, - kernel"), ["sshd"]);
  assertEquals(chosen("sshd"), ["sshd"]);
  assertEquals(chosen("-sshd"), []);
  assertEquals(chosen("-sshd,sshd"), ["sshd"]);
  assertEquals(chosen("svc-agent"), []);
  assertEquals(chosen(" , "), []);
});

Deno.test("readEntry: reads fields, level and byte messages, and rejects other lines", () => {
  const line = {
    __CURSOR: "c",
    SYSLOG_IDENTIFIER: "sshd",
    _PID: "12",
    PRIORITY: "4",
    __REALTIME_TIMESTAMP: "5000",
  };
  const entry = readEntry(JSON.stringify({ ...line, MESSAGE: [104, 195, 40] }));
  assertEquals(entry, {
    cursor: "c",
    identifier: "sshd",
    pid: "12",
    priority: 4,
    message: "h\uFFFD(",
    timeMs: 5,
  });
  assertEquals(["{", "[]", "{}", '{"MESSAGE":"x"}'].map(readEntry), [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("log forwarding: resumes after the last cursor and limits a flood of entries", async () => {
  const base = await Deno.makeTempDir();
  await Deno.mkdir(`${base}/state`);
  const clock = new FakeClock();
  const processes = new FakeProcesses();
  const [sent, own]: LogRecord[][] = [[], []];
  const logger = new Logs(clock, [memorySink(own)]).logger("svc-agent");
  const files = new SystemFiles();
  const parts = { files, processes, clock, logger, send: memorySink(sent), base, own: ["svc-agent"] };
  const forwarding = new LogForwarding(parts);
  const settings =
    decideSettings({ cloud: { system_configuration: { forward_system_logs: "all" } } }).settings;
  const started = async (count: number) => {
    while (processes.started.length < count) await settle();
    return processes.started[count - 1];
  };
  const line = (number: number) =>
    JSON.stringify({
      __CURSOR: `c${number}`,
      SYSLOG_IDENTIFIER: "sshd",
      MESSAGE: `m${number}`,
      PRIORITY: "3",
    });

  await forwarding.apply(settings);
  await forwarding.apply(settings);
  const first = await started(1);
  assertEquals(first.command.args?.includes("--lines=0"), true);
  assertEquals(first.command.args?.includes("--all"), true, "or long messages would be missing");
  for (let number = 0; number < 150; number++) first.stdout.write(line(number));
  await settle();
  assertEquals([sent.length, sent[0].level, sent[0].logger, sent[0].message], [100, "error", "sshd", "m0"]);
  await clock.advance(1000);
  first.stdout.write(line(150));
  await settle();
  assertEquals(sent.length, 101);
  assertEquals(own.map(({ message }) => message), [
    "dropped 50 entries of the system's journal: too many at once",
  ]);
  const long = JSON.stringify({ __CURSOR: "c150", SYSLOG_IDENTIFIER: "sshd", MESSAGE: "x".repeat(40_000) });
  for (let at = 0; at < long.length; at += LINE_CHARS_MAX) {
    first.stdout.write(long.slice(at, at + LINE_CHARS_MAX));
  }
  await settle();
  assertEquals([sent.length, sent[101].message], [102, "x".repeat(16 * 1024)]);
  first.exit(1);
  while (own.length < 2) await settle();
  await clock.advance(10_000);
  const second = await started(2);
  assertEquals(second.command.args?.includes("--after-cursor=c150"), true);
  await forwarding.close();
  assertEquals([second.over, processes.started.length, clock.pending], [true, 2, 0]);
  await Deno.remove(base, { recursive: true });
});

Deno.test("log forwarding: keeps its place when the agent starts, and finds one if it is damaged or was turned off", async () => {
  const base = await Deno.makeTempDir();
  await Deno.mkdir(`${base}/state`);
  const clock = new FakeClock();
  const files = new SystemFiles();
  const cursorsOf = ({ command: { args = [] } }: { command: { args?: readonly string[] } }) =>
    args.filter((one) => /cursor|lines/.test(one)).join();
  const begun: string[] = [];
  const processes = new FakeProcesses((process) => {
    begun.push(cursorsOf(process));
    if (!begun.at(-1)!.includes("damaged")) return;
    process.stderr.write("Failed to seek to cursor: Invalid argument");
    process.exit(1);
  });
  const logger = new Logs(clock, []).logger("svc-agent");
  const settings = (filter: string) =>
    decideSettings({ cloud: { system_configuration: { forward_system_logs: filter } } }).settings;
  const forwarding = new LogForwarding({ files, processes, clock, logger, send: () => {}, base, own: [] });
  const begunWith = async (count: number) => {
    while (begun.length < count) await clock.advance(1_000);
    return begun.at(-1);
  };
  // The agent was away: what the system has logged since, comes.
  await Deno.writeTextFile(`${base}/state/journal_cursor`, "s=1;i=7");
  const output = "one failed\n-- cursor: s=1;i=99";
  await tellLastEnd("svc-agent", {
    commands: new FakeCommands({ journalctl: { output } }),
    files,
    logger,
    base,
  });
  await forwarding.apply(settings("all"));
  assertEquals(await begunWith(1), "--after-cursor=s=1;i=7");

  await forwarding.apply(settings(""));
  await forwarding.apply(settings("sshd"));
  assertEquals(await begunWith(2), "--lines=0", "nothing of the time when it was off");
  await forwarding.close();

  await Deno.writeTextFile(`${base}/state/journal_cursor`, "damaged");
  await forwarding.apply(settings("sshd"));
  assertEquals([await begunWith(4), begun[2]], ["--lines=0", "--after-cursor=damaged"]);
  await forwarding.close();
  await Deno.remove(base, { recursive: true });
});

Deno.test("log forwarding: works with a journalctl that knows no choice of fields", async () => {
  const base = await Deno.makeTempDir();
  const clock = new FakeClock();
  // Of systemd 219 and 232.
  const processes = new FakeProcesses((process) => {
    if (process.command.args?.some((one) => one.startsWith("--output-fields"))) {
      process.stderr.write("journalctl: unrecognized option '--output-fields=MESSAGE,PRIORITY'");
      process.exit(1);
    } else process.stdout.write('{"__CURSOR":"c1","SYSLOG_IDENTIFIER":"sshd","MESSAGE":"hello"}');
  });
  const sent: LogRecord[] = [];
  const logger = new Logs(clock, []).logger("svc-agent");
  const forwarding = new LogForwarding({
    ...{ files: new SystemFiles(), processes, clock, logger, send: memorySink(sent), base, own: [] },
  });
  await forwarding.apply(
    decideSettings({ cloud: { system_configuration: { forward_system_logs: "all" } } }).settings,
  );
  while (sent.length === 0) await clock.advance(1_000);
  assertEquals([processes.started.length, sent[0].message], [2, "hello"]);
  await forwarding.close();
  await Deno.remove(base, { recursive: true });
});
