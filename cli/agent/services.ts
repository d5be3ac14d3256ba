/**
 * The services of Windows through advapi32: creates, changes, starts, stops and removes them.
 *
 * Each call opens its handles and closes them again, because Windows removes a service only when no handle to it is
 * open.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { ServicePort, ServiceSettings, ServiceState } from "../../lib/agent/system/windows/service.ts";
import { CONTROLS } from "../../lib/agent/system/windows/status.ts";
import { address, wide } from "./win32.ts";

const SERVICES = {
  OpenSCManagerW: { parameters: ["pointer", "pointer", "u32"], result: "pointer" },
  OpenServiceW: { parameters: ["pointer", "buffer", "u32"], result: "pointer" },
  CreateServiceW: {
    parameters: [
      ...["pointer", "buffer", "buffer", "u32", "u32", "u32", "u32", "buffer"] as const,
      ...["pointer", "pointer", "pointer", "pointer", "pointer"] as const,
    ],
    result: "pointer",
  },
  ChangeServiceConfigW: {
    parameters: [
      ...["pointer", "u32", "u32", "u32", "buffer"] as const,
      ...["pointer", "pointer", "pointer", "pointer", "pointer", "buffer"] as const,
    ],
    result: "i32",
  },
  ChangeServiceConfig2W: { parameters: ["pointer", "u32", "buffer"], result: "i32" },
  StartServiceW: { parameters: ["pointer", "u32", "pointer"], result: "i32" },
  ControlService: { parameters: ["pointer", "u32", "buffer"], result: "i32" },
  QueryServiceStatusEx: { parameters: ["pointer", "u32", "buffer", "u32", "buffer"], result: "i32" },
  DeleteService: { parameters: ["pointer"], result: "i32" },
  CloseServiceHandle: { parameters: ["pointer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const PROCESSES = {
  GetLastError: { parameters: [], result: "u32" },
  OpenProcess: { parameters: ["u32", "i32", "u32"], result: "pointer" },
  // Blocks a thread of its own.
  WaitForSingleObject: { parameters: ["pointer", "u32"], result: "u32", nonblocking: true },
  CloseHandle: { parameters: ["pointer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Constants of winsvc.h and winnt.h. */
const ALL_ACCESS = 0xf003f;
const SERVICE_ALL_ACCESS = 0xf01ff;
const OWN_PROCESS = 0x10;
const AUTO_START = 2;
const ERROR_NORMAL = 1;
const STATUS_BYTES = 36;
const SYNCHRONIZE = 0x100000;
/** Levels of ChangeServiceConfig2W. */
const LEVELS = { description: 1, failures: 2, failureFlag: 4, sid: 5 } as const;
const RESTART = 1;
const SID_UNRESTRICTED = 1;
/** Win32 errors. */
const ACCESS_DENIED = 5;
const NOT_THERE = 1060;
const CANNOT_NOW = 1061;
const NOT_STARTED = 1062;
const ALREADY_STARTED = 1056;

