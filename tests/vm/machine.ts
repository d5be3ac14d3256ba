/**
 * A virtual machine with its own disk: tests switch it on, use its root shell, and cut its power.
 *
 * It reaches this computer's loopback at 10.0.2.2. Its processor is emulated, so that it runs anywhere, about ten times
 * slower than a real one.
 *
 * A command that does not end in time says why: how much of this computer's processor the emulator got meanwhile, and
 * whether the machine itself still worked (`Pulse`).
 */

import type { Image } from "./image.ts";
import { putText, repeat, type TestPlace } from "./place.ts";
import { Pulse } from "./pulse.ts";

/** This computer, as the machine sees it. */
export const HOST = "10.0.2.2";

/** A larger cache of translated code: with the default of 32 MB a boot throws it away several times. */
const ACCELERATION = "tcg,thread=multi,tb-size=512";
/** What costs time at each boot and decides nothing here: defences of real processors, and upkeep of Debian. */
const LEAN = [
  "mitigations=off",
  ...[
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
  ]
    .map((unit) => `systemd.mask=${unit}`),
];
const BOOT_MS = 300_000;
const ASK_MS = 1_000;
const COMMAND_MS = 60_000;
const MEMORY_MB = 1536;

export class Machine implements TestPlace {
  readonly host = HOST;
  #process: Deno.ChildProcess | undefined;
  #shell: Deno.UnixConn | undefined;
  #pulse: Pulse | undefined;
  #text = "";
  #more = Promise.withResolvers<void>();
  #number = 0;
  #console = "";

  private constructor(
    private readonly image: Image,
    private readonly folder: string,
    private readonly share: string | undefined,
  ) {}

  /**
   * A machine, switched off, with a copy of the image's disk in its own folder. It can mount this computer's folder
   * `share` for reading (9p, tag `share`).
   */
  static async make(image: Image, folder: string, { share }: { share?: string } = {}): Promise<Machine> {
    await Deno.mkdir(folder, { recursive: true });
    const copy = new Deno.Command("cp", { args: ["--sparse=always", image.disk, `${folder}/disk.img`] });
    if (!(await copy.output()).success) throw new Error(`cannot copy ${image.disk} to ${folder}`);
    return new Machine(image, folder, share);
  }

  /** The console's output since the last power-on. */
  get console(): string {
    return this.#console;
  }

