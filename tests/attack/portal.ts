/**
 * `deno task attack portal [SECONDS]`: strangers in the hotspot against the portal, in a process of its own: as many
 * requests as it takes, bodies that never end and bodies that are too long; and a person who looks at the page meanwhile.
 *
 * Prints requests and person's looks a second and the memory at its highest. Ends with 1 if the portal did not hold.
 */

import { SystemClock } from "../../lib/base/clock.ts";

const SERVE = new URL("./portal/serve.ts", import.meta.url).pathname;
const FLOODERS = 8;
/** Requests that one connection sends at once. */
const AT_ONCE = 64;
const SLOW = 40;
const GIANTS = 8;
const GIANT_CHUNK = new Uint8Array(64 * 1024).fill(0x61);
const LOOK_EVERY_MS = 100;
/** A person's patience, on a busy computer. */
const LOOK_MS = 60_000;
const MEMORY_MB_MAX = 400;
const MEBIBYTE = 1024 * 1024;

const clock = new SystemClock();

export interface Outcome {
  readonly requests: number;
  readonly seconds: number;
  readonly looks: number;
  /** Of the portal's process, in MiB: at rest, and the highest. */
  readonly restMb: number;
  readonly peakMb: number;
  readonly problems: readonly string[];
}

export async function attackPortal([seconds = "20"]: readonly string[]): Promise<number> {
  const { requests, looks, restMb, peakMb, problems, ...took } = await playPortal(Number(seconds));
  console.log(
    `${(requests / took.seconds).toFixed(0)} requests a second answered, for ${took.seconds.toFixed(0)} s`,
  );
  console.log(`a person looked ${looks} times and saw the page`);
  console.log(`memory ${restMb.toFixed(0)} MiB at rest, ${peakMb.toFixed(0)} MiB at most`);
  console.log(problems.length === 0 ? "the portal held" : `it did not hold: ${problems.join("; ")}`);
  return problems.length === 0 ? 0 : 1;
}

export async function playPortal(seconds: number): Promise<Outcome> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", SERVE],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  const port = Number(new TextDecoder().decode((await reader.read()).value));
  await reader.cancel();
  const stop = new AbortController();
  const counted = { requests: 0, looks: 0 };
  const problems: string[] = [];
  try {
    await look(port);
    const restMb = memoryOf(child.pid, "VmRSS");
    const beganMs = clock.monotonicMs();
    const attackers = [
      ...Array.from({ length: FLOODERS }, () => flood(port, counted, stop.signal)),
      ...Array.from({ length: SLOW }, () => dawdle(port, stop.signal)),
      ...Array.from({ length: GIANTS }, () => stuff(port, stop.signal)),
    ];
    while (clock.monotonicMs() - beganMs < seconds * 1000) {
      await look(port).then(() => counted.looks++, (error) => problems.push(String(error)));
      await clock.sleep(LOOK_EVERY_MS);
    }
    const took = (clock.monotonicMs() - beganMs) / 1000;
    stop.abort();
    await Promise.all(attackers);
    await look(port).catch((error) => problems.push(`afterwards: ${error}`));
    const peakMb = memoryOf(child.pid, "VmHWM");
    if (peakMb > MEMORY_MB_MAX) problems.push(`${peakMb} MiB of memory, wanted at most ${MEMORY_MB_MAX}`);
    if (counted.requests === 0) problems.push("no request was answered");
    return { ...counted, seconds: took, restMb, peakMb, problems };
  } finally {
    stop.abort();
    await child.stdin.close();
    await child.status;
  }
}

/** A person opens the page. */
async function look(port: number): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(LOOK_MS) });
  const text = await answer.text();
  if (!text.includes("Set up Acme rover") || text.includes("<script>")) {
    throw new Error(`the page says: ${text}`);
  }
}

/** Again and again on new connections, for the port lets go of who overdoes it. */
async function again(
  signal: AbortSignal,
  port: number,
  use: (conn: Deno.TcpConn) => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const conn = await Deno.connect({ hostname: "127.0.0.1", port });
      const end = () => conn.close();
      signal.addEventListener("abort", end, { once: true });
      try {
        await use(conn);
      } finally {
        signal.removeEventListener("abort", end);
        if (!signal.aborted) conn.close();
      }
    } catch {
      // It has hung up, or accepts no connection just now.
      await clock.sleep(LOOK_EVERY_MS);
    }
  }
}

async function flood(port: number, counted: { requests: number }, signal: AbortSignal): Promise<void> {
  const one = `GET /generate_204 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`;
  const many = new TextEncoder().encode(one.repeat(AT_ONCE));
  const buffer = new Uint8Array(256 * 1024);
  const answered = /HTTP\/1\.1 200/g;
  await again(signal, port, async (conn) => {
    for (;;) {
      await conn.write(many);
      for (let left = AT_ONCE; left > 0;) {
        const read = await conn.read(buffer);
        if (read === null) return;
        const count = new TextDecoder("latin1").decode(buffer.subarray(0, read)).match(answered)?.length ?? 0;
        left -= count;
        counted.requests += count;
      }
    }
  });
}

/** A form, a byte a second. */
async function dawdle(port: number, signal: AbortSignal): Promise<void> {
  const head = `POST /save HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: 60000\r\n\r\n`;
  await again(signal, port, async (conn) => {
    await conn.write(new TextEncoder().encode(head));
    for (;;) {
      await conn.write(GIANT_CHUNK.subarray(0, 1));
      await clock.sleep(1000, signal);
    }
  });
}

/** A form of a gigabyte. */
async function stuff(port: number, signal: AbortSignal): Promise<void> {
  const head = `POST /save HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: ${1024 * MEBIBYTE}\r\n\r\n`;
  await again(signal, port, async (conn) => {
    await conn.write(new TextEncoder().encode(head));
    for (;;) await conn.write(GIANT_CHUNK);
  });
}

function memoryOf(pid: number, what: "VmRSS" | "VmHWM"): number {
  const [, kibibytes] = new RegExp(`${what}:\\s+(\\d+)`).exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ??
    [];
  return Number(kibibytes) / 1024;
}