/** The real services; only on Windows. */
export class WindowsServices implements ServicePort {
  stateOf(name: string): ServiceState | undefined {
    return this.#with(name, (call, service) => {
      const status = new DataView(new ArrayBuffer(STATUS_BYTES));
      const needed = new Uint8Array(4);
      const bytes = new Uint8Array(status.buffer);
      call.need(call.all.QueryServiceStatusEx(service, 0, bytes, STATUS_BYTES, needed), `look at ${name}`);
      return { state: status.getUint32(4, true), pid: status.getUint32(28, true) };
    });
  }

  put({ name, description, commandLine, restartMs, forgetMs }: ServiceSettings): string[] {
    const [line, shown] = [wide(commandLine), wide(name)];
    const isThere = this.#with(name, ({ all, need }, service) => {
      const kind = [OWN_PROCESS, AUTO_START, ERROR_NORMAL] as const;
      need(
        all.ChangeServiceConfigW(service, ...kind, line, null, null, null, null, null, shown),
        `change ${name}`,
      );
      return true;
    });
    if (!isThere) this.#make(name, line);
    const unknown: string[] = [];
    this.#with(name, ({ all }, service) => {
      const set = (what: string, level: number, structure: Uint8Array<ArrayBuffer>) => {
        if (all.ChangeServiceConfig2W(service, level, structure) === 0) unknown.push(what);
      };
      const text = wide(description);
      set("description", LEVELS.description, words64(address(Deno.UnsafePointer.of(text))));
      // Three SC_ACTIONs; the last one applies to every further failure.
      const actions = new Uint8Array(
        Uint32Array.from([RESTART, restartMs, RESTART, restartMs, RESTART, restartMs]).buffer,
      );
      const failures = words64(BigInt(forgetMs / 1000), 0n, 0n, 3n, address(Deno.UnsafePointer.of(actions)));
      set("action after failures", LEVELS.failures, failures);
      // Applies after an exit with an error too, and not only after a crash.
      set("action after an error of its own", LEVELS.failureFlag, words64(1n));
      // The firewall rule identifies the service's processes by the service's name.
      set("identity of its own", LEVELS.sid, words64(BigInt(SID_UNRESTRICTED)));
    });
    return unknown;
  }

  start(name: string): void {
    this.#known(name, ({ all, need }, service) => {
      need(all.StartServiceW(service, 0, null), `start ${name}`, [ALREADY_STARTED]);
    });
  }

  askStop(name: string): void {
    this.#known(name, ({ all, need }, service) => {
      const status = new Uint8Array(STATUS_BYTES);
      need(all.ControlService(service, CONTROLS.stop, status), `stop ${name}`, [CANNOT_NOW, NOT_STARTED]);
    });
  }

  remove(name: string): void {
    this.#known(name, ({ all, need }, service) => need(all.DeleteService(service), `remove ${name}`));
  }

  async ended(pid: number, withinMs: number): Promise<boolean> {
    using library = new Library("kernel32.dll", PROCESSES);
    const process = library.symbols.OpenProcess(SYNCHRONIZE, 0, pid);
    if (process === null) return true;
    const answer = await library.symbols.WaitForSingleObject(process, withinMs);
    library.symbols.CloseHandle(process);
    return answer === 0;
  }

  #make(name: string, line: Uint8Array<ArrayBuffer>): void {
    using calls = new Calls();
    const { all, manager, need } = calls;
    const [own, shown] = [wide(name), wide(name)];
    const kind = [SERVICE_ALL_ACCESS, OWN_PROCESS, AUTO_START, ERROR_NORMAL] as const;
    const service = all.CreateServiceW(manager, own, shown, ...kind, line, null, null, null, null, null);
    need(service === null ? 0 : 1, `make the service ${name}`);
    all.CloseServiceHandle(service);
  }

  /** Works with a service; returns `undefined` if there is none of the name. */
  #with<T>(name: string, work: (calls: Calls, service: Deno.PointerValue) => T): T | undefined {
    using calls = new Calls();
    const service = calls.all.OpenServiceW(calls.manager, wide(name), SERVICE_ALL_ACCESS);
    if (service === null) {
      calls.need(0, `open the service ${name}`, [NOT_THERE]);
      return undefined;
    }
    try {
      return work(calls, service);
    } finally {
      calls.all.CloseServiceHandle(service);
    }
  }

  #known(name: string, work: (calls: Calls, service: Deno.PointerValue) => void): void {
    const found = this.#with(name, (calls, service) => {
      work(calls, service);
      return true;
    });
    if (!found) throw new SvcError("not_found", `Windows has no service ${name}`);
  }
}

class Library<T extends Deno.ForeignLibraryInterface> implements Disposable {
  readonly #library: Deno.DynamicLibrary<T>;

  constructor(name: string, functions: T) {
    this.#library = Deno.dlopen(name, functions);
  }

  get symbols() {
    return this.#library.symbols;
  }

  [Symbol.dispose](): void {
    this.#library.close();
  }
}

/** The functions, with the service manager open. */
class Calls implements Disposable {
  readonly #services = new Library("advapi32.dll", SERVICES);
  readonly #kernel = new Library("kernel32.dll", PROCESSES);
  readonly all = this.#services.symbols;
  readonly manager = this.all.OpenSCManagerW(null, null, ALL_ACCESS);

  constructor() {
    if (this.manager === null) this.need(0, "open the service manager");
  }

  /** Throws for an answer of 0, unless the error is one of `allowed`. */
  readonly need = (answer: number, what: string, allowed: readonly number[] = []): void => {
    if (answer !== 0) return;
    const error = this.#kernel.symbols.GetLastError();
    if (allowed.includes(error)) return;
    if (error === ACCESS_DENIED) {
      throw new SvcError("permission_denied", `cannot ${what}: run it as an administrator`);
    }
    throw new SvcError("unknown", `cannot ${what}: Windows error ${error}`);
  };

  [Symbol.dispose](): void {
    if (this.manager !== null) this.all.CloseServiceHandle(this.manager);
    this.#services[Symbol.dispose]();
    this.#kernel[Symbol.dispose]();
  }
}

/** A structure of 64-bit words: pointers, and numbers with their padding. */
function words64(...words: bigint[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(BigUint64Array.from(words).buffer);
}
