import { assertEquals } from "@std/assert";
import { SystemClock } from "../../clock.ts";
import { expectedSigns, giveSigns, sendState } from "./service_signs.ts";

const ONLY_LINUX = { ignore: Deno.build.os !== "linux" };

/** A receiver of datagrams, as systemd is one; prints each, with a line for its end. */
const RECEIVER = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\\0", 1) if sys.argv[1][0] == "@" else sys.argv[1])
print("ready", flush=True)
for _ in range(int(sys.argv[2])):
    print(repr(s.recv(4096).decode()), flush=True)
`;

const hasPython = await new Deno.Command("python3", { args: ["--version"], stdout: "null", stderr: "null" })
  .output().then(({ success }) => success, () => false);

async function received(
  address: string,
  count: number,
  work: () => Promise<void>,
): Promise<string[]> {
  const receiver = new Deno.Command("python3", {
    args: ["-c", RECEIVER, address, String(count)],
    stdout: "piped",
  }).spawn();
  const lines = receiver.stdout.pipeThrough(new TextDecoderStream());
  const reader = lines.getReader();
  let text = (await reader.read()).value ?? "";
  try {
    await work();
    for (let done = false; !done;) {
      const next = await reader.read();
      done = next.done;
      text += next.value ?? "";
    }
  } finally {
    await receiver.status;
  }
  return text.trim().split("\n").slice(1);
}

for (const kind of ["path", "abstract name"]) {
  Deno.test({
    name: `a state reaches a socket with ${kind === "path" ? "a" : "an"} ${kind}`,
    ignore: ONLY_LINUX.ignore || !hasPython,
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-signs-" });
      const address = kind === "path" ? `${folder}/notify` : `@svc-signs-${crypto.randomUUID()}`;
      try {
        const lines = await received(address, 2, async () => {
          assertEquals(await sendState(address, "WATCHDOG=1"), true);
          assertEquals(await sendState(address, "WATCHDOG_USEC=1\nWATCHDOG=1"), true);
        });
        assertEquals(lines, ["'WATCHDOG=1'", "'WATCHDOG_USEC=1\\nWATCHDOG=1'"]);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test("a state goes nowhere without a receiver, and to no socket of another kind", async () => {
  const long = `/${"x".repeat(107)}`;
  for (const socket of ["/nowhere/notify", "@svc-nobody", "vsock:2:1234", "", "/", "@", long]) {
    assertEquals(await sendState(socket, "WATCHDOG=1"), false, socket);
  }
});

function signs(env: { readonly [name: string]: string }, parent: number) {
  return expectedSigns({ pid: 7, parent, host: { env: (name) => env[name] } });
}

Deno.test("signs of life go to systemd only from the process that it has started", () => {
  const socket = "/run/systemd/notify";
  const NOTIFY_SOCKET = socket;
  const asked = { socket, first: "WATCHDOG_USEC=180000000\nWATCHDOG=1", everyMs: 30_000 };
  assertEquals(signs({}, 1), undefined);
  assertEquals(signs({ NOTIFY_SOCKET }, 1), asked);
  assertEquals(signs({ NOTIFY_SOCKET }, 5), undefined, "of a shell, or of svc-agent on an older system");
  // The agent's watchdog, in what it has started.
  assertEquals(signs({ NOTIFY_SOCKET, WATCHDOG_USEC: "180000000", WATCHDOG_PID: "5" }, 5), undefined);
  assertEquals(signs({ NOTIFY_SOCKET, WATCHDOG_USEC: "180000000", WATCHDOG_PID: "5" }, 1), undefined);
  const own = { NOTIFY_SOCKET, WATCHDOG_USEC: "6000000", WATCHDOG_PID: "7" };
  assertEquals(signs(own, 5), { socket, first: "WATCHDOG=1", everyMs: 2_000 });
});

Deno.test({
  name: "the first sign is repeated until systemd takes it, and the signs end with the program",
  ignore: ONLY_LINUX.ignore || !hasPython,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-signs-" });
    const address = `${folder}/notify`;
    const env: Record<string, string> = { NOTIFY_SOCKET: address };
    /** A clock whose minutes are hundredths of a second. */
    const clock = new class extends SystemClock {
      override after(ms: number, run: () => void): () => void {
        return super.after(ms / 1000, run);
      }
    }();
    const giving = giveSigns({ pid: 7, parent: 1, host: { env: (name) => env[name] } }, clock);
    try {
      await clock.sleep(100_000);
      const lines = await received(address, 2, () => Promise.resolve());
      assertEquals(lines, ["'WATCHDOG_USEC=180000000\\nWATCHDOG=1'", "'WATCHDOG=1'"]);
    } finally {
      await giving[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    }
  },
});
