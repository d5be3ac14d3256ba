import { assertEquals, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../error.ts";
import { formatLine, type Level, LEVELS, type LogRecord, Logs, memorySink, parseLevel } from "./log.ts";
import { Secret } from "../secret.ts";

function logging() {
  const records: LogRecord[] = [];
  const logs = new Logs(new FakeClock(), [memorySink(records)]);
  return { logs, records, messages: () => records.map(({ message }) => message) };
}

/** The lowest level that a logger writes. */
function lowest(logs: Logs, name: string): Level {
  const { threshold } = logs.logger(name);
  return (Object.keys(LEVELS) as Level[]).find((level) => LEVELS[level] === threshold)!;
}

Deno.test("the default level is info", () => {
  const { logs, messages } = logging();
  const logger = logs.logger("rdk.config");
  logger.debug("a");
  logger.info("b");
  logger.warn("c");
  logger.error("d");
  assertEquals(messages(), ["b", "c", "d"]);
});

Deno.test("the last matching rule wins, regardless of its level", () => {
  const { logs } = logging();
  logs.configure([
    { pattern: "rdk.*", level: "error" },
    { pattern: "rdk.net.*", level: "debug" },
    { pattern: "*.session", level: "warn" },
  ], false);
  assertEquals(lowest(logs, "other"), "info");
  assertEquals(lowest(logs, "rdk.config"), "error");
  assertEquals(lowest(logs, "rdk.net.udp"), "debug");
  assertEquals(lowest(logs, "rdk.net.session"), "warn");
});

Deno.test("a pattern matches whole names, in the documented and in the published form", () => {
  const { logs } = logging();
  const arm = "rdk.resource_manager.rdk:component:arm/a1";
  const matches = (pattern: string, name: string) => {
    logs.configure([{ pattern, level: "error" }], false);
    return lowest(logs, name) === "error";
  };
  assertEquals(matches("rdk.resource_manager.*", arm), true);
  assertEquals(matches("*arm/*", arm), true);
  assertEquals(matches("rdk.resource_manager.rdk:component:arm/a1", arm), true);
  assertEquals(matches("resource_manager", arm), false);
  assertEquals(matches("rdkxresource_manager.*", arm), false);
  assertEquals(matches("rdk|zzz", arm), false);
  assertEquals(matches("rdk|zzz", "rdk"), true);
  assertEquals(matches("rdk.resource_manager.*(arm|motor)/a[0-9]", arm), true);
  assertEquals(matches("rdk.[ab]+", "rdk.abba"), true);
  assertEquals(matches("(?i)rdk.Resource_Manager.*", arm), true);
  assertEquals(matches("(?s)rdk.Resource_Manager.*", arm), false);
  assertEquals(matches("(?iU)RDK.(a|b)", "rdk.b"), true);
  assertEquals(matches("****************x", `${"a".repeat(5_000)}y`), false);
});

Deno.test("Logs: an invalid pattern is reported and skipped, and the others apply", () => {
  const { logs } = logging();
  const problems = logs.configure([
    { pattern: "rdk.a", level: "error" },
    { pattern: "rdk.(", level: "error" },
    { pattern: "a)|(.*", level: "error" },
    { pattern: "rdk.b", level: "warn" },
  ], false);
  assertEquals(problems.length, 2);
  assertStringIncludes(problems[0], '"rdk.("');
  assertStringIncludes(problems[0], "rdk\\.(");
  assertEquals([lowest(logs, "rdk.a"), lowest(logs, "rdk.b")], ["error", "warn"]);
});

Deno.test("Logs: a pattern may match a logger's alias, and unmatched patterns are listed", () => {
  const { logs } = logging();
  const names = ["rdk.components.motor", "rdk.components.motor.m1"];
  const levelBy = (pattern: string) => {
    logs.configure([{ pattern, level: "error" }], false);
    return LEVELS.error === logs.logger("rdk.resource_manager.rdk:component:motor/m1", names).threshold;
  };
  const good = [
    "rdk.components.motor",
    "rdk.components.*",
    "rdk.components.motor.m1",
    "rdk.resource_manager.*",
  ];
  assertEquals(good.filter((pattern) => !levelBy(pattern)), []);
  const others = ["rdk.components.arm", "rdk.services.*", "components.motor"];
  assertEquals(others.filter(levelBy), []);
  assertEquals(logs.unmatched([...good, ...others]), others);
});

Deno.test("Logs: new rules apply to existing and later loggers", () => {
  const { logs, messages } = logging();
  const old = logs.logger("rdk.a");
  logs.configure([{ pattern: "rdk.a*", level: "warn" }], false);
  old.info("held");
  logs.logger("rdk.ab").info("held");
  logs.configure([{ pattern: "rdk.b", level: "warn" }], false);
  old.info("written");
  assertEquals(messages(), ["written"]);
});

Deno.test("Logs: debug overrides every rule", () => {
  const { logs } = logging();
  logs.configure([{ pattern: "*", level: "error" }], true);
  assertEquals(lowest(logs, "rdk.a"), "debug");
  logs.configure([{ pattern: "*", level: "error" }], false);
  assertEquals(lowest(logs, "rdk.a"), "error");
});

Deno.test("Logs: records of another process are written regardless of their level", () => {
  const { logs, records } = logging();
  logs.configure([{ pattern: "*", level: "error" }], false);
  logs.logger("rdk.a").unconditionally("debug", "one");
  logs.write("debug", "rdk.modmanager.m", "two", {}, "src/m.py:7");
  assertEquals(records.map(({ message, level }) => [message, level]), [["one", "debug"], ["two", "debug"]]);
  assertEquals(formatLine(records[1]).split("\t").slice(1), [
    "DEBUG",
    "rdk.modmanager.m",
    "src/m.py:7",
    "two",
  ]);
});

Deno.test("Logs: fields given as a function are built only for written lines, and may throw", () => {
  const { logs, records } = logging();
  let built = 0;
  const fields = () => ({ built: ++built });
  logs.logger("a").debug("no", fields);
  assertEquals(built, 0);
  logs.logger("a").info("yes", fields);
  logs.logger("a").info("broken", () => {
    throw new Error("boom");
  });
  assertEquals(records.map((record) => record.fields), [{ built: 1 }, { fields: "cannot be built: boom" }]);
});

Deno.test("formatLine: separates time, level, logger, message and fields by tabs", () => {
  const record: LogRecord = {
    timeMs: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    level: "warn",
    logger: "rdk.config",
    message: "hot",
    fields: { celsius: 80 },
  };
  assertEquals(formatLine(record), '2026-01-02T03:04:05.006Z\tWARN\trdk.config\thot\t{"celsius":80}');
  assertEquals(formatLine({ ...record, fields: {} }), "2026-01-02T03:04:05.006Z\tWARN\trdk.config\thot");
  assertStringIncludes(formatLine(record, true), "Z\t\x1b[33mWARN\x1b[0m\trdk.config\t");
});

Deno.test("formatLine: shows a Secret in the fields as stars at any depth", () => {
  const key = new Secret("s3cr3t");
  const circular: Record<string, unknown> = { key };
  circular.self = circular;
  for (
    const fields of [{ key }, { a: [{ b: key }] }, { text: `${key}` }, circular, {
      e: new Error(`no ${key}`),
    }]
  ) {
    const line = formatLine({ timeMs: 0, level: "info", logger: "rdk", message: "m", fields });
    assertEquals(line.includes("s3cr3t"), false);
  }
  assertStringIncludes(
    formatLine({ timeMs: 0, level: "info", logger: "rdk", message: "m", fields: { key } }),
    '{"key":"******"}',
  );
});

Deno.test("formatLine: prints every kind of value in the fields", () => {
  const shown = (fields: Record<string, unknown>) =>
    formatLine({ timeMs: 0, level: "info", logger: "rdk", message: "m", fields }).split("\t")[4];
  const error = new SvcError("internal", "cannot move", { cause: new Error("no power") });
  assertEquals(shown({ error }), '{"error":"cannot move: no power"}');
  assertEquals(shown({ n: 12n, nan: NaN, none: undefined }), '{"n":"12","nan":null}');
  assertEquals(shown({ half: "a\ud800b" }), '{"half":"a\ufffdb"}');
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  assertStringIncludes(shown(circular), "cannot be shown");
});

Deno.test("levels may have any letter case; similar words are refused", () => {
  assertEquals(parseLevel("Warning"), "warn");
  assertEquals(parseLevel("ERROR"), "error");
  for (const text of ["", "loud", "constructor", "__proto__"]) assertEquals(parseLevel(text), undefined);
});
