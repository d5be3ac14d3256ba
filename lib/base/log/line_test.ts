import { assertEquals } from "@std/assert";
import type { LogRecord } from "./log.ts";
import { formatLine } from "./line.ts";

const RECORD: LogRecord = {
  timeMs: 0,
  level: "info",
  logger: "rdk.wire",
  message: "hello",
  fields: {},
};
const FORGED = "1970-01-01T00:00:00.000Z\tERROR\trdk.machine\tthe motor is on fire";

Deno.test("formatLine: text in a record cannot imitate another record", () => {
  const places: Partial<LogRecord>[] = [
    { message: `hello\n${FORGED}\n${FORGED}` },
    { message: `hello\r\n${FORGED}` },
    { logger: `rdk\n${FORGED}` },
    { caller: `a.ts:1\n${FORGED}` },
    { fields: { [`a\n${FORGED}`]: `b\n${FORGED}` } },
  ];
  for (const place of places) {
    for (const coloured of [false, true]) {
      const [first, ...others] = formatLine({ ...RECORD, ...place }, coloured).split("\n");
      assertEquals(first.startsWith("1970-01-01T00:00:00.000Z\t"), true, first);
      assertEquals(others.filter((line) => !line.startsWith("\t")), []);
    }
  }
});

Deno.test("formatLine: indents the lines of a multi-line message", () => {
  assertEquals(
    formatLine({ ...RECORD, message: "it broke:\n  at a.ts:1\n  at b.ts:2" }),
    "1970-01-01T00:00:00.000Z\tINFO\trdk.wire\tit broke:\n\t  at a.ts:1\n\t  at b.ts:2",
  );
});