  /** Switches it on; resolves when its shell answers. `clock` sets its hardware clock: `1970-01-01`. */
  async on({ clock }: { clock?: string } = {}): Promise<void> {
    const shell = `${this.folder}/shell`;
    await Deno.remove(shell).catch(() => {});
    this.#console = "";
    this.#process = new Deno.Command("qemu-system-x86_64", {
      args: [
        ...["-accel", ACCELERATION, "-M", "q35", "-cpu", "max", "-smp", "2", "-m", String(MEMORY_MB)],
        ...["-display", "none", "-no-reboot", "-serial", "stdio"],
        ...[
          "-chardev",
          `socket,id=shell,path=${shell},server=on,wait=off`,
          "-device",
          "isa-serial,chardev=shell",
        ],
        ...["-chardev", `file,id=pulse,path=${this.folder}/pulse`, "-device", "isa-serial,chardev=pulse"],
        ...["-kernel", this.image.kernel, "-initrd", this.image.initrd],
        ...["-append", ["root=/dev/vda rw console=ttyS0 systemd.show_status=0 quiet", ...LEAN].join(" ")],
        ...["-drive", `file=${this.folder}/disk.img,format=raw,if=virtio,cache=writeback`],
        ...["-nic", "user,model=virtio-net-pci", "-device", "virtio-rng-pci"],
        ...(this.share
          ? ["-virtfs", `local,path=${this.share},mount_tag=share,security_model=none,readonly=on`]
          : []),
        ...(clock ? ["-rtc", `base=${clock}`] : []),
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    void this.#follow(this.#process.stdout);
    this.#pulse = new Pulse(this.#process.pid, `${this.folder}/pulse`);
    await this.#connect(shell);
  }

  /** Runs a command; returns its output. Throws if it fails. */
  async run(command: string, timeoutMs = COMMAND_MS): Promise<string> {
    const { code, output } = await this.try(command, timeoutMs);
    if (code === 0) return output;
    throw new Error(`in the machine: ${command}\nended with ${code}:\n${output}`);
  }

  /** Runs a command; returns its exit code and the output of both streams. */
  async try(command: string, timeoutMs = COMMAND_MS): Promise<{ code: number; output: string }> {
    const before = await this.#pulse?.take();
    const mark = `done-${++this.#number}-${crypto.randomUUID().slice(0, 8)}`;
    // The shell assembles the mark, so that the echo of the command does not contain it.
    const asked = `( ${command}\n) 2>&1 </dev/null; echo "${mark.slice(0, 4)}""${mark.slice(4)} $?"\n`;
    await this.#write(asked, timeoutMs);
    const found = await this.#until(new RegExp(`^([^]*?)${mark} (\\d+)\\r?\\n`), timeoutMs, command)
      .catch(async (error) => {
        const why = [await this.#pulse?.since(before), `its console: ${this.#console.slice(-1000)}`];
        throw new Error(`${error.message}\n${why.join("\n")}`);
      });
    return { output: found[1].replaceAll("\r\n", "\n").trim(), code: Number(found[2]) };
  }

  eventually(command: string, timeoutMs: number): Promise<string> {
    return repeat(this, command, timeoutMs);
  }

  put(path: string, text: string): Promise<void> {
    return putText(this, path, text);
  }

  /** Cuts its power: unwritten data is lost. */
  async cut(): Promise<void> {
    this.#shell?.close();
    this.#shell = undefined;
    this.#process?.kill("SIGKILL");
    await this.#process?.status;
    this.#process = undefined;
  }

  /** Shuts it down in order. */
  async off(): Promise<void> {
    await this.#write("systemctl poweroff\n", COMMAND_MS).catch(() => {});
    await this.#process?.status;
    await this.cut().catch(() => {});
  }

  async #connect(path: string): Promise<void> {
    const until = performance.now() + BOOT_MS;
    for (;;) {
      try {
        this.#shell = await Deno.connect({ transport: "unix", path });
        break;
      } catch (error) {
        if (performance.now() > until) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    void this.#listen(this.#shell);
    // Input before the shell's start is lost, so the question repeats until the answer.
    for (const mark = `here-${crypto.randomUUID()}`;;) {
      const written = await this.#write(`echo "${mark.slice(0, 2)}""${mark.slice(2)}"\n`, ASK_MS)
        .then(() => true, () => false);
      const answered = written && await this.#until(new RegExp(`^[^]*?${mark}\\r?\\n`), ASK_MS, "").then(
        () => true,
        () => false,
      );
      // The other answers end before that of a command.
      if (answered) return void await this.run("true");
      if (performance.now() > until) {
        const seconds = BOOT_MS / 1000;
        const why = `${await this.#pulse?.since()}; its console:\n${this.#console.slice(-3000)}`;
        throw new Error(`the machine did not start within ${seconds} s: ${why}`);
      }
    }
  }

  /** A machine that reads nothing takes a few hundred lines; without a limit the write after them never ends. */
  async #write(text: string, timeoutMs: number): Promise<void> {
    const bytes = new TextEncoder().encode(text);
    const late = Promise.withResolvers<never>();
    const error = () => new Error(`the machine's shell takes no input for ${timeoutMs / 1000} s`);
    const timer = setTimeout(() => late.reject(error()), timeoutMs);
    try {
      for (let at = 0; at < bytes.length;) {
        at += await Promise.race([this.#shell!.write(bytes.subarray(at)), late.promise]);
      }
    } finally {
      clearTimeout(timer);
      late.promise.catch(() => {});
    }
  }

  async #until(pattern: RegExp, timeoutMs: number, command: string): Promise<RegExpExecArray> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`in the machine: ${command}\ndid not end within ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    try {
      for (;;) {
        const found = pattern.exec(this.#text);
        if (found) {
          this.#text = this.#text.slice(found[0].length);
          return found;
        }
        await Promise.race([this.#more.promise, late.promise]);
      }
    } finally {
      clearTimeout(timer);
      late.promise.catch(() => {});
    }
  }

  async #listen(shell: Deno.UnixConn): Promise<void> {
    const decoder = new TextDecoder();
    this.#text = "";
    try {
      for await (const chunk of shell.readable) {
        this.#text += decoder.decode(chunk, { stream: true });
        this.#more.resolve();
        this.#more = Promise.withResolvers();
      }
    } catch {
      // The machine was cut off.
    }
  }

  async #follow(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) this.#console += chunk;
  }
}
