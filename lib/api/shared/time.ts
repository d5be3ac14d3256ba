/**
 * Converts instants and durations between their messages and milliseconds. Milliseconds may have a fraction;
 * a double holds today's instants to about a microsecond.
 */

/** The common shape of google.protobuf.Timestamp and google.protobuf.Duration. */
interface TimeMessage {
  seconds: bigint;
  nanos: number;
}

/**
 * Seconds of the years 1 to 9999, the range of a timestamp, and of a duration of 10,000 years. Callers write any others,
 * and a message that repeats them could not be encoded.
 */
const FIRST_SECONDS = -62_135_596_800, LAST_SECONDS = 253_402_300_799, DURATION_SECONDS = 315_576_000_000;

/** The timestamp of an instant since the Unix epoch; the nearest that there is. */
export function toTimestamp(timeMs: number): TimeMessage {
  return ofSeconds(timeMs, FIRST_SECONDS, LAST_SECONDS);
}

function ofSeconds(ms: number, first: number, last: number): TimeMessage {
  const seconds = Math.floor(ms / 1000);
  if (seconds < first) return { seconds: BigInt(first), nanos: 0 };
  if (seconds >= last) return { seconds: BigInt(last), nanos: 0 };
  const nanos = Math.round((ms - seconds * 1000) * 1e6);
  return nanos < 1e9 ? { seconds: BigInt(seconds), nanos } : { seconds: BigInt(seconds + 1), nanos: 0 };
}

/** Seconds and nanoseconds of a duration have the same sign, unlike those of a timestamp. */
export function toDuration(ms: number): TimeMessage {
  const { seconds, nanos } = ofSeconds(Math.abs(ms), 0, DURATION_SECONDS);
  return ms < 0 ? { seconds: -seconds, nanos: -nanos } : { seconds, nanos };
}

/** Milliseconds of a timestamp or a duration; an absent one is 0. */
export function toMs(message: TimeMessage | undefined): number {
  return message ? Number(message.seconds) * 1000 + message.nanos / 1e6 : 0;
}
