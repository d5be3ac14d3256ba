/**
 * The one error class of the project and its closed set of codes.
 *
 * A code tells the caller what to do and corresponds to one gRPC status. The message names the action, its object, the
 * value that was found and the value that was wanted. Bugs of the program itself use `assert`, not these errors.
 *
 * The room owns the parts that every program needs and that know nothing about machines: errors, the clock, the host,
 * processes, secrets, versions.
 */

/** A gRPC status name. */
export type Code =
  | "canceled"
  | "unknown"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

/** gRPC status names with their numbers (source: gRPC status codes). */
export const CODES: { readonly [C in Code]: number } = {
  canceled: 1,
  unknown: 2,
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  aborted: 10,
  out_of_range: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  data_loss: 15,
  unauthenticated: 16,
};

const NAMES = Object.fromEntries(Object.entries(CODES).map(([name, number]) => [number, name as Code]));

/** An error with the code that callers on any side see. Source: gRPC status codes. */
export class SvcError extends Error {
  /** Equal for every `SvcError`. */
  override readonly name = "SvcError";

  /** How long to wait before a retry, if that is known: from now on, or from the end of the call that was refused. */
  readonly retryMs?: number;

  /** `message` says what was wrong, where, and what to do. Without `retryMs` the cause's time counts. */
  constructor(readonly code: Code, message: string, options?: { cause?: unknown; retryMs?: number }) {
    super(message, options);
    const { retryMs, cause } = options ?? {};
    this.retryMs = retryMs ?? (cause instanceof SvcError ? cause.retryMs : undefined);
  }

  /** Any thrown value as an `SvcError`: an abort is `canceled` or `deadline_exceeded`, the rest `unknown`. */
  static from(thrown: unknown): SvcError {
    if (thrown instanceof SvcError) return thrown;
    const name = (thrown as { name?: string } | null)?.name;
    let code: Code = "unknown";
    if (name === "AbortError") code = "canceled";
    else if (name === "TimeoutError") code = "deadline_exceeded";
    return new SvcError(code, messageOf(thrown), { cause: thrown });
  }

  /** The error for a gRPC status number; an unknown number is `unknown`. */
  static fromStatus(status: number, message: string, retryMs?: number): SvcError {
    return new SvcError(NAMES[status] ?? "unknown", message, { retryMs });
  }
}

/** Codes of failures that may pass by themselves. */
const RETRYABLE: readonly Code[] = ["unavailable", "deadline_exceeded", "aborted", "resource_exhausted"];

/** Whether the same call may succeed later; `also` are more codes that this caller retries. */
export function isRetryable(thrown: unknown, ...also: readonly Code[]): boolean {
  const { code } = SvcError.from(thrown);
  return RETRYABLE.includes(code) || also.includes(code);
}

/** The text of any thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/**
 * The message followed by the messages of its causes: `a: b: c`. A cause whose text is already there is not repeated.
 */
export function chainOf(thrown: unknown): string {
  let text = messageOf(thrown);
  let cause = (thrown as { cause?: unknown } | null)?.cause;
  for (let depth = 0; cause !== undefined && depth < 16; depth++) {
    const part = messageOf(cause);
    if (!text.includes(part)) text += `: ${part}`;
    cause = (cause as { cause?: unknown } | null)?.cause;
  }
  return text;
}

/** Several failures of one action as one error: the first one's code, every message. `undefined` if there was none. */
export function joined(attempt: string, failures: readonly unknown[]): SvcError | undefined {
  if (failures.length === 0) return undefined;
  const code = SvcError.from(failures[0]).code;
  return new SvcError(code, `${attempt}: ${failures.map(chainOf).join("; ")}`, { cause: failures[0] });
}

/** Throws on a bug of the program itself; never for input. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Bug: ${message}`);
}
