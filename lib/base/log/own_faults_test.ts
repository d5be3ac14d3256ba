import { assertEquals, assertMatch } from "@std/assert";

/** Each kind of fault that ends a program by default, and the line for it. */
const FAULTS: { readonly [kind: string]: readonly [code: string, line: RegExp] } = {
  "a rejected promise": ['Promise.reject(new Error("nobody awaits"))', lineWith("nobody awaits")],
  "an asynchronous function": [
    '(async () => { await 1; throw new Error("in vain"); })()',
    lineWith("in vain"),
  ],
  "a timer": ['setTimeout(() => { throw new Error("late"); }, 1)', lineWith("late")],
  "a microtask": ['queueMicrotask(() => { throw "a text"; })', lineWith("a text")],
  "a socket without a listener": [
    '(await import("node:net")).connect(1, "127.0.0.1")',
    lineWith("connect ECONNREFUSED"),
  ],
  "a thread": [
    'new Worker("data:text/javascript,throw new Error(`in the thread`)", { type: "module" })',
    lineWith(".*in the thread"),
  ],
  "a reason that cannot be shown": [
    "Promise.reject({ get message() { throw 1; }, get cause() { throw 1; } })",
    /^/,
  ],
};

function lineWith(text: string): RegExp {
  return new RegExp(`^svc-x goes on after a fault of its own, please report it: ${text}`, "m");
}

for (const [kind, [code, shown]] of Object.entries(FAULTS)) {
  Deno.test(`a program goes on after a fault of its own, and logs it: ${kind}`, async () => {
    const program = `
      import { SystemClock } from ${JSON.stringify(import.meta.resolve("../clock.ts"))};
      import { Logs } from ${JSON.stringify(import.meta.resolve("./log.ts"))};
      import { logOwnFaults } from ${JSON.stringify(import.meta.resolve("./own_faults.ts"))};
      const logger = new Logs(new SystemClock(), [({ message }) => console.log(message)]).logger("a");
      using _faults = logOwnFaults("svc-x", logger);
      const told = Promise.withResolvers();
      addEventListener("unhandledrejection", () => told.resolve());
      addEventListener("error", () => told.resolve());
      void (${code});
      await told.promise;
      console.log("goes on");`;
    const file = await Deno.makeTempFile({ suffix: ".ts" });
    await Deno.writeTextFile(file, program);
    const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", "--no-check", file] });
    const { code: exit, stdout, stderr } = await command.output();
    await Deno.remove(file);
    const printed = new TextDecoder().decode(stdout);
    assertEquals(exit, 0, new TextDecoder().decode(stderr));
    assertMatch(printed, shown);
    assertMatch(printed, /^goes on$/m);
  });
}
