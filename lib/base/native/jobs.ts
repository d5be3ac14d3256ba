/**
 * Job objects of Windows: a process and its descendants, which end together.
 *
 * Promises: the processes in a job end with `end`, and when this process ends for any reason, because Windows then
 * closes the job. Windows only.
 */

import { SvcError } from "../error.ts";

const FUNCTIONS = {
  CreateJobObjectW: { parameters: ["pointer", "pointer"], result: "pointer" },
  SetInformationJobObject: { parameters: ["pointer", "i32", "buffer", "u32"], result: "i32" },
  AssignProcessToJobObject: { parameters: ["pointer", "pointer"], result: "i32" },
  TerminateJobObject: { parameters: ["pointer", "u32"], result: "i32" },
  OpenProcess: { parameters: ["u32", "i32", "u32"], result: "pointer" },
  CloseHandle: { parameters: ["pointer"], result: "i32" },
  GetLastError: { parameters: [], result: "u32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** PROCESS_TERMINATE and PROCESS_SET_QUOTA, which a job needs of a process (winnt.h). */
const ACCESS = 0x0001 | 0x0100;
/** JobObjectExtendedLimitInformation, the size of its structure, and the offset of its flags. */
const EXTENDED_LIMITS = 9;
const LIMITS_BYTES = 144;
const FLAGS_AT = 16;
const KILL_ON_JOB_CLOSE = 0x2000;
const KILLED = 137;

/** A process with all that it starts. */
export interface Job {
  /** Ends everything in it. Idempotent. */
  end(): void;
}

/** Puts a new process into its own job; throws `unavailable` if Windows refuses. */
export function holdProcess(pid: number): Job {
  const library = Deno.dlopen("kernel32.dll", FUNCTIONS);
  const { symbols } = library;
  const job = symbols.CreateJobObjectW(null, null);
  const limits = new DataView(new ArrayBuffer(LIMITS_BYTES));
  limits.setUint32(FLAGS_AT, KILL_ON_JOB_CLOSE, true);

  const limited = symbols.SetInformationJobObject(
    job,
    EXTENDED_LIMITS,
    new Uint8Array(limits.buffer),
    LIMITS_BYTES,
  );
  const process = symbols.OpenProcess(ACCESS, 0, pid);
  const held = limited !== 0 && process !== null && symbols.AssignProcessToJobObject(job, process) !== 0;
  const error = held ? 0 : symbols.GetLastError();
  if (process !== null) symbols.CloseHandle(process);
  let open = true;
  const end = () => {
    if (!open) return;
    open = false;
    symbols.TerminateJobObject(job, KILLED);
    symbols.CloseHandle(job);
    library.close();
  };
  if (held) return { end };

  end();
  throw new SvcError("unavailable", `cannot put process ${pid} into a job object: Windows error ${error}`);
}
