/**
 * Windows' service control manager through advapi32: a process becomes the service that it was started as.
 *
 * The dispatcher blocks a thread of its own until the service has stopped. Windows calls back from that thread and from
 * another one, and this program's single thread answers both.
 */

import { SvcError } from "../../lib/base/error.ts";
import type { ServiceControl } from "../../lib/agent/supervise/windows_host.ts";
import { ServiceLife, type ServiceStatus } from "../../lib/agent/system/windows/status.ts";
import { address, wide } from "./win32.ts";

const FUNCTIONS = {
  StartServiceCtrlDispatcherW: { parameters: ["buffer"], result: "i32", nonblocking: true },
  RegisterServiceCtrlHandlerExW: { parameters: ["buffer", "function", "pointer"], result: "pointer" },
  SetServiceStatus: { parameters: ["pointer", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Of LPSERVICE_MAIN_FUNCTIONW and LPHANDLER_FUNCTION_EX. */
const MAIN = { parameters: ["u32", "pointer"], result: "void" } as const;
const HANDLER = { parameters: ["u32", "u32", "pointer", "pointer"], result: "u32" } as const;

/** The real service control manager; only on Windows. */
export class WindowsServiceControl implements ServiceControl {
  async run(name: string, work: (signal: AbortSignal) => Promise<number>): Promise<number> {
    const advapi32 = Deno.dlopen("advapi32.dll", FUNCTIONS);
    const { symbols } = advapi32;
    const wideName = wide(name);
    let handle: Deno.PointerValue = null;
    const life = new ServiceLife((status) => void symbols.SetServiceStatus(handle, bytesOf(status)));
    const done = Promise.withResolvers<number>();
    done.promise.catch(() => {});
    const handler = Deno.UnsafeCallback.threadSafe(HANDLER, (command) => life.control(command));
    const main = Deno.UnsafeCallback.threadSafe(MAIN, () => {
      handle = symbols.RegisterServiceCtrlHandlerExW(wideName, handler.pointer, null);
      if (handle !== null) return void life.run(work).then(done.resolve, done.reject);
      done.reject(new SvcError("internal", `Windows knows of no service ${name} that it has started`));
    });
    // SERVICE_TABLE_ENTRYW: a name and a function; the last entry is empty.
    const table = new BigUint64Array(4);
    table.set([address(Deno.UnsafePointer.of(wideName)), address(main.pointer)]);
    try {
      const dispatched = await symbols.StartServiceCtrlDispatcherW(new Uint8Array(table.buffer));
      if (dispatched !== 0) return await done.promise;
      const wanted = `it is what Windows runs as the service ${name}: sc.exe start ${name}`;
      throw new SvcError("failed_precondition", `this process was not started as a service; ${wanted}`);
    } finally {
      // The table stays until here, because Windows reads it as long as it dispatches.
      table.fill(0n);
      main.close();
      handler.close();
      advapi32.close();
    }
  }
}

function bytesOf(status: ServiceStatus): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Uint32Array.from(status).buffer);
}
