/**
 * Whether a virtual machine works: it writes the time since its start, and its load, to a serial line of its own every
 * few seconds; beside that stands how much of this computer's processors its emulator got.
 *
 * It tells apart why a shell is silent: an emulator that gets no time, a machine that stands still, or a command that
 * hangs in a machine that works.
 */

/** In the machine: the line on which it writes, and what. */
export const PULSE_UNIT = `[Unit]
Description=Signs of life for tests

[Service]
ExecStart=/bin/sh -c 'while sleep 3; do echo $(cat /proc/uptime /proc/loadavg); done'
Nice=-20
StandardOutput=tty
TTYPath=/dev/ttyS2
Restart=always

[Install]
WantedBy=multi-user.target
`;

/** Of the system's clock that counts the time of processes. */
const TICKS_PER_SECOND = 100;

/** A moment. */
interface Moment {
  readonly atMs: number;
  readonly cpuSeconds: number;
  readonly signs: number;
}

export class Pulse {
  readonly #startedMs = performance.now();

  constructor(private readonly pid: number, private readonly path: string) {}

  async take(): Promise<Moment> {
    const stat = await Deno.readTextFile(`/proc/${this.pid}/stat`).catch(() => "");
    // Behind the name in parentheses; the 12th and 13th field from there.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const cpuSeconds = (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / TICKS_PER_SECOND;
    return { atMs: performance.now(), cpuSeconds, signs: (await this.#lines()).length };
  }

  /** What has happened since a moment, or since the power-on, in a sentence. */
  async since(before?: Moment): Promise<string> {
    const then = before ?? { atMs: this.#startedMs, cpuSeconds: 0, signs: 0 };
    const now = await this.take();
    const seconds = ((now.atMs - then.atMs) / 1000).toFixed(0);
    const cpu = (now.cpuSeconds - then.cpuSeconds).toFixed(0);
    const load = Deno.loadavg()[0].toFixed(0);
    const emulator = `its emulator got ${cpu} s of processors in ${seconds} s (load ${load})`;
    const [last = "none"] = (await this.#lines()).slice(-1);
    const signs = now.signs - then.signs;
    return `${emulator}; the machine gave ${signs} signs of life, one every 3 s if it works; the last: ${last}`;
  }

  async #lines(): Promise<string[]> {
    const text = await Deno.readTextFile(this.path).catch(() => "");
    return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  }
}
