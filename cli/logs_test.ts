/** Where the logs of a program go. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FakeClock } from "../tests/support/fake_clock.ts";
import { DenoHost } from "../lib/base/host_deno.ts";
import { openLogs } from "./logs.ts";

class TestHost extends DenoHost {
  errors = "";

  constructor(private readonly variables: Record<string, string>) {
    super();
  }

  override env(name: string): string | undefined {
    return this.variables[name];
  }

  override coloured(): boolean {
    return false;
  }

  override writeError(text: string): void {
    this.errors += text;
  }
}

/** The console and the file `m.log` after one line has been logged four times. */
async function logged(
  flag: boolean,
  variables: (path: string) => Record<string, string>,
  suffix = "",
) {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/logs/m.log`;
  const host = new TestHost(variables(path));
  let printed = "";
  const { log } = console;
  console.log = (line: string) => void (printed += `${line}\n`);
  try {
    {
      using open = openLogs("svc-server", flag ? `${path}${suffix}` : "", host, new FakeClock());
      for (let time = 0; time < 5; time++) open.logs.logger("rdk").info("hello");
    }
    const file = await host.fileSize(path) === undefined ? "" : await host.readTextFile(path);
    return { printed, file, errors: host.errors };
  } finally {
    console.log = log;
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("without a log file logs go to standard output with repeats summed up", async () => {
  const { printed, file, errors } = await logged(false, () => ({}));
  assertEquals([file, errors], ["", ""]);
  assertMatch(printed, /^\S+Z\tINFO\trdk\thello\n/);
  assertEquals(printed.split("\n").length, 3 + 1 + 1 + 1);
  assertStringIncludes(printed, "Message logged 5 times in past 1s: hello\n");
});

Deno.test("-log-file replaces standard output in any environment", async () => {
  const { printed, file } = await logged(true, (path) => ({ SVC_LOGFILE: `${path}.other` }));
  assertEquals(printed, "");
  assertStringIncludes(file, "\tINFO\trdk\thello\n");
});

for (const variable of ["SVC_LOGFILE", "VIAM_LOGFILE"]) {
  Deno.test(`${variable} adds a log file beside standard output`, async () => {
    const { printed, file } = await logged(false, (path) => ({ [variable]: path }));
    assertStringIncludes(file, "hello");
    assertEquals(printed, file);
  });
}

Deno.test("an unwritable log file is reported on standard error", async () => {
  const { printed, errors } = await logged(false, (path) => ({ SVC_LOGFILE: `${path}\0` }));
  assertStringIncludes(printed, "hello");
  assertMatch(errors, /^svc-server: cannot write the log file, its lines are lost: cannot append to .+\n$/);
});

Deno.test("-log-file: the lines go to standard output while the file cannot be written", async () => {
  const { printed, errors } = await logged(true, () => ({}), "\0");
  assertMatch(printed, /^\S+Z\tINFO\trdk\thello\n/);
  assertMatch(
    errors,
    /^svc-server: cannot write the log file, its lines go to standard output: cannot append to .+\n$/,
  );
});
