/**
 * The process of a TCP socket, and its user: the functions of Windows.
 */

import { SvcError } from "../error.ts";

interface Address {
  readonly address: string;
  readonly port: number;
}

/** Valid during one call of `windowsProcesses`. */
export interface ProcessOf {
  /** The process of the connected socket with these addresses. */
  processAt(local: Address, remote: Address): number | undefined;
  /** Whether a process runs as the user of this one, or as the system itself. */
  isOurUsers(pid: number): boolean;
}

const NETWORK = {
  GetExtendedTcpTable: {
    parameters: ["buffer", "buffer", "i32", "u32", "u32", "u32"],
    result: "u32",
  },
} as const satisfies Deno.ForeignLibraryInterface;
const PROCESSES = {
  OpenProcess: { parameters: ["u32", "i32", "u32"], result: "pointer" },
  CloseHandle: { parameters: ["pointer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
const RIGHTS = {
  OpenProcessToken: { parameters: ["pointer", "u32", "buffer"], result: "i32" },
  GetTokenInformation: { parameters: ["pointer", "u32", "buffer", "u32", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** TCP_TABLE_OWNER_PID_CONNECTIONS, ERROR_INSUFFICIENT_BUFFER, and the families. */
const CONNECTIONS = 4;
const INSUFFICIENT = 122;
const [AF_INET, AF_INET6] = [2, 23];
const TRIES = 5;
/** PROCESS_QUERY_LIMITED_INFORMATION, TOKEN_QUERY, TokenUser. */
const QUERY_PROCESS = 0x1000;
const TOKEN_QUERY = 0x8;
const TOKEN_USER = 1;
const TOKEN_BYTES = 256;
/** S-1-5-18: the system. */
const SYSTEM_SID = "010100000000000512000000";

/** Runs `use` with the functions loaded. */
export function windowsProcesses<T>(use: (processes: ProcessOf) => T): T {
  const network = Deno.dlopen("iphlpapi.dll", NETWORK);
  const processes = Deno.dlopen("kernel32.dll", PROCESSES);
  const rights = Deno.dlopen("advapi32.dll", RIGHTS);
  const userOf = (pid: number) => sidOf(pid, processes.symbols, rights.symbols);
  try {
    return use({
      processAt: (local, remote) => {
        const wanted = [keyOf(local), keyOf(remote)].join();
        return [AF_INET, AF_INET6].flatMap((family) => connections(network.symbols, family))
          .find(({ ends }) => ends === wanted)?.pid;
      },
      isOurUsers: (pid) => {
        const user = userOf(pid);
        return user !== undefined && (user === SYSTEM_SID || user === userOf(Deno.pid));
      },
    });
  } finally {
    for (const library of [network, processes, rights]) library.close();
  }
}

function keyOf({ address, port }: Address): string {
  return `${address.replace(/^::ffff:/i, "")}:${port}`;
}

type Symbols<I extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<I>["symbols"];

function connections(
  { GetExtendedTcpTable }: Symbols<typeof NETWORK>,
  family: number,
): { readonly ends: string; readonly pid: number }[] {
  const size = new Uint32Array([16 * 1024]);
  for (let tries = 0; tries < TRIES; tries++) {
    const [bytes = 0] = size;
    const buffer = new Uint8Array(bytes);
    const result = GetExtendedTcpTable(buffer, new Uint8Array(size.buffer), 0, family, CONNECTIONS, 0);
    if (result === 0) return connectionsIn(buffer, family === AF_INET6);
    if (result !== INSUFFICIENT) break;
  }
  // A system without IPv6 has no table of it.
  if (family === AF_INET6) return [];
  throw new SvcError("unavailable", "Windows does not tell whose connections there are");
}

/** MIB_TCPTABLE_OWNER_PID and MIB_TCP6TABLE_OWNER_PID (tcpmib.h): a count, then rows. */
export function connectionsIn(
  table: Uint8Array,
  isV6: boolean,
): { readonly ends: string; readonly pid: number }[] {
  const view = new DataView(table.buffer, table.byteOffset);
  const rowBytes = isV6 ? 56 : 24;
  return Array.from({ length: view.getUint32(0, true) }, (_, index) => {
    const at = 4 + index * rowBytes;
    const key = (address: number, port: number) => {
      const bytes = table.subarray(address, address + (isV6 ? 16 : 4));
      // Of IPv6 only addresses that stand for IPv4 ones are asked for.
      return `${bytes.slice(-4).join(".")}:${view.getUint16(port)}`;
    };
    const ends = isV6
      ? [key(at, at + 20), key(at + 24, at + 44)]
      : [key(at + 4, at + 8), key(at + 12, at + 16)];
    return { ends: ends.join(), pid: view.getUint32(at + (isV6 ? 52 : 20), true) };
  });
}

/** The security identifier of a process's user, in hexadecimal digits. */
function sidOf(
  pid: number,
  { OpenProcess, CloseHandle }: Symbols<typeof PROCESSES>,
  { OpenProcessToken, GetTokenInformation }: Symbols<typeof RIGHTS>,
): string | undefined {
  const process = OpenProcess(QUERY_PROCESS, 0, pid);
  if (process === null) return undefined;

  const handle = new BigUint64Array(1);
  const opened = OpenProcessToken(process, TOKEN_QUERY, new Uint8Array(handle.buffer)) !== 0;
  CloseHandle(process);
  if (!opened) return undefined;

  const [address = 0n] = handle;
  const token = Deno.UnsafePointer.create(address);
  const user = new Uint8Array(TOKEN_BYTES);
  const length = new Uint8Array(4);
  const known = GetTokenInformation(token, TOKEN_USER, user, TOKEN_BYTES, length) !== 0;
  CloseHandle(token);

  return known ? sidIn(user) : undefined;
}

/** TOKEN_USER (winnt.h): a pointer to the identifier, which lies behind it in the same memory. */
function sidIn(user: Uint8Array<ArrayBuffer>): string {
  const view = new DataView(user.buffer);
  const pointer = view.getBigUint64(0, true);
  const at = Number(pointer - BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(user))));
  return sidText(user.subarray(at));
}

/** An identifier (SID) in hexadecimal: a revision, a count of parts, 6 bytes of authority, and the parts of 4 bytes. */
export function sidText(bytes: Uint8Array<ArrayBuffer>): string {
  const [_revision, parts = 0] = bytes;
  return bytes.subarray(0, 8 + 4 * parts).toHex();
}
