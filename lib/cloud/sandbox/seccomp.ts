/**
 * The system calls that a sandboxed program may not make, as a program for the kernel's filter (seccomp BPF).
 *
 * A script needs none of them, and each has been a way out of sandboxes: keys of the session, tracing, loading code
 * into the kernel, mounts and namespaces, other processes' memory, io_uring, and input into the terminal.
 */

interface Architecture {
  /** Its number in the kernel's audit interface. */
  readonly audit: number;
  readonly clone: number;
  readonly ioctl: number;
  readonly denied: readonly number[];
}

/** The same number on both architectures: newer calls. */
const NEWER = {
  io_uring: [425, 426, 427],
  mounts: [428, 429, 430, 431, 432, 433, 442],
  pidfd_getfd: 438,
  quotactl_fd: 443,
};
const CLONE3 = 435;
const BOTH = [...NEWER.mounts, NEWER.pidfd_getfd, NEWER.quotactl_fd];

/** In the order: keys, ptrace, bpf, perf, mounts, namespaces, modules, kexec, memory of others, handles, the system. */
const ARCHITECTURES: readonly Architecture[] = [
  {
    // x86-64
    audit: 0xc000003e,
    clone: 56,
    ioctl: 16,
    denied: [
      ...[248, 249, 250, 101, 321, 298, 165, 166, 155, 161, 272, 308, 175, 313, 176, 246, 320, 310, 311, 312],
      ...[323, 303, 304, 167, 168, 169, 163, 103, 179, 180, 212, 172, 173, 164, 227, 305, 159, 153, 134, 156],
      ...[136, 139, 154, 300],
      ...BOTH,
    ],
  },
  {
    // AArch64
    audit: 0xc00000b7,
    clone: 220,
    ioctl: 29,
    denied: [
      ...[217, 218, 219, 117, 280, 241, 40, 39, 41, 51, 97, 268, 105, 273, 106, 104, 294, 270, 271, 272],
      ...[282, 264, 265, 224, 225, 142, 89, 116, 60, 42, 18, 170, 112, 266, 171, 58, 262],
      ...BOTH,
    ],
  },
];

const CLONE_NEWUSER = 0x10000000;
/** The requests that insert characters into the input of a terminal, and of the console. */
const INPUT_REQUESTS = [0x5412, 0x541c];
/** Calls of the x32 interface have this bit, and other numbers. */
const X32_BIT = 0x40000000;

/** `struct seccomp_data`: the call's number, its architecture, and the lower halves of its first two arguments. */
const AT = { number: 0, audit: 4, first: 16, second: 24 };
const LOAD = 0x20, IF_EQUAL = 0x15, IF_AT_LEAST = 0x35, IF_SET = 0x45, RETURN = 0x06;
const ALLOW = 0x7fff0000;
const NOT_PERMITTED = 0x00050000 + 1;
/** Libraries then use an older call. */
const NO_SUCH_CALL = 0x00050000 + 38;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/** The filter in the form that `bwrap --seccomp` reads, for both architectures. */
export function seccompFilter(): Uint8Array {
  const program = ARCHITECTURES.flatMap((one) => {
    const section = sectionOf(one);
    return [[LOAD, 0, 0, AT.audit] as const, [IF_EQUAL, 0, section.length, one.audit] as const, ...section];
  });
  const all: readonly Instruction[] = [...program, [RETURN, 0, 0, NOT_PERMITTED]];
  const bytes = new Uint8Array(8 * all.length);
  const view = new DataView(bytes.buffer);
  for (const [at, [code, ifTrue, ifFalse, value]] of all.entries()) {
    view.setUint16(8 * at, code, true);
    view.setUint8(8 * at + 2, ifTrue);
    view.setUint8(8 * at + 3, ifFalse);
    view.setUint32(8 * at + 4, value, true);
  }
  return bytes;
}

/** The instructions for the calls of one architecture; they always return. */
function sectionOf({ clone, ioctl, denied }: Architecture): Instruction[] {
  const missing = [CLONE3, ...NEWER.io_uring];
  // Each test returns at once; the number is loaded again after a test of an argument.
  const refuse = (test: Instruction, answer: number): Instruction[] => [test, [RETURN, 0, 0, answer]];
  const equal = (value: number): Instruction => [IF_EQUAL, 0, 1, value];
  const input = INPUT_REQUESTS.flatMap((one) => refuse(equal(one), NOT_PERMITTED));
  return [
    [LOAD, 0, 0, AT.number],
    ...refuse([IF_AT_LEAST, 0, 1, X32_BIT], NOT_PERMITTED),
    ...missing.flatMap((one) => refuse(equal(one), NO_SUCH_CALL)),
    ...denied.flatMap((one) => refuse(equal(one), NOT_PERMITTED)),
    [IF_EQUAL, 0, 4, clone],
    [LOAD, 0, 0, AT.first],
    ...refuse([IF_SET, 0, 1, CLONE_NEWUSER], NOT_PERMITTED),
    [RETURN, 0, 0, ALLOW],
    [IF_EQUAL, 0, 1 + input.length, ioctl],
    [LOAD, 0, 0, AT.second],
    ...input,
    [RETURN, 0, 0, ALLOW],
  ];
}
